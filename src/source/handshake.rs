//! Owns the first exchange with a source: which era it speaks, who it is, and what it can.
//! It does not launch the source, and remembers nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::link::Link;
use crate::call::{CallError, ErrorKind, Tenant};
use crate::catalog::ServerNote;
use crate::catalog::offer::{Abilities, Offer};
use crate::config::EraChoice;
use crate::protocol::{self, Era};
use crate::wire::{Message, Object, unquoted};

/// How long a source may leave `server/discover` unanswered before `initialize` is sent behind it. A source that is only
/// slow to start answers both when it is up, so the wait costs it nothing.
const PROBE: Duration = Duration::from_secs(3);

/// What the relay can carry to clients: some sources show fewer tools to a client that can less. Whether the client of a
/// call can do it is told when it is asked.
const CAPABILITIES: &str = "{\"roots\":{\"listChanged\":true},\"sampling\":{\"tools\":{},\"context\":{}},\"elicitation\":{\"form\":{},\"url\":{}}}";

/// What a source said of itself.
#[derive(Debug, Clone)]
pub struct Greeting {
    pub era: Era,
    /// The negotiated revision.
    pub version: String,
    pub note: ServerNote,
    /// It declared tools. Some that have tools do not; they are asked all the same.
    pub tools: bool,
    pub list_changed: bool,
}

/// Why there is no greeting.
#[derive(Debug, Clone)]
pub enum NoGreeting {
    Failed(CallError),
    /// The source broke off when it was asked for its era; it may do better with `initialize` alone.
    ProbeBroke(CallError),
    /// The source did not take what it took before; it may speak another era by now, and do better when asked for it.
    Outdated(CallError),
}

impl NoGreeting {
    pub fn error(self) -> CallError {
        match self {
            Self::Failed(error) | Self::ProbeBroke(error) | Self::Outdated(error) => error,
        }
    }
}

pub type Answer = Result<Message, CallError>;

/// Negotiates the era and greets the source. `known` is what was found out earlier, `tenant` whose instance it is.
pub async fn greet(
    link: &Arc<Link>,
    choice: EraChoice,
    known: Option<Era>,
    tenant: Option<&Tenant>,
) -> Result<Greeting, NoGreeting> {
    let can = &capabilities(tenant);
    match (choice, known) {
        (EraChoice::Legacy, _) => {
            let (answer, greeting) = initialize_only(link, can).await;
            greeting.map_err(|error| NoGreeting::Failed(prescribed(error, &answer, choice)))
        }
        (EraChoice::Auto, Some(Era::Legacy)) => match initialize_only(link, can).await.1 {
            Ok(greeting) => Ok(greeting),
            Err(error) => turned_modern(link, error).await,
        },
        (EraChoice::Modern, _) => {
            let (answer, greeting) = discovered(link).await;
            let rejected = || prescribed(rejected(link, "server/discover", &answer), &answer, choice);
            greeting.ok_or_else(|| NoGreeting::Failed(rejected()))
        }
        (EraChoice::Auto, _) => probe(link, can).await,
    }
}

/// What a source is told that can be asked: where it has one client only, what that one has declared of it.
fn capabilities(tenant: Option<&Tenant>) -> String {
    let own = tenant.and_then(Tenant::capabilities);
    let own = own.as_deref().and_then(Object::parse);
    let carried = |name: &str| matches!(name, "roots" | "sampling" | "elicitation");
    own.map_or_else(|| CAPABILITIES.to_owned(), |own| own.rewritten(carried, &[]))
}

/// The answer to `initialize`, and what it comes to.
async fn initialize_only(link: &Arc<Link>, can: &str) -> (Answer, Result<Greeting, CallError>) {
    let answer = initialized(link, can, received(initialize(link, can, protocol::LATEST_LEGACY)).await).await;
    let greeting = read_initialize(link, &answer);
    (answer, greeting)
}

/// Asks a source for the modern era that was legacy once and refuses `initialize` now, in whichever words.
async fn turned_modern(link: &Arc<Link>, refusal: CallError) -> Result<Greeting, NoGreeting> {
    match tokio::time::timeout(PROBE, discover_only(link)).await {
        Ok(Ok(greeting)) => Ok(greeting),
        Ok(Err(_)) if !link.is_closed() => Err(NoGreeting::Failed(refusal)),
        _ => Err(NoGreeting::Outdated(refusal)),
    }
}

async fn discover_only(link: &Arc<Link>) -> Result<Greeting, NoGreeting> {
    let (answer, greeting) = discovered(link).await;
    greeting.ok_or_else(|| NoGreeting::Failed(rejected(link, "server/discover", &answer)))
}

/// The answer to `server/discover`, and the greeting if it is one.
async fn discovered(link: &Arc<Link>) -> (Answer, Option<Greeting>) {
    let mut answer = received(discover(link)).await;
    if offers_modern(&answer) {
        answer = received(discover(link)).await;
    }
    let greeting = read_discover(link, &answer);
    (answer, greeting)
}

/// Asks for the modern era first, and for the legacy one when there is no modern answer.
async fn probe(link: &Arc<Link>, can: &str) -> Result<Greeting, NoGreeting> {
    let mut discovering = discover(link);
    let mut first = match tokio::time::timeout(PROBE, &mut discovering).await {
        Ok(answer) => Some(settle(link, answer)),
        Err(_) => None,
    };
    if first.as_ref().is_some_and(offers_modern) {
        first = Some(received(discover(link)).await);
    }
    if let Some(answer) = &first {
        if let Some(greeting) = read_discover(link, answer) {
            return Ok(greeting);
        }
        if let Err(error) = answer {
            return Err(NoGreeting::ProbeBroke(error.clone()));
        }
    }
    let mut initializing = initialize(link, can, protocol::LATEST_LEGACY);
    let mut waiting = first.is_none();
    loop {
        tokio::select! {
            biased;
            answer = &mut discovering, if waiting => {
                waiting = false;
                if let Some(greeting) = read_discover(link, &settle(link, answer)) {
                    return Ok(greeting);
                }
            }
            answer = &mut initializing => {
                let answer = initialized(link, can, settle(link, answer)).await;
                return read_initialize(link, &answer).map_err(NoGreeting::ProbeBroke);
            }
        }
    }
}

fn discover(link: &Link) -> oneshot::Receiver<Answer> {
    link.request("server/discover", &format!("{{\"_meta\":{}}}", protocol::modern_meta()))
}

fn initialize(link: &Link, can: &str, version: &str) -> oneshot::Receiver<Answer> {
    let params = format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{can},\"clientInfo\":{}}}",
        protocol::implementation()
    );
    link.request("initialize", &params)
}

/// The answer to `initialize`. A source that refuses the newest revision instead of answering with its own, and names those
/// it speaks, is asked again in one of them.
async fn initialized(link: &Link, can: &str, answer: Answer) -> Answer {
    let spoken = supported(&answer);
    match protocol::LEGACY.iter().find(|own| spoken.iter().any(|version| version == **own)) {
        Some(version) if *version != protocol::LATEST_LEGACY => received(initialize(link, can, version)).await,
        _ => answer,
    }
}

/// The revisions that a refusal names.
fn supported(answer: &Answer) -> Vec<String> {
    let error = answer.as_ref().ok().and_then(|message| Object::parse(message.text(message.error?)));
    let data = error.as_ref().and_then(|error| Object::parse(error.get("data")?));
    let list = data.as_ref().and_then(|data| data.get("supported"));
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

async fn received(receiver: oneshot::Receiver<Answer>) -> Answer {
    receiver.await.unwrap_or_else(|_| Err(CallError::new(ErrorKind::Cancelled, "the request was dropped", "try again")))
}

fn settle(link: &Link, answer: Result<Answer, oneshot::error::RecvError>) -> Answer {
    answer.unwrap_or_else(|_| {
        let text = format!("source `{}` was dropped while it started", link.source);
        Err(CallError::new(ErrorKind::Cancelled, text, "try again"))
    })
}

/// A greeting, if the answer is a `DiscoverResult` that offers the modern revision.
fn read_discover(link: &Link, answer: &Answer) -> Option<Greeting> {
    let message = answer.as_ref().ok()?;
    let result = Object::parse(message.text(message.result?))?;
    let versions: Vec<String> = serde_json::from_str(result.get("supportedVersions")?).ok()?;
    if !versions.iter().any(|version| version == protocol::MODERN) {
        return None;
    }
    link.set_era(Era::Modern);
    let server = result.get("_meta").and_then(Object::parse).and_then(|meta| meta.get(protocol::META_SERVER));
    let (tools, list_changed) = read_capabilities(&result);
    Some(Greeting {
        era: Era::Modern,
        version: protocol::MODERN.to_owned(),
        note: note(link, server, &result),
        tools,
        list_changed,
    })
}

fn read_initialize(link: &Link, answer: &Answer) -> Result<Greeting, CallError> {
    let greeting = read_legacy(link, answer)?;
    link.set_era(Era::Legacy);
    link.notify("notifications/initialized", "");
    Ok(greeting)
}

/// A greeting, if the answer to `initialize` is one.
pub fn read_legacy(link: &Link, answer: &Answer) -> Result<Greeting, CallError> {
    let Ok(message) = answer else { return Err(rejected(link, "initialize", answer)) };
    let result = message.result.and_then(|span| Object::parse(message.text(span)));
    let Some(result) = result else { return Err(rejected(link, "initialize", answer)) };
    let version = result.string("protocolVersion").unwrap_or_default().into_owned();
    if !protocol::LEGACY.contains(&version.as_str()) {
        let what = match version.as_str() {
            "" => "no protocol revision".to_owned(),
            protocol::MODERN => format!("protocol revision `{version}`, which has no `initialize`"),
            _ => {
                let version = link.masked(&version, 100);
                format!("protocol revision `{version}`, which toolrelay does not speak")
            }
        };
        let remedy = match version.as_str() {
            protocol::MODERN => {
                "report this to the authors of the source: it has to answer this with one of ".to_owned()
            }
            _ => format!("use a version of the source that speaks one of {} or ", protocol::MODERN),
        };
        return Err(CallError::new(
            ErrorKind::Unavailable,
            format!("source `{}` answers `initialize` with {what}", link.source),
            format!("{remedy}{}", protocol::LEGACY.join(", ")),
        )
        .at(&link.source, None));
    }
    let (tools, list_changed) = read_capabilities(&result);
    let mut note = note(link, result.get("serverInfo"), &result);
    let abilities = &mut note.offer.abilities;
    // Whoever had prompts or resources then could complete them, and had no way to say so.
    abilities.completions |= version == protocol::WITHOUT_COMPLETIONS && (abilities.prompts || abilities.resources);
    Ok(Greeting { era: Era::Legacy, version, note, tools, list_changed })
}

fn read_capabilities(result: &Object<'_>) -> (bool, bool) {
    let Some(capabilities) = result.get("capabilities").and_then(Object::parse) else { return (false, false) };
    let Some(tools) = capabilities.get("tools").and_then(Object::parse) else { return (false, false) };
    (true, tools.get("listChanged") == Some("true"))
}

/// What it says of itself. Models read it, so what it was told in confidence is left out.
fn note(link: &Link, server: Option<&str>, result: &Object<'_>) -> ServerNote {
    let server = server.and_then(Object::parse);
    let read = |raw: &str| crate::wire::raw::string_lossy(raw).map(|text| link.without_secrets(&text));
    let text = |name: &str| server.as_ref().and_then(|server| read(server.get(name)?));
    ServerNote {
        name: text("name").unwrap_or_default(),
        title: text("title"),
        version: text("version"),
        instructions: result.get("instructions").and_then(read),
        offer: Offer { abilities: abilities(result), ..Offer::default() },
    }
}

fn abilities(result: &Object<'_>) -> Abilities {
    let Some(own) = result.get("capabilities").and_then(Object::parse) else { return Abilities::default() };
    let has = |name: &str| own.get(name).is_some_and(|text| text != "null");
    let resources = own.get("resources").and_then(Object::parse);
    Abilities {
        prompts: has("prompts"),
        resources: has("resources"),
        subscribe: resources.is_some_and(|resources| resources.get("subscribe") == Some("true")),
        completions: has("completions"),
        logging: has("logging"),
        extensions: own.get("extensions").filter(|text| text.starts_with('{')).map(str::to_owned),
    }
}

/// The source refuses the revision it was asked in, and names it among those it speaks: it is to be asked again.
fn offers_modern(answer: &Answer) -> bool {
    let Ok(message) = answer else { return false };
    let error = message.error.and_then(|error| Object::parse(message.text(error)));
    error.is_some_and(|error| {
        let code = error.get("code").and_then(|code| code.parse::<i64>().ok());
        code == Some(protocol::UNSUPPORTED_VERSION)
            && supported(answer).iter().any(|version| version == protocol::MODERN)
    })
}

fn refusal_code(answer: &Answer) -> Option<i64> {
    let message = answer.as_ref().ok()?;
    Object::parse(message.text(message.error?))?.get("code")?.parse().ok()
}

/// The failure of a greeting in a prescribed era: where the answer is that of a source which speaks the other one only, the
/// prescription is what is wrong.
fn prescribed(mut error: CallError, answer: &Answer, choice: EraChoice) -> CallError {
    let (name, other) = match choice {
        EraChoice::Modern => ("modern", "legacy"),
        _ => ("legacy", "modern"),
    };
    // -32000, -32600 and -32602 are what legacy sources say to whatever comes before `initialize`.
    let is_other = match (answer, refusal_code(answer)) {
        (Err(_), _) => false,
        (Ok(_), Some(-32000)) => choice == EraChoice::Modern,
        (Ok(_), Some(code)) => [-32600, -32601, -32602].contains(&code) || protocol::MODERN_ERRORS.contains(&code),
        (Ok(_), None) => choice == EraChoice::Modern,
    };
    if is_other {
        error.hint = format!("`era = \"{name}\"` is set for this source: remove it, or write `era = \"{other}\"`");
    }
    error
}

fn rejected(link: &Link, method: &str, answer: &Answer) -> CallError {
    let message = match answer {
        Err(error) => return error.clone(),
        Ok(message) => message,
    };
    let why = message
        .error
        .and_then(|span| Object::parse(message.text(span)).map(|error| error.get("message").map(str::to_owned)))
        .flatten()
        .and_then(|raw| unquoted(&raw).map(|text| text.into_owned()))
        .unwrap_or_else(|| "no usable answer".to_owned());
    CallError::new(
        ErrorKind::Unavailable,
        format!("source `{}` refused `{method}`: {}", link.source, link.masked(&why, 300)),
        "see what the source needs (its own documentation and its words on stderr)",
    )
    .at(&link.source, None)
}
