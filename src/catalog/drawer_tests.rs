//! Tests of the drawers: which tools are in which, and that their texts follow from the configuration.

use std::time::{Duration, Instant};

use super::*;
use crate::catalog::{Listing, ServerNote, ToolsetSpec};
use crate::config::{PairGlob, ToolOverride, ToolRules};

fn source(id: &str, rules: &ToolRules, tools: &[String], known: Known) -> Arc<Toolset> {
    let id = SourceId::new(id).unwrap();
    let summary = format!("All of {id}.");
    let (name, provider) = (id.as_str().to_uppercase(), id.as_str());
    let spec = ToolsetSpec { id: &id, name: &name, provider, summary: Some(&summary), prefix: provider, rules };
    let raws = tools.iter().map(|tool| format!("{{\"name\":\"{tool}\"}}").into_boxed_str());
    let built = Toolset::build(&spec, &Listing::new(raws, ServerNote::default(), None));
    Arc::new(match known {
        Known::Now => built,
        Known::Before => Toolset::outline(&spec, &built.to_outline()),
        Known::Never => Toolset::unlisted(&spec),
    })
}

#[derive(Clone, Copy)]
enum Known {
    Now,
    Before,
    Never,
}

fn toolset(id: &str, globs: &[&str]) -> ToolsetConfig {
    let glob = |glob: &&str| {
        let (source, tool) = glob.split_once('/').unwrap();
        PairGlob { source: source.to_owned(), tool: tool.to_owned() }
    };
    let id = SourceId::new(id).unwrap();
    let name = id.to_string();
    let tools = globs.iter().map(glob).collect();
    ToolsetConfig { provider: name.clone(), summary: None, tools, name, id }
}

fn catalog(configs: &[ToolsetConfig], known: Known) -> Catalog {
    let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut rules = ToolRules { deny: vec!["delete_*".to_owned()], ..ToolRules::default() };
    rules.tools.insert("issue_secret".to_owned(), ToolOverride { hidden: true, ..ToolOverride::default() });
    let hub = names("issue_list issue_new issue_secret pull_list pull_new delete_issue delete_pull whoami");
    let sources = vec![
        source("hub", &rules, &hub, known),
        source("notes", &rules, &names("search write"), known),
        source("clock", &rules, &names("now"), known),
    ];
    Catalog::arranged(sources, configs)
}

/// Each drawer with its counts and its tools.
fn told(catalog: &Catalog) -> Vec<String> {
    let line = |drawer: &Drawer| {
        let tools =
            catalog.entries_of(drawer).map(|(toolset, at)| format!("{}/{}", toolset.id, toolset.entries[at].tool));
        let tools: Vec<_> = tools.collect();
        assert!(tools.iter().all(|tool| {
            let (source, tool) = tool.split_once('/').unwrap();
            catalog.drawer_of(catalog.find(source, tool).unwrap()) == &drawer.id
        }));
        assert_eq!(catalog.withheld_of(drawer).count(), drawer.withheld_count);
        format!("{} {}+{}: {}", drawer.id, drawer.count, drawer.withheld_count, tools.join(" "))
    };
    catalog.drawers().iter().map(line).collect()
}

#[test]
fn each_source_is_a_drawer_by_itself() {
    assert_eq!(
        told(&catalog(&[], Known::Now)),
        [
            "clock 1+0: clock/now",
            "hub 5+2: hub/issue_list hub/issue_new hub/issue_secret hub/pull_list hub/pull_new hub/whoami",
            "notes 2+0: notes/search notes/write",
        ]
    );
}

#[test]
fn sources_are_split_and_shared() {
    let configs = [
        toolset("desk", &["notes/*", "clock/*"]),
        toolset("issues", &["hub/*issue*"]),
        toolset("lists", &["*/*_list", "hub/issue_new"]),
    ];
    assert_eq!(
        told(&catalog(&configs, Known::Now)),
        [
            "desk 3+0: clock/now notes/search notes/write",
            "hub 2+1: hub/pull_new hub/whoami",
            "issues 2+1: hub/issue_list hub/issue_new hub/issue_secret",
            "lists 1+0: hub/pull_list",
        ]
    );
    let catalog = catalog(&configs, Known::Now);
    let of = |id: &str| {
        catalog.sources_of(catalog.drawer(id).unwrap()).map(|toolset| toolset.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((of("desk"), of("lists")), (vec!["clock".to_owned(), "notes".to_owned()], vec!["hub".to_owned()]));
    let with: Vec<_> = catalog.drawers_with("hub").iter().map(|drawer| drawer.id.as_str()).collect();
    assert_eq!(with, ["hub", "issues", "lists"]);
    assert_eq!((catalog.drawers_with("notes").len(), catalog.drawers_with("nowhere").len()), (1, 0));
    // A tool that is not there would be in a certain one too.
    assert_eq!(catalog.drawer_of_name("hub", "issue_close").map(SourceId::as_str), Some("issues"));
    assert_eq!(catalog.drawer_of_name("hub", "x").map(SourceId::as_str), Some("hub"));
    assert_eq!(catalog.drawer_of_name("nowhere", "x"), None);
    let summaries: Vec<_> = catalog.drawers().iter().map(|drawer| drawer.summary.as_str()).collect();
    assert_eq!(
        summaries,
        [
            "All of clock. All of notes.",
            "All of hub.",
            "HUB (*issue*): All of hub.",
            "HUB (*_list, issue_new): All of hub."
        ]
    );
}

#[test]
fn the_first_glob_has_the_tool() {
    let all = [toolset("a", &["hub/whoami", "hub/*"]), toolset("b", &["hub/pull_*", "notes/search"])];
    assert_eq!(
        told(&catalog(&all, Known::Now)),
        [
            "a 5+2: hub/issue_list hub/issue_new hub/issue_secret hub/pull_list hub/pull_new hub/whoami",
            "b 1+0: notes/search",
            "clock 1+0: clock/now",
            "notes 1+0: notes/write",
        ]
    );
    let everything = told(&catalog(&[toolset("all", &["*/*"]), toolset("none", &["hub/*"])], Known::Now));
    assert!(
        matches!(&everything[..], [all, none] if all.starts_with("all 8+2") && none == "none 0+0: "),
        "{everything:?}"
    );
}

/// Everything that stands in a description.
fn texts(catalog: &Catalog) -> Vec<(String, String, String)> {
    let text = |drawer: &Drawer| (drawer.id.to_string(), drawer.provider.clone(), drawer.summary.clone());
    catalog.drawers().iter().map(text).collect()
}

#[test]
fn texts_do_not_depend_on_what_is_loaded() {
    let configs = [toolset("desk", &["notes/*", "clock/*"]), toolset("issues", &["hub/*issue*", "*/x"])];
    let (now, before) = (catalog(&configs, Known::Now), catalog(&configs, Known::Before));
    assert_eq!(texts(&now), texts(&before));
    assert_eq!(now.revision, before.revision);
    assert_eq!(texts(&now), texts(&catalog(&configs, Known::Never)));
    assert_ne!(now.revision, catalog(&configs[..1], Known::Now).revision);
    // As long as it is not known which sources have such a tool, any may.
    let issues = |catalog: &Catalog| catalog.sources_of(catalog.drawer("issues").unwrap()).count();
    assert_eq!((issues(&now), issues(&before), issues(&catalog(&configs, Known::Never))), (1, 1, 1));
    let loose = [toolset("x", &["*/x", "*/whoami"])];
    let x = |known| {
        let catalog = catalog(&loose, known);
        catalog.sources_of(catalog.drawer("x").unwrap()).count()
    };
    assert_eq!((x(Known::Now), x(Known::Before), x(Known::Never)), (1, 3, 3));
}

#[test]
fn many_tools_are_arranged_in_no_time() {
    let tools: Vec<String> = (0..50).map(|n| format!("kind{}_tool_{n}", n % 7)).collect();
    let sources: Vec<_> =
        (0..1000).map(|n| source(&format!("s{n:03}"), &ToolRules::default(), &tools, Known::Now)).collect();
    let ids: Vec<String> = (0..50).map(|n| format!("set{n}")).collect();
    let globs: Vec<[String; 2]> = (0..50).map(|n| [format!("s{n}?/*"), format!("*/*_tool_{n}")]).collect();
    let configs: Vec<_> = ids.iter().zip(&globs).map(|(id, globs)| toolset(id, &[&globs[0], &globs[1]])).collect();
    let start = Instant::now();
    let drawers = Drawers::arrange(&sources, &configs);
    let took = start.elapsed();
    assert_eq!(drawers.list.iter().map(|drawer| drawer.count).sum::<usize>(), 50_000);
    // Without optimization, and beside other tests: far from what it takes.
    assert!(took < Duration::from_secs(2), "{took:?}");
}
