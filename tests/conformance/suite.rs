//! The suite's command line: runs it, adds up what it says, and judges the scenarios that it does not score. It knows
//! neither the relay nor the fixture.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const CLI: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
const REQUIREMENTS: &str = "node_modules/@modelcontextprotocol/conformance/requirements";

/// What the names of scenarios about skills begin with: the suite counts them to no revision, and runs them only if it must.
const OF_SKILLS: &str = "sep-2640-";

/// What a run came to.
pub struct Outcome {
    /// The suite's totals, for people.
    pub totals: String,
    /// What failed without being expected to, or did not fail though it was expected to; none if all is well.
    pub faults: Vec<String>,
}

/// Where `make conformance` installs.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    assert!(folder.join(".stamp-npm").exists(), "the conformance suite is not installed: run `make conformance` first");
    folder
}

/// The Node that the suite needs.
pub fn node() -> PathBuf {
    folder().join("node_modules/node/bin/node")
}

/// The results of a run, kept until its next one.
pub fn results(run: &str) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(run);
    if out.exists() {
        std::fs::remove_dir_all(&out).unwrap();
    }
    std::fs::create_dir_all(&out).unwrap();
    out
}

fn suite(arguments: &[&str], expected: &str, out: &Path) -> Command {
    let mut command = Command::new(node());
    command.arg(folder().join(CLI)).args(arguments);
    command.arg("--expected-failures").arg(expectations(expected)).arg("-o").arg(out);
    command.env_remove("TOOLRELAY_CONFIG").env_remove("TOOLRELAY_LOG").env_remove("TOOLRELAY_EXPOSURE");
    command
}

fn expectations(expected: &str) -> PathBuf {
    folder().join("expected").join(expected)
}

/// What it printed, without its colours.
fn said(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// The items of a list in one of the suite's YAML files, which are flat: `key:` at the margin, `- item` below it.
fn items(file: &Path, key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let section = text.lines().skip_while(|line| line.trim_end() != format!("{key}:")).skip(1);
    let section = section.take_while(|line| line.is_empty() || line.starts_with([' ', '-', '#']));
    section.filter_map(|line| line.trim().strip_prefix("- ")).map(|item| item.trim().to_owned()).collect()
}

/// Runs all server scenarios of a revision against `url`.
pub fn server(run: &str, url: &str, revision: &str, expected: &str) -> Outcome {
    let out = results(run);
    let output = suite(&["server", "--url", url, "--requirements", revision], expected, &out).output().unwrap();
    let text = said(&output);
    let counts = summary(&text);
    let required = items(&folder().join(REQUIREMENTS).join(format!("{revision}.yaml")), "server");
    let (scored, unscored): (BTreeMap<_, _>, BTreeMap<_, _>) =
        counts.into_iter().partition(|(scenario, _)| required.contains(scenario));
    let mut faults = Vec::new();
    if scored.len() != required.len() {
        faults.push(format!("{} of {} required scenarios were run", scored.len(), required.len()));
    }
    if !output.status.success() {
        faults.push(format!("the suite: {}\n{}", verdict(&text), failures(&out, "")));
    }
    faults.extend(unscored_faults(&unscored, &scored, &items(&expectations(expected), "server"), &out));
    let totals = format!("required {}; not scored {}", added(&scored), added(&unscored));
    Outcome { totals, faults }
}

/// Runs one client scenario with `command`.
pub fn client(
    run: &str,
    command: &str,
    relay: Option<&str>,
    scenario: &str,
    revision: &str,
    expected: &str,
) -> Outcome {
    let out = results(run);
    let arguments = ["client", "--command", command, "--scenario", scenario, "--spec-version", revision];
    let mut suite = suite(&arguments, expected, &out);
    let extends = scenario.starts_with(OF_SKILLS);
    if extends {
        suite.arg("--force");
    }
    suite.env_remove("CONFORMANCE_RELAY").envs(relay.map(|relay| ("CONFORMANCE_RELAY", relay)));
    let output = suite.env("CONFORMANCE_LOG", out.join("relay.log")).output().unwrap();
    let text = said(&output);
    let passed = text.lines().find_map(|line| line.strip_prefix("Passed: "));
    let mut faults = Vec::new();
    if !output.status.success() || passed.is_none() {
        faults.push(format!("the suite: {}\n{}", verdict(&text), failures(&out, "")));
    }
    let listed = items(&expectations(expected), "client").iter().any(|item| item.split(':').next() == Some(scenario));
    // What a client never asked for is skipped.
    if extends {
        faults.extend(skipped(&out));
    }
    for word in ["CLIENT TIMED OUT", "CLIENT EXITED WITH ERROR"] {
        if text.contains(word) && !listed {
            faults.push(format!("the suite: {word}\n{text}"));
        }
    }
    Outcome { totals: passed.unwrap_or("nothing").to_owned(), faults }
}

/// Runs one scenario of an extension against `url`: those are in no revision's requirements, and run only by name. A check
/// that was skipped counts as a failure, as what is not declared is skipped.
pub fn extension(run: &str, url: &str, scenario: &str, revision: &str) -> Outcome {
    let out = results(run);
    let arguments = ["server", "--url", url, "--scenario", scenario, "--spec-version", revision, "--force"];
    let output = suite(&arguments, "none.yml", &out).output().unwrap();
    let text = said(&output);
    let passed = text.lines().find_map(|line| line.strip_prefix("Passed: "));
    let mut faults = Vec::new();
    if !output.status.success() || passed.is_none() {
        faults.push(format!("the suite: {}\n{}", verdict(&text), failures(&out, "")));
    }
    faults.extend(skipped(&out));
    Outcome { totals: passed.unwrap_or("nothing").to_owned(), faults }
}

/// The checks that were skipped.
fn skipped(out: &Path) -> Vec<String> {
    let skipped = |(name, check): (String, Value)| {
        (check["status"] == "SKIPPED").then(|| format!("{name} {} skipped: {}", check["id"], check["errorMessage"]))
    };
    checks(out).into_iter().filter_map(skipped).collect()
}

/// All checks of a run, each with the folder of its scenario, from the files that the suite leaves behind.
fn checks(out: &Path) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut folders: Vec<_> = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(checks) = std::fs::read(folder.join("checks.json")) else { continue };
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        all.extend(checks.into_iter().map(|check| (name.clone(), check)));
    }
    all
}

/// Checks passed and failed by scenario, from the lines `✓ name: 2 passed, 0 failed`.
fn summary(text: &str) -> BTreeMap<String, (u32, u32)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("✓ ").or_else(|| line.strip_prefix("✗ ")));
    let counts = lines.filter_map(|line| {
        let (name, counts) = line.split_once(": ")?;
        let (passed, failed) = counts.strip_suffix(" failed")?.split_once(" passed, ")?;
        Some((name.to_owned(), (passed.parse().ok()?, failed.parse().ok()?)))
    });
    counts.collect()
}

fn added(counts: &BTreeMap<String, (u32, u32)>) -> String {
    let clean = counts.values().filter(|(_, failed)| *failed == 0).count();
    let (passed, failed) = counts.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    format!("{clean}/{} scenarios, {passed}/{} checks", counts.len(), passed + failed)
}

/// The suite compares only what it scores with the file of expected failures; the rest is compared here, whole scenarios.
fn unscored_faults(
    unscored: &BTreeMap<String, (u32, u32)>,
    scored: &BTreeMap<String, (u32, u32)>,
    expected: &[String],
    out: &Path,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (scenario, (_, failed)) in unscored {
        match (*failed > 0, expected.contains(scenario)) {
            (true, false) => faults
                .push(format!("not scored, but fails: {scenario}\n{}", failures(out, &format!("server-{scenario}-2")))),
            (false, true) => faults.push(format!("not scored, and fails no more: {scenario}")),
            _ => {}
        }
    }
    let run = |item: &&String| {
        let name = item.split(':').next().unwrap_or_default();
        !scored.contains_key(name) && !unscored.contains_key(name)
    };
    faults.extend(
        expected.iter().filter(run).map(|item| format!("expected to fail, but there is no such scenario: {item}")),
    );
    faults
}

/// What the suite says of expected failures, at the end.
fn verdict(text: &str) -> &str {
    let starts =
        ["Expected failures (in baseline):", "Stale baseline entries", "Unexpected failures (not in baseline):"];
    starts.iter().filter_map(|start| text.find(start)).min().map_or(text, |start| &text[start..])
}

/// What failed or was warned of in the scenarios whose folders begin so.
fn failures(out: &Path, start: &str) -> String {
    let mut text = String::new();
    for (name, check) in checks(out).iter().filter(|(name, _)| name.starts_with(start)) {
        let (id, status) = (&check["id"], &check["status"]);
        if status == "FAILURE" || status == "WARNING" {
            writeln!(text, "  {name} {id} {status}: {}", check["errorMessage"]).unwrap();
        }
    }
    text
}
