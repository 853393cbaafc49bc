//! Owns how the relay introduces itself: `initialize`, `server/discover` and the instructions in both.
//! It waits for nothing and starts nothing.

use std::sync::Arc;

use super::offers::offers;
use super::uris::any_skills;
use super::{Exchange, Session};
use crate::call::Caller;
use crate::catalog::offer::{Abilities, SKILLS};
use crate::protocol;
use crate::wire::{Message, Object, quoted};

impl Session {
    pub(super) fn initialize(self: &Arc<Self>, message: &Message, exchange: Exchange) {
        let params = message.params_text().and_then(Object::parse);
        let asked = params.as_ref().and_then(|params| params.string("protocolVersion"));
        let known = protocol::LEGACY.iter().find(|version| asked.as_deref() == Some(**version));
        let version = known.copied().unwrap_or(protocol::LATEST_LEGACY);
        let caller = params.as_ref().map(caller).unwrap_or_default();
        self.tenant.declares(caller.capabilities.as_deref());
        let mut state = self.lock();
        state.version = Some(version);
        state.caller = Some(Arc::new(caller));
        drop(state);
        self.takes_lines();
        let result = format!(
            "{{\"protocolVersion\":\"{version}\",\"capabilities\":{},\"serverInfo\":{},\"instructions\":{}}}",
            self.capabilities(false),
            protocol::implementation(),
            quoted(&self.instructions())
        );
        exchange.result(&result);
    }

    pub(super) fn discover(self: &Arc<Self>, exchange: Exchange) {
        let mut versions = vec![quoted(protocol::MODERN)];
        versions.extend(protocol::LEGACY.iter().map(|version| quoted(version)));
        let result = format!(
            "{{\"supportedVersions\":[{}],\"capabilities\":{},\"instructions\":{},\"ttlMs\":0,\"cacheScope\":\"private\",\
             \"_meta\":{{\"{}\":{}}}}}",
            versions.join(","),
            self.capabilities(true),
            quoted(&self.instructions()),
            protocol::META_SERVER,
            protocol::implementation()
        );
        exchange.result(&result);
    }

    /// What the relay can do besides tools is what any source can; of a source that has never been listed it is not known.
    fn capabilities(&self, modern: bool) -> String {
        let snapshot = self.around.control.snapshots.now();
        let all: Vec<_> = offers(&snapshot).collect();
        let any = |can: fn(&Abilities) -> bool| {
            all.iter().any(|(toolset, _, offer)| !toolset.is_listed() || can(&offer.abilities))
        };
        let mut own = vec!["\"tools\":{\"listChanged\":true}".to_owned()];
        own.extend(any(|can| can.prompts).then(|| "\"prompts\":{\"listChanged\":true}".to_owned()));
        if any(|can| can.resources) {
            own.push("\"resources\":{\"listChanged\":true,\"subscribe\":true}".to_owned());
        }
        own.extend(any(|can| can.completions).then(|| "\"completions\":{}".to_owned()));
        own.extend(any(|can| can.logging).then(|| "\"logging\":{}".to_owned()));
        if modern {
            let mut extensions = std::collections::BTreeMap::new();
            for (_, _, offer) in all.iter().rev() {
                let declared = offer.abilities.extensions.as_deref().and_then(Object::parse);
                for member in declared.iter().flat_map(|declared| &declared.members) {
                    extensions.insert(member.key.to_string(), member.value.to_owned());
                }
            }
            extensions.remove(SKILLS);
            if any_skills(&snapshot, false) {
                let directories = any_skills(&snapshot, true);
                let settings = if directories { "{\"directoryRead\":true}" } else { "{}" };
                extensions.insert(SKILLS.to_owned(), settings.to_owned());
            }
            let extensions: Vec<_> =
                extensions.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
            if !extensions.is_empty() {
                own.push(format!("\"extensions\":{{{}}}", extensions.join(",")));
            }
        }
        format!("{{{}}}", own.join(","))
    }

    fn instructions(&self) -> String {
        crate::menu::instructions(&self.around.control.snapshots.now())
    }
}

/// What a client says of itself, as modern sources are told: what there was only up to 2025-11-25 is left out.
fn caller(params: &Object<'_>) -> Caller {
    const CARRIED: &[&str] = &["roots", "sampling", "elicitation", "experimental", "extensions"];
    let capabilities = params.get("capabilities").and_then(Object::parse);
    Caller {
        capabilities: capabilities.map(|own| own.rewritten(|name| CARRIED.contains(&name), &[]).into()),
        info: params.get("clientInfo").filter(|text| text.starts_with('{')).map(Into::into),
        log_level: None,
    }
}
