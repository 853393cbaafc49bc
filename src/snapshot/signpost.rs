//! Owns which of the relay's own tools are shown, and where a refusal sends the model that reads it: to tools that it has.
//! It does not know what the tools do.

use super::Snapshot;
use crate::config::Exposure;

/// How many sources or toolsets a hint names.
const NAMED: usize = 20;

/// In which exposures one of the relay's own tools is shown, unless the configuration chooses.
fn shown_in(name: &str) -> &'static [Exposure] {
    match name {
        "list_sources" => &[Exposure::Toolsets, Exposure::Eager],
        "list_toolsets" | "enable_toolset" | "disable_toolset" => &[Exposure::Toolsets],
        "find_tools" | "call_tool" => Exposure::ALL,
        "load_tools" => &[Exposure::Lazy],
        "batch_call" | "batch_status" => &[Exposure::Lazy, Exposure::MetaOnly],
        other => unreachable!("BUG: `{other}` is no tool of the relay's own"),
    }
}

impl Snapshot {
    /// Whether one of the relay's own tools is in the tool lists of clients; many call nothing else.
    pub fn shows(&self, own: &str) -> bool {
        let config = &self.config.relay;
        match config.menu.as_slice() {
            [] => shown_in(own).contains(&config.exposure),
            chosen => chosen.iter().any(|name| name == own),
        }
    }

    /// How a client that may call no tool but those it sees comes to search; `arguments` is the text of an object.
    pub fn way_to_search(&self, arguments: &str) -> String {
        match (self.shows("find_tools"), arguments) {
            (true, "") => "`find_tools`".to_owned(),
            (true, arguments) => format!("`find_tools {arguments}`"),
            (false, "") => "`call_tool {\"tool\":\"find_tools\"}`".to_owned(),
            (false, arguments) => format!("`call_tool {{\"tool\":\"find_tools\",\"arguments\":{arguments}}}`"),
        }
    }

    /// Where the tools of a source or toolset are seen.
    pub fn where_tools_are(&self, id: &str) -> String {
        if !self.shows("enable_toolset") {
            return format!("see its tools with {}", self.way_to_search(&format!("{{\"source\":\"{id}\"}}")));
        }
        let search = if self.shows("find_tools") { " or `find_tools`" } else { "" };
        format!("see its tools with `enable_toolset {{\"toolset\":\"{id}\"}}`{search}")
    }

    /// Where the sources are seen.
    pub fn where_sources_are(&self) -> String {
        if self.shows("list_sources") {
            return "see `list_sources` for the sources there are".to_owned();
        }
        said("sources", self.catalog.toolsets.iter().map(|toolset| toolset.id.as_str()))
    }

    /// Where the toolsets are seen.
    pub fn where_toolsets_are(&self) -> String {
        if self.shows("list_toolsets") {
            return "see `list_toolsets` for the toolsets there are".to_owned();
        }
        said("toolsets", self.catalog.drawers().iter().map(|drawer| drawer.id.as_str()))
    }

    /// Where both are seen.
    pub fn where_places_are(&self) -> String {
        if self.shows("list_sources") && self.shows("list_toolsets") {
            return "see `list_sources` and `list_toolsets` for those there are".to_owned();
        }
        match self.config.toolsets.is_empty() {
            true => self.where_sources_are(),
            false => format!("{}; {}", self.where_sources_are(), self.where_toolsets_are()),
        }
    }
}

/// Names things, as far as there is room.
fn said<'a>(what: &str, ids: impl Iterator<Item = &'a str>) -> String {
    let ids: Vec<String> = ids.map(|id| format!("`{id}`")).collect();
    let more = ids.len().saturating_sub(NAMED);
    match &ids[..] {
        [] => format!("there are no {what}"),
        [one] => format!("there is only {one}"),
        _ if more > 0 => format!("the {what} are {} and {more} more", ids[..NAMED].join(", ")),
        _ => format!("the {what} are {}", ids.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::RESERVED;

    #[test]
    fn every_tool_of_its_own_is_shown_somewhere() {
        assert!(RESERVED.iter().all(|name| !shown_in(name).is_empty()));
    }

    #[test]
    fn as_many_are_named_as_there_is_room_for() {
        let many: Vec<String> = (0..NAMED + 2).map(|at| format!("s{at}")).collect();
        let text = said("sources", many.iter().map(String::as_str));
        assert!(text.starts_with("the sources are `s0`, `s1`, ") && text.ends_with("`s19` and 2 more"), "{text}");
        assert_eq!(said("sources", ["a", "b"].into_iter()), "the sources are `a`, `b`");
        assert_eq!(said("toolsets", ["a"].into_iter()), "there is only `a`");
        assert_eq!(said("toolsets", [].into_iter()), "there are no toolsets");
    }
}
