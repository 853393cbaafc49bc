//! Owns what a model is told about the relay when it connects: how to use it, then what is behind it.
//! It names no tool of the relay's own that the model is not shown.

use super::text;
use crate::config::Exposure;
use crate::snapshot::Snapshot;

/// Real clients cut instructions at 2 KB.
const MAX: usize = 2000;

pub fn instructions(snapshot: &Snapshot) -> String {
    let relay = &snapshot.config.relay;
    let mut text = match relay.menu.is_empty() {
        true => usual(relay.exposure).to_owned(),
        false => chosen(snapshot),
    };
    text.push_str(" Toolsets:");
    text::append_toolsets(&mut text, snapshot, MAX, "\n- ");
    text
}

/// With the exposure's own menu.
fn usual(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Toolsets => {
            "Many tool sources stand behind this one server, in toolsets. Their tools are not listed until opened. Either \
             search with find_tools (say verb + object + system), or open a toolset with enable_toolset; then call the tool \
             by its own name, or always through call_tool {source, tool, arguments}."
        }
        Exposure::Progressive => {
            "Many tool sources stand behind this one server. Their tools are not listed at first: search with find_tools (say \
             verb + object + system, or name a toolset or a category); what it finds joins your tool list and can be called \
             at once by its own name, or always through call_tool {source, tool, arguments}."
        }
        Exposure::Lazy => {
            "Many tool sources stand behind this one server. Their tools are not listed: search with find_tools (say verb + \
             object + system), then call what it finds through call_tool {source, tool, arguments}, several at once through \
             batch_call, or put tools you need often into your tool list with load_tools."
        }
        Exposure::MetaOnly => {
            "Many tool sources stand behind this one server. Their tools are never listed: search with find_tools (say verb + \
             object + system), then call what it finds through call_tool {source, tool, arguments}, several at once through \
             batch_call."
        }
        Exposure::Eager => {
            "Many tool sources stand behind this one server; tools are named SOURCE__tool. find_tools searches them; \
             call_tool {source, tool, arguments} reaches each of them as well."
        }
    }
}

/// With the menu that the configuration chooses.
fn chosen(snapshot: &Snapshot) -> String {
    let mut text = match snapshot.config.relay.exposure {
        Exposure::Eager => "Many tool sources stand behind this one server; tools are named SOURCE__tool.",
        _ => "Many tool sources stand behind this one server. Not all of their tools are listed.",
    }
    .to_owned();
    for (own, what) in [
        ("find_tools", " Search with find_tools (say verb + object + system)."),
        ("enable_toolset", " Open a toolset with enable_toolset; its tools join your tool list."),
        ("load_tools", " Put tools you need often into your tool list with load_tools."),
        ("call_tool", " Call any tool through call_tool {source, tool, arguments}."),
        ("batch_call", " Call several at once through batch_call."),
    ] {
        text.push_str(if snapshot.shows(own) { what } else { "" });
    }
    text
}
