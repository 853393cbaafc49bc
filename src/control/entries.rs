//! Owns what an entry of the configuration means to the world: its key in the memory, its toolset before and after it was
//! listed, what is remembered of it. It changes nothing.

use crate::catalog::toolset::{Outline, ToolsetSpec};
use crate::catalog::{Listing, Toolset};
use crate::config::{Pin, SourceEntry, ToolRules};
use crate::pins::Pins;
use crate::store::{Kept, Key, Remembered, Store};

/// A fresh listing is kept whole; of a remembered one the outline, if it was made under other settings.
pub(super) fn remember(store: &Store, entry: &SourceEntry, toolset: &Toolset, listing: &Listing, fresh: bool) {
    let Some(key) = key_of(entry) else { return };
    let outline = serde_json::to_string(&toolset.to_outline()).expect("BUG: an outline always serializes");
    if !fresh {
        return store.keep_outline(key, outline);
    }
    store.keep_listing(Kept {
        key,
        digest: listing.digest.clone(),
        outline,
        note: listing.note.clone(),
        incomplete: listing.incomplete.clone(),
        tools: listing.to_blob(),
    });
}

/// The toolset as it is remembered. The lock is read for it only where it decides what is shown.
pub(super) fn outline(spec: &ToolsetSpec<'_>, remembered: Option<&Remembered>, (pin, pins): (Pin, &Pins)) -> Toolset {
    let Some(remembered) = remembered.filter(|remembered| remembered.digest.is_some()) else {
        return Toolset::unlisted(spec);
    };
    let known = remembered.outline.as_deref().and_then(|text| serde_json::from_str::<Outline>(text).ok());
    let known = known.filter(|outline| outline.fits(spec)).unwrap_or_default();
    let known = if pin == Pin::Enforce { known.pinned(pins.of(spec.id)) } else { known.unpinned() };
    Toolset::outline(spec, &known)
}

/// Under which key a source is remembered; a faulty one is not.
pub fn key_of(entry: &SourceEntry) -> Option<Key> {
    match entry {
        SourceEntry::Usable(config) if config.enabled => {
            Some(Key { id: config.id.to_string(), fingerprint: config.fingerprint.clone() })
        }
        _ => None,
    }
}

pub(super) fn with_spec<T>(entry: &SourceEntry, use_it: impl FnOnce(&ToolsetSpec<'_>) -> T) -> T {
    let none = ToolRules::default();
    let spec = match entry {
        SourceEntry::Usable(config) => ToolsetSpec {
            id: &config.id,
            name: &config.name,
            provider: &config.provider,
            summary: config.summary.as_deref(),
            prefix: &config.prefix,
            rules: &config.rules,
        },
        SourceEntry::Misconfigured(bad) => ToolsetSpec {
            id: &bad.id,
            name: &bad.name,
            provider: &bad.provider,
            summary: bad.summary.as_deref(),
            prefix: bad.id.as_str(),
            rules: &none,
        },
    };
    use_it(&spec)
}
