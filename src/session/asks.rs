//! Owns what a client is asked: questions to legacy clients as requests of their own, and what clients can be asked at all.
//! It does not know what a question is about; answers go back as they came.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client_call::{ClientCall, Place};
use super::here::Here;
use super::{ClientState, Exchange, Session};
use crate::call::{Caller, Question, Rooted, question};
use crate::protocol;
use crate::wire::{Message, Object, Outbox, Piece, Span, quoted, salvage, unquoted};

/// What the ids of questions begin with: they can be told from the ids that clients give their own requests.
const ASK: &str = "toolrelay-ask-";
/// The question for a client's roots.
const ROOTS: &str = "roots/list";

/// A question on its way to a client and back.
pub struct Asked {
    /// The requests it may belong to: it ends with the last of them. None for one outside of all requests.
    of: Vec<Arc<str>>,
    from: Asker,
    /// Where it was asked.
    out: Arc<Outbox>,
    /// Ends the wait for the answer.
    _awaited: DropGuard,
}

impl Asked {
    pub(super) fn belongs_to(&self, id: &str) -> bool {
        self.of.iter().any(|of| **of == *id)
    }

    /// Whether it belongs to this request and can be no other's.
    pub(super) fn is_only_of(&self, id: &str) -> bool {
        matches!(&self.of[..], [of] if **of == *id)
    }
}

enum Asker {
    /// A source, which waits for the answer.
    Source(Box<Question>),
    /// The relay, for a source that asked by its answer.
    Relay(oneshot::Sender<Answer>),
}

impl Asker {
    /// Nobody answers, for this reason.
    fn fail(self, code: i64, why: &str) {
        let error = question::error(code, why);
        match self {
            Self::Source(question) => question.fail(&error),
            Self::Relay(waiting) => drop(waiting.send(Err(error))),
        }
    }
}

/// The result or the error that a client answered with, as text.
pub type Answer = Result<String, String>;

/// Why a client cannot be asked something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// It has not declared that it can: the capability, and a part of it where it lacks only that.
    Capability(&'static str, Option<String>),
    /// No client can be asked for that, by its method.
    Method(String),
}

impl Lack {
    /// What the client would have to declare, as the text of an object.
    pub fn required(&self) -> Option<String> {
        match self {
            Self::Capability(name, None) => Some(format!("{{\"{name}\":{{}}}}")),
            Self::Capability(name, Some(part)) => Some(format!("{{\"{name}\":{{{}:{{}}}}}}", quoted(part))),
            Self::Method(_) => None,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability(name, None) => write!(f, "the client has not declared the capability `{name}`"),
            Self::Capability(name, Some(part)) => {
                write!(f, "the client has not declared the capability `{name}.{part}`")
            }
            Self::Method(method) => write!(f, "clients cannot be asked for `{method}`"),
        }
    }
}

/// Why a client with these capabilities cannot be asked this; `None` if it can.
pub fn cannot(capabilities: &str, method: &str, params: &str) -> Option<Lack> {
    let capabilities = Object::parse(capabilities);
    let has = |name: &str| capabilities.as_ref().and_then(|own| own.get(name)).and_then(Object::parse);
    let name = match method {
        "sampling/createMessage" => "sampling",
        "elicitation/create" => "elicitation",
        "roots/list" => "roots",
        other => return Some(Lack::Method(other.to_owned())),
    };
    let own = has(name);
    let lacks = |part: &str| own.as_ref().and_then(|own| own.get(part)).is_none_or(|value| value == "null");
    let params = Object::parse(params);
    let part = match name {
        "elicitation" => {
            let mode = params.and_then(|params| params.string("mode").map(|mode| mode.into_owned()));
            let mode = mode.unwrap_or_else(|| "form".to_owned());
            // A client of before 2025-11-25 declares an empty object, and means forms.
            let means_forms = mode == "form" && lacks("url");
            Some(mode).filter(|mode| lacks(mode) && !means_forms)
        }
        "sampling" => {
            let uses =
                |name: &str| params.as_ref().and_then(|params| params.get(name)).is_some_and(|value| value != "null");
            // A wish for context is none that a client has to fulfil, and before 2025-11-25 there was nothing to declare for it.
            let wants_tools = uses("tools") || uses("toolChoice");
            Some("tools".to_owned()).filter(|part| wants_tools && lacks(part))
        }
        _ => None,
    };
    (own.is_none() || part.is_some()).then_some(Lack::Capability(name, part))
}

impl ClientCall {
    /// A source asks something of this call's client.
    pub fn ask(self: &Arc<Self>, question: Question) {
        let mut place = self.lock();
        match &mut *place {
            Place::Here(here) => {
                if let Some(why) = here.cannot(&question.method(), question.params()) {
                    return question.refuse(&why.to_string());
                }
                if here.exchange.modern && !self.takes_rounds() {
                    return question.refuse("nobody can be asked during this request");
                }
                if here.exchange.modern {
                    let here = here.clone();
                    return self.park(&mut place, here, question);
                }
                let (session, exchange) = (here.session.clone(), here.exchange.clone());
                drop(place);
                session.expects_visits(&question.source, [question.params()]);
                if question.method() == ROOTS {
                    session.lock().rooted.insert(question.source.to_string());
                }
                let (method, params) = (question.method().into_owned(), question.params_for(false));
                let of = [&[exchange.id][..], &question.others].concat();
                session.ask(of, &method, &params, Asker::Source(Box::new(question)));
            }
            Place::Parked(waiting) => waiting.add(question),
            Place::Over => question.refuse("the call is over"),
        }
    }
}

impl Rooted for Session {
    fn ask_for_roots(self: Arc<Self>, question: Question) {
        let params = question.params_for(false);
        let news = self.news.clone();
        self.ask_on(&news, Vec::new(), ROOTS, &params, Asker::Source(Box::new(question)));
    }
}

impl Session {
    /// Its roots are others now: the sources that asked for them are told.
    pub(super) fn roots_changed(self: &Arc<Self>) {
        let rooted = self.lock().rooted.clone();
        let snapshot = self.around.control.snapshots.now();
        for source in rooted.iter().filter_map(|id| snapshot.source(id)) {
            source.roots_changed(&self.tenant, self, self.principal.number());
        }
    }

    /// Asks a legacy client, on the stream of the first of these requests that is in flight.
    fn ask(self: &Arc<Self>, of: Vec<Arc<str>>, method: &str, params: &str, from: Asker) {
        let Some(out) = stream_of(&self.lock(), &of) else { return };
        // Where nothing but the answer can be sent, the client may listen elsewhere.
        let is_mute = out.is_mute();
        let out = if is_mute { self.news.clone() } else { out };
        if is_mute && !out.is_read() {
            let why = "the client takes no events with the answer to this call, and does not listen with GET";
            return from.fail(protocol::METHOD_NOT_FOUND, why);
        }
        self.ask_on(&out, of, method, params, from);
    }

    /// Asks a legacy client on a stream.
    fn ask_on(self: &Arc<Self>, out: &Arc<Outbox>, of: Vec<Arc<str>>, method: &str, params: &str, from: Asker) {
        let mut state = self.lock();
        state.last_question += 1;
        let id = state.last_question;
        let over = CancellationToken::new();
        let withdrawn = match &from {
            Asker::Source(question) => question.withdrawn().clone(),
            Asker::Relay(_) => Arc::default(),
        };
        let asked = Asked { of, from, out: out.clone(), _awaited: over.clone().drop_guard() };
        // Of sources that wait for no answer of their own, none could be told of progress either.
        let token = matches!(asked.from, Asker::Source(_)).then(|| format!("\"{ASK}{id}\""));
        state.asked.insert(id, asked);
        drop(state);
        let retokened = question::retokened(params, token.as_deref());
        let params = retokened.as_deref().unwrap_or(params);
        let method = quoted(method);
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{ASK}{id}\",\"method\":{method},\"params\":{params}}}");
        if out.ask(&text).is_err() {
            let unsent = self.lock().asked.remove(&id);
            return drop(unsent);
        }
        let session = self.clone();
        self.around.tracker.spawn(async move {
            let patience = session.around.control.snapshots.now().config.relay.ask_timeout;
            tokio::select! {
                () = over.cancelled() => {}
                () = withdrawn.cancelled() => session.withdrawn(id),
                () = session.around.shutdown.cancelled() => {}
                () = tokio::time::sleep(patience) => session.unanswered(id, patience),
            }
        });
    }

    /// The client answers nothing any more. A question that may be one of several requests' ends alone.
    pub(super) fn is_gone(&self) {
        let shared: Vec<_> = self.lock().asked.extract_if(|_, asked| asked.of.len() > 1).collect();
        drop(shared);
    }

    /// Its source waits for the answer no more.
    fn withdrawn(&self, id: u64) {
        let Some(Asked { out, .. }) = self.lock().asked.remove(&id) else { return };
        take_back(id, &out, "the source does not wait for the answer any more");
    }

    /// The client takes too long to answer.
    fn unanswered(&self, id: u64, patience: Duration) {
        let Some(Asked { from, out, .. }) = self.lock().asked.remove(&id) else { return };
        take_back(id, &out, "the answer took too long");
        let why = format!("the client did not answer within {} s", patience.as_secs_f32());
        from.fail(protocol::INTERNAL_ERROR, &why);
    }

    /// Asks a legacy client for the relay, which waits for the answer.
    pub(super) fn ask_for_answer(
        self: &Arc<Self>,
        here: &Here,
        method: &str,
        params: &str,
    ) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        self.ask(vec![here.exchange.id.clone()], method, params, Asker::Relay(answer));
        answered
    }

    /// A client's reply to a question.
    pub(super) fn answered(&self, message: &Message) {
        let found = message.id_text().and_then(number).and_then(|id| self.lock().asked.remove(&id));
        let Some(asked) = found else {
            return tracing::debug!("reply of the client to nothing dropped");
        };
        let answer = match (message.result, message.error) {
            (_, Some(error)) => Err(message.text(error).to_owned()),
            (Some(result), None) if message.text(result).starts_with('{') => Ok(message.text(result).to_owned()),
            _ => Err(question::error(protocol::INTERNAL_ERROR, "the answer of the client is no object")),
        };
        match (asked.from, answer) {
            (Asker::Source(question), Ok(result)) => question.answer(&result),
            (Asker::Source(question), Err(error)) => question.fail(&error),
            (Asker::Relay(waiting), answer) => drop(waiting.send(answer)),
        }
    }

    /// A client tells how far it is with a question.
    pub(super) fn progressed(&self, notice: &Message) {
        let params = notice.params_text().and_then(Object::parse);
        let Some(token) = params.as_ref().and_then(|params| params.get("progressToken")) else { return };
        let Some(id) = number(token) else { return };
        if let Some(Asked { from: Asker::Source(question), .. }) = self.lock().asked.get(&id) {
            question.progress(notice, Span::of(&notice.line, token));
        }
    }

    /// The id under which to refuse what the client sent and what cannot be read, of which the beginning and the end are at
    /// hand; `None` where it is an answer: that is not answered, and whoever asked is told `why` instead.
    pub fn id_to_refuse<'a>(&self, head: &'a [u8], tail: &'a [u8], why: &str) -> Option<&'a str> {
        let id = salvage::salvage_id(head, tail);
        let Some(number) = id.and_then(number) else {
            return (!salvage::is_answer(head)).then(|| id.unwrap_or("null"));
        };
        let found = self.lock().asked.remove(&number);
        if let Some(Asked { from, .. }) = found {
            from.fail(protocol::INTERNAL_ERROR, &format!("the answer of the client cannot be used: {why}"));
        }
        None
    }

    /// Whether the client has still to answer anything.
    pub fn is_asked_anything(&self) -> bool {
        !self.lock().asked.is_empty()
    }

    /// Whether the client has still to answer something that belongs to this request.
    pub(super) fn is_asked(&self, exchange: &Exchange) -> bool {
        self.lock().asked.values().any(|asked| asked.belongs_to(&exchange.id))
    }

    /// The request is over, and with it what was asked for it and can be no other's.
    pub(super) fn take_questions_back(&self, exchange: &Exchange) {
        let mut state = self.lock();
        if state.asked.is_empty() {
            return;
        }
        let over: Vec<(u64, Asked)> = state.asked.extract_if(|_, asked| asked.is_only_of(&exchange.id)).collect();
        let mut asked = std::mem::take(&mut state.asked);
        for question in asked.values_mut().filter(|asked| asked.belongs_to(&exchange.id)) {
            question.of.retain(|of| *of != exchange.id);
            if let Some(out) = stream_of(&state, &question.of).filter(|out| !out.is_mute()) {
                question.out = out;
            }
        }
        state.asked = asked;
        drop(state);
        for (id, asked) in over {
            let out = asked.out.clone();
            drop(asked);
            take_back(id, &out, "the call it belongs to is over");
        }
    }

    /// What the client said of itself in its handshake; `None` for a modern one, which says it in each request.
    pub fn caller(&self, exchange: &Exchange) -> Option<Arc<Caller>> {
        if exchange.modern { None } else { self.lock().caller.clone() }
    }

    /// A log line of a source for the client of a call: it names its source, and is shown from the level on that the client
    /// wants.
    pub(super) fn log_line(&self, here: &Here, notice: &Message, source: &str) -> bool {
        let Some(params) = notice.params_text().and_then(Object::parse) else { return false };
        let level = params.string("level").unwrap_or_default();
        if !here.wants_line(&level, source) {
            return false;
        }
        let logger = params.string("logger");
        let logger = logger.map_or_else(|| source.to_owned(), |logger| format!("{source}/{logger}"));
        let params = params.rewritten(|name| name != "logger", &[&format!("\"logger\":{}", quoted(&logger))]);
        here.tell(&[Piece::Text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}"
        ))]);
        true
    }
}

/// Where the first of these requests is answered that is in flight, if it can be one where more than the answer can be sent.
fn stream_of(state: &ClientState, of: &[Arc<str>]) -> Option<Arc<Outbox>> {
    let mut all = of.iter().filter_map(|id| Some(&state.in_flight.get(id)?.exchange.out));
    let first = all.next()?;
    let speaking = std::iter::once(first).chain(all).find(|out| !out.is_mute());
    Some(speaking.unwrap_or(first).clone())
}

/// The number of the question with this id.
fn number(id: &str) -> Option<u64> {
    unquoted(id)?.strip_prefix(ASK)?.parse().ok()
}

/// Tells the client that a question need not be answered any more.
fn take_back(id: u64, out: &Outbox, why: &str) {
    let _ = out.ask(&format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":\"{ASK}{id}\",\"reason\":{}}}}}",
        quoted(why)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_only_what_it_can_do() {
        let all = "{\"sampling\":{},\"elicitation\":{\"form\":{},\"url\":{}},\"roots\":{}}";
        for (capabilities, method, params, can) in [
            (all, "sampling/createMessage", "{}", true),
            (all, "elicitation/create", "{\"mode\":\"url\"}", true),
            (all, "elicitation/create", "{}", true),
            (all, "roots/list", "{}", true),
            (all, "tools/list", "{}", false),
            ("{}", "sampling/createMessage", "{}", false),
            ("{\"sampling\":{}}", "sampling/createMessage", "{\"tools\":null}", true),
            ("{\"sampling\":{}}", "sampling/createMessage", "{\"includeContext\":\"thisServer\"}", true),
            ("{\"sampling\":{}}", "sampling/createMessage", "{\"tools\":[{}]}", false),
            ("{\"sampling\":{}}", "sampling/createMessage", "{\"toolChoice\":{}}", false),
            ("{\"sampling\":{\"tools\":{}}}", "sampling/createMessage", "{\"tools\":[{}]}", true),
            ("{\"elicitation\":{}}", "elicitation/create", "{}", true),
            ("{\"elicitation\":{}}", "elicitation/create", "{\"mode\":\"url\"}", false),
            ("{\"elicitation\":{\"url\":{}}}", "elicitation/create", "{\"mode\":\"form\"}", false),
        ] {
            assert_eq!(cannot(capabilities, method, params).is_none(), can, "{capabilities} {method} {params}");
        }
        let lack = cannot("{\"sampling\":{}}", "sampling/createMessage", "{\"tools\":[]}").unwrap();
        assert_eq!(lack.required().as_deref(), Some("{\"sampling\":{\"tools\":{}}}"));
        let lack = cannot("{}", "elicitation/create", "{\"mode\":\"url\"}").unwrap();
        assert_eq!(lack.required().as_deref(), Some("{\"elicitation\":{\"url\":{}}}"));
        assert_eq!(cannot("{}", "elicitation/create", "{}"), Some(Lack::Capability("elicitation", None)));
    }
}
