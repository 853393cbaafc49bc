//! Owns the finding of what is known of sources that list something else now: a source that keeps the members of its schemas in
//! a hash map writes them in another order each time, and changes nothing by that.

use std::collections::BTreeMap;

use super::World;
use super::entries::key_of;
use super::reload::at_hand;
use crate::catalog::Listing;
use crate::name::SourceId;

impl World {
    /// What was listed last by each source of which there is a fresh listing of another content.
    pub(super) async fn known_listings(&self, listings: &[(SourceId, Listing, bool)]) -> BTreeMap<SourceId, Listing> {
        let is_other = |id: &SourceId, listing: &Listing| {
            self.toolsets.get(id).is_some_and(|toolset| toolset.is_listed())
                && self.digests.get(id).is_none_or(|digest| *digest != listing.digest)
        };
        let others = listings.iter().filter(|(id, listing, fresh)| *fresh && is_other(id, listing)).map(|(id, ..)| id);
        let others: Vec<_> = others.collect();
        let keys = others.iter().filter_map(|id| self.entry(id.as_str()).and_then(key_of));
        let mut remembered: BTreeMap<_, _> =
            self.recalled_listings(keys.collect()).await.into_iter().map(|(key, listing)| (key.id, listing)).collect();
        let known = others.into_iter().map(|id| {
            let remembered = remembered.remove(id.as_str());
            (id.clone(), remembered.unwrap_or_else(|| at_hand(&self.toolsets[id])))
        });
        known.collect()
    }
}
