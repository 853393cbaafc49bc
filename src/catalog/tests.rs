//! Tests of the catalog as a whole: what must not depend on any order.

use proptest::prelude::*;

use super::*;
use crate::config::ToolRules;

fn toolset(id: &str, provider: &str, prefix: &str, tools: &[&str]) -> Arc<Toolset> {
    let id = SourceId::new(id).unwrap();
    let rules = ToolRules::default();
    let spec = ToolsetSpec { id: &id, name: "", provider, summary: None, prefix, rules: &rules };
    let raws = tools.iter().map(|tool| format!("{{\"name\":{}}}", crate::wire::quoted(tool)).into_boxed_str());
    Arc::new(Toolset::build(&spec, &Listing::new(raws, ServerNote::default(), None)))
}

fn outlined(toolset: &Toolset) -> Arc<Toolset> {
    let rules = ToolRules::default();
    let Toolset { id, name, provider, prefix, .. } = toolset;
    let spec = ToolsetSpec { id, name, provider, summary: None, prefix, rules: &rules };
    Arc::new(Toolset::outline(&spec, &toolset.to_outline()))
}

/// Every entry's route and the name it is shown under, in the catalog's order.
fn names(catalog: &Catalog) -> Vec<(String, String)> {
    let route = |entry: &Entry| format!("{}/{}", entry.source, entry.tool);
    catalog.entries().map(|entry| (route(entry), catalog.exposed_name(entry).to_string())).collect()
}

#[test]
fn toolsets_are_sorted_by_provider_then_id() {
    let catalog =
        Catalog::build(vec![toolset("c", "x", "c", &[]), toolset("b", "y", "b", &[]), toolset("a", "x", "a", &[])]);
    let order: Vec<_> = catalog.toolsets.iter().map(|toolset| toolset.id.as_str()).collect();
    assert_eq!(order, ["a", "c", "b"]);
    assert_eq!(catalog.toolset("b").map(|toolset| toolset.provider.as_str()), Some("y"));
    assert!(catalog.toolset("d").is_none());
}

#[test]
fn tools_are_found_by_either_name() {
    let catalog = Catalog::build(vec![toolset("a", "a", "a", &["x", "y.z"]), toolset("b", "b", "b", &["x"])]);
    assert_eq!(catalog.by_exposed("b__x"), catalog.find("b", "x"));
    let dotted = catalog.find("a", "y.z").unwrap();
    assert_eq!(catalog.by_exposed(dotted.name.as_str()), Some(dotted));
    assert_eq!((catalog.by_exposed("a__y.z"), catalog.find("a", "y"), catalog.find("c", "x")), (None, None, None));
    let sources: Vec<_> = catalog.tools_named("x").iter().map(|entry| entry.source.to_string()).collect();
    assert_eq!(sources, ["a", "b"]);
}

#[test]
fn the_plain_name_stays_where_two_meet() {
    let forged = ExposedName::of(&SourceId::new("victim").unwrap(), "", &ToolName::new("a.b"));
    let forger = toolset("a-forger", "a", "", &[forged.as_str(), "same"]);
    let victim = toolset("victim", "a", "", &["a.b", "same"]);
    let catalog = Catalog::build(vec![victim, forger]);
    let shown = |source: &str, tool: &str| catalog.exposed_name(catalog.find(source, tool).unwrap()).to_string();
    assert_eq!(shown("a-forger", forged.as_str()), forged.as_str());
    assert_eq!(shown("a-forger", "same"), "same");
    for tool in ["a.b", "same"] {
        let name = shown("victim", tool);
        assert!(name.len() > 33 && name.len() <= 64, "{name}");
        assert_eq!(catalog.by_exposed(&name), catalog.find("victim", tool));
        let entry = catalog.find("victim", tool).unwrap();
        assert!(catalog.exposed_json(entry, true).starts_with(&format!("{{\"name\":\"{name}\"")));
    }
}

#[test]
fn a_forged_longer_name_is_given_up() {
    let longer = ExposedName::widened(&SourceId::new("victim").unwrap(), "", &ToolName::new("same"));
    let forger = toolset("a-forger", "a", "", &["same", longer.as_str()]);
    let catalog = Catalog::build(vec![forger, toolset("victim", "a", "", &["same"])]);
    let mut shown: Vec<_> = names(&catalog).into_iter().map(|(_, name)| name).collect();
    assert!(shown.contains(&longer.to_string()));
    assert_eq!(catalog.by_exposed(longer.as_str()), catalog.find("victim", "same"));
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 3);
}

#[test]
fn close_names_are_suggested() {
    let hub = toolset("github", "a", "github", &["search_issues", "search_code", "create_issue", "merge"]);
    let catalog = Catalog::build(vec![hub, toolset("gitlab", "b", "gitlab", &["search_issue"])]);
    for (source, tool, expected) in [
        ("github", "serch_issues", &["search_issues", "create_issue", "search_code"][..]),
        ("github", "searchIssues", &["search_issues", "search_code", "create_issue"]),
        ("github", "xyz", &[]),
        ("", "search_issue", &["gitlab/search_issue", "github/search_issues", "github/search_code"]),
    ] {
        assert_eq!(catalog.similar_tools(source, tool), expected, "{tool}");
    }
    assert_eq!(catalog.similar_sources("gihub"), ["github", "gitlab"]);
    assert_eq!(catalog.similar_sources("slack"), [""; 0]);
}

#[test]
fn outlines_have_the_same_revision() {
    let full = vec![toolset("a", "a", "a", &["x", "y"]), toolset("b", "b", "b", &["z"])];
    let short: Vec<_> = full.iter().map(|toolset| outlined(toolset)).collect();
    let revisions: Vec<String> = [full.clone(), short.clone(), vec![short[0].clone(), full[1].clone()]]
        .into_iter()
        .map(|toolsets| Catalog::build(toolsets).revision)
        .collect();
    assert_eq!(revisions, [revisions[0].as_str(); 3]);
    assert!(Catalog::build(full.clone()).is_loaded());
    assert!(!Catalog::build(short).is_loaded());
    assert_ne!(Catalog::build(full[..1].to_vec()).revision, revisions[0]);
    assert_ne!(Catalog::build(vec![toolset("a", "a", "a", &["x"]), full[1].clone()]).revision, revisions[0]);
}

/// Sources with tools, some of which share names and prefixes.
fn worlds() -> impl Strategy<Value = Vec<(String, String, String, Vec<String>)>> {
    let tool = "[a-c]{0,2}(__|_|\\.|)[a-c]{0,2}|\\PC{0,3}";
    let source =
        ("[ab]", prop_oneof![Just(""), Just("a"), Just("p__q"), Just("a_")], prop::collection::vec(tool, 0..6));
    prop::collection::btree_map("[a-d]{1,2}", source, 0..5).prop_map(|map| {
        map.into_iter().map(|(id, (provider, prefix, tools))| (id, provider, prefix.to_owned(), tools)).collect()
    })
}

fn build(world: &[(String, String, String, Vec<String>)]) -> Catalog {
    let one = |(id, provider, prefix, tools): &(String, String, String, Vec<String>)| {
        toolset(id, provider, prefix, &tools.iter().map(String::as_str).collect::<Vec<_>>())
    };
    Catalog::build(world.iter().map(one).collect())
}

proptest! {
    #[test]
    fn order_of_arrival_does_not_show(
        (world, shuffled) in worlds().prop_flat_map(|world| {
            let sources = Just(world.clone()).prop_shuffle();
            (Just(world), sources)
        }),
        turn in 0_usize..6,
    ) {
        let mut shuffled = shuffled;
        for (_, _, _, tools) in &mut shuffled {
            let middle = turn.min(tools.len());
            tools.rotate_left(middle);
            tools.reverse();
        }
        let (one, other) = (build(&world), build(&shuffled));
        prop_assert_eq!(&one.revision, &other.revision);
        prop_assert_eq!(names(&one), names(&other));
        let bytes = |catalog: &Catalog| catalog.entries().map(|entry| catalog.exposed_json(entry, false)).collect::<Vec<_>>();
        prop_assert_eq!(bytes(&one), bytes(&other));
    }

    #[test]
    fn every_entry_has_a_name_of_its_own(world in worlds()) {
        let catalog = build(&world);
        for entry in catalog.entries() {
            prop_assert_eq!(catalog.by_exposed(catalog.exposed_name(entry).as_str()), Some(entry));
        }
    }
}
