//! The command line, as a person and as a script use it: the built program, beside real children.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "cli/bench.rs"]
mod bench;

use std::time::Instant;

use bench::{Bench, PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A source that works, in each way a tool can be shown, and one that is switched off.
const GOOD: &str = r#"
[relay]
state_dir = "state"
[source.good]
name = "Good"
provider = "acme"
summary = "A fixture that behaves."
command = "FIXTURE"
args = ["--tools", "create_note,delete_note", "--journal", "FOLDER/journal"]
env = { API_TOKEN = "${API_TOKEN}" }
deny = ["delete_*"]
tool.burst.hidden = true
[source.off]
command = "FIXTURE"
enabled = false
"#;

/// One that works and three that do not, each in its own way.
const MIXED: &str = r#"
[relay]
state_dir = "state"
[source.dies]
command = "FIXTURE"
args = ["--exit-at-once", "3", "--name", "FOLDER"]
env = { API_TOKEN = "${API_TOKEN}" }
[source.gone]
command = "/nowhere/${API_TOKEN}/fixture"
[source.good]
command = "FIXTURE"
args = ["--journal", "FOLDER/journal", "--name", "${API_TOKEN}"]
[source.slow]
command = "FIXTURE"
args = ["--mute", "--journal", "FOLDER/mute"]
start_timeout_secs = 1
"#;

const FAULTY: &str = r#"[relay]
exposure = "eagr"
max_starting = 0
[source.a]
command = "x"
comand = "y"
args = "one two"
env = { OTHER = "${API_TOKEN}", TOKEN = "${NOT_SET}" }
[source.b]
[source.c]
command = "x"
start_timeout_secs = 1.5
prefix = "a.b"
"#;

/// Line, key, and a part of cause and hint of each fault of [`FAULTY`].
const FAULTS: &[(u64, &str, &str, &str)] = &[
    (2, "relay.exposure", "`eagr` is none of its words", "did you mean `eager`?"),
    (3, "relay.max_starting", "too small", "write a number from 1"),
    (6, "source.a.comand", "unknown key", "did you mean `command`?"),
    (7, "source.a.args", "expected a list of strings", "write `args = "),
    (8, "source.a.env.TOKEN", "variable `NOT_SET` is not set", "set `NOT_SET`"),
    (9, "source.b", "command", "command"),
    (12, "source.c.start_timeout_secs", "expected a whole number", "write `start_timeout_secs = 180`"),
    (13, "source.c.prefix", "cannot stand in the name of a tool", "use 1 to 32 characters"),
];

#[test]
fn check_tells_every_fault() {
    let bench = Bench::new(FAULTY);
    let ran = bench.run(&["check"]);
    ran.fails(3, "sources.toml has 8 faults", "correct each");
    let told: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(told.len(), 2 * FAULTS.len(), "{}", ran.stdout);
    for (lines, (line, key, cause, hint)) in told.chunks(2).zip(FAULTS) {
        assert!(lines[0].starts_with(&format!("sources.toml:{line}: {key}")), "{lines:?}");
        assert!(lines[0].contains(cause) && lines[1].trim_start().starts_with("hint: "), "{lines:?}");
        assert!(lines[1].contains(hint), "{lines:?}");
    }
    let ran = bench.run(&["check", "--json"]);
    let told = ran.fails(3, "sources.toml has 8 faults", "").json();
    let told = told.as_array().unwrap();
    assert_eq!(told.len(), FAULTS.len(), "{}", ran.stdout);
    for (fault, (line, key, cause, hint)) in told.iter().zip(FAULTS) {
        let part = |name: &str, part: &str| fault[name].as_str().unwrap().contains(part);
        assert!(fault["line"] == *line && fault["column"].is_u64(), "{fault}");
        assert!(
            part("file", "sources.toml") && part("key", key) && part("cause", cause) && part("hint", hint),
            "{fault}"
        );
    }
}

/// They were no faults, and could never work.
#[test]
fn what_can_never_work_is_a_fault() {
    let bench = Bench::new(
        "[relay]\npin = 'Warn'\n[source.a]\ncommand = 'npx -y foo'\n[source.b]\nurl = 'http://127.0.0.1:1/'\n\
         headers = { X = \"a\\nb\" }\n[http]\nallowed_hosts = ['*.example.com']\nallowed_origins = ['app.example']\n",
    );
    let ran = bench.run(&["check"]);
    ran.fails(3, "sources.toml has 5 faults", "correct each");
    ran.shows(&["4: source.a.command: there are blanks in it"]).shows(&["put the rest into `args`"]);
    ran.shows(&["7: source.b.headers.X: no header can hold it"]);
    ran.shows(&["9: http.allowed_hosts[0]"]).shows(&["10: http.allowed_origins[0]"]);
    // Not what a pin would do that was not meant.
    ran.shows(&["2: relay.pin: `Warn` is none of its words"]);
    assert!(!ran.stdout.contains("warning"), "{}", ran.stdout);
    // What is not known before the start is told then.
    let bench = Bench::new("[source.a]\ncommand = 'npx -y ${cmd:echo FOLDER}'\n");
    let ran = bench.run(&["check", "--connect"]);
    ran.exits(1).shows(&["a", "unreachable", "was not found", "put the rest into `args`"]);
}

/// A `deny` in another form than a glob withheld nothing, and nobody was told; `--json` had no warnings at all.
#[test]
fn check_warns_of_what_is_hardly_meant() {
    let rules = "deny = ['{delete,write}_*', 'good/echo', 'nosuch_*', 'sleep', 'burst']\nallow = ['*']\ntool.ecko.hidden = true\n";
    let bench =
        Bench::new(&GOOD.replacen("deny = ", "#deny = ", 1).replacen("command = ", &format!("{rules}command = "), 1));
    let lists = |told: &Value| -> Vec<(String, bool)> {
        let of = |line: &Value| (line["key"].as_str().unwrap().to_owned(), line["line"].is_u64());
        told.as_array().unwrap().iter().filter(|line| line["severity"] == "warning").map(of).collect()
    };
    let keys =
        |keys: &[(&str, bool)]| keys.iter().map(|(key, at)| (format!("source.good.{key}"), *at)).collect::<Vec<_>>();
    let ran = bench.run(&["check"]);
    ran.exits(0).shows(&["source.good.deny[0]: warning: `{`, `}` and `,` stand for themselves in a glob"]);
    ran.shows(&["source.good.deny[1]: warning: it begins with the id of the source"])
        .shows(&["hint: write `echo` alone"]);
    let first = keys(&[("deny[1]", true), ("deny[0]", true)]);
    assert_eq!(lists(&bench.run(&["check", "--json"]).exits(0).json()), first);
    let report = bench.run(&["check", "--connect", "--json"]).exits(0).json();
    let unmatched = keys(&[("deny[0]", false), ("deny[1]", false), ("deny[2]", false), ("tool.ecko", false)]);
    assert_eq!(lists(&report["warnings"]), [first, unmatched].concat());
    bench.run(&["check", "--connect"]).exits(0).shows(&["source.good.deny[2]: warning: `nosuch_*` fits nothing"]);
}

#[test]
fn check_is_content_with_a_good_file() {
    let bench = Bench::new(GOOD);
    assert_eq!(bench.run(&["check"]).exits(0).stdout, "sources.toml: 2 sources, no faults\n");
    assert_eq!(bench.run(&["check", "--json"]).exits(0).json(), json!([]));
    assert_eq!(bench.journal("journal"), "", "a source was started");
}

#[test]
fn a_file_that_cannot_be_used_is_a_failure_of_the_configuration() {
    let bench = Bench::new("[relay\n");
    let commands: &[&[&str]] = &[
        &["check"],
        &["sources"],
        &["tools"],
        &["find", "x"],
        &["call", "a", "b"],
        &["serve"],
        &["check", "--connect"],
    ];
    for arguments in commands {
        bench.run(arguments).fails(3, "sources.toml:1:", "");
        let named = [*arguments, &["--config", "nowhere.toml"]].concat();
        bench.run(&named).fails(3, "nowhere.toml cannot be read", "--config FILE");
        let own = bench.run_with(arguments, "", &[("TOOLRELAY_CONFIG", "elsewhere.toml")]);
        own.fails(3, "elsewhere.toml cannot be read", "");
    }
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    for bytes in [wide("\u{feff}[relay]\n"), wide("[relay]\n"), b"[relay] # \xfc\n".to_vec()] {
        std::fs::write(bench.path("wide.toml"), bytes).unwrap();
        let ran = bench.run(&["check", "--config", "wide.toml"]);
        ran.fails(3, "wide.toml cannot be read: it ", "save it as UTF-8");
    }
    let told = bench.run(&["check", "--json"]).fails(3, "sources.toml:1:", "").json();
    assert_eq!((&told[0]["line"], told.as_array().unwrap().len()), (&json!(1), 1));
    std::fs::remove_file(bench.path("sources.toml")).unwrap();
    let home = bench.path("").display().to_string();
    let ran = bench.run_with(&["sources"], "", &[("HOME", &home), ("XDG_CONFIG_HOME", &home)]);
    ran.fails(3, "there is no configuration", "--config FILE");
}

#[test]
fn check_connect_tells_how_each_source_fares() {
    let bench = Bench::new(MIXED);
    let ran = bench.run(&["check", "--connect"]);
    ran.fails(1, "3 of 4 sources failed: `dies`, `gone`, `slow`", "");
    ran.shows(&["sources.toml: 4 sources, no faults"]);
    ran.shows(&["dies", "unreachable", "exited with code 3", "API_TOKEN missing (got ***)"]);
    ran.shows(&["gone", "unreachable", "the command `/nowhere/***/fixture` was not found", "install it"]);
    ran.shows(&["good", "ready", "2025-11-25", "18", "0"]);
    ran.shows(&["slow", "unreachable", "did not answer the handshake within 1 s", "start_timeout_secs"]);
    assert!(!ran.stdout.contains("tried again"), "{}", ran.stdout);

    let report = bench.run(&["check", "--connect", "--json"]).fails(1, "3 of 4 sources failed", "").json();
    assert_eq!(report["faults"], json!([]));
    let states: Vec<_> =
        report["sources"].as_array().unwrap().iter().map(|line| (&line["id"], &line["state"])).collect();
    let want = json!([["dies", "unreachable"], ["gone", "unreachable"], ["good", "ready"], ["slow", "unreachable"]]);
    assert_eq!(json!(states), want);
    for line in report["sources"].as_array().unwrap() {
        assert_eq!(line["reason"].is_string(), line["state"] != "ready", "{line}");
        assert!(line["seconds"].is_f64(), "{line}");
    }

    let bench = Bench::new(&format!("{GOOD}\n[source.bad]\ncomand = 'x'\n"));
    let ran = bench.run(&["check", "--connect"]);
    ran.exits(3).shows(&["source.bad.comand: unknown key"]).shows(&["good", "ready"]).shows(&["bad", "misconfigured"]);
    ran.shows(&["off", "disabled", "-", "enabled = false"]);

    let bench = Bench::new(GOOD);
    bench.run(&["check", "--connect"]).exits(0).shows(&["good", "ready", "2025-11-25", "18", "1"]);
}

#[test]
fn the_schema_is_the_one_that_is_checked_in() {
    let bench = Bench::new("");
    let checked_in = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/sources.schema.json")).unwrap();
    assert_eq!(bench.run(&["schema"]).exits(0).stdout, checked_in);
}

/// A full disk went unnoticed: the exit code was 0, and the file empty.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_printed_is_a_failure() {
    let bench = Bench::new(GOOD);
    for arguments in [&["schema"][..], &["completions", "bash"], &["--help"], &["sources"], &["check", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = bench.ended(bench.command(arguments).stdout(full).spawn().unwrap(), arguments);
        ran.fails(1, "the output cannot be written: No space left on device", "where stdout goes");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = bench.ended(bench.command(arguments).stdout(writer).spawn().unwrap(), arguments);
        assert_eq!(ran.exits(0).stderr, "", "{arguments:?}");
    }
}

/// At this level the line did not say which of the sources it was about.
#[test]
fn a_warning_in_the_log_names_its_source() {
    let chatty = "[source.chatty]\ncommand = 'sh'\nargs = ['-c', 'echo hello; exec FIXTURE']\n";
    let ran = Bench::new(&format!("{GOOD}\n{chatty}")).run(&["check", "--connect", "--log", "warn"]);
    let line = ran.stderr.lines().find(|line| line.contains("is no message, skipped")).unwrap();
    assert!(line.contains("source{id=\"chatty\""), "{line}");
}

#[test]
fn every_shell_has_its_completions() {
    let bench = Bench::new("");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = bench.run(&["completions", shell]);
        assert!(ran.exits(0).stdout.contains("toolrelay") && ran.stdout.contains("completions"), "{shell}");
    }
}

#[test]
fn sources_are_listed_without_starting_one() {
    let bench = Bench::new(GOOD);
    let ran = bench.run(&["sources"]);
    ran.exits(0).shows(&["good", "Good", "acme", "dormant", "-", "-", "no", "A fixture that behaves."]);
    ran.shows(&["off", "off", "off", "disabled", "enabled = false"]);
    assert_eq!(bench.journal("journal"), "", "a source was started");

    bench.run(&["tools", "good"]).exits(0);
    let asked = bench.journal("journal");
    bench.run(&["sources"]).exits(0).shows(&["good", "Good", "acme", "dormant", "18", "1", "no"]);
    let report = bench.run(&["sources", "--json"]).exits(0).json();
    let good = &report["sources"][0];
    let facts = json!([good["id"], good["status"], good["tools"], good["withheld"], good["readOnly"]]);
    assert_eq!(facts, json!(["good", "dormant", 18, 1, false]), "{report}");
    assert_eq!(report["sources"][1]["status"], "disabled");
    assert_eq!(bench.journal("journal"), asked, "a source was started");

    bench.write("sources.toml", "");
    bench.run(&["sources"]).exits(0).shows(&["no sources"]);
}

#[test]
fn tools_are_listed_with_their_signatures() {
    let bench = Bench::new(GOOD);
    let ran = bench.run(&["tools"]);
    ran.exits(0).shows(&["good", "sleep", "(ms*: integer, progress: integer)", "Sleeps, with `progress`"]);
    ran.shows(&["good", "burst", "[hidden]"]).shows(&["good", "delete_note", "withheld: denied by `deny"]);
    ran.shows(&["off is disabled"]);
    let asked = bench.journal("journal");
    assert_eq!(bench.run(&["tools", "good"]).exits(0).stdout.lines().count(), 21);
    assert_eq!(bench.journal("journal"), asked, "a source that is remembered was started");

    let ran = bench.run(&["tools", "good", "--schema"]);
    ran.exits(0).shows(&["good/sleep(ms*: integer, progress: integer)"]).shows(&["takes {"]);
    let report = bench.run(&["tools", "--json", "--schema"]).exits(0).json();
    let tools = report["tools"].as_array().unwrap();
    let sleep = tools.iter().find(|line| line["tool"] == "sleep").unwrap();
    assert_eq!(sleep["inputSchema"]["required"], json!(["ms"]), "{sleep}");
    assert_eq!(sleep["signature"], "(ms*: integer, progress: integer)");
    assert_eq!(report["withheld"][0]["tool"], "delete_note");
    assert_eq!(report["unavailable"][0]["source"], "off");

    bench.run(&["tools", "goood"]).fails(1, "there is no source `goood`", "did you mean `good`?");
    bench.run(&["tools", "qqq"]).fails(1, "there is no source `qqq`", "see `toolrelay sources`");
    bench.run(&["tools", "off"]).fails(1, "source `off` is disabled", "enabled = true");
    let mixed = Bench::new(MIXED);
    mixed.run(&["tools", "gone"]).fails(1, "`/nowhere/***/fixture` was not found", "install it");
    mixed.run(&["tools"]).exits(0).shows(&["good", "echo"]).shows(&["dies is unreachable: exited with code 3"]);
}

#[test]
fn tools_are_found() {
    let bench = Bench::new(GOOD);
    let ran = bench.run(&["find", "create", "note"]);
    ran.exits(0).shows(&["SOURCE", "TOOL", "SIGNATURE"]).shows(&["good", "create_note"]);
    ran.shows(&["good", "delete_note", "withheld: denied"]).shows(&["off is disabled"]);
    bench.run(&["find", "sleep", "--detail", "full"]).exits(0).shows(&["good/sleep("]).shows(&["\"ms\""]);
    let brief = bench.run(&["find", "sleep", "--detail", "brief"]);
    assert!(!brief.exits(0).shows(&["good", "sleep"]).stdout.contains("SIGNATURE"), "{}", brief.stdout);
    bench.run(&["find", "zyzzyva"]).exits(0).shows(&["no tool fits"]);

    let find =
        |limit: &str| bench.run(&["find", "returns", "--json", "--limit", limit, "--source", "good"]).exits(0).json();
    let names = |found: &Value| -> Vec<String> {
        let matches = found["matches"].as_array().unwrap().iter();
        matches.map(|line| line["tool"].as_str().unwrap().to_owned()).collect()
    };
    let (one, all) = (find("1"), find("1000"));
    assert_eq!((names(&one).len(), &one["total"]), (1, &all["total"]));
    assert!(one["nextCursor"].is_string() && all.get("nextCursor").is_none(), "{one} {all}");
    assert!(names(&all).len() > 1 && names(&all)[0] == names(&one)[0], "{all}");
    bench.run(&["find", "x", "--source", "godo"]).fails(1, "there is no source `godo`", "did you mean `good`?");
}

#[test]
fn calls_show_what_the_tool_says() {
    let bench = Bench::new(GOOD);
    let given = "{\"n\": 12345678901234567890,\n \"x\": 1e400}";
    let ran = bench.run(&["call", "good", "echo", given]);
    assert_eq!(ran.exits(0).stdout, "{\"n\": 12345678901234567890,  \"x\": 1e400}\n");
    assert_eq!(
        bench.run_with(&["call", "good", "echo", "-"], "{\"from\":\"stdin\"}\n", &[]).exits(0).stdout,
        "{\"from\":\"stdin\"}\n"
    );
    assert_eq!(bench.run(&["call", "good", "good/echo"]).exits(0).stdout, "{}\n");
    assert_eq!(bench.run(&["call", "good", "sleep", "{\"ms\":1,\"progress\":3}"]).exits(0).stdout, "slept 1 ms\n");
    let ran = bench.run(&["call", "good", "echo", "{\"a\":1}", "--raw"]);
    assert!(ran.exits(0).stdout.starts_with("{\"jsonrpc\":\"2.0\",\"id\":"), "{}", ran.stdout);

    let result = r#"{ "structuredContent":{"big":12345678901234567890123,"inf":1e400,"e":"\u00e9"} ,"content":[],"new":[1.0,-0]}"#;
    bench.write("result.json", result);
    let arguments = json!({ "result_file": bench.path("result.json") }).to_string();
    let ran = bench.run(&["call", "good", "raw", &arguments, "--json"]);
    assert_eq!(ran.exits(0).stdout, format!("{result}\n"));
    let ran = bench.run(&["call", "good", "raw", &arguments]);
    assert_eq!(
        ran.exits(0).stdout,
        "{\n  \"big\": 12345678901234567890123,\n  \"inf\": 1e400,\n  \"e\": \"\\u00e9\"\n}\n"
    );
    bench.write(
        "result.json",
        r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"text","text":"a\n"}]}"#,
    );
    let ran = bench.run(&["call", "good", "raw", &arguments]);
    assert_eq!(ran.exits(0).stdout, "[image image/png, 4 bytes of base64]\na\n");
}

#[test]
fn calls_that_fail_say_why() {
    let bench = Bench::new(GOOD);
    let hint = "toolrelay tools good --schema";
    for flag in [None, Some("--json")] {
        let flag: Vec<_> = flag.into_iter().collect();
        let ran = bench.run(&[&["call", "good", "tool_error", "{\"text\":\"broke\"}"], &flag[..]].concat());
        assert!(
            ran.fails(1, "tool `tool_error` of source `good` reports that it failed", hint).stdout.contains("broke")
        );
        let ran = bench.run(&[&["call", "good", "fail", "{\"code\":-5,\"message\":\"no\\nway\"}"], &flag[..]].concat());
        ran.fails(1, "source `good` answered with error -5: no way", hint);
        let want = if flag.is_empty() { "" } else { "{\"error\":{\"code\":-5,\"message\":\"no\\nway\"}}\n" };
        assert_eq!(ran.stdout, want);
    }
    for (arguments, code, error, hint) in [
        (&["call", "good", "ecko"][..], 1, "source `good` has no tool `ecko`", "did you mean `echo`?"),
        (&["call", "good", "qqq"], 1, "source `good` has no tool `qqq`", "see `toolrelay tools good`"),
        (&["call", "goood", "echo"], 1, "there is no source `goood`", "did you mean `good`?"),
        (&["call", "off", "echo"], 1, "source `off` is disabled", "enabled = true"),
        (&["call", "good", "delete_note"], 1, "is withheld: denied by", "sources.toml"),
        (&["call", "good", "die", "{\"code\":4}"], 1, "code 4", ""),
        (&["call", "good", "echo", "{\"a\":"], 2, "the arguments cannot be read: EOF", "JSON object"),
        (&["call", "good", "echo", "[1]"], 2, "they are JSON, but no object", "JSON object"),
    ] {
        assert_eq!(bench.run(arguments).fails(code, error, hint).stdout, "", "{arguments:?}");
    }
    // Scripts get an error of the relay's own where they look for a source's.
    for (arguments, kind, error, hint) in [
        (&["call", "good", "ecko"][..], "unknown_tool", "source `good` has no tool `ecko`", "did you mean `echo`?"),
        (&["call", "goood", "echo"], "unknown_source", "there is no source `goood`", "did you mean `good`?"),
        (&["call", "off", "echo"], "unavailable", "source `off` is disabled", "enabled = true"),
        (&["call", "good", "delete_note"], "withheld", "is withheld: denied by", "sources.toml"),
        (&["call", "good", "die", "{\"code\":4}"], "exited", "code 4", ""),
    ] {
        let told = bench.run(&[arguments, &["--json"]].concat()).fails(1, error, hint).json();
        let part = |name: &str, part: &str| told["error"][name].as_str().unwrap().contains(part);
        assert!(told["error"]["kind"] == kind && part("message", error) && part("hint", hint), "{told}");
    }
    let ran = bench.run_with(&["call", "good", "echo", "-"], "nonsense", &[]);
    ran.fails(2, "the arguments cannot be read", "`-` to read it from stdin");
}

#[test]
fn wrong_usage_is_told_apart() {
    let bench = Bench::new(GOOD);
    for arguments in [
        &[][..],
        &["chekc"],
        &["serve", "--exposure", "lasy"],
        &["check", "--nonsense"],
        &["serve", "--json"],
        &["completions", "bash", "--json"],
        &["call", "good"],
        &["find"],
        &["find", "x", "--limit", "0"],
        &["find", "x", "--detail", "all"],
        &["completions", "nosh"],
        &["sources", "--log", "loud"],
    ] {
        let ran = bench.run(arguments);
        assert!(ran.exits(2).stdout.is_empty() && !ran.stderr.is_empty(), "{arguments:?}");
    }
    bench.run_with(&["serve"], "", &[("TOOLRELAY_EXPOSURE", "everything")]).exits(2);
    // A variable that is set to nothing is not set.
    let nothing = [("TOOLRELAY_EXPOSURE", ""), ("TOOLRELAY_LOG", ""), ("TOOLRELAY_CONFIG", "")];
    bench.run_with(&["serve"], "", &nothing).exits(0);
    for (flag, told) in [("--help", "Usage: toolrelay"), ("--version", "toolrelay ")] {
        bench.run(&[flag]).exits(0).shows(&[told]);
    }
}

#[test]
fn the_exposure_can_be_chosen_at_the_start() {
    let bench = Bench::new(GOOD);
    bench.run(&["tools"]).exits(0);
    let asked = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        "\n"
    );
    for (flag, variable, eager) in [
        (None, None, false),
        (Some("eager"), None, true),
        (None, Some("eager"), true),
        (Some("toolsets"), Some("eager"), false),
    ] {
        let arguments: Vec<_> =
            ["serve"].into_iter().chain(flag.iter().flat_map(|flag| ["--exposure", flag])).collect();
        let variables: Vec<_> = variable.iter().map(|value| ("TOOLRELAY_EXPOSURE", *value)).collect();
        let ran = bench.run_with(&arguments, asked, &variables);
        assert!(ran.code == 0 && ran.stdout.contains("call_tool"), "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.contains("\"good__echo\""), eager, "{flag:?} {variable:?}: {}", ran.stdout);
    }
}

/// A command that is told to end is gone soon, and so is everything it started, even what does not listen.
#[test]
fn a_signal_ends_a_command_and_its_children() {
    let stubborn = GOOD
        .replace("\"--journal\"", "\"--grandchild\", \"--ignore-eof\", \"--pid-file\", \"FOLDER/pids\", \"--journal\"");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let bench = Bench::new(&stubborn);
        let arguments = ["call", "good", "sleep", "{\"ms\":600000}"];
        let child = bench.command(&arguments).spawn().unwrap();
        let is_called = || bench.journal("journal").contains("600000");
        eventually(PATIENCE, is_called, || format!("never called: {}", bench.journal("journal")));
        let began = Instant::now();
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        let ran = bench.ended(child, &arguments);
        assert!(began.elapsed().as_secs() < 4, "{signal:?}: {:?}", began.elapsed());
        assert_eq!((ran.code, ran.stderr.as_str()), (1, "error: interrupted by a signal\n"), "{signal:?}");
        let pids = std::fs::read_to_string(bench.path("pids")).unwrap();
        assert_eq!(pids.lines().count(), 2);
        for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
            let is_gone = || is_gone(pid);
            eventually(PATIENCE, is_gone, || format!("{signal:?} left process {pid}"));
        }
    }
}

/// No such process, or one that only waits to be noted by its parent.
fn is_gone(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_dead = status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    is_dead || rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_err()
}
