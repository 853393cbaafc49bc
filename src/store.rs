//! Owns what is remembered between runs: listings, eras and open toolsets, in one SQLite file in the state directory.
//! It decides nothing; a lost or broken file costs a warning and a fresh listing.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::catalog::{Listing, ServerNote};
use crate::protocol::Era;

/// The file's name within the state directory.
const FILE: &str = "memory.sqlite3";
/// Raised when the tables change; a file of another version is set aside.
const VERSION: i64 = 1;
/// How long to wait for another relay that writes to the same file.
const BUSY: Duration = Duration::from_millis(2000);
/// How long that may take while a client waits for its first answer: rather that than a run without memory. It is free again
/// within milliseconds unless something holds it for good.
const BUSY_AT_START: Duration = Duration::from_millis(200);
/// How much of the file SQLite keeps in memory; it takes KiB as a negative number.
const CACHE_KIB: i64 = -128;
/// Listings of sources not seen for this long are forgotten.
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
        let connection = match connect(&file) {
            Ok(connection) => connection,
            Err(error) if is_broken(&error) => {
                let aside = file.with_extension(format!("broken-{}", now()));
                tracing::warn!(file = %file.display(), %error, "memory is broken, set aside and begun anew");
                let _ = std::fs::rename(&file, &aside);
                for suffix in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(directory.join(format!("{FILE}{suffix}")));
                }
                connect(&file).map_err(|error| StoreError::Open(file.clone(), error))?
            }
            Err(error) => return Err(StoreError::Open(file, error)),
        };
        let recalled = recall(&connection).unwrap_or_else(|error| {
            tracing::warn!(%error, "memory cannot be read");
            Recalled::default()
        });
        let _ = connection.busy_timeout(BUSY);
        let (jobs, work) = mpsc::channel();
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || work_off(&connection, &work))
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
    if version != 0 {
        connection
            .execute_batch("DROP TABLE IF EXISTS source; DROP TABLE IF EXISTS listing; DROP TABLE IF EXISTS open;")?;
    }
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

fn is_broken(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
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
    recalled.sources = found.collect::<Result<_, _>>()?;
    let mut rows = connection.prepare("SELECT principal, toolset FROM open")?;
    recalled.open = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    Ok(recalled)
}

fn work_off(connection: &Connection, work: &mpsc::Receiver<Job>) {
    while let Ok(job) = work.recv() {
        if let Err(error) = carry_out(connection, job) {
            tracing::warn!(%error, "memory could not be used");
        }
    }
}

fn carry_out(connection: &Connection, job: Job) -> Result<(), rusqlite::Error> {
    match job {
        Job::Listing(kept) => keep(connection, &kept),
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
            let statement = if open {
                "INSERT OR IGNORE INTO open (principal, toolset) VALUES (?1, ?2)"
            } else {
                "DELETE FROM open WHERE principal = ?1 AND toolset = ?2"
            };
            connection.execute(statement, params![principal, toolset]).map(drop)
        }
        Job::Load(keys, reply) => {
            let mut listings = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(listing) = load(connection, &key)? {
                    listings.push((key, listing));
                }
            }
            let _ = reply.send(listings);
            Ok(())
        }
        Job::Flush(reply) => {
            let _ = reply.send(());
            Ok(())
        }
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
    let oldest = now() - KEEP_DAYS * 24 * 3600;
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
        .optional()?;
    let Some((note, incomplete, tools)) = row else { return Ok(None) };
    let note = serde_json::from_str(&note).unwrap_or_default();
    Ok(Listing::from_blob(&tools, note, incomplete).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key { id: id.to_owned(), fingerprint: "f".to_owned() }
    }

    #[tokio::test]
    async fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let raw = r#"{"name":"now","x":1e400}"#;
        let listing = Listing::new([raw.into()], ServerNote::default(), None);
        let (store, recalled) = Store::open(folder.path()).unwrap();
        assert!(recalled.sources.is_empty());
        store.keep_era(key("clock"), Era::Modern);
        store.keep_listing(Kept {
            key: key("clock"),
            digest: listing.digest.clone(),
            outline: "{}".to_owned(),
            note: ServerNote::default(),
            incomplete: None,
            tools: listing.to_blob(),
        });
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

    #[tokio::test]
    async fn a_broken_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "no database, though long enough to be looked at as one").unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        store.keep_era(key("clock"), Era::Legacy);
        store.flush().await;
        assert_eq!(Store::open(folder.path()).unwrap().1.sources.len(), 1);
    }
}
