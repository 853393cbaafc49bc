//! What surrounds the relay and goes its own ways: the streams of its client, the file of its configuration and the folders
//! around that, the limits and the processes of the system.

#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/relay.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use edits::{KEPT, RELOADED, ids, serve, told};
use rustix::process::Signal;

use serde_json::json;
use support::{END, PATIENCE, Place, Relay, command, eventually, fixture, source};

const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Waits for the end of a relay that a test started by itself, and expects code 0.
#[track_caller]
fn ends_within(child: &mut Child, limit: Duration) {
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > limit => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("still running after {limit:?}");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert_eq!(status.code(), Some(0));
}

/// The end of the input stood behind what was not read any more, and was never found.
#[test]
fn a_client_that_reads_no_more_and_closes_its_input_is_gone() {
    let place = Place::new();
    let mut child = place.command("", &[source("fix", &[], "")]).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..30 {
        let call = r#"{"name":"fix__big","arguments":{"bytes":1000000}}"#;
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#).unwrap();
    }
    let stdout = child.stdout.take().unwrap();
    eventually("answers wait to be read", || rustix::io::ioctl_fionread(&stdout).unwrap() >= 1_000_000);
    let mut unread = (0, Instant::now());
    eventually("the client is not read any more", || {
        stdin.write_all(PING).unwrap();
        let now = rustix::io::ioctl_fionread(&stdin).unwrap();
        if now <= unread.0 {
            unread = (0, Instant::now());
        }
        unread.0 = now;
        unread.1.elapsed() > Duration::from_secs(1)
    });
    drop(stdin);
    // What it sent may still be answered for ten seconds, and the last answers may take two to be written.
    ends_within(&mut child, Duration::from_secs(12) + END);
    eventually("nothing is left", || place.processes(child.id()).is_empty());
}

/// Node gives its children sockets instead of pipes.
#[test]
fn a_reader_at_the_other_end_of_a_socket_that_goes_is_noticed() {
    let place = Place::new();
    let [(input, own_input), (output, own_output)] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
    let mut command = place.command("", &[]);
    command.stdin(OwnedFd::from(own_input)).stdout(OwnedFd::from(own_output)).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // It holds the relay's ends as well.
    drop(command);
    output.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(output.try_clone().unwrap()).lines();
    // Who will write nothing may still read.
    output.shutdown(Shutdown::Write).unwrap();
    for _ in 0..2 {
        (&input).write_all(PING).unwrap();
        assert!(lines.next().unwrap().unwrap().contains("\"result\""));
    }
    drop((lines, output));
    ends_within(&mut child, END);
    drop(input);
}

fn pipe_at(file: &str) {
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
}

/// Tools that keep secrets show them in pipes. Reading one again waited for a writer, and nothing was read after that.
#[test]
fn a_pipe_in_the_place_of_the_configuration_is_read_at_the_start_only() {
    let place = Place::new();
    let file = place.config("", &[source("a", &[], "")]);
    let (one, two) = (std::fs::read(&file).unwrap(), [source("a", &[], ""), source("b", &[], "")]);
    std::fs::remove_file(&file).unwrap();
    pipe_at(&file);
    let mut relay = Relay::spawn(&place, serve(&place, &["--config", &file]));
    std::fs::write(&file, one).unwrap();
    relay.greet();
    assert_eq!(ids(&mut relay), ["a"]);
    relay.signal(Signal::HUP);
    eventually("it is told", || told(&relay, "is not a regular file") > 0 && told(&relay, KEPT) == 1);
    let put = |relay: &mut Relay, sources: &[String]| {
        let reloads = told(relay, RELOADED);
        std::fs::remove_file(&file).unwrap();
        place.config("", sources);
        eventually("it is reloaded", || told(relay, RELOADED) > reloads);
    };
    put(&mut relay, &two);
    assert_eq!(ids(&mut relay), ["a", "b"]);
    std::fs::remove_file(&file).unwrap();
    pipe_at(&file);
    eventually("it is told", || told(&relay, KEPT) == 2);
    assert_eq!(ids(&mut relay), ["a", "b"]);
    put(&mut relay, &two[..1]);
    assert_eq!(ids(&mut relay), ["a"]);
    relay.finish();
}

/// `sed -i` and `cp -p` may leave all as it was but the bytes.
#[test]
fn an_edit_of_the_same_length_and_time_is_noticed() {
    let place = Place::new();
    let file = place.config("", &[source("a", &[], "")]);
    let mut relay = Relay::spawn(&place, serve(&place, &["--config", &file]));
    relay.greet();
    assert_eq!(ids(&mut relay), ["a"]);
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    let mut open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap().replace("[source.a]", "[source.b]");
    open.write_all(text.as_bytes()).unwrap();
    open.set_modified(modified).unwrap();
    drop(open);
    eventually("it is reloaded", || told(&relay, RELOADED) == 1);
    assert_eq!(ids(&mut relay), ["b"]);
    relay.finish();
}

/// A checkout or a worktree that is made anew: the current directory is then one that is in no tree any more.
#[test]
fn a_folder_that_is_replaced_is_looked_into_by_its_path() {
    let place = Place::new();
    let (a, b) = (source("a", &[], ""), source("b", &[], ""));
    let make = |text: &str| {
        std::fs::create_dir(place.path("project")).unwrap();
        place.write("project/sources.toml", text);
    };
    let state = format!("[relay]\nstate_dir = {:?}\n", place.path("state"));
    for args in [&[][..], &["--config", "sources.toml"]] {
        make(&format!("{state}{a}"));
        let mut command = serve(&place, args);
        command.current_dir(place.path("project"));
        let mut relay = Relay::spawn(&place, command);
        relay.greet();
        assert_eq!(ids(&mut relay), ["a"]);
        std::fs::rename(place.path("project"), place.path("old")).unwrap();
        make(&format!("{state}{a}{b}"));
        std::fs::remove_dir_all(place.path("old")).unwrap();
        relay.signal(Signal::HUP);
        eventually("it is reloaded", || told(&relay, RELOADED) == 1);
        assert_eq!(ids(&mut relay), ["a", "b"], "{args:?}");
        relay.finish();
        std::fs::remove_dir_all(place.path("project")).unwrap();
    }
}

/// A virtual environment that was moved: the script is there, and "was not found" sent people after the script.
#[test]
fn a_script_whose_interpreter_is_gone_is_told_so() {
    let place = Place::new();
    let script = place.write("server", "#!/gone/venv/bin/python3\n");
    assert!(Command::new("chmod").args(["+x", &script]).status().unwrap().success());
    let mut relay = Relay::greeted_in(&place, "", &[command("a", &script, &[], "")]);
    let told = relay.call("a", "echo", json!({})).failure().1;
    assert!(told.contains("`/gone/venv/bin/python3`, which its first line names, does not exist"), "{told}");
    relay.finish();
}

/// What a shell says of the limit of open files, of the relay and of what it starts.
#[test]
fn the_relay_may_open_more_files_than_its_sources() {
    let place = Place::new();
    let script = format!("ulimit -Sn > {}; exec {}", place.path("limit"), fixture().display());
    let usual = place.command("", &[command("a", "sh", &["-c", &script], "")]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 100; exec \"$@\"", "sh"]).arg(usual.get_program()).args(usual.get_args());
    limited.env("TMPDIR", place.path("").trim_end_matches('/'));
    limited.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut relay = Relay::spawn(&place, limited);
    relay.greet();
    relay.call("a", "echo", json!({})).result();
    assert_eq!(place.lines("limit"), ["100"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", relay.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|place| files.split_whitespace().nth(place).unwrap().parse::<u64>().unwrap());
    assert_eq!(soft, hard.min(65_536), "{files}");
    relay.finish();
}

/// The relay as the first process of a container.
fn contained(place: &Place, relay: &Command) -> Command {
    let mut command = Command::new("unshare");
    // Root may do this by itself, unless it is one of a container; others may in a namespace of their own.
    let by_itself = Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !by_itself.is_ok_and(|ran| ran.status.success()) {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child"]);
    command.arg(relay.get_program()).args(relay.get_args()).env("TMPDIR", place.path("").trim_end_matches('/'));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn children(pid: u32) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    all.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// It is given every process that has lost its parent, and left them as zombies.
#[test]
fn the_first_process_of_a_container_sees_the_ends_of_orphans() {
    let place = Place::new();
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", place.path("over"));
    let script = format!("(({wait}) & ({wait}) & ({wait}) &); exec {}", fixture().display());
    let entry = command("a", "sh", &["-c", &script], "");
    let mut relay = Relay::spawn(&place, contained(&place, &place.command("", &[entry])));
    relay.greet();
    relay.call("a", "echo", json!({})).result();
    let [first] = children(relay.pid())[..] else { panic!("{:?}", children(relay.pid())) };
    eventually("the orphans are its own", || children(first).len() == 4);
    place.write("over", "");
    eventually("only the relay is left", || children(first).len() == 1);
    // What is said to the first process is for the relay.
    let pid = |pid: u32| rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid(first), Signal::HUP).unwrap();
    eventually("it is told", || told(&relay, "configuration is unchanged") == 1);
    rustix::process::kill_process(pid(first), Signal::TERM).unwrap();
    relay.see_out();
}

#[test]
fn the_first_process_of_a_container_ends_as_the_relay_does() {
    let place = Place::new();
    let mut usual = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    usual.args(["serve", "--config", &place.path("none.toml")]);
    let output = contained(&place, &usual).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Opens a terminal for a relay and writes a message to it, closes it once the relay has said a certain word, and tells how
/// it ended.
const TERMINAL: &str = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(fd, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
seen = b""
while sys.argv[1].encode() not in seen:
    seen += os.read(fd, 4096)
os.close(fd)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
"#;

#[test]
fn a_terminal_that_closes_ends_the_relay() {
    let place = Place::new();
    let config = place.config("", &[]);
    for (word, how) in [("\"result\"", &["--log", "off"]), ("listening", &["--http", "127.0.0.1:0"])] {
        let mut python = Command::new("python3");
        python.args(["-c", TERMINAL, word, env!("CARGO_BIN_EXE_toolrelay"), "serve", "--config", &config]).args(how);
        let mut child = python.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        ends_within(&mut child, PATIENCE);
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "0\n", "{how:?}");
    }
}

/// Runs a command on a terminal that does not know how wide it is, and prints what it said.
const WIDTHLESS: &str = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
try:
    while more := os.read(fd, 4096):
        seen += more
except OSError:
    pass
os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
"#;

/// Its tables were one character wide.
#[test]
fn a_terminal_without_a_width_has_the_usual_one() {
    let place = Place::new();
    let config = place.config("", &[source("a", &[], "")]);
    for (columns, whole) in [("", "PROVIDER"), ("200", "dormant")] {
        let mut python = Command::new("python3");
        python.args(["-c", WIDTHLESS, env!("CARGO_BIN_EXE_toolrelay"), "sources", "--config", &config]);
        let output = python.env("COLUMNS", columns).env("NO_COLOR", "1").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.lines().count() < 12 && said.contains(whole), "{said}");
    }
}
