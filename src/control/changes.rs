//! Owns the difference between two configurations: what becomes of each source, and which settings of the relay cannot
//! change while it runs. It is pure, and puts nothing in force.

use std::collections::BTreeMap;

use crate::config::{Config, Credential, HttpConfig, Isolation, RelayConfig, SourceConfig, SourceEntry};
use crate::name::SourceId;

/// What becomes of one source. A source that is in neither list of a [`Changes`] is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its entry says what it said.
    Kept,
    /// Its process stays; what else is said about it changed.
    Retuned,
    /// It is ended, and another takes its place.
    Replaced,
    Added,
    Removed,
}

/// The fate of each source, by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes(pub BTreeMap<SourceId, Fate>);

impl Changes {
    pub fn between(old: &[SourceEntry], new: &[SourceEntry]) -> Self {
        let before: BTreeMap<_, _> = old.iter().map(|entry| (entry.id(), entry)).collect();
        let mut fates: BTreeMap<_, _> = old.iter().map(|entry| (entry.id().clone(), Fate::Removed)).collect();
        for entry in new {
            let fate = before.get(entry.id()).map_or(Fate::Added, |before| fate(before, entry));
            fates.insert(entry.id().clone(), fate);
        }
        Self(fates)
    }

    /// The ids that have a fate.
    pub fn with(&self, fate: Fate) -> Vec<SourceId> {
        self.0.iter().filter(|(_, is)| **is == fate).map(|(id, _)| id.clone()).collect()
    }

    pub fn of(&self, id: &SourceId) -> Fate {
        self.0.get(id).copied().unwrap_or(Fate::Kept)
    }
}

fn fate(old: &SourceEntry, new: &SourceEntry) -> Fate {
    match (old, new) {
        _ if old == new => Fate::Kept,
        (SourceEntry::Usable(old), SourceEntry::Usable(new)) if is_same_process(old, new) => Fate::Retuned,
        _ => Fate::Replaced,
    }
}

/// Whether a process started under one entry serves the other as well. What is written counts, not what `${...}` in it
/// comes to, but for files at a hangup.
fn is_same_process(old: &SourceConfig, new: &SourceConfig) -> bool {
    starts_alike(old, new) && old.files == new.files
}

/// The same with no regard to what is in the files.
pub fn starts_alike(old: &SourceConfig, new: &SourceConfig) -> bool {
    let parts = |config: &SourceConfig| {
        (config.enabled, config.era, config.max_in_flight, config.isolation != Isolation::Shared)
    };
    parts(old) == parts(new) && old.reach == new.reach
}

/// What holds as it was at the start until the next one, and differs now.
pub fn needing_restart(first: &Fixed, now: &Config) -> Vec<&'static str> {
    let keys = [
        ("relay.state_dir", first.relay.state_dir != now.relay.state_dir),
        ("relay.max_message_mib", first.relay.max_message_bytes != now.relay.max_message_bytes),
        ("relay.max_starting", first.relay.max_starting != now.relay.max_starting),
        ("http", listening(&first.http) != listening(&now.http)),
        ("credential", admitted(&first.http) != admitted(&now.http)),
    ];
    keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

/// The parts of the configuration at the start that hold until the relay ends.
pub struct Fixed {
    relay: RelayConfig,
    http: HttpConfig,
}

impl Fixed {
    pub fn of(config: &Config) -> Self {
        Self { relay: config.relay.clone(), http: config.http.clone() }
    }
}

fn listening(http: &HttpConfig) -> HttpConfig {
    HttpConfig { credentials: Vec::new(), is_guarded: false, ..http.clone() }
}

fn admitted(http: &HttpConfig) -> (&[Credential], bool) {
    (&http.credentials, http.is_guarded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fake::FakeLookup;

    fn read(text: &str) -> Config {
        crate::config::check(text, std::path::Path::new("/c/sources.toml"), &FakeLookup::default()).unwrap()
    }

    #[test]
    fn each_key_of_a_source_has_its_fate() {
        let base = "[source.a]\ncommand = 'x'\n";
        for (lines, want) in [
            ("", Fate::Kept),
            ("# a comment\nenabled = true\nidle_stop_secs = 300", Fate::Kept),
            ("args = ['y']", Fate::Replaced),
            ("env = { A = 'b' }", Fate::Replaced),
            ("cwd = '/tmp'", Fate::Replaced),
            ("inherit_env = ['A']", Fate::Replaced),
            ("era = 'legacy'", Fate::Replaced),
            ("max_in_flight = 3", Fate::Replaced),
            ("isolation = 'session'", Fate::Replaced),
            ("enabled = false", Fate::Replaced),
            ("nonsense = 1", Fate::Replaced),
            ("name = 'A'", Fate::Retuned),
            ("provider = 'p'", Fate::Retuned),
            ("summary = 's'", Fate::Retuned),
            ("prefix = 'b'", Fate::Retuned),
            ("start = 'at-start'", Fate::Retuned),
            ("idle_stop_secs = 7", Fate::Retuned),
            ("start_timeout_secs = 7", Fate::Retuned),
            ("max_start_secs = 7", Fate::Retuned),
            ("call_timeout_secs = 7", Fate::Retuned),
            ("max_call_secs = 700", Fate::Retuned),
            ("unlisted = 'forward'", Fate::Retuned),
            ("read_only = true", Fate::Retuned),
            ("allow = ['a*']", Fate::Retuned),
            ("deny = ['a*']", Fate::Retuned),
            ("tool.t.hidden = true", Fate::Retuned),
            ("category.c.tools = ['a*']", Fate::Retuned),
        ] {
            let changes = Changes::between(&read(base).sources, &read(&format!("{base}{lines}\n")).sources);
            assert_eq!(changes.0.into_values().collect::<Vec<_>>(), [want], "{lines}");
        }
    }

    #[test]
    fn sources_come_and_go() {
        let old = read("[source.a]\ncommand = 'x'\n[source.b]\ncommand = 'x'\n[source.z]\ncommand = 1\n");
        let new = read("[source.b]\ncommand = 'y'\n[source.c]\ncommand = 'x'\n[source.z]\ncommand = 1\n");
        let changes = Changes::between(&old.sources, &new.sources);
        let fates: Vec<_> = changes.0.iter().map(|(id, fate)| (id.as_str(), *fate)).collect();
        // The line of a fault is told, so the faulty entry differs where its line does.
        let want = [("a", Fate::Removed), ("b", Fate::Replaced), ("c", Fate::Added), ("z", Fate::Kept)];
        assert_eq!(fates, want);
    }

    #[test]
    fn what_holds_only_from_the_start_is_named() {
        let first = Fixed::of(&read(""));
        for (lines, want) in [
            ("[relay]\nstate_dir = '/s'", &["relay.state_dir"][..]),
            ("[relay]\nmax_message_mib = 1\nmax_starting = 1", &["relay.max_message_mib", "relay.max_starting"]),
            ("[relay]\nexposure = 'eager'\nalways_visible = ['a/*']\nmenu = ['call_tool']\nremember = true", &[]),
            ("[http]\nlisten = '127.0.0.1:1'", &["http"]),
            ("[credential.ci]\ntoken = '0123456789abcdef0123'", &["credential"]),
        ] {
            assert_eq!(needing_restart(&first, &read(lines)), want, "{lines}");
        }
    }
}
