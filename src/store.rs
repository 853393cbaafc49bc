//! Owns what is remembered between runs: listings, eras and open toolsets, in one SQLite file in the state directory.
//! It decides nothing; a lost or broken file costs a warning and a fresh listing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

use crate::catalog::{Listing, ServerNote};
use crate::protocol::Era;

/// The file's name within the state directory.
const FILE: &str = "memory.sqlite3";
/// Raised when the tables `source` and `listing` change. In a file of another version they are made anew, for what they hold
/// comes again with the next listing; what users have opened comes from nowhere else, and stays.
const VERSION: i64 = 1;
/// How long to wait for another relay that writes to the same file.
const BUSY: Duration = Duration::from_millis(2000);
/// How long that may take while a client waits for its first answer: rather that than a run without memory. It is free again
/// within milliseconds unless something holds it for good.
const BUSY_AT_START: Duration = Duration::from_millis(200);
/// How much of the file SQLite keeps in memory; it takes KiB as a negative number.
const CACHE_KIB: i64 = -128;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Sources that no relay has used for so many days are forgotten: those whose list was neither recalled nor kept.
const KEEP_DAYS: i64 = 90;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS source (
        id TEXT NOT NULL, fingerprint TEXT NOT NULL, era TEXT, digest TEXT, outline TEXT, seen INTEGER NOT NULL,
        PRIMARY KEY (id, fingerprint)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS listing (
        id TEXT NOT NULL, fingerprint TEXT NOT NULL, note TEXT NOT NULL, incomplete TEXT, tools BLOB NOT NULL,
        PRIMARY KEY (id, fingerprint));
    CREATE TABLE IF NOT EXISTS open (principal TEXT NOT NULL, toolset TEXT NOT NULL, PRIMARY KEY (principal, toolset))
        WITHOUT ROWID;
";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the state directory `{0}` cannot be made: {1}")]
    Directory(PathBuf, std::io::Error),
    #[error("`{0}` cannot be opened: {1}")]
    Open(PathBuf, rusqlite::Error),
}

/// Which program's memory: the source's id and its configuration's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub id: String,
    pub fingerprint: String,
}

/// What is known of a source without reading its tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remembered {
    pub era: Option<Era>,
    pub digest: Option<String>,
    /// The toolset in outline, as JSON.
    pub outline: Option<String>,
}

/// A listing to keep.
pub struct Kept {
    pub key: Key,
    pub digest: String,
    pub outline: String,
    pub note: ServerNote,
    pub incomplete: Option<String>,
    pub tools: Vec<u8>,
}

enum Job {
    Listing(Box<Kept>),
    Outline { key: Key, outline: String },
    Era(Key, Era),
    Open { principal: String, toolset: String, open: bool },
    Load(Vec<Key>, oneshot::Sender<Vec<(Key, Listing)>>),
    Flush(oneshot::Sender<()>),
}

/// The memory's handle. Cheap to clone; without a file it remembers nothing.
#[derive(Clone)]
pub struct Store {
    jobs: Option<mpsc::Sender<Job>>,
}

/// What was found in the memory at the start.
#[derive(Default)]
pub struct Recalled {
    pub sources: Vec<(Key, Remembered)>,
    /// Open toolsets by principal.
    pub open: Vec<(String, String)>,
}

impl Store {
    /// A memory that keeps nothing.
    pub fn none() -> Self {
        Self { jobs: None }
    }

    /// Opens the file in `directory` (made if need be), reads what is small, and leaves the rest to a thread of its own.
    pub fn open(directory: &Path) -> Result<(Self, Recalled), StoreError> {
        make_private(directory).map_err(|error| StoreError::Directory(directory.to_owned(), error))?;
        let file = directory.join(FILE);
        let mut memory = Memory::open(file.clone()).map_err(|error| StoreError::Open(file, error))?;
        let recalled = memory.use_it(recall).unwrap_or_else(|error| {
            tracing::warn!(%error, "memory cannot be read");
            Recalled::default()
        });
        let _ = memory.connection.busy_timeout(BUSY);
        let (jobs, work) = mpsc::channel();
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || memory.work_off(&work))
            .map_err(|error| StoreError::Directory(directory.to_owned(), error))?;
        Ok((Self { jobs: Some(jobs) }, recalled))
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs
            && jobs.send(job).is_err()
        {
            tracing::warn!("memory's thread is gone");
        }
    }

    pub fn keep_listing(&self, kept: Kept) {
        self.give(Job::Listing(Box::new(kept)));
    }

    pub fn keep_outline(&self, key: Key, outline: String) {
        self.give(Job::Outline { key, outline });
    }

    pub fn keep_era(&self, key: Key, era: Era) {
        self.give(Job::Era(key, era));
    }

    pub fn keep_open(&self, principal: &str, toolset: &str, open: bool) {
        self.give(Job::Open { principal: principal.to_owned(), toolset: toolset.to_owned(), open });
    }

    /// The remembered listings of `keys`, read and parsed on the memory's thread.
    pub async fn load(&self, keys: Vec<Key>) -> Vec<(Key, Listing)> {
        let (reply, listings) = oneshot::channel();
        self.give(Job::Load(keys, reply));
        listings.await.unwrap_or_default()
    }

    /// Waits until everything given so far is on disk.
    pub async fn flush(&self) {
        let (reply, done) = oneshot::channel();
        self.give(Job::Flush(reply));
        let _ = done.await;
    }
}

#[cfg(unix)]
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)
}

fn connect(file: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_AT_START)?;
    // Everything is read once and written seldom: pages kept in memory would only take room (2 MB, if not told).
    connection.pragma_update(None, "cache_size", CACHE_KIB)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == VERSION {
        return Ok(connection);
    }
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    let change = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
    let version: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    // Another relay may have done it meanwhile.
    if version != VERSION {
        change.execute_batch("DROP TABLE IF EXISTS source; DROP TABLE IF EXISTS listing;")?;
        change.execute_batch(TABLES)?;
        change.pragma_update(None, "user_version", VERSION)?;
    }
    change.commit()?;
    Ok(connection)
}

/// The file is no database, is damaged, or has not the tables that its version says (the relay's own statements are right).
fn is_broken(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
        || error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_ERROR)
}

/// A row; `None` for one that holds what was never written, which costs nothing but itself.
fn readable<T>(row: Result<T, rusqlite::Error>) -> Result<Option<T>, rusqlite::Error> {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match row {
        Ok(row) => Ok(Some(row)),
        Err(
            error
            @ (FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)),
        ) => {
            tracing::warn!(%error, "an entry of the memory cannot be read, and is made anew");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Puts a broken file out of the way, for whoever wants to look at it.
fn set_aside(file: &Path, error: &rusqlite::Error) {
    let aside = file.with_extension(format!("broken-{}", now()));
    tracing::warn!(file = %file.display(), %error, "memory is broken, set aside and begun anew");
    let _ = std::fs::rename(file, &aside);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(format!("{FILE}{suffix}")));
    }
}

/// The file, as the thread has it that uses it.
struct Memory {
    file: PathBuf,
    connection: Connection,
    /// The sources that this run has to do with.
    used: BTreeSet<Key>,
    /// When it was last noted that they are in use; `None` before anything was recalled.
    noted: Option<i64>,
}

impl Memory {
    /// Opens the file; one that is broken is set aside.
    fn open(file: PathBuf) -> Result<Self, rusqlite::Error> {
        let connection = match connect(&file) {
            Err(error) if is_broken(&error) => {
                set_aside(&file, &error);
                connect(&file)?
            }
            other => other?,
        };
        Ok(Self { file, connection, used: BTreeSet::new(), noted: None })
    }

    fn open_again(&mut self) -> Result<(), rusqlite::Error> {
        // Closed first: at its end a connection removes files that may be another's by then.
        self.connection = Connection::open_in_memory()?;
        self.connection = Self::open(self.file.clone())?.connection;
        self.connection.busy_timeout(BUSY)
    }

    /// Reads or writes. Where the file turns out to be broken it is set aside, and a new one is used.
    fn use_it<T>(&mut self, what: impl Fn(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, rusqlite::Error> {
        let broken = |done: &Result<T, rusqlite::Error>| done.as_ref().is_err_and(is_broken);
        let mut done = what(&self.connection);
        if broken(&done) {
            // Another relay may have begun a new one already.
            self.open_again()?;
            done = what(&self.connection);
        }
        match done {
            Err(error) if is_broken(&error) => {
                self.connection = Connection::open_in_memory()?;
                set_aside(&self.file, &error);
                self.open_again()?;
                what(&self.connection)
            }
            done => done,
        }
    }

    fn work_off(mut self, work: &mpsc::Receiver<Job>) {
        loop {
            let done = match work.recv_timeout(DAY) {
                Ok(job) => self.carry_out(job),
                Err(mpsc::RecvTimeoutError::Timeout) => Ok(()),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            let is_due = self.noted.is_some_and(|noted| now() - noted >= seconds(DAY));
            if let Err(error) = done.and_then(|()| if is_due { self.note_use() } else { Ok(()) }) {
                tracing::warn!(%error, "memory could not be used");
            }
        }
    }

    /// Notes that what is used is in use, and forgets what has not been for long. Writes only where that makes a difference.
    fn note_use(&mut self) -> Result<(), rusqlite::Error> {
        self.noted = Some(now());
        let used = std::mem::take(&mut self.used);
        let noted = self.use_it(|connection| note_use(connection, &used));
        self.used = used;
        noted
    }

    /// Makes the file again if somebody has removed it: what is written to a removed one is lost.
    fn look_after_file(&mut self) -> Result<(), rusqlite::Error> {
        if self.file.exists() {
            return Ok(());
        }
        tracing::warn!(file = %self.file.display(), "memory was removed, begun anew");
        if let Some(directory) = self.file.parent()
            && let Err(error) = make_private(directory)
        {
            tracing::warn!(%error, "the state directory cannot be made");
        }
        self.open_again()
    }

    fn carry_out(&mut self, job: Job) -> Result<(), rusqlite::Error> {
        match job {
            Job::Load(keys, reply) => {
                let mut listings = Vec::with_capacity(keys.len());
                for key in keys {
                    self.used.insert(key.clone());
                    match self.use_it(|connection| load(connection, &key)) {
                        Ok(listing) => listings.extend(listing.map(|listing| (key, listing))),
                        Err(error) => tracing::warn!(%error, "memory cannot be read"),
                    }
                }
                let _ = reply.send(listings);
                self.note_use()
            }
            Job::Flush(reply) => {
                let _ = reply.send(());
                Ok(())
            }
            job => {
                if let Job::Listing(kept) = &job {
                    self.used.insert(kept.key.clone());
                }
                self.look_after_file()?;
                self.use_it(|connection| write(connection, &job))
            }
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    seconds(since)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn recall(connection: &Connection) -> Result<Recalled, rusqlite::Error> {
    let mut recalled = Recalled::default();
    let mut rows = connection.prepare("SELECT id, fingerprint, era, digest, outline FROM source")?;
    let found = rows.query_map([], |row| {
        let era: Option<String> = row.get(2)?;
        let remembered = Remembered {
            era: era.and_then(|era| [Era::Legacy, Era::Modern].into_iter().find(|known| known.as_str() == era)),
            digest: row.get(3)?,
            outline: row.get(4)?,
        };
        Ok((Key { id: row.get(0)?, fingerprint: row.get(1)? }, remembered))
    })?;
    for row in found {
        recalled.sources.extend(readable(row)?);
    }
    let mut rows = connection.prepare("SELECT principal, toolset FROM open")?;
    for row in rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        recalled.open.extend(readable(row)?);
    }
    Ok(recalled)
}

fn write(connection: &Connection, job: &Job) -> Result<(), rusqlite::Error> {
    match job {
        Job::Listing(kept) => keep(connection, kept),
        Job::Outline { key, outline } => connection
            .execute(
                "UPDATE source SET outline = ?3 WHERE id = ?1 AND fingerprint = ?2",
                params![key.id, key.fingerprint, outline],
            )
            .map(drop),
        Job::Era(key, era) => connection
            .execute(
                "INSERT INTO source (id, fingerprint, era, seen) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET era = ?3, seen = ?4",
                params![key.id, key.fingerprint, era.as_str(), now()],
            )
            .map(drop),
        Job::Open { principal, toolset, open } => {
            let statement = if *open {
                "INSERT OR IGNORE INTO open (principal, toolset) VALUES (?1, ?2)"
            } else {
                "DELETE FROM open WHERE principal = ?1 AND toolset = ?2"
            };
            connection.execute(statement, params![principal, toolset]).map(drop)
        }
        Job::Load(..) | Job::Flush(_) => Ok(()),
    }
}

fn keep(connection: &Connection, kept: &Kept) -> Result<(), rusqlite::Error> {
    let note = serde_json::to_string(&kept.note).expect("BUG: a note always serializes");
    let transaction = connection.unchecked_transaction()?;
    transaction.execute(
        "INSERT INTO source (id, fingerprint, digest, outline, seen) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET digest = ?3, outline = ?4, seen = ?5",
        params![kept.key.id, kept.key.fingerprint, kept.digest, kept.outline, now()],
    )?;
    transaction.execute(
        "INSERT OR REPLACE INTO listing (id, fingerprint, note, incomplete, tools) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![kept.key.id, kept.key.fingerprint, note, kept.incomplete, kept.tools],
    )?;
    transaction.commit()
}

/// Notes that `used` are in use, once a day, and forgets what was not for long.
fn note_use(connection: &Connection, used: &BTreeSet<Key>) -> Result<(), rusqlite::Error> {
    let now = now();
    let (recent, oldest) = (now - seconds(DAY), now - KEEP_DAYS * seconds(DAY));
    let mut rows = connection.prepare_cached("SELECT id, fingerprint, seen FROM source WHERE seen < ?1")?;
    let found =
        rows.query_map([recent], |row| Ok((Key { id: row.get(0)?, fingerprint: row.get(1)? }, row.get::<_, i64>(2)?)))?;
    let (mut in_use, mut any_old) = (Vec::new(), false);
    for row in found {
        let Some((key, seen)) = readable(row)? else { continue };
        let is_used = used.contains(&key);
        any_old |= !is_used && seen < oldest;
        in_use.extend(is_used.then_some(key));
    }
    if in_use.is_empty() && !any_old {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for key in in_use {
        let row = params![key.id, key.fingerprint, now];
        transaction.execute("UPDATE source SET seen = ?3 WHERE id = ?1 AND fingerprint = ?2", row)?;
    }
    transaction.execute("DELETE FROM source WHERE seen < ?1", [oldest])?;
    transaction.execute(
        "DELETE FROM listing WHERE NOT EXISTS
         (SELECT 1 FROM source WHERE source.id = listing.id AND source.fingerprint = listing.fingerprint)",
        [],
    )?;
    transaction.commit()
}

fn load(connection: &Connection, key: &Key) -> Result<Option<Listing>, rusqlite::Error> {
    let row = connection
        .prepare_cached("SELECT note, incomplete, tools FROM listing WHERE id = ?1 AND fingerprint = ?2")?
        .query_row(params![key.id, key.fingerprint], |row| {
            let tools = row.get_ref(2)?.as_blob().map(<[u8]>::to_vec).unwrap_or_default();
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, tools))
        })
        .optional();
    let Some((note, incomplete, tools)) = readable(row)?.flatten() else { return Ok(None) };
    let note = serde_json::from_str(&note).unwrap_or_default();
    Ok(Listing::from_blob(&tools, note, incomplete).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key { id: id.to_owned(), fingerprint: "f".to_owned() }
    }

    fn kept(id: &str, listing: &Listing) -> Kept {
        Kept {
            key: key(id),
            digest: listing.digest.clone(),
            outline: "{}".to_owned(),
            note: ServerNote::default(),
            incomplete: None,
            tools: listing.to_blob(),
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let raw = r#"{"name":"now","x":1e400}"#;
        let listing = Listing::new([raw.into()], ServerNote::default(), None);
        let (store, recalled) = Store::open(folder.path()).unwrap();
        assert!(recalled.sources.is_empty());
        store.keep_era(key("clock"), Era::Modern);
        store.keep_listing(kept("clock", &listing));
        store.keep_open("local", "clock", true);
        store.keep_open("local", "notes", true);
        store.keep_open("local", "notes", false);
        store.flush().await;
        let (store, recalled) = Store::open(folder.path()).unwrap();
        let want =
            Remembered { era: Some(Era::Modern), digest: Some(listing.digest.clone()), outline: Some("{}".to_owned()) };
        assert_eq!(recalled.sources, [(key("clock"), want)]);
        assert_eq!(recalled.open, [("local".to_owned(), "clock".to_owned())]);
        let loaded = store.load(vec![key("other"), key("clock")]).await;
        let seen: Vec<_> =
            loaded.iter().map(|(key, listing)| (key.id.as_str(), listing.tools[0].raw.unpack())).collect();
        assert_eq!(seen, [("clock", raw.to_owned())]);
    }

    /// A memory in which the listings of `ids` are, each with a tool of some size.
    async fn filled(folder: &Path, ids: &[&str]) {
        let (store, _) = Store::open(folder).unwrap();
        for id in ids {
            let raw = format!(r#"{{"name":"now","description":"{}"}}"#, fastrand::u64(..).to_string().repeat(500));
            let listing = Listing::new([raw.as_str().into()], ServerNote::default(), None);
            store.keep_listing(kept(id, &listing));
        }
        drop(store);
        // The last connection to the file removes its log.
        while folder.join(format!("{FILE}-wal")).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Changes the file behind the back of the memory, while no relay runs.
    fn change(folder: &Path, sql: &str) {
        let connection = Connection::open(folder.join(FILE)).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn set_aside_files(folder: &Path) -> usize {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().contains("broken")).count()
    }

    /// What is kept now is found by the next run.
    async fn check_heals(folder: &Path, what: &str) {
        let (store, recalled) = Store::open(folder).unwrap();
        store.load(recalled.sources.into_iter().map(|(key, _)| key).collect()).await;
        store.keep_era(key("late"), Era::Legacy);
        store.flush().await;
        let known = Store::open(folder).unwrap().1.sources;
        assert!(known.iter().any(|(key, _)| key.id == "late"), "{what}");
    }

    #[tokio::test]
    async fn a_broken_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "no database, though long enough to be looked at as one").unwrap();
        check_heals(folder.path(), "no database").await;
        assert_eq!(set_aside_files(folder.path()), 1);
    }

    #[tokio::test]
    async fn a_file_that_is_damaged_anywhere_is_set_aside() {
        for page in 1..6 {
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path(), &["a", "b", "c"]).await;
            let file = folder.path().join(FILE);
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
            std::fs::write(&file, bytes).unwrap();
            check_heals(folder.path(), &format!("page {page}")).await;
        }
    }

    #[tokio::test]
    async fn a_file_without_its_tables_is_set_aside() {
        for table in ["source", "listing", "open"] {
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path(), &["a"]).await;
            change(folder.path(), &format!("DROP TABLE {table}"));
            check_heals(folder.path(), table).await;
            assert_eq!(set_aside_files(folder.path()), 1, "{table}");
        }
    }

    #[tokio::test]
    async fn a_bad_row_costs_nothing_but_itself() {
        for bad in [
            "UPDATE source SET era = x'ff' WHERE id = 'a'",
            "UPDATE listing SET note = x'ff' WHERE id = 'a'",
            "UPDATE listing SET tools = x'ff' WHERE id = 'a'",
            "UPDATE listing SET note = CAST(x'ff' AS TEXT) WHERE id = 'a'",
        ] {
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path(), &["a", "b", "c"]).await;
            change(folder.path(), bad);
            let (store, recalled) = Store::open(folder.path()).unwrap();
            let known: Vec<_> = recalled.sources.into_iter().map(|(key, _)| key).collect();
            let loaded = store.load(known).await;
            let ids: Vec<_> = loaded.iter().map(|(key, _)| key.id.as_str()).collect();
            assert_eq!(ids, ["b", "c"], "{bad}");
            assert_eq!(set_aside_files(folder.path()), 0);
        }
    }

    fn known_ids(folder: &Path) -> Vec<String> {
        let (_, recalled) = Store::open(folder).unwrap();
        recalled.sources.into_iter().map(|(key, _)| key.id).collect()
    }

    /// What the memory holds was last noted to be in use so many days ago.
    fn age(folder: &Path, days: i64) {
        change(folder, &format!("UPDATE source SET seen = seen - {days} * 86400"));
    }

    /// Another listing of a source that has one.
    fn other(id: &str) -> Kept {
        kept(id, &Listing::new([r#"{"name":"other"}"#.into()], ServerNote::default(), None))
    }

    // A source whose list never changed was forgotten 90 days after its first listing, though it was used every day.
    #[tokio::test]
    async fn what_is_used_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), &["idle", "stable", "changed"]).await;
        for days in [60, 31, 91] {
            age(folder.path(), days);
            let (store, _) = Store::open(folder.path()).unwrap();
            assert_eq!(store.load(vec![key("stable"), key("changed")]).await.len(), 2, "{days}");
            store.keep_listing(other("changed"));
            store.flush().await;
        }
        assert_eq!(known_ids(folder.path()), ["changed", "stable"]);
        let (store, _) = Store::open(folder.path()).unwrap();
        assert_eq!(store.load(vec![key("idle"), key("stable")]).await.len(), 1, "its tools are gone with it");
    }

    #[tokio::test]
    async fn what_a_long_run_uses_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), &["idle", "recalled"]).await;
        let (store, _) = Store::open(folder.path()).unwrap();
        store.load(vec![key("recalled")]).await;
        store.keep_listing(other("new"));
        store.flush().await;
        age(folder.path(), 91);
        store.load(Vec::new()).await;
        store.flush().await;
        assert_eq!(known_ids(folder.path()), ["new", "recalled"]);
    }

    // What users had opened was dropped with the tables of another version.
    #[tokio::test]
    async fn a_file_of_another_version_keeps_what_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), &["a"]).await;
        change(
            folder.path(),
            "INSERT INTO open VALUES ('local', 'a'); DROP TABLE source; CREATE TABLE source (other TEXT);
             PRAGMA user_version = 7",
        );
        let (store, recalled) = Store::open(folder.path()).unwrap();
        assert_eq!(recalled.open, [("local".to_owned(), "a".to_owned())]);
        assert!(recalled.sources.is_empty());
        store.keep_listing(other("a"));
        store.flush().await;
        assert_eq!(known_ids(folder.path()), ["a"]);
        assert_eq!(set_aside_files(folder.path()), 0);
    }

    #[tokio::test]
    async fn a_removed_folder_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (store, _) = Store::open(&state).unwrap();
        store.keep_era(key("early"), Era::Legacy);
        store.flush().await;
        std::fs::remove_dir_all(&state).unwrap();
        store.keep_era(key("late"), Era::Legacy);
        store.flush().await;
        let known = Store::open(&state).unwrap().1.sources;
        assert_eq!(known.iter().map(|(key, _)| key.id.as_str()).collect::<Vec<_>>(), ["late"]);
    }
}
