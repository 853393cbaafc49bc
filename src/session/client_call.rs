//! Owns the way back of a client's call: progress, questions and the end reach the client in its own era.
//! Where a call goes is decided in [`crate::dispatch`]; how a client is asked, in [`super::asks`] and [`super::parked`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::value::RawValue;

use super::here::Here;
use super::pages::{self, Told};
use super::parked::Waiting;
use super::uris::{self, Naming};
use crate::call::{
    Call, CallError, CallRequest, End, ErrorKind, Question, Reply, ReturnPath, Subject, Tenant, Ticket, Who,
    error_shape, shape,
};
use crate::config::CallLimits;
use crate::dispatch;
use crate::policy::Offered;
use crate::protocol::{self, Era};
use crate::source::Source;
use crate::wire::busy_poll::UnderWay;
use crate::wire::{Message, Object, Outbox, Piece, Span, quoted};

/// What a client of 2026-07-28 wants to know of a resource, where the source does not say it (SEP-2549).
const CACHE_HINTS: &str = "\"ttlMs\":0,\"cacheScope\":\"private\"";

/// The error of sources up to 2025-11-25 for what they have not: a code that no client of 2026-07-28 may get.
fn not_found<'a>(here: &Here, reply: &'a Message) -> Option<Object<'a>> {
    let error = Object::parse(reply.text(reply.error.filter(|_| here.exchange.modern)?))?;
    (error.get("code") == Some(&protocol::RESOURCE_NOT_FOUND.to_string())).then_some(error)
}

/// Which source a call goes to, and what it asks of it.
pub struct Target {
    pub source: Source,
    pub subject: Subject,
    /// How the source's URIs are put, where the client asked for one under another than its own.
    pub prefix: Option<Naming>,
    /// What a method is about, by the source's own name of it.
    pub about: Option<About>,
}

/// What the rules judge a request by that is none for a tool, a prompt or a resource itself.
pub enum About {
    Prompt(String),
    Resource(String),
}

impl About {
    fn offered(&self) -> Offered<'_> {
        match self {
            Self::Prompt(name) => Offered::Prompt(name),
            Self::Resource(uri) => Offered::Resource(uri),
        }
    }
}

/// Where a call's answer goes.
pub enum Place {
    /// To a request that waits for it.
    Here(Here),
    /// The client has been asked something; its next request takes the call up again.
    Parked(Waiting),
    Over,
}

/// A call that came from a client.
pub struct ClientCall {
    pub place: Mutex<Place>,
    pub target: OnceLock<Target>,
    /// Whose instances of sources it goes to.
    pub tenant: Tenant,
    /// It came through `call_tool`.
    dispatched: bool,
    /// How often its client was told that it waits.
    waited: AtomicU32,
    /// How often the source asked for input by its answer.
    pub rounds: AtomicU32,
    /// The most progress that its client was told of, as the bits of a double.
    shown: AtomicU64,
}

impl ClientCall {
    pub fn new(here: Here, dispatched: bool) -> Arc<Self> {
        Arc::new(Self {
            tenant: here.session.tenant.clone(),
            place: Mutex::new(Place::Here(here)),
            target: OnceLock::new(),
            dispatched,
            waited: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
            shown: AtomicU64::new(f64::NEG_INFINITY.to_bits()),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request that waits for the answer, if there is one now.
    pub(super) fn here(&self) -> Option<Here> {
        match &*self.lock() {
            Place::Here(here) => Some(here.clone()),
            _ => None,
        }
    }

    /// Sends the call to its source.
    pub fn send(self: &Arc<Self>, target: Target, request: CallRequest, limits: CallLimits, ticket: Arc<Ticket>) {
        if request.comes_back() {
            self.come_back(target, request, limits, ticket)
        } else {
            self.go(target, request, limits, ticket)
        }
    }

    /// Sends the call as it is.
    pub(super) fn go(self: &Arc<Self>, target: Target, request: CallRequest, limits: CallLimits, ticket: Arc<Ticket>) {
        let (source, subject) = (target.source.clone(), target.subject.clone());
        let Some(mut request) = self.unbound(source.id.as_str(), request) else { return };
        if let Place::Here(here) = &*self.lock()
            && here.may_come_back()
        {
            request = request.resumable();
        }
        let tenant = Some(self.tenant.clone());
        let _ = self.target.set(target);
        let back = Box::new(Back(self.clone()));
        let (id, under_way) = (source.id.clone(), UnderWay::begin());
        source.call(Box::new(Call { source: id, subject, request, limits, ticket, tenant, back, under_way }));
    }

    /// The request with the state as the source gave it; refuses one whose state was given to somebody else.
    fn unbound(&self, source: &str, request: CallRequest) -> Option<CallRequest> {
        let Place::Here(here) = &*self.lock() else { return Some(request) };
        let unbound = here.unbound(source, request);
        if unbound.is_none() && here.session.finish(&here.exchange) {
            let text = "`requestState` does not fit: it was given to another credential, by another source, or before the \
                        relay was started; send the request again without it";
            here.exchange.error(protocol::INVALID_PARAMS, text, None);
        }
        unbound
    }

    /// The one end of the call, or a round of it.
    pub fn ended(self: &Arc<Self>, end: End) {
        let mut place = self.lock();
        match std::mem::replace(&mut *place, Place::Over) {
            Place::Here(here) => {
                drop(place);
                match end {
                    End::Failed(error) => self.refuse(&here, error),
                    End::Reply(reply) => self.replied(here, *reply),
                }
            }
            Place::Parked(mut waiting) => {
                waiting.ended = Some(end);
                *place = Place::Parked(waiting);
            }
            Place::Over => {}
        }
    }

    fn replied(self: &Arc<Self>, here: Here, mut reply: Reply) {
        if let Some(told) = self.links_told(&here, &reply.message) {
            reply.message = told;
        }
        let result = here.exchange.opened(&reply.message, reply.era);
        let asking = result.as_ref().filter(|result| reply.era == Era::Modern && super::rounds::wants_input(result));
        if let Some(error) = asking.and_then(|asking| super::rounds::malformed(asking, self.target.get()?)) {
            return self.refuse(&here, error);
        }
        if asking.is_some() && !here.exchange.modern {
            *self.lock() = Place::Here(here.clone());
            return super::rounds::drive(self.clone(), here, reply);
        }
        if !here.session.finish(&here.exchange) {
            return;
        }
        match pages::told(&reply, &here, self.source_id()) {
            Some(Told::Questions(_)) if !self.takes_rounds() => return self.asks_in_vain(&here),
            Some(Told::Questions(pages)) => return here.exchange.input_required(&pages, None),
            Some(Told::Cannot(lack)) => {
                return self.lacks(&here, &lack, &format!("source `{}` wants a page visited first", self.source_id()));
            }
            Some(Told::Error(error)) => return here.exchange.error_text(&error),
            None => {}
        }
        if asking.is_some() && !self.takes_rounds() {
            return self.asks_in_vain(&here);
        }
        if let Some(lack) = asking.and_then(|asking| super::rounds::lacks(asking, &here)) {
            let text = format!("source `{}` needs input from the client during this call", self.source_id());
            return self.lacks(&here, &lack, &text);
        }
        if let Some(asking) = asking {
            return here.exchange.asks(&super::rounds::asks(asking, &here, self.source_id()));
        }
        if self.is_of_task()
            && let Some(told) =
                result.as_ref().and_then(|task| super::rounds::asks_for_task(task, &here, self.source_id()))
        {
            let text = format!("source `{}` needs input from the client for this task", self.source_id());
            return match told {
                Ok(told) => here.exchange.asks(&told),
                Err(lack) => self.lacks(&here, &lack, &text),
            };
        }
        here.session.around.seen.note(&here.session.principal, &reply, result.as_ref(), self.source_id());
        if let Some(error) = self.rejected_arguments(&here, &reply.message) {
            return here.exchange.tool_error(&error);
        }
        let not_found = not_found(&here, &reply.message);
        let Some(Target { subject: Subject::Resource(uri), prefix, .. }) = self.target.get() else {
            if let Some(error) = not_found {
                return here.exchange.error_text(&error_shape::coded(&error, protocol::INVALID_PARAMS));
            }
            return match self.mended(&here, &reply.message) {
                Some(mended) => {
                    let result = here.exchange.opened(&mended, reply.era);
                    here.exchange.pass_on(&mended, result.as_ref(), reply.era, "");
                }
                None => self.answer(&here, &reply, result.as_ref()),
            };
        };
        if not_found.is_some() {
            return super::routed::missing_resource(uri, &here.exchange);
        }
        match reply.message.error {
            None if let Some(told) = prefix.as_ref().and_then(|naming| uris::renamed(&reply.message, naming)) => {
                let result = here.exchange.opened(&told, reply.era);
                here.exchange.pass_on(&told, result.as_ref(), reply.era, CACHE_HINTS);
            }
            _ => here.exchange.pass_on(&reply.message, result.as_ref(), reply.era, CACHE_HINTS),
        }
    }

    /// Why what the call asks for may not be had by now, though it was let pass before.
    pub(super) fn barred(&self, target: &Target) -> Option<CallError> {
        let here = self.here()?;
        let snapshot = here.session.around.control.snapshots.now();
        let id = target.source.id.as_str();
        if let Subject::Tool(tool) = &target.subject {
            return dispatch::barred(&snapshot, id, tool.as_str());
        }
        let offered = match &target.subject {
            Subject::Prompt(name) => Offered::Prompt(name),
            Subject::Resource(uri) => Offered::Resource(uri),
            _ => target.about.as_ref()?.offered(),
        };
        // By its rules as they are now.
        let reason = uris::refusal(&snapshot, snapshot.source(id)?, offered)?;
        let text = format!("`{}` of source `{id}` is withheld: {reason}", target.subject.name());
        Some(CallError::new(ErrorKind::Withheld, text, "it cannot be had with this configuration").at(id, None))
    }

    /// Passes on what is no resource's.
    fn answer(&self, here: &Here, reply: &Reply, result: Option<&Object<'_>>) {
        let target = self.target.get().filter(|target| matches!(target.subject, Subject::Method(_)));
        let told = target.and_then(|target| {
            super::skills::told(&here.session.around.control.snapshots.now(), target, &reply.message)
        });
        match told {
            None => here.exchange.pass_on(&reply.message, result, reply.era, ""),
            Some(Ok(told)) => {
                let result = here.exchange.opened(&told, reply.era);
                here.exchange.pass_on(&told, result.as_ref(), reply.era, CACHE_HINTS);
            }
            Some(Err(why)) => {
                here.exchange.error(protocol::INVALID_PARAMS, &format!("the skill is withheld: {why}"), None);
            }
        }
    }

    /// A tool's or a prompt's answer with links as the client knows what they lead to, where those are others.
    fn links_told(&self, here: &Here, reply: &Message) -> Option<Message> {
        let target = self.target.get().filter(|_| reply.met.resource_link)?;
        if !matches!(target.subject, Subject::Tool(_) | Subject::Prompt(_)) {
            return None;
        }
        uris::links_told(&here.session.around.control.snapshots.now(), &target.source.id, reply)
    }

    /// A tool's answer in a legal shape, where it has none.
    fn mended(&self, here: &Here, reply: &Message) -> Option<Message> {
        let target = self.target.get().filter(|target| matches!(target.subject, Subject::Tool(_)))?;
        let mended = shape::mended_reply(reply, here.exchange.modern)?;
        tracing::debug!(source = self.source_id(), tool = target.subject.name(), "result in no legal shape mended");
        Some(mended)
    }

    pub(super) fn source_id(&self) -> &str {
        self.target.get().map(|target| target.source.id.as_str()).unwrap_or_default()
    }

    /// The relay's own refusal. A model can act on that of a tool; only a name that leads nowhere is a protocol error.
    pub fn refuse(&self, here: &Here, error: CallError) {
        if !here.session.finish(&here.exchange) {
            return;
        }
        let subject = self.target.get().map(|target| &target.subject);
        if !matches!(subject, None | Some(Subject::Tool(_))) {
            let text = format!("{}; {}", error.message, error.hint);
            let data = format!("{{\"source\":{},\"error\":{}}}", quoted(self.source_id()), error.to_json());
            return here.exchange.error(protocol::INTERNAL_ERROR, &text, Some(&data));
        }
        if !self.dispatched && error.kind == ErrorKind::UnknownTool {
            let mut text = format!("{}; {}", error.message, error.hint);
            if !error.similar.is_empty() {
                text.push_str(&format!("; did you mean {}?", error.similar.join(", ")));
            }
            return here.exchange.error(protocol::INVALID_PARAMS, &text, None);
        }
        here.exchange.tool_error(&error);
    }

    /// A source's refusal of the arguments, with the schema it wants them to fit.
    fn rejected_arguments(&self, here: &Here, reply: &Message) -> Option<CallError> {
        let error = reply.error.filter(|_| self.dispatched)?;
        let object = Object::parse(reply.text(error))?;
        if object.get("code")? != protocol::INVALID_PARAMS.to_string() {
            return None;
        }
        let target = self.target.get()?;
        let (source, tool) = (target.source.id.as_str(), target.subject.name());
        let said = object.string("message").unwrap_or_default();
        let text = format!("source `{source}` rejected the call of `{tool}`: {said}");
        let mut failure = CallError::new(ErrorKind::InvalidArguments, text, "correct the arguments and call again");
        failure = failure.at(source, Some(tool));
        let snapshot = here.session.around.control.snapshots.now();
        let entry = snapshot.catalog.find(source, tool);
        failure.input_schema = entry.and_then(|entry| RawValue::from_string(entry.schemas().0).ok());
        failure.cause = RawValue::from_string(reply.text(error).to_owned()).ok();
        Some(failure)
    }

    /// Whether a notification of progress may be shown: in each round a source begins anew, and to the client it may only grow.
    fn goes_on(&self, notice: &Message) -> bool {
        let progress = notice.params_object().and_then(|params| params.get("progress")?.parse::<f64>().ok());
        let Some(progress) = progress else { return true };
        let shown = f64::from_bits(self.shown.load(Ordering::Relaxed));
        if self.rounds.load(Ordering::Relaxed) > 0 && progress <= shown {
            return false;
        }
        self.shown.store(progress.max(shown).to_bits(), Ordering::Relaxed);
        true
    }

    /// Tells a client that asked for progress that its call has not been sent yet, and why.
    pub fn waits(&self, why: &str) {
        if let Place::Here(here) = &*self.lock()
            && let Some(token) = &here.token
            && here.session.waits_for(&here.exchange)
            // Of an earlier round it got the source's own, which is more.
            && f64::from_bits(self.shown.load(Ordering::Relaxed)) <= 0.0
        {
            // Progress may only grow, and the source's own begins at zero or one: so this stays far below.
            let progress = f64::from(self.waited.fetch_add(1, Ordering::Relaxed) + 1) * 1e-9;
            here.tell(&[Piece::Text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\
                 \"progress\":{progress:.9},\"message\":{}}}}}",
                quoted(why)
            ))]);
        }
    }
}

/// The end of a call that the source holds.
struct Back(Arc<ClientCall>);

impl ReturnPath for Back {
    fn end(self: Box<Self>, end: End) {
        self.0.ended(end);
    }

    fn progress(&self, notice: &Message, token: Span) {
        if let Place::Here(here) = &*self.0.lock()
            && let Some(own) = &here.token
            && self.0.goes_on(notice)
        {
            let whole = Span { start: 0, end: notice.line.len() };
            let (params, head, tail) = match notice.params {
                Some(params) if !notice.regular => {
                    (params, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":", "}")
                }
                _ => (whole, "", ""),
            };
            here.tell(&[
                Piece::Text(head),
                Piece::Slice(&notice.line, params.start, token.start),
                Piece::Text(own),
                Piece::Slice(&notice.line, token.end, params.end),
                Piece::Text(tail),
            ]);
        }
    }

    fn waits(&self, why: &str) {
        self.0.waits(why);
    }

    fn outbox(&self) -> Option<Arc<Outbox>> {
        match &*self.0.lock() {
            Place::Here(here) => Some(here.exchange.out.clone()).filter(|out| out.holds_up()),
            _ => None,
        }
    }

    fn who(&self) -> Option<Who> {
        match &*self.0.lock() {
            Place::Here(here) => Some(Who {
                client: Arc::as_ptr(&here.session) as u64,
                owner: here.session.principal.number(),
                is_away: false,
                any_call: !here.exchange.modern,
            }),
            Place::Parked(waiting) => Some(Who { client: 0, owner: waiting.owner, is_away: true, any_call: false }),
            Place::Over => None,
        }
    }

    fn request(&self) -> Option<Arc<str>> {
        match &*self.0.lock() {
            Place::Here(here) => Some(here.exchange.id.clone()),
            _ => None,
        }
    }

    fn ask(&self, question: Question) {
        self.0.ask(question);
    }

    fn tell(&self, notice: &Message) -> bool {
        matches!(&*self.0.lock(), Place::Here(here) if here.session.log_line(here, notice, self.0.source_id()))
    }

    fn barred(&self) -> Option<CallError> {
        self.0.barred(self.0.target.get()?)
    }

    fn waits_for_client(&self) -> bool {
        match &*self.0.lock() {
            Place::Here(here) => here.session.is_asked(&here.exchange),
            Place::Parked(_) => true,
            Place::Over => false,
        }
    }
}
