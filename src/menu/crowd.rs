//! Owns the warning that a client's tool list has grown longer than most clients take. It closes nothing and refuses nothing.

use crate::snapshot::{Principal, Snapshot};

/// What the replies that make the list longer say of it, with numbers; nothing while it is short enough.
pub fn warning(snapshot: &Snapshot, principal: &Principal) -> Option<String> {
    let limit = snapshot.config.relay.warn_tools;
    let own = super::shown(snapshot).len();
    let toolsets = snapshot.catalog.toolsets.iter().filter(|toolset| snapshot.may_show(principal, toolset));
    let entries = toolsets.flat_map(|toolset| &toolset.entries);
    let count = own + entries.filter(|entry| snapshot.is_shown(principal, entry)).count();
    let remedy = match snapshot.shows("disable_toolset") {
        true => {
            "close toolsets you do not need with disable_toolset, and reach their tools through find_tools and call_tool"
        }
        false => "reach further tools through call_tool, without making the list longer",
    };
    (limit > 0 && count > limit).then(|| {
        format!(
            "your tool list has {count} tools now, more than {limit} (`warn_tools` in [relay] of the configuration); clients may \
             drop what is beyond their own limit: {remedy}"
        )
    })
}
