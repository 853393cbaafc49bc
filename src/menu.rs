//! Owns the control-plane tools: one file a tool, and the one table of them.
//! It changes nothing itself; what changes the world is asked of [`crate::control`].

mod arguments;
pub mod batch;
mod batch_call;
mod batch_status;
pub mod call_tool;
mod crowd;
mod disable_toolset;
mod drawers;
mod enable_toolset;
mod find_tools;
mod first_listing;
mod instructions;
mod kept;
mod lanes;
mod list_sources;
mod list_toolsets;
mod load_tools;
mod scope;
pub mod text;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::call::{CallError, Tenant};
use crate::control::Control;
use crate::snapshot::{Principal, Snapshot};
use crate::wire::quoted;
use arguments::read;
use batch::Batches;
pub use instructions::instructions;

/// The dispatcher: the one control-plane tool that is no tool of the relay's own but the way to every other.
pub const CALL_TOOL: &str = "call_tool";

/// Who asks, and of what world.
pub struct Context<'a> {
    pub control: &'a Control,
    pub batches: &'a Batches,
    pub principal: &'a Principal,
    /// Whose instances of sources it uses; `None` on the command line.
    pub tenant: Option<&'a Tenant>,
}

/// One control-plane tool.
struct Own {
    name: &'static str,
    title: &'static str,
    /// Made from the catalog and the menu, so that the model reads what is really there.
    description: fn(&Snapshot) -> String,
    /// The input schema's text.
    schema: &'static str,
    read_only: bool,
    /// `None` for the dispatcher.
    run: Option<Run>,
}

/// What gives the text of a JSON object.
type Run = for<'a> fn(&'a Context<'a>, Option<&'a str>) -> BoxFuture<'a, Result<String, CallError>>;

/// In the order in which they are shown.
const MENU: &[Own] = &[
    Own {
        name: "list_sources",
        title: "List sources",
        description: list_sources::description,
        schema: list_sources::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(list_sources::run(context, arguments))),
    },
    Own {
        name: "list_toolsets",
        title: "List toolsets",
        description: list_toolsets::description,
        schema: list_toolsets::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(list_toolsets::run(context, arguments))),
    },
    Own {
        name: "enable_toolset",
        title: "Open a toolset",
        description: enable_toolset::description,
        schema: enable_toolset::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(enable_toolset::run(context, arguments))),
    },
    Own {
        name: "disable_toolset",
        title: "Close a toolset",
        description: disable_toolset::description,
        schema: disable_toolset::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(disable_toolset::run(context, arguments))),
    },
    Own {
        name: "find_tools",
        title: "Find tools",
        description: find_tools::description,
        schema: find_tools::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(find_tools::run(context, arguments))),
    },
    Own {
        name: "load_tools",
        title: "Load tools",
        description: load_tools::description,
        schema: load_tools::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(load_tools::run(context, arguments))),
    },
    Own {
        name: CALL_TOOL,
        title: "Call a tool of a source",
        description: call_tool::description,
        schema: call_tool::SCHEMA,
        read_only: false,
        run: None,
    },
    Own {
        name: "batch_call",
        title: "Call several tools",
        description: batch_call::description,
        schema: batch_call::SCHEMA,
        read_only: false,
        run: Some(|context, arguments| Box::pin(batch_call::run(context, arguments))),
    },
    Own {
        name: "batch_status",
        title: "See after a batch",
        description: batch_status::description,
        schema: batch_status::SCHEMA,
        read_only: true,
        run: Some(|context, arguments| Box::pin(batch_status::run(context, arguments))),
    },
];

/// Whether the relay itself answers to this name, shown or not.
pub fn is_own(name: &str) -> bool {
    MENU.iter().any(|own| own.name == name)
}

/// The tools shown to every client, as members of `tools/list`.
pub fn shown(snapshot: &Snapshot) -> Vec<String> {
    MENU.iter().filter(|own| snapshot.shows(own.name)).map(|own| own.json(snapshot)).collect()
}

impl Own {
    fn json(&self, snapshot: &Snapshot) -> String {
        // `call_tool` can do whatever the tool it calls can, so it promises nothing.
        let hints = if self.read_only { ",\"annotations\":{\"readOnlyHint\":true}" } else { "" };
        format!(
            "{{\"name\":\"{}\",\"title\":\"{}\",\"description\":{},\"inputSchema\":{}{hints}}}",
            self.name,
            self.title,
            quoted(&(self.description)(snapshot)),
            self.schema
        )
    }
}

/// Runs one of the relay's own tools; gives the text of a JSON object.
pub async fn run(context: &Context<'_>, name: &str, arguments: Option<&str>) -> Result<String, CallError> {
    let own = MENU.iter().find(|own| own.name == name).and_then(|own| own.run);
    own.expect("BUG: only the relay's own tools are run, and the dispatcher is none")(context, arguments).await
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("BUG: replies always serialize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::RESERVED;

    #[test]
    fn the_names_that_no_source_can_take_are_those_of_the_menu() {
        assert_eq!(MENU.iter().map(|own| own.name).collect::<Vec<_>>(), RESERVED);
        let without: Vec<_> = MENU.iter().filter(|own| own.run.is_none()).map(|own| own.name).collect();
        assert_eq!(without, [CALL_TOOL]);
    }
}
