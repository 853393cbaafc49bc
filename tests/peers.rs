//! Real servers behind the relay, real clients in front of it: what `make peers` installs, from npm and PyPI.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;

use std::process::{Command, Stdio};

use peer::{client, names, peers, relay, said};
use serde_json::{Value, json};

const MENU: [&str; 6] =
    ["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"];

/// A folder with the five servers' data, and the configuration that fronts them all.
struct Bench {
    folder: tempfile::TempDir,
}

/// Id, command below `tests/peers`, arguments, environment.
type Server = (&'static str, &'static str, Vec<String>, Vec<(&'static str, String)>);

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        std::fs::write(folder.path().join("files/hello.txt"), "hello from the file").unwrap();
        let repository = folder.path().join("repository");
        for arguments in [
            vec!["init", "--quiet", "repository"],
            vec![
                "-C",
                "repository",
                "-c",
                "user.name=Ada",
                "-c",
                "user.email=ada@example.org",
                "commit",
                "--quiet",
                "--allow-empty",
                "-m",
                "The first commit",
            ],
        ] {
            assert!(Command::new("git").args(arguments).current_dir(folder.path()).status().unwrap().success());
        }
        assert!(repository.exists());
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn servers(&self) -> Vec<Server> {
        vec![
            ("everything", "node_modules/.bin/mcp-server-everything", vec!["stdio".into()], vec![]),
            ("filesystem", "node_modules/.bin/mcp-server-filesystem", vec![self.path("files")], vec![]),
            (
                "memory",
                "node_modules/.bin/mcp-server-memory",
                vec![],
                vec![("MEMORY_FILE_PATH", self.path("memory.json"))],
            ),
            ("time", ".venv/bin/mcp-server-time", vec!["--local-timezone=UTC".into()], vec![]),
            ("git", ".venv/bin/mcp-server-git", vec!["--repository".into(), self.path("repository")], vec![]),
        ]
    }

    fn config(&self, exposure: &str) -> String {
        let mut text = format!("[relay]\nexposure = {exposure:?}\nstate_dir = {:?}\n", self.path("state"));
        for (id, command, arguments, environment) in self.servers() {
            let env: Vec<_> = environment.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
            let command = peers().join(command).display().to_string();
            text += &format!(
                "[source.{id}]\ncommand = {command:?}\nargs = {arguments:?}\nenv = {{ {} }}\n",
                env.join(", ")
            );
        }
        let file = self.path("sources.toml");
        std::fs::write(&file, text).unwrap();
        file
    }
}

/// Lists, calls a tool of each of the five servers, opens a toolset, and calls a tool of it by its own name.
fn walk(script: &str, mode: &str, protocol: &str) {
    let bench = Bench::new();
    let calls = json!([
        {"name": "call_tool", "arguments": {"source": "everything", "tool": "echo", "arguments": {"message": "through the relay"}}},
        {"name": "call_tool", "arguments": {"source": "filesystem", "tool": "read_text_file", "arguments": {"path": bench.path("files/hello.txt")}}},
        {"name": "call_tool", "arguments": {"source": "memory", "tool": "create_entities", "arguments": {"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}]}}},
        {"name": "call_tool", "arguments": {"source": "time", "tool": "convert_time", "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}}},
        {"name": "call_tool", "arguments": {"source": "git", "tool": "git_log", "arguments": {"repo_path": bench.path("repository")}}},
        {"name": "enable_toolset", "arguments": {"toolset": "memory"}},
        {"name": "memory__search_nodes", "arguments": {"query": "Ada"}},
        {"name": "find_tools", "arguments": {"query": "read a text file"}},
        {"name": "call_tool", "arguments": {"source": "nowhere", "tool": "echo", "arguments": {}}},
        {"name": "list_sources", "arguments": {}}
    ]);
    let changed = [("WAIT_CHANGED", "1".to_owned())];
    let seen = client(script, mode, &relay(&bench.config("toolsets")), &changed, &calls);
    assert_eq!(seen["protocol"], protocol, "{seen}");
    assert_eq!(seen["serverInfo"]["name"], "toolrelay");
    assert_eq!(names(&seen["tools"]), MENU);
    let results = seen["results"].as_array().unwrap();
    let text = |at: usize| results[at]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{}", results[at]));
    assert_eq!(text(0), "Echo: through the relay");
    assert_eq!(text(1), "hello from the file");
    assert_eq!(results[2]["structuredContent"]["entities"][0]["name"], "Ada");
    assert!(text(3).contains("21:00"), "{}", text(3));
    assert!(text(4).contains("The first commit"), "{}", text(4));
    assert_eq!(results[5]["structuredContent"]["toolset"]["enabled"], true);
    assert_eq!(results[6]["structuredContent"]["entities"][0]["observations"][0], "wrote the first program");
    assert_eq!(results[7]["structuredContent"]["matches"][0]["source"], "filesystem", "{}", results[7]);
    assert_eq!(results[8]["isError"], true);
    assert_eq!(results[8]["structuredContent"]["error"]["kind"], "unknown_source");
    for source in results[9]["structuredContent"]["sources"].as_array().unwrap() {
        assert_eq!(source["status"], "ready", "{source}");
        assert!(source["tools"].as_u64().unwrap() > 0, "{source}");
    }
    let after = names(&seen["toolsAfter"]);
    assert!(MENU.iter().all(|name| after.contains(name)), "{after:?}");
    assert!(after.contains(&"memory__search_nodes"), "{after:?}");
}

#[test]
fn typescript_v1_client() {
    walk("client_v1.mjs", "", "2025-11-25");
}

#[test]
fn typescript_v2_client_modern() {
    walk("client_v2.mjs", "auto", "2026-07-28");
}

#[test]
fn typescript_v2_client_legacy() {
    walk("client_v2.mjs", "legacy", "2025-11-25");
}

#[test]
fn python_client_modern() {
    walk("client_py.py", "auto", "2026-07-28");
}

#[test]
fn python_client_legacy() {
    walk("client_py.py", "legacy", "2025-11-25");
}

/// In `eager` every tool of every server is there, under its prefix, and nothing else but the menu.
#[test]
fn every_tool_of_every_server_is_listed() {
    let bench = Bench::new();
    let config = bench.config("eager");
    let calls = json!([{"name": "call_tool", "arguments": {"source": "git", "tool": "git_status", "arguments": {"repo_path": bench.path("repository")}}}]);
    let mut want: Vec<String> = ["call_tool", "find_tools", "list_sources"].map(str::to_owned).to_vec();
    for (id, command, arguments, environment) in bench.servers() {
        let server: Vec<_> = [peers().join(command).display().to_string()].into_iter().chain(arguments).collect();
        // The SDK hands on only what it knows to be safe; the server's own variables go in through `env`.
        let server: Vec<_> = match environment.as_slice() {
            [] => server,
            pairs => ["env".to_owned()]
                .into_iter()
                .chain(pairs.iter().map(|(name, value)| format!("{name}={value}")))
                .chain(server)
                .collect(),
        };
        let direct = client("client_v1.mjs", "", &server, &[], &json!([]));
        want.extend(names(&direct["tools"]).iter().map(|name| format!("{id}__{name}")));
    }
    // Shown to clients that can be asked, as any client of the relay may be.
    let asking =
        ["get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"];
    want.extend(asking.map(|name| format!("everything__{name}")));
    want.sort();
    // The first run learns the lists; the second has them before any server is up.
    client("client_v1.mjs", "", &relay(&config), &[], &calls);
    let learned = || {
        let mut tools = command(&["tools", "--json", "--config", &config]);
        tools.stdin(Stdio::null());
        tools.output().unwrap().status.success()
    };
    assert!(learned());
    let seen = client("client_v1.mjs", "", &relay(&config), &[], &json!([]));
    let mut got: Vec<_> = names(&seen["tools"]).iter().map(|name| (*name).to_owned()).collect();
    got.sort();
    assert_eq!(got, want);
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    command.args(arguments);
    command
}

/// The Inspector takes `--config` for itself, so the relay gets its own from the environment.
fn inspector(bench: &Bench, era: &str, arguments: &[&str]) -> Value {
    let config = format!("TOOLRELAY_CONFIG={}", bench.config("toolsets"));
    let output = Command::new(peers().join("node_modules/node/bin/node"))
        .arg(peers().join("node_modules/.bin/mcp-inspector"))
        .args([
            "--cli",
            "env",
            &config,
            "TOOLRELAY_LOG=off",
            env!("CARGO_BIN_EXE_toolrelay"),
            "serve",
            "--protocol-era",
            era,
        ])
        .args(arguments)
        .env("HOME", bench.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

#[test]
fn inspector_lists_and_calls() {
    let bench = Bench::new();
    for era in ["legacy", "modern"] {
        let listed = inspector(&bench, era, &["--method", "tools/list"]);
        let listed: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(listed, MENU);
        let called = inspector(
            &bench,
            era,
            &[
                "--method",
                "tools/call",
                "--tool-name",
                "call_tool",
                "--tool-arg",
                "source=everything",
                "--tool-arg",
                "tool=echo",
                "--tool-arg",
                "arguments={\"message\":\"hi\"}",
            ],
        );
        assert_eq!(called["content"][0]["text"], "Echo: hi", "{called}");
    }
}
