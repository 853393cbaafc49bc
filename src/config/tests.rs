//! What a whole file comes to.

use std::path::Path;
use std::time::Duration;

use super::fake::FakeLookup;
use super::*;

fn lookup() -> FakeLookup {
    FakeLookup::new(&[
        ("T", "secret-token"),
        ("LABEL", "${T}"),
        ("EMPTY", ""),
        ("GLOB", "x_*"),
        ("BAD", "not a prefix"),
        ("PATH", "/bin"),
        ("STATE", "/state"),
        ("SPACED", "npx -y foo"),
        ("LINES", "a\nb"),
    ])
    .file("/bin/my srv", "")
    .file("/bin/node", "")
    .file("/conf/my srv", "")
    .file("/conf/srv", "")
    .file("/home/u/srv", "")
    .file("/conf/key", "secret-in-a-file")
    .file("/conf/empty", "")
}

pub(super) fn read(text: &str) -> Config {
    check(text, Path::new("/conf/sources.toml"), &lookup()).unwrap()
}

/// The faults of `text`, without the file's path.
pub(super) fn faults(text: &str) -> Vec<String> {
    let told = |fault: &Fault| fault.to_string().replace("/conf/sources.toml:", "");
    read(text).faults.iter().map(told).collect()
}

/// The same of its warnings.
pub(super) fn warnings(text: &str) -> Vec<String> {
    let told = |fault: &Fault| fault.to_string().replace("/conf/sources.toml:", "");
    read(text).warnings.iter().map(told).collect()
}

fn source(config: &Config, id: &str) -> SourceConfig {
    match config.sources.iter().find(|entry| entry.id().as_str() == id) {
        Some(SourceEntry::Usable(source)) => (**source).clone(),
        other => panic!("{other:?}"),
    }
}

fn template(raw: &str) -> Template {
    Template::parse(raw, Path::new("/conf")).unwrap()
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = read("[source.a]\ncommand = 'x'\n");
    assert_eq!(config.faults, []);
    assert_eq!(
        config.relay,
        RelayConfig {
            exposure: Exposure::Toolsets,
            always_visible: vec![],
            menu: vec![],
            state_dir: None,
            remember: false,
            max_message_bytes: 256 * 1024 * 1024,
            max_starting: 8,
            warn_tools: 128,
            ask_timeout: Duration::from_secs(300),
            pin: Pin::Warn,
            lock: "/conf/sources.lock".into(),
        }
    );
    let launch = Launch {
        command: template("x"),
        args: vec![],
        env: BTreeMap::new(),
        inherit_env: InheritEnv::Named(vec![]),
        cwd: None,
        base: "/conf".into(),
    };
    assert_eq!(
        source(&config, "a"),
        SourceConfig {
            id: SourceId::new("a").unwrap(),
            name: "a".to_owned(),
            provider: "a".to_owned(),
            summary: None,
            enabled: true,
            files: String::new(),
            fingerprint: launch.fingerprint(&lookup()),
            reach: Reach::Program(launch),
            start: Start::OnDemand,
            idle_stop: Some(Duration::from_secs(300)),
            start_timeout: Duration::from_secs(180),
            max_start: Duration::from_secs(1800),
            limits: CallLimits { idle: Duration::from_secs(300), total: Duration::from_secs(3600) },
            max_in_flight: 64,
            isolation: Isolation::Shared,
            prefix: "a".to_owned(),
            unlisted: Unlisted::Refuse,
            rules: ToolRules::default(),
            era: EraChoice::Auto,
        }
    );
    assert_eq!(
        read(""),
        Config {
            relay: config.relay,
            http: config.http,
            sources: vec![],
            toolsets: vec![],
            faults: vec![],
            warnings: vec![]
        }
    );
}

#[test]
fn what_is_written_arrives() {
    let config = read(
        r#"
[relay]
exposure = "eager"
always_visible = ["a/*", "a/c/d"]
menu = ["call_tool", "find_tools"]
state_dir = "${STATE}/x"
remember = true
max_message_mib = 0x10
max_starting = 1
warn_tools = 0
ask_timeout_secs = 7
pin = "off"

[source.a]
name = "A $${LABEL}"
provider = "${LABEL}"
summary = "${NONE:-none} of $5"
enabled = false
command = "./x-${T}"
args = ["${T}", "~/d"]
env = { TOKEN = "${T}", "odd name" = "${file:key}" }
cwd = "~/w"
inherit_env = ["SSH_AUTH_SOCK"]
read_only = true
allow = ["*"]
deny = ["${GLOB}"]
start = "at-start"
idle_stop_secs = 0
start_timeout_secs = 1
max_start_secs = 6
call_timeout_secs = 2
max_call_secs = 3_0
max_in_flight = 5
isolation = "session"
max_instances = 3
prefix = ""
unlisted = "forward"
era = "modern"
tool.one = { read_only = false, description = "d", hidden = true, call_timeout_secs = 30 }
tool."two.three" = {}
"#,
    );
    assert_eq!(config.faults, []);
    assert_eq!(
        config.relay,
        RelayConfig {
            exposure: Exposure::Eager,
            always_visible: vec!["a/*".to_owned(), "a/c/d".to_owned()],
            menu: vec!["call_tool".to_owned(), "find_tools".to_owned()],
            state_dir: Some("/state/x".into()),
            remember: true,
            max_message_bytes: 16 * 1024 * 1024,
            max_starting: 1,
            warn_tools: 0,
            ask_timeout: Duration::from_secs(7),
            pin: Pin::Off,
            lock: "/conf/sources.lock".into(),
        }
    );
    let launch = Launch {
        command: template("./x-${T}"),
        args: vec![template("${T}"), template("~/d")],
        env: BTreeMap::from([("TOKEN".to_owned(), template("${T}")), ("odd name".to_owned(), template("${file:key}"))]),
        inherit_env: InheritEnv::Named(vec!["SSH_AUTH_SOCK".to_owned()]),
        cwd: Some(template("~/w")),
        base: "/conf".into(),
    };
    let one = ToolOverride {
        read_only: Some(false),
        description: Some("d".to_owned()),
        hidden: true,
        call_timeout: Some(Duration::from_secs(30)),
    };
    assert_eq!(
        source(&config, "a"),
        SourceConfig {
            id: SourceId::new("a").unwrap(),
            name: "A ${LABEL}".to_owned(),
            provider: "${T}".to_owned(),
            summary: Some("none of $5".to_owned()),
            enabled: false,
            files: String::new(),
            fingerprint: launch.fingerprint(&lookup()),
            reach: Reach::Program(launch),
            start: Start::AtStart,
            idle_stop: None,
            start_timeout: Duration::from_secs(1),
            max_start: Duration::from_secs(6),
            limits: CallLimits { idle: Duration::from_secs(2), total: Duration::from_secs(30) },
            max_in_flight: 5,
            isolation: Isolation::Session { max: 3 },
            prefix: String::new(),
            unlisted: Unlisted::Forward,
            rules: ToolRules {
                read_only: true,
                allow: vec!["*".to_owned()],
                deny: vec!["x_*".to_owned()],
                tools: BTreeMap::from([("one".to_owned(), one), ("two.three".to_owned(), ToolOverride::default())]),
                categories: BTreeMap::new(),
            },
            era: EraChoice::Modern,
        }
    );
}

#[test]
fn all_faults_are_told_in_one_run() {
    let text = r#"[relay]
exposure = "lasy"
max_starting = "8"

[source.github]
command = "npx"
argz = ["-y"]
args = "-y server"
idle_stop_secs = -1
env = { X = "${NOT_SET}", API_KEY = "${EMPTY}" }

[source.Linear]
url = "mcp.linear.app/mcp"

[sourse.notes]
command = "notes"

[source.fine]
command = "x"
"#;
    let fault = |line, column, key: &str, cause: &str, hint: &str| Fault {
        file: "/conf/sources.toml".into(),
        line,
        column,
        key: key.to_owned(),
        cause: cause.to_owned(),
        hint: hint.to_owned(),
    };
    let config = read(text);
    assert_eq!(
        config.faults,
        [
            fault(2, 12, "relay.exposure", "`lasy` is none of its words", "did you mean `lazy`?"),
            fault(3, 16, "relay.max_starting", "expected a whole number, found a string", "write `max_starting = 8`"),
            fault(7, 1, "source.github.argz", "unknown key", "did you mean `args`?"),
            fault(8, 8, "source.github.args", "expected a list of strings, found a string", "write `args = [\"...\"]`"),
            fault(
                9,
                18,
                "source.github.idle_stop_secs",
                "the number is too small",
                "write a number from 0 to 31536000; the default is 300"
            ),
            fault(
                10,
                13,
                "source.github.env.X",
                "variable `NOT_SET` is not set",
                "set `NOT_SET` in the environment that starts the relay, or write `${NOT_SET:-...}` with a default"
            ),
            fault(
                10,
                37,
                "source.github.env.API_KEY",
                "the credential is empty: `${EMPTY}` gives no text",
                "give `${EMPTY}` a value, or remove this key"
            ),
            fault(
                12,
                9,
                "source.Linear",
                "`Linear` is not a source id: use 1 to 32 characters of a-z, 0-9, `_` and `-`, the first a letter or a digit",
                "rename the table, for example to `[source.linear]`"
            ),
            fault(13, 7, "source.Linear.url", "it is no address", "write it in full, as in `https://example.org/mcp`"),
            fault(15, 2, "sourse", "unknown table", "did you mean `source`?"),
        ]
    );
    assert_eq!(
        config.faults[2].to_string(),
        "/conf/sources.toml:7: source.github.argz: unknown key; hint: did you mean `args`?"
    );
    assert_eq!((config.relay.exposure, config.relay.max_starting), (Exposure::Toolsets, 8));
    let ids: Vec<_> = config.sources.iter().map(|entry| entry.id().as_str()).collect();
    assert_eq!(ids, ["fine", "github", "linear"]);
    source(&config, "fine");
    let SourceEntry::Misconfigured(linear) = &config.sources[2] else { panic!("{:?}", config.sources[2]) };
    assert_eq!(
        linear.reason,
        "line 12: source.Linear: `Linear` is not a source id: use 1 to 32 characters of a-z, 0-9, `_` and `-`, the first \
         a letter or a digit (hint: rename the table, for example to `[source.linear]`); and line 13: url: it is no \
         address (hint: write it in full, as in `https://example.org/mcp`)"
    );
}

#[test]
fn values_are_expanded_in_every_string_and_never_in_faults() {
    let text = "[source.a]\ncommand = '${T}'\nargs = ['${T}', '${file:key}', '${file:gone}', '${NONE}${T}']\n\
                env = { A = '${T}${NONE}', B_TOKEN = '${file:empty}', C = '${cmd:not run}' }\ncwd = '${T}/${NONE}'\n\
                name = '${T}${NONE}'\nprefix = '${BAD}'\nsummary = '${file:key}'\ndeny = ['${EMPTY}']\n\
                inherit_env = ['${T}=${T}']\ntool.x.description = '${NONE}'\n[relay]\nstate_dir = '${T}${NONE}'\n\
                always_visible = ['${T}']\n";
    let config = read(text);
    let keys: Vec<_> = config.faults.iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "source.a.args[2]",
            "source.a.args[3]",
            "source.a.env.A",
            "source.a.env.B_TOKEN",
            "source.a.cwd",
            "source.a.name",
            "source.a.prefix",
            "source.a.summary",
            "source.a.deny[0]",
            "source.a.inherit_env[0]",
            "source.a.tool.x.description",
            "relay.state_dir",
            "relay.always_visible[0]",
        ]
    );
    let told = format!("{config:?}");
    for secret in ["secret-token", "secret-in-a-file", "not a prefix"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn order_line_ends_and_marks_do_not_matter() {
    let parts = [
        "[relay]\nmax_starting = 3\n",
        "[source.b]\ncommand = 'b'\nprefix = 'p'\n",
        "[source.a]\ncommand = 'a'\nprefix = 'p'\n",
        "[source.c]\ncommand = 'c'\n",
    ];
    let usual = read(&parts.concat());
    let entry = |config: &Config| {
        let blind = |entry: &SourceEntry| format!("{entry:?}").split("line ").next().map(str::to_owned);
        config.sources.iter().map(blind).collect::<Vec<_>>()
    };
    assert_eq!(usual.faults.len(), 1);
    assert_eq!(usual.faults[0].key, "source.b.prefix");
    let turned: String = parts.iter().rev().copied().collect();
    assert_eq!((&read(&turned).relay, entry(&read(&turned))), (&usual.relay, entry(&usual)));
    assert_eq!(read(&parts.concat().replace('\n', "\r\n")), usual);
    assert_eq!(read(&format!("\u{feff}{}", parts.concat())), usual);
}

#[test]
fn a_source_written_twice_costs_no_other() {
    let fine = "[source.fine]\ncommand = 'x'\n";
    for (text, told) in [
        (
            "[source.a]\ncommand = 'a'\n[source.a]\ncommand = 'b'\n",
            "5: source.a: `a` is written twice; hint: remove one of the two, or merge them",
        ),
        (
            "[source.a]\ncommand = 'a'\ncommand = 'b'\n",
            "5: source.a: `command` is written twice; hint: remove one of the two, or merge them",
        ),
        (
            "[source.a]\ncommand = 'a'\r\n[source.a.env]\nX = ''\n[source.a.env]\n",
            "7: source.a: `env` is written twice; hint: remove one of the two, or merge them",
        ),
    ] {
        for (before, after) in [(fine, ""), ("# one\n# two\n", fine)] {
            let config = read(&format!("{before}{text}{after}"));
            let all: Vec<_> = config.faults.iter().map(|fault| fault.to_string()).collect();
            assert_eq!(all, [format!("/conf/sources.toml:{told}")]);
            source(&config, "fine");
            assert!(matches!(&config.sources[0], SourceEntry::Misconfigured(bad) if bad.id.as_str() == "a"));
        }
    }
}

#[test]
fn what_is_no_toml_is_unreadable() {
    for (text, told, hint) in [
        ("[source.a]\r\ncommand = x\r\n", "2:11: not TOML: this is no value", "in quotes"),
        ("remember = True", "1:12: not TOML: this is no value", "small letters"),
        ("a = 1\n[source.a\ncommand = 'x'\n", "2:10: not TOML: unclosed table, expected `]`", "with `]`"),
        ("a = \"C:\\Users\"", "1:10: not TOML: too few unicode value digits, ", "a backslash twice"),
        ("a = ['b' 'c']", "1:10: not TOML: missing comma between array elements, ", "a comma"),
        ("a = ['b',", "1:10: not TOML: unclosed array, ", "with `]`"),
        ("a = { b = 1", "1:12: not TOML: unclosed inline table, ", "with `}`"),
        ("a = \"b\nc = 1", "1:7: not TOML: invalid basic string, ", "close the quotes"),
        ("a: 1", "1:4: not TOML: key with no value", "write `key = value`"),
        ("{\"mcpServers\": {}}", "1:1: this is JSON, not TOML", "[source.NAME]"),
        ("[relay]\nremember = true\nremember = false\n", "3:1: `remember` is written twice", "remove one"),
        ("[relay]\n[source.a]\n[relay]\n", "3:2: `relay` is written twice", "remove one"),
    ] {
        let error = check(text, Path::new("s.toml"), &lookup()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("s.toml:{told}")), "{error}");
        assert!(error.hint.contains(hint), "{error}: {}", error.hint);
    }
}

proptest::proptest! {
    /// Whatever is repeated or broken, there is an answer, and it is the same for the same text.
    #[test]
    fn any_text_gets_an_answer(lines in proptest::collection::vec(line(), 0..12), end in ".{0,8}") {
        let text = format!("{}\n{end}", lines.join("\n"));
        let check = || check(&text, Path::new("/conf/sources.toml"), &lookup());
        proptest::prop_assert_eq!(check(), check());
    }
}

fn line() -> impl proptest::strategy::Strategy<Value = String> {
    let known = proptest::sample::select(vec![
        "[relay]",
        "[source]",
        "[source.a]",
        "[source.b]",
        "[[source.a]]",
        "[source.a.env]",
        "[source.a.tool.x]",
        "[source.a.tool]",
        "[source.\"é\"]",
        "command = 'x'",
        "env.A = 'é'",
        "env = {}",
        "env = { A = '', A = '' }",
        "tool.x.hidden = true",
        "tool = 1",
        "source.a.command = 'y'",
        "args = ['${T}', '~/${'",
        "]",
        "\'\'\'",
    ]);
    proptest::prop_oneof![9 => proptest::strategy::Strategy::prop_map(known, str::to_owned), 1 => ".{0,12}"]
}
