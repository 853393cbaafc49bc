//! What all connections share: the era, lists that change on demand, tasks, and the key that seals request states.
//! It knows no method of the protocol.

use std::borrow::Cow;
use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ProtocolVersion, RequestStateCodec};
use rmcp::service::Peer;
use rmcp::task_manager::TaskManager;
use tokio::sync::broadcast;

/// Changes that a listener may lag behind by; the suite makes a handful.
const CHANGES: usize = 64;

/// Which revisions are served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
    Dual,
}

impl Era {
    pub fn from_environment() -> Result<Self, Box<dyn Error>> {
        match env::var("ERA").as_deref() {
            Ok("legacy") => Ok(Self::Legacy),
            Ok("modern") => Ok(Self::Modern),
            Ok("dual") | Err(env::VarError::NotPresent) => Ok(Self::Dual),
            Ok(other) => Err(format!("ERA is `{other}`; it has to be `legacy`, `modern` or `dual`").into()),
            Err(fault) => Err(format!("cannot read ERA: {fault}").into()),
        }
    }

    pub fn revisions(self) -> Cow<'static, [ProtocolVersion]> {
        match self {
            Self::Legacy => ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE).into(),
            Self::Modern => vec![ProtocolVersion::V_2026_07_28].into(),
            Self::Dual => ProtocolVersion::KNOWN_VERSIONS.into(),
        }
    }
}

/// A list that differs from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Tools,
    Prompts,
}

pub struct World {
    pub era: Era,
    pub tasks: TaskManager,
    pub seals: RequestStateCodec,
    /// To the modern clients, who listen.
    pub changes: broadcast::Sender<Change>,
    /// To the legacy ones, who are told on their session.
    sessions: Mutex<Vec<Peer<RoleServer>>>,
    more_tools: AtomicBool,
    more_prompts: AtomicBool,
}

impl World {
    pub fn new(era: Era) -> Arc<Self> {
        Arc::new(Self {
            era,
            tasks: TaskManager::new(),
            // It keeps nobody out: the suite tests that a state which was tampered with is told from one which was not.
            seals: RequestStateCodec::try_new(*b"conformance-fixture-seal-key-001").expect("BUG: the key is too short"),
            changes: broadcast::channel(CHANGES).0,
            sessions: Mutex::new(Vec::new()),
            more_tools: AtomicBool::new(false),
            more_prompts: AtomicBool::new(false),
        })
    }

    /// Whether the list has its extra item just now.
    pub fn extended(&self, list: Change) -> bool {
        self.switch(list).load(Ordering::Relaxed)
    }

    fn switch(&self, list: Change) -> &AtomicBool {
        match list {
            Change::Tools => &self.more_tools,
            Change::Prompts => &self.more_prompts,
        }
    }

    /// Adds the list's extra item, or takes it away, and tells everybody. A relay would rightly keep quiet if nothing differed.
    pub fn change(&self, list: Change) {
        self.switch(list).fetch_xor(true, Ordering::Relaxed);
        // Nobody may be listening.
        let _ = self.changes.send(list);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| !session.is_transport_closed());
        for session in &*sessions {
            let session = session.clone();
            // A client that does not read must not hold up the call that made the change.
            tokio::spawn(async move {
                let told = match list {
                    Change::Tools => session.notify_tool_list_changed().await,
                    Change::Prompts => session.notify_prompt_list_changed().await,
                };
                if let Err(fault) = told {
                    eprintln!("a session was not told of a change: {fault}");
                }
            });
        }
    }

    pub fn joined(&self, session: Peer<RoleServer>) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}
