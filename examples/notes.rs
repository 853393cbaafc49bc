//! A store of notes: five tools with annotations and structured output, an ordinary well-behaved source.
//!
//! Notes live in memory, or in the JSON file that `NOTES_FILE` names.
//!
//! ```toml
//! [source.notes]
//! command = "target/debug/examples/notes"
//! env = { NOTES_FILE = "notes.json" }
//! ```
//!
//! `notes --http 127.0.0.1:7421` serves them over HTTP instead, at `/mcp`; with `--plain` without sessions and streams.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{Json, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many notes a listing or a search shows if the caller does not say.
const DEFAULT_LIMIT: usize = 20;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Note {
    id: u64,
    title: String,
    body: String,
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct NewNote {
    /// One line.
    title: String,
    /// The text, of any length.
    #[serde(default)]
    body: String,
    /// Words to find it by.
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Which {
    /// The id that add_note returned.
    id: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Listed {
    /// Only notes with this tag.
    tag: Option<String>,
    /// How many at most; 20 if absent.
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// Words that must all occur in the title, the body or the tags; case does not matter.
    query: String,
    /// How many at most; 20 if absent.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Notes {
    notes: Vec<Note>,
    /// How many there are, shown or not.
    total: usize,
}

#[derive(Serialize, JsonSchema)]
struct Deleted {
    deleted: Note,
}

#[derive(Clone)]
struct NoteStore {
    file: Option<PathBuf>,
    notes: Arc<Mutex<BTreeMap<u64, Note>>>,
}

#[tool_router]
impl NoteStore {
    fn open(file: Option<PathBuf>) -> Result<NoteStore, Box<dyn Error>> {
        let known: Vec<Note> = match &file {
            Some(path) if path.exists() => serde_json::from_slice(&std::fs::read(path)?)?,
            _ => Vec::new(),
        };
        let notes = known.into_iter().map(|note| (note.id, note)).collect();
        Ok(NoteStore { file, notes: Arc::new(Mutex::new(notes)) })
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<u64, Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a new file and renames it, so that a crash leaves the old notes or the new ones.
    fn save(&self, notes: &BTreeMap<u64, Note>) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        let unfinished = path.with_extension("tmp");
        serde_json::to_vec_pretty(&notes.values().collect::<Vec<_>>())
            .map_err(std::io::Error::from)
            .and_then(|json| std::fs::write(&unfinished, json))
            .and_then(|()| std::fs::rename(&unfinished, path))
            .map_err(|fault| format!("cannot save the notes in `{}`: {fault}", path.display()))
    }

    #[tool(
        description = "Add a note with a title, a body and tags.",
        annotations(
            title = "Add a note",
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    fn add_note(&self, Parameters(new): Parameters<NewNote>) -> Result<Json<Note>, String> {
        if new.title.trim().is_empty() {
            return Err("a note needs a title".to_owned());
        }
        let mut notes = self.notes();
        let id = notes.last_key_value().map_or(1, |(last, _)| last + 1);
        let note = Note { id, title: new.title, body: new.body, tags: new.tags };
        notes.insert(id, note.clone());
        self.save(&notes)?;
        Ok(Json(note))
    }

    #[tool(
        description = "List notes, newest first, all or those with a tag.",
        annotations(title = "List notes", read_only_hint = true, open_world_hint = false)
    )]
    fn list_notes(&self, Parameters(listed): Parameters<Listed>) -> Json<Notes> {
        let wanted = |note: &&Note| listed.tag.as_ref().is_none_or(|tag| note.tags.contains(tag));
        Json(newest_first(&self.notes(), wanted, listed.limit))
    }

    #[tool(
        description = "Search notes for words in their title, body and tags.",
        annotations(title = "Search notes", read_only_hint = true, open_world_hint = false)
    )]
    fn search_notes(&self, Parameters(search): Parameters<Search>) -> Json<Notes> {
        let words: Vec<String> = search.query.split_whitespace().map(str::to_lowercase).collect();
        let wanted = |note: &&Note| {
            let text = format!("{} {} {}", note.title, note.body, note.tags.join(" ")).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        Json(newest_first(&self.notes(), wanted, search.limit))
    }

    #[tool(
        description = "Get one note by its id.",
        annotations(title = "Get a note", read_only_hint = true, open_world_hint = false)
    )]
    fn get_note(&self, Parameters(Which { id }): Parameters<Which>) -> Result<Json<Note>, String> {
        self.notes().get(&id).cloned().map(Json).ok_or_else(|| no_such(id))
    }

    #[tool(
        description = "Delete one note by its id. It cannot be brought back.",
        annotations(
            title = "Delete a note",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    fn delete_note(&self, Parameters(Which { id }): Parameters<Which>) -> Result<Json<Deleted>, String> {
        let mut notes = self.notes();
        let deleted = notes.remove(&id).ok_or_else(|| no_such(id))?;
        self.save(&notes)?;
        Ok(Json(Deleted { deleted }))
    }
}

fn newest_first(notes: &BTreeMap<u64, Note>, wanted: impl Fn(&&Note) -> bool, limit: Option<usize>) -> Notes {
    let found: Vec<&Note> = notes.values().rev().filter(wanted).collect();
    let total = found.len();
    Notes { notes: found.into_iter().take(limit.unwrap_or(DEFAULT_LIMIT)).cloned().collect(), total }
}

fn no_such(id: u64) -> String {
    format!("there is no note {id}; list_notes shows those there are")
}

#[tool_handler]
impl ServerHandler for NoteStore {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("notes", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Notes that outlive a conversation. Search before you add, so that nothing is noted twice.",
            )
    }
}

/// Serves until the process is killed.
async fn over_http(store: NoteStore, address: &str, plain: bool) -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    // A stream's last few bytes would wait 40 ms for the client's word that it has the ones before.
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true)));
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(!plain).with_json_response(plain);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(store.clone()), sessions, config);
    Ok(axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = NoteStore::open(std::env::var_os("NOTES_FILE").map(PathBuf::from))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, address, rest @ ..] = &arguments[..]
        && flag == "--http"
    {
        return over_http(store, address, rest == ["--plain"]).await;
    }
    let session = store.serve(rmcp::transport::stdio()).await?;
    session.waiting().await?;
    Ok(())
}
