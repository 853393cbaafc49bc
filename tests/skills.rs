//! Skills (SEP-2640) of several sources: one list, URIs that lead back to their sources and nowhere else, pages, how long the
//! list holds, and who may see what. The protocol's own scenarios are in `tests/conformance.rs`.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;
#[path = "support/web.rs"]
mod web;

use serde_json::{Value, json};
use support::{Front, Place, Relay, eventually};
use talk::{Era, Talker};
use web::{Out, Seen, Web};

const SKILLS: &str = "io.modelcontextprotocol/skills";

/// The entry of a skill with one more file, as its source writes it.
fn skill(name: &str) -> Value {
    let file = |path: &str| {
        let uri = format!("skill://{name}/{path}");
        json!({"uri": uri, "digest": format!("sha256:{}", "0".repeat(64)), "size": 7})
    };
    let frontmatter = json!({"name": name, "description": "d", "uri": "skill://not/touched", "n": 1.50});
    let files = [file("SKILL.md"), file("references/more.md")];
    json!({"frontmatter": frontmatter, "uri": format!("skill://{name}/SKILL.md"), "resources": files})
}

/// A source of 2026-07-28 with these skills, in pages of `page`, each with its hint.
struct Library {
    name: &'static str,
    skills: Vec<Value>,
    page: usize,
    hints: Vec<Value>,
    settings: Value,
}

impl Library {
    fn new(name: &'static str, skills: &[&str]) -> Self {
        let hints = vec![json!({"ttlMs": 9000, "cacheScope": "public"})];
        let skills = skills.iter().map(|name| skill(name)).collect();
        Self { name, skills, page: 1000, hints, settings: json!({"directoryRead": true}) }
    }

    fn answer(&self, method: &str, params: &Value) -> Option<Result<Value, i64>> {
        let uri = params["uri"].as_str().unwrap_or_default();
        let mut hinted = self.hints[0].clone();
        let result = match method {
            "server/discover" => {
                let capabilities = json!({"tools": {}, "resources": {}, "extensions": {SKILLS: self.settings}});
                json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            }
            "resources/list" => {
                let one = |skill: &Value| json!({"uri": skill["uri"], "name": skill["frontmatter"]["name"]});
                json!({"resources": self.skills.iter().map(one).collect::<Vec<_>>()})
            }
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "skills/list" => {
                let page = params["cursor"].as_str().map_or(0, |cursor| cursor.parse::<usize>().unwrap());
                hinted = self.hints[page.min(self.hints.len() - 1)].clone();
                let start = page * self.page;
                let end = self.skills.len().min(start + self.page);
                let mut result = json!({"skills": self.skills[start..end]});
                if end < self.skills.len() {
                    result["nextCursor"] = (page + 1).to_string().into();
                }
                result
            }
            "skills/get" => match self.skills.iter().find(|skill| skill["uri"] == uri) {
                Some(found) => json!({"skill": found, "_meta": {"own.key": 1}}),
                None => return Some(Err(-32602)),
            },
            "resources/directory/read" if uri.ends_with(".md") => return Some(Err(-32602)),
            "resources/directory/read" => {
                let child = |name: &str, kind: &str| json!({"uri": format!("{uri}/{name}"), "mimeType": kind});
                let children = [child("SKILL.md", "text/markdown"), child("references", "inode/directory")];
                json!({"resources": children, "nextCursor": params["cursor"].as_str().unwrap_or("more")})
            }
            "resources/read" => {
                let text = format!("{}: {uri}", self.name);
                json!({"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]})
            }
            _ => return None,
        };
        let mut result = result;
        result["resultType"] = "complete".into();
        result.as_object_mut().unwrap().extend(hinted.as_object().unwrap().clone());
        Some(Ok(result))
    }

    fn open(self) -> Web {
        Web::start(web::modern, move |seen: &Seen, out: &mut Out| {
            let Some(answer) = self.answer(&seen.rpc(), &seen.json()["params"]) else { return false };
            match answer {
                Ok(result) => out.json(200, &[], &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result})),
                Err(code) => out.json(200, &[], &web::error(&seen.id(), code, "not here")),
            }
            true
        })
    }
}

fn uris(list: &Value) -> Vec<&str> {
    list.as_array().unwrap_or_else(|| panic!("{list}")).iter().map(|item| item["uri"].as_str().unwrap()).collect()
}

fn start(sources: &[String]) -> Talker {
    let mut talker =
        Talker::new(Relay::start("", sources), Era::Modern, json!({"extensions": {SKILLS: {}, "x/y": {"z": 1}}}));
    talker.request("skills/list", json!({}));
    talker
}

#[test]
fn skills_of_several_sources_are_one_list_and_lead_back() {
    let bare = |name| Library { settings: json!({}), ..Library::new(name, &["pdf"]) };
    let (alpha, zeta) = (Library::new("alpha", &["pdf", "csv"]).open(), bare("zeta").open());
    let mut talker = start(&[zeta.source("zeta", ""), alpha.source("alpha", ""), support::source("plain", &[], "")]);
    let talker = &mut talker;
    let greeting = talker.request("server/discover", json!({})).result();
    assert_eq!(greeting["capabilities"]["extensions"], json!({SKILLS: {"directoryRead": true}}));
    assert!(greeting["capabilities"]["resources"].is_object());
    let list = talker.request("skills/list", json!({})).result();
    let all = ["skill://alpha/csv/SKILL.md", "skill://alpha/pdf/SKILL.md", "skill://zeta/pdf/SKILL.md"];
    assert_eq!(uris(&list["skills"]), all);
    let (entry, own) = (&list["skills"][1], skill("pdf"));
    assert_eq!(entry["frontmatter"], own["frontmatter"]);
    assert_eq!(uris(&entry["resources"]), [all[1], "skill://alpha/pdf/references/more.md"]);
    assert_eq!(entry["resources"][1]["digest"], own["resources"][1]["digest"]);
    // The files are listed under the URIs that the entries have.
    assert_eq!(uris(&talker.request("resources/list", json!({})).result()["resources"]), all);
    for source in ["alpha", "zeta"] {
        let uri = format!("skill://{source}/pdf/SKILL.md");
        let got = talker.request("skills/get", json!({"uri": uri})).result();
        assert_eq!((&got["skill"]["uri"], &got["_meta"]["own.key"]), (&json!(uri), &json!(1)));
        assert_eq!(uris(&got["skill"]["resources"])[1], format!("skill://{source}/pdf/references/more.md"));
        assert_eq!((&got["ttlMs"], &got["cacheScope"]), (&json!(9000), &json!("public")));
        let file = format!("skill://{source}/pdf/references/more.md");
        let read = talker.request("resources/read", json!({"uri": file})).result();
        let want = json!({"uri": file, "mimeType": "text/markdown", "text": format!("{source}: skill://pdf/references/more.md")});
        assert_eq!(read["contents"], json!([want]));
    }
    let folder = json!({"uri": "skill://alpha/pdf", "cursor": "c"});
    let children = talker.request("resources/directory/read", folder).result();
    assert_eq!(uris(&children["resources"]), ["skill://alpha/pdf/SKILL.md", "skill://alpha/pdf/references"]);
    assert_eq!(children["nextCursor"], "c");
    // What the client declares goes along, and nothing of the relay's own.
    for seen in [alpha.posts("skills/get"), alpha.posts("resources/directory/read")].concat() {
        let capabilities = &seen.json()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*capabilities, json!({"extensions": {SKILLS: {}, "x/y": {"z": 1}}}));
        assert_eq!(seen.header("mcp-method"), Some(seen.rpc().as_str()));
    }
}

#[test]
fn an_unknown_skill_is_asked_of_nobody() {
    let (alpha, zeta) = (Library::new("alpha", &["pdf"]).open(), Library::new("zeta", &["csv"]).open());
    let mut talker = start(&[alpha.source("alpha", ""), zeta.source("zeta", "")]);
    for uri in ["skill://pdf/SKILL.md", "skill://nobody/pdf/SKILL.md", "skill://alpha", "repo://pdf/SKILL.md", ""] {
        for method in ["skills/get", "resources/directory/read", "resources/read"] {
            let refused = talker.request(method, json!({"uri": uri}));
            assert_eq!(refused.error_code(), -32602, "{method} {uri}: {}", refused.line);
        }
    }
    for web in [&alpha, &zeta] {
        let asked = ["skills/get", "resources/directory/read", "resources/read"].map(|method| web.posts(method).len());
        assert_eq!(asked, [0, 0, 0]);
    }
    // What a source knows nothing of is its own to say, and is asked of no other.
    for (method, uri) in
        [("skills/get", "skill://alpha/csv/SKILL.md"), ("resources/directory/read", "skill://alpha/x.md")]
    {
        assert_eq!(talker.request(method, json!({"uri": uri})).error_code(), -32602, "{method}");
        assert_eq!((alpha.posts(method).len(), zeta.posts(method).len()), (1, 0), "{method}");
    }
}

#[test]
fn without_skills_there_is_no_such_method() {
    let unready = Library { settings: json!({}), ..Library::new("bare", &["pdf"]) }.open();
    for (sources, methods) in [
        (vec![support::source("plain", &["--resources", "doc:a"], "")], &["skills/list", "skills/get"][..]),
        (vec![unready.source("bare", "")], &[]),
    ] {
        let mut talker = start(&sources);
        for method in methods.iter().chain(&["resources/directory/read"]) {
            let refused = talker.request(method, json!({"uri": "skill://bare/pdf/SKILL.md"}));
            assert_eq!(refused.error_code(), -32601, "{method}: {}", refused.line);
        }
        let extensions = talker.request("server/discover", json!({})).result()["capabilities"]["extensions"].clone();
        assert_eq!(extensions, if methods.is_empty() { json!({SKILLS: {}}) } else { Value::Null });
    }
    // Clients of earlier revisions are told of no extensions.
    let mut talker = Talker::new(Relay::start("", &[unready.source("bare", "")]), Era::Legacy, json!({}));
    assert_eq!(talker.request("skills/list", json!({})).error_code(), -32601);
}

#[test]
fn the_list_comes_in_pages_and_holds_as_long_as_its_shortest() {
    let names: Vec<String> = (0..150).map(|number| format!("s{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hints = [7000, 5000].map(|ttl| json!({"ttlMs": ttl, "cacheScope": "public"})).to_vec();
    let many = Library { page: 80, hints, ..Library::new("many", &names) }.open();
    let mut talker = start(&[many.source("many", "")]);
    let mut found = Vec::new();
    let mut params = json!({});
    for size in [100, 50] {
        let page = talker.request("skills/list", params.clone()).result();
        assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(5000), &json!("public")));
        let page_uris = uris(&page["skills"]);
        assert_eq!(page_uris.len(), size);
        found.extend(page_uris.into_iter().map(str::to_owned));
        params = json!({"cursor": page["nextCursor"]});
    }
    assert_eq!(params, json!({"cursor": null}));
    assert_eq!(found, names.iter().map(|name| format!("skill://many/{name}/SKILL.md")).collect::<Vec<_>>());
    assert_eq!(talker.request("skills/list", json!({"cursor": "x"})).error_code(), -32602);

    let private =
        Library { hints: vec![json!({"ttlMs": 6000, "cacheScope": "private"})], ..Library::new("b", &["x"]) }.open();
    let untold = Library { hints: vec![json!({})], ..Library::new("c", &["x"]) }.open();
    let public = Library::new("a", &["x"]).open();
    for (other, ttl) in [(private.source("other", ""), 6000), (untold.source("other", ""), 0)] {
        let mut talker = start(&[public.source("a", ""), other]);
        let list = talker.request("skills/list", json!({})).result();
        assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(ttl), &json!("private")));
    }
}

/// A skill that is remembered from an earlier run is listed at once; for how long it still holds nobody knows.
#[test]
fn skills_are_remembered() {
    let library = Library::new("alpha", &["pdf"]).open();
    let place = Place::new();
    let sources = [library.source("alpha", "")];
    for (lists, ttl) in [(1, 9000), (1, 0)] {
        let mut talker = Talker::new(Relay::start_in(&place, "", &sources), Era::Modern, json!({}));
        let list = talker.request("skills/list", json!({})).result();
        assert_eq!((uris(&list["skills"]), &list["ttlMs"]), (vec!["skill://alpha/pdf/SKILL.md"], &json!(ttl)));
        assert_eq!(library.posts("skills/list").len(), lists);
        talker.relay.finish();
    }
}

#[test]
fn rules_hold_for_skills_and_their_files() {
    let token = |id: &str, rules: &str| format!("[credential.{id}]\ntoken = \"{id}-0123456789abcdef\"\n{rules}\n");
    let library = Library::new("docs", &["pdf", "csv", "key"]).open();
    let tables = [
        library.source("docs", "deny = [\"skill://key/*\"]"),
        token("all", ""),
        token("some", "allow = [\"docs/skill://pdf/*\"]"),
        // A skill of which one file may not be read is of no use.
        token("part", "deny = [\"docs/skill://pdf/references/*\"]"),
        token("none", "sources = []"),
    ];
    let front = Front::start("", &tables);
    let mut clients = ["all", "some", "part", "none"].map(|id| front.client(Some(&format!("{id}-0123456789abcdef"))));
    let (csv, pdf, key) = ("skill://docs/csv/SKILL.md", "skill://docs/pdf/SKILL.md", "skill://docs/key/SKILL.md");
    eventually("the skills are listed", || {
        clients[0].request("skills/list", json!({})).raw("result").is_some_and(|list| list.contains("csv"))
    });
    for (client, want) in clients.iter_mut().zip([&[csv, pdf][..], &[pdf], &[csv]]) {
        let list = client.request("skills/list", json!({})).result();
        assert_eq!(uris(&list["skills"]), want);
        // Each may see another list.
        assert_eq!(list["cacheScope"], "private");
        for uri in [csv, pdf, key] {
            let got = client.request("skills/get", json!({"uri": uri}));
            assert_eq!(got.raw("result").is_some(), want.contains(&uri), "{}", got.line);
            if !want.contains(&uri) {
                assert!(got.error_code() == -32602 && got.line.contains("withheld"), "{}", got.line);
            }
        }
    }
    assert_eq!(clients[3].request("skills/list", json!({})).error_code(), -32601);
    // Only the skill with a file that is withheld had to be looked at.
    assert!(library.posts("skills/get").iter().all(|seen| !seen.body.contains("skill://key/")));
    let (some, part, none) = (1, 2, 3);
    for (client, uri, is_read) in [
        (some, "skill://docs/pdf/references/more.md", true),
        (some, "skill://docs/pdf/../csv/SKILL.md", false),
        (part, "skill://docs/pdf/references/more.md", false),
        (part, "skill://docs/pdf/%72eferences/more.md", false),
        (part, "toolrelay://docs/skill://pdf/references/more.md", false),
        (none, "skill://docs/csv/SKILL.md", false),
    ] {
        let got = clients[client].request("resources/read", json!({"uri": uri}));
        assert_eq!(got.raw("result").is_some(), is_read, "{}", got.line);
    }
    assert_eq!(library.posts("resources/read").len(), 1);
    let children = clients[part].request("resources/directory/read", json!({"uri": "skill://docs/pdf"})).result();
    assert_eq!(uris(&children["resources"]), ["skill://docs/pdf/SKILL.md", "skill://docs/pdf/references"]);
    front.finish();
}
