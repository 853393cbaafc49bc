//! Owns the requests besides `tools/call` that go to one source: prompts, resources, completions, skills, tasks.
//! Which source that is, is decided by [`super::offers`] and [`super::uris`].

use std::sync::Arc;

use super::client_call::{About, ClientCall, Target};
use super::here::Here;
use super::offers::find_prompt;
use super::uris::{Found, Nowhere, any_skills, candidates, find_resource, find_skill};
use super::{Exchange, Session, Work, skills};
use crate::call::{CallRequest, OfferShape, Subject, Ticket};
use crate::config::CallLimits;
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::wire::{Message, Object, Span, quoted};

/// The extension for tasks (SEP-2663).
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a modern request declares the extension for tasks.
fn has_tasks(message: &Message) -> bool {
    let capabilities = message.meta(protocol::META_CAPABILITIES).and_then(Object::parse);
    let extensions = capabilities.and_then(|own| Object::parse(own.get("extensions")?));
    extensions.is_some_and(|own| own.get(TASKS).is_some())
}

/// A place where a request is routed by, and how.
enum By {
    Prompt(Span, String),
    Resource(Span, String),
    Skill(Span, String),
    /// A directory of a skill.
    Directory(Span, String),
    Task(String),
}

impl Session {
    /// A request that goes to one source, found by what it names. `false` when it is no such request.
    pub(super) fn route_other(
        self: &Arc<Self>,
        method: &str,
        message: &Message,
        params: Option<&Object<'_>>,
        exchange: &Exchange,
    ) -> bool {
        let by = match method {
            "prompts/get" => routed_by(message, params, "name", By::Prompt),
            "resources/read" => routed_by(message, params, "uri", By::Resource),
            "completion/complete" => completed(message, params),
            skills::GET if exchange.modern => routed_by(message, params, "uri", By::Skill),
            skills::DIRECTORY if exchange.modern => routed_by(message, params, "uri", By::Directory),
            "tasks/get" | "tasks/update" | "tasks/cancel" if exchange.modern => {
                let task = params.and_then(|params| params.string("taskId").map(|task| task.into_owned()));
                task.map(By::Task).ok_or("`params.taskId` is missing or no string")
            }
            _ => return false,
        };
        if matches!(by, Ok(By::Task(_))) && !has_tasks(message) {
            let text = "the client has not declared the extension for tasks";
            let data = format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{TASKS}\":{{}}}}}}}}");
            exchange.error(protocol::MISSING_CAPABILITY, text, Some(&data));
            return true;
        }
        let mut exchange = exchange.clone();
        exchange.offer = match &by {
            Ok(By::Prompt(..)) if method == "prompts/get" => Some(OfferShape::Messages),
            Ok(By::Resource(uri, _)) if method == "resources/read" => {
                Some(OfferShape::Contents(message.text(*uri).into()))
            }
            _ => None,
        };
        let Some(exchange) = self.resume(message, params, exchange) else { return true };
        match by {
            Ok(by) => self.send_other(method.to_owned(), by, message.clone(), exchange),
            Err(why) => exchange.error(protocol::INVALID_PARAMS, why, None),
        }
        true
    }

    fn send_other(self: &Arc<Self>, method: String, by: By, message: Message, exchange: Exchange) {
        let ticket = Arc::new(Ticket::default());
        if !self.begin(&exchange, Work::Call(ticket.clone())) {
            return;
        }
        let session = self.clone();
        let snapshot = self.around.control.snapshots.now();
        if let Ok(found) = self.find(&snapshot, &by) {
            return self.go_other(&method, &by, found, &message, exchange, ticket);
        }
        // A source may have got it since it was last listed, or has not been listed yet.
        self.go_on(&exchange.clone(), async move {
            let snapshot = session.around.control.once(|snapshot| !snapshot.awaits_any()).await;
            match session.find(&snapshot, &by) {
                Ok(found) => session.go_other(&method, &by, found, &message, exchange, ticket),
                Err(why) if session.finish(&exchange) => refuse(&by, &why, &exchange, &snapshot),
                Err(_) => {}
            }
        });
    }

    fn find(&self, snapshot: &Snapshot, by: &By) -> Result<Found, Nowhere> {
        match by {
            By::Prompt(_, name) => find_prompt(snapshot, name),
            By::Resource(_, uri) => {
                find_resource(snapshot, uri, |uri| self.around.seen.source_of(&self.principal, uri))
            }
            By::Skill(_, uri) => find_skill(snapshot, uri, false),
            By::Directory(_, uri) => find_skill(snapshot, uri, true),
            By::Task(task) => {
                let source = self.around.seen.source_of_task(&self.principal, task);
                let source = source.and_then(|source| snapshot.source(&source).cloned());
                let found = |source| Found { source, own: task.clone(), naming: None };
                source.map(found).ok_or(Nowhere::Unknown)
            }
        }
    }

    fn go_other(
        self: &Arc<Self>,
        method: &str,
        by: &By,
        Found { source, own, naming: prefix }: Found,
        message: &Message,
        exchange: Exchange,
        ticket: Arc<Ticket>,
    ) {
        let (place, named) = match by {
            By::Prompt(place, name) | By::Resource(place, name) => (Some(*place), name),
            By::Skill(place, uri) | By::Directory(place, uri) => (Some(*place), uri),
            By::Task(task) => (None, task),
        };
        let read = if method == "prompts/get" { CallRequest::read_prompt } else { CallRequest::read_other };
        let request = match read(message, place) {
            Ok(request) if own != *named => request.renamed(&own),
            Ok(request) => request,
            Err(error) => {
                if self.finish(&exchange) {
                    exchange.error(protocol::INVALID_PARAMS, &error.to_string(), None);
                }
                return;
            }
        };
        if method == "completion/complete" && !self.completes(&source) {
            if self.finish(&exchange) {
                exchange.result("{\"completion\":{\"values\":[],\"total\":0,\"hasMore\":false}}");
            }
            return;
        }
        let about = match by {
            By::Prompt(..) => Some(About::Prompt(own.clone())),
            By::Resource(..) | By::Skill(..) | By::Directory(..) => Some(About::Resource(own.clone())),
            By::Task(_) => None,
        };
        let subject = match (method, by) {
            ("prompts/get", _) => Subject::Prompt(own),
            ("resources/read", _) => Subject::Resource(own),
            _ => Subject::Method(method.to_owned()),
        };
        let limits = source.config.as_ref().map_or_else(CallLimits::default, |config| config.limits);
        let request = request.from(self.caller(&exchange));
        let call = ClientCall::new(Here::new(self, exchange, message, request.meta()), false);
        call.send(Target { source, subject, prefix, about }, request, limits, ticket);
    }

    fn completes(&self, source: &Source) -> bool {
        let snapshot = self.around.control.snapshots.now();
        let toolset = snapshot.catalog.toolset(source.id.as_str());
        toolset.is_some_and(|toolset| toolset.note().offer.abilities.completions)
    }
}

fn routed_by(
    message: &Message,
    params: Option<&Object<'_>>,
    member: &str,
    by: fn(Span, String) -> By,
) -> Result<By, &'static str> {
    const WRONG: &str =
        "what the request is about is missing in `params`, or no string (`name` of a prompt, `uri` of a resource)";
    let raw = params.ok_or(WRONG)?.get(member).ok_or(WRONG)?;
    let text = crate::wire::unquoted(raw).ok_or(WRONG)?.into_owned();
    Ok(by(Span::of(&message.line, raw), text))
}

/// What a completion is for: a prompt's argument, or a template's.
fn completed(message: &Message, params: Option<&Object<'_>>) -> Result<By, &'static str> {
    const WRONG: &str =
        "`params.ref` must be {\"type\":\"ref/prompt\",\"name\":..} or {\"type\":\"ref/resource\",\"uri\":..}";
    let about = params.ok_or(WRONG)?.get("ref").and_then(Object::parse).ok_or(WRONG)?;
    if about.ambiguous(&["type", "name", "uri"]).is_some() {
        return Err("a member of `params.ref` stands there twice, or in another letter case");
    }
    let place = |member: &str| {
        let raw = about.get(member).ok_or(WRONG)?;
        let text = crate::wire::unquoted(raw).ok_or(WRONG)?.into_owned();
        Ok((Span::of(&message.line, raw), text))
    };
    match about.string("type").as_deref() {
        Some("ref/prompt") => place("name").map(|(span, name)| By::Prompt(span, name)),
        Some("ref/resource") => place("uri").map(|(span, uri)| By::Resource(span, uri)),
        _ => Err(WRONG),
    }
}

/// Nothing of that name is known, or may be had.
fn refuse(by: &By, why: &Nowhere, exchange: &Exchange, snapshot: &Snapshot) {
    match by {
        By::Prompt(_, name) => {
            let text = match why {
                Nowhere::Unknown => format!("there is no prompt `{name}`; see `prompts/list`"),
                Nowhere::Withheld(reason) => withheld_text(name, reason),
            };
            exchange.error(protocol::INVALID_PARAMS, &text, None);
        }
        By::Resource(_, uri) => no_resource(uri, exchange, why, snapshot),
        By::Skill(_, uri) | By::Directory(_, uri) => {
            let directory = matches!(by, By::Directory(..));
            if !any_skills(snapshot, directory) {
                let text = if directory { "no source lists directories of skills" } else { "no source has skills" };
                return exchange.error(protocol::METHOD_NOT_FOUND, text, None);
            }
            let text = match why {
                Nowhere::Unknown => format!("there is no skill of `{uri}`; see `skills/list`"),
                Nowhere::Withheld(reason) => withheld_text(uri, reason),
            };
            exchange.error(protocol::INVALID_PARAMS, &text, Some(&format!("{{\"uri\":{}}}", quoted(uri))));
        }
        By::Task(task) => {
            let text = format!("there is no task `{task}` (any more)");
            exchange.error(protocol::INVALID_PARAMS, &text, None);
        }
    }
}

fn withheld_text(uri: &str, reason: &str) -> String {
    format!("`{uri}` is withheld: {reason}")
}

/// The error for a resource that there is not, or not for this client, by the client's revision.
pub fn no_resource(uri: &str, exchange: &Exchange, why: &Nowhere, snapshot: &Snapshot) {
    let text = match (why, &candidates(snapshot, uri)[..]) {
        (Nowhere::Withheld(reason), _) => withheld_text(uri, reason),
        (Nowhere::Unknown, []) => return missing_resource(uri, exchange),
        (Nowhere::Unknown, several) => {
            let all: Vec<String> = several.iter().map(|own| format!("`{own}`")).collect();
            format!("no source lists a resource `{uri}`, and several may have it: ask for {}", all.join(" or "))
        }
    };
    refuse_resource(uri, exchange, &text);
}

/// The error for a resource that its source has not.
pub fn missing_resource(uri: &str, exchange: &Exchange) {
    let text = format!("no source has a resource `{uri}`; see `resources/list` and `resources/templates/list`");
    refuse_resource(uri, exchange, &text);
}

fn refuse_resource(uri: &str, exchange: &Exchange, text: &str) {
    let code = if exchange.modern { protocol::INVALID_PARAMS } else { protocol::RESOURCE_NOT_FOUND };
    exchange.error(code, text, Some(&format!("{{\"uri\":{}}}", quoted(uri))));
}
