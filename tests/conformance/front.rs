//! What the suite is pointed at: the fixture itself over HTTP, or the relay over HTTP with the fixture behind it and a second
//! source that has nothing to do with it. It judges nothing.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use crate::support::{PATIENCE, Place, Relay, command, eventually, example};

/// What answers the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    Fixture,
    /// The relay, with the fixture as a source of this kind.
    Relay(Reach),
}

/// How the relay reaches the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Stdio,
    Http,
}

/// Which revisions the fixture serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
    Dual,
}

impl Era {
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Dual => "dual",
        }
    }
}

/// The address in a line `listening on URL`.
fn bound(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("listening on ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The fixture over HTTP, until it is dropped.
struct Fixture {
    child: Child,
    url: String,
}

impl Fixture {
    fn start(era: Era) -> Self {
        let mut fixture = Command::new(example("conformance_server"));
        fixture.args(["--http", "127.0.0.1:0"]).env("ERA", era.name());
        let mut child = fixture.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, address) = channel();
        // Reads on to the end, so that the fixture never waits for a reader.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(url) = bound(&line) {
                    let _ = sender.send(url);
                }
            }
        });
        match address.recv_timeout(PATIENCE) {
            Ok(url) => Self { child, url },
            Err(error) => {
                let _ = child.kill();
                panic!("the fixture does not listen: {error}");
            }
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Something to point the suite at.
pub struct UnderTest {
    pub url: String,
    relay: Option<Relay>,
    _fixture: Option<Fixture>,
}

impl UnderTest {
    pub fn start(front: Front, era: Era) -> Self {
        match front {
            Front::Fixture => {
                let fixture = Fixture::start(era);
                Self { url: fixture.url.clone(), relay: None, _fixture: Some(fixture) }
            }
            Front::Relay(Reach::Stdio) => {
                let path = example("conformance_server");
                let settings = format!("prefix = \"\"\nenv = {{ ERA = {:?} }}", era.name());
                Self::behind_relay(command("fixture", path.to_str().unwrap(), &[], &settings), None)
            }
            Front::Relay(Reach::Http) => {
                let fixture = Fixture::start(era);
                let source = format!("[source.fixture]\nurl = {:?}\nprefix = \"\"\n", fixture.url);
                Self::behind_relay(source, Some(fixture))
            }
        }
    }

    fn behind_relay(source: String, fixture: Option<Fixture>) -> Self {
        let place = Place::new();
        let inert = command("notes", example("notes").to_str().unwrap(), &[], "");
        let mut serve = place.command("exposure = \"eager\"", &[source, inert]);
        serve.args(["--http", "127.0.0.1:0"]);
        // The suite lists right away, and does not wait for sources that were never listed.
        let learn = ["tools", "--json", "--config", &place.path("sources.toml")];
        let learned = Command::new(env!("CARGO_BIN_EXE_toolrelay")).args(learn).output().unwrap();
        assert!(learned.status.success(), "{}", String::from_utf8_lossy(&learned.stderr));
        let relay = Relay::spawn(&place, serve);
        eventually("the relay listens", || bound(&relay.stderr()).is_some());
        let url = bound(&relay.stderr()).unwrap();
        Self { url, relay: Some(relay), _fixture: fixture }
    }

    /// Ends the relay as a service manager would, and sees to it that nothing is left.
    pub fn stop(mut self) {
        if let Some(relay) = &mut self.relay {
            relay.signal(rustix::process::Signal::TERM);
            relay.ended();
        }
    }

    /// What the relay said, for when something failed.
    pub fn log(&self) -> String {
        self.relay.as_ref().map(Relay::stderr).unwrap_or_default()
    }
}
