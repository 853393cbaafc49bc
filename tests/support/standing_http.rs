//! The six standing assertions of `standing.rs` for a relay that serves over HTTP: a client of its own looks on while others
//! of the test go about the fault.

#![allow(dead_code, clippy::unwrap_used)]

use std::ops::Deref;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::standing::{Asks, COMPLAINT, SECRET, Standing, Trial, possessions_of};
use crate::support::{Client, Connection, Front, Place, Reply, eventually};

/// The credential of the client that looks on, where the test's own have some.
const WITNESS: &str = "witness-0123456789abcdef";

impl Asks for Client {
    #[track_caller]
    fn asks(&mut self, method: &str, params: Value) -> Reply {
        self.request(method, params)
    }
}

/// A relay over HTTP with the healthy source beside the test's own. One that is not seen out fails its test.
pub struct HttpTrial {
    /// None when it is over.
    front: Option<Front>,
    witness: Client,
    /// Keeps the session of the witness from being idle.
    _listens: Connection,
    standing: Standing,
}

impl HttpTrial {
    pub fn start(tables: &[String]) -> Self {
        Self::start_in(&Place::new(), "", tables)
    }

    /// In this folder; `settings` are further lines of `[relay]`, `tables` those of the test's sources, and any others.
    pub fn start_in(place: &Arc<Place>, settings: &str, tables: &[String]) -> Self {
        Self::spawn(place, Self::command_logged(place, settings, tables, "debug"), tables)
    }

    pub fn command_logged(place: &Place, settings: &str, tables: &[String], level: &str) -> Command {
        Trial::command_logged(place, settings, &Self::with_witness(tables), level)
    }

    pub fn spawn(place: &Arc<Place>, command: Command, tables: &[String]) -> Self {
        let mut front = Front::spawn(place, command);
        front.relay.forbidden = [SECRET, COMPLAINT, WITNESS].map(str::to_owned).to_vec();
        let mut witness = front.greeted(has_credentials(tables).then_some(WITNESS));
        eventually("the healthy source is ready", || {
            let listed = witness.call_direct("list_sources", serde_json::json!({})).structured();
            let mut lines = listed["sources"].as_array().unwrap().iter();
            lines.any(|line| line["id"] == "healthy" && line["status"] == "ready")
        });
        let mut listens = witness.listen(None);
        assert_eq!(listens.head().status, 200);
        let standing = Standing::begin(&mut witness, front.relay.pid(), tables);
        Self { front: Some(front), witness, _listens: listens, standing }
    }

    /// The tables with what the witness needs, as they are to be written when a test edits the file.
    pub fn with_witness(tables: &[String]) -> Vec<String> {
        let witness = has_credentials(tables).then(|| format!("[credential.witness]\ntoken = {WITNESS:?}\n"));
        tables.iter().cloned().chain(witness).collect()
    }

    /// To be called while the fault goes on.
    #[track_caller]
    pub fn holds(&mut self) {
        self.standing.holds(&mut self.witness);
    }

    /// All six at the end, when the test's own clients are gone or as good as gone.
    #[track_caller]
    pub fn finish(mut self) {
        self.holds();
        let front = self.front.take().unwrap();
        let (pid, most) = (front.relay.pid(), self.standing.most_descriptors());
        eventually("the descriptors are given back", || possessions_of(pid).0 <= most);
        self.standing.is_modest();
        front.finish();
    }
}

impl Drop for HttpTrial {
    fn drop(&mut self) {
        assert!(self.front.is_none() || std::thread::panicking(), "a trial that was not seen out");
    }
}

impl Deref for HttpTrial {
    type Target = Front;

    fn deref(&self) -> &Front {
        self.front.as_ref().unwrap()
    }
}

fn has_credentials(tables: &[String]) -> bool {
    tables.iter().any(|table| table.contains("[credential."))
}
