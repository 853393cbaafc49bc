//! The real clients that `make peers` installs: one of the scripts, driving a server and telling what it saw.

#![allow(dead_code, unused_imports)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The real clients: script, `MODE`, and the revision they come to with the relay.
pub const CLIENTS: &[(&str, &str, &str)] = &[
    ("client_v1.mjs", "", "2025-11-25"),
    ("client_v2.mjs", "auto", "2026-07-28"),
    ("client_v2.mjs", "legacy", "2025-11-25"),
    ("client_py.py", "auto", "2026-07-28"),
    ("client_py.py", "legacy", "2025-11-25"),
];

/// Where `make peers` installs.
pub fn peers() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    for stamp in [".stamp-npm", ".stamp-py"] {
        assert!(folder.join(stamp).exists(), "the real servers and clients are not installed: run `make peers` first");
    }
    folder
}

/// One of the client scripts, driving `server`; gives what it prints.
pub fn client(script: &str, mode: &str, server: &[String], environment: &[(&str, String)], calls: &Value) -> Value {
    let peers = peers();
    let (runner, script) = match script.strip_suffix(".py") {
        Some(_) => (peers.join(".venv/bin/python"), peers.join(script)),
        None => (PathBuf::from("node"), peers.join(script)),
    };
    let mut command = Command::new(runner);
    command.arg(script).args(server).env("MODE", mode).env("CALLS", calls.to_string());
    command.env_remove("TOOLRELAY_CONFIG").env_remove("TOOLRELAY_LOG").env_remove("TOOLRELAY_EXPOSURE");
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{}", said(&output)))
}

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The command that serves a configuration.
pub fn relay(config: &str) -> Vec<String> {
    [env!("CARGO_BIN_EXE_toolrelay"), "serve", "--config", config].map(str::to_owned).to_vec()
}

pub fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}
