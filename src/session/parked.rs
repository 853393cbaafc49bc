//! Owns calls to legacy sources that wait for a modern client: the source asks in the middle of a call, the client's
//! request is answered with what it asks, and the client's next request takes the call up again (SEP-2322).
//! A call is taken up once for each handle, by the principal it belongs to, with the same request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bound::Key;
use super::client_call::{ClientCall, Place};
use super::here::Here;
use super::{Exchange, Session, Work};
use crate::call::{CallError, End, ErrorKind, Question, Ticket};
use crate::protocol;
use crate::snapshot::Principal;
use crate::wire::{Message, Object, Span, quoted, unquoted};

/// How many calls may wait, of one principal and of all.
const EACH_MAX: usize = 64;
const ALL_MAX: usize = 1024;
/// What a source asks within so long is asked of the client in one go.
const TOGETHER: Duration = Duration::from_millis(20);
/// What every handle begins with: sources have request states of their own.
const MARK: &str = "toolrelay-parked-";

/// Said of a state under which no call waits.
pub(super) const NO_STATE: &str = "`requestState` does not fit: it was used already, has expired (`ask_timeout_secs` of the relay), or \
                        belongs to another request; send the request again without it";
/// Said of answers that are none.
pub(super) const NO_RESPONSES: &str =
    "`params.inputResponses` must be an object of objects, one for each of the `inputRequests`";

/// What a call waits for while its client is away.
#[derive(Default)]
pub struct Waiting {
    questions: BTreeMap<String, Question>,
    asked: u32,
    /// Whose call it is: [`Principal::number`].
    pub owner: u64,
    /// The source did not wait for the answer.
    pub ended: Option<End>,
    /// The request that asked, until it has been answered with the questions.
    here: Option<Box<Here>>,
}

impl Waiting {
    /// One more question, under a key of its own. Whether a client that is away can be asked it shows when it comes back.
    pub fn add(&mut self, question: Question) {
        if let Some(why) = self.here.as_ref().and_then(|here| here.cannot(&question.method(), question.params())) {
            return question.refuse(&why.to_string());
        }
        self.asked += 1;
        self.questions.insert(format!("input_{}", self.asked), question);
    }

    /// Leaves out what the source has taken back; `false` where nothing is left to ask.
    fn asks(&mut self) -> bool {
        self.questions.retain(|_, question| !question.withdrawn().is_cancelled());
        !self.questions.is_empty()
    }

    /// The questions as a client of 2026-07-28 reads them.
    fn to_json(&self) -> String {
        let one = |(key, question): (&String, &Question)| {
            let (method, params) = (quoted(&question.method()), question.params_for(true));
            format!("{}:{{\"method\":{method},\"params\":{params}}}", quoted(key))
        };
        let all: Vec<String> = self.questions.iter().map(one).collect();
        format!("{{{}}}", all.join(","))
    }
}

/// A call that can be taken up again.
struct Entry {
    principal: Principal,
    /// The method and what of the params has to be the same the next time.
    request: String,
    call: Arc<ClientCall>,
    ticket: Arc<Ticket>,
    /// Ends the wait for the client.
    _awaited: DropGuard,
}

/// All calls that wait for their clients. Cheap to clone.
#[derive(Clone, Default)]
pub struct Parked(Arc<Mutex<HashMap<String, Entry>>>, Key);

impl Parked {
    /// What the states of sources are sealed with.
    pub(super) fn key(&self) -> &Key {
        &self.1
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when there are too many already.
    fn add(&self, entry: Entry) -> Option<String> {
        let mut table = self.lock();
        let own = table.values().filter(|other| other.principal == entry.principal).count();
        if own >= EACH_MAX || table.len() >= ALL_MAX {
            return None;
        }
        let handle = format!("{MARK}{}", crate::name::unguessable());
        table.insert(handle.clone(), entry);
        Some(handle)
    }

    fn take(&self, handle: &str) -> Option<Entry> {
        self.lock().remove(handle)
    }

    /// Nobody may be waited for any more.
    pub fn give_up_all(&self, why: &str) {
        let all: Vec<Entry> = self.lock().drain().map(|(_, entry)| entry).collect();
        all.into_iter().for_each(|entry| entry.give_up(why));
    }
}

/// Gives a call up when nobody came back for it.
async fn expire(parked: Parked, handle: String, patience: Duration, taken_up: CancellationToken) {
    let late = async {
        tokio::time::sleep(patience).await;
        if let Some(entry) = parked.take(&handle) {
            tracing::info!("a call whose client was asked something and did not come back is given up");
            entry.give_up("the client did not come back with what it was asked");
        }
    };
    tokio::select! {
        biased;
        () = taken_up.cancelled() => {}
        () = late => {}
    }
}

impl Entry {
    /// The source is told first: a refused question might let it go on without the answer.
    fn give_up(self, why: &str) {
        self.ticket.cancel(Some(why));
        let place = std::mem::replace(&mut *self.call.lock(), Place::Over);
        drop(place);
    }
}

impl ClientCall {
    /// Answers the client's request with a question, and lets the call wait.
    pub(super) fn park(self: &Arc<Self>, place: &mut Place, here: Here, question: Question) {
        let owner = here.session.principal.number();
        let mut waiting = Waiting { here: Some(Box::new(here.clone())), owner, ..Waiting::default() };
        waiting.add(question);
        *place = Place::Parked(waiting);
        let call = self.clone();
        here.session.around.tracker.clone().spawn(async move {
            tokio::time::sleep(TOGETHER).await;
            call.answer_with_questions();
        });
    }

    fn answer_with_questions(self: &Arc<Self>) {
        let mut place = self.lock();
        let Place::Parked(waiting) = &mut *place else { return };
        let Some(here) = waiting.here.take() else { return };
        if let Some(end) = waiting.ended.take() {
            // It did not wait for the answer: nobody need be asked.
            *place = Place::Here(*here);
            drop(place);
            return self.ended(end);
        }
        if !waiting.asks() {
            *place = Place::Here(*here);
            return;
        }
        let questions = waiting.to_json();
        let (session, exchange) = (here.session.clone(), here.exchange.clone());
        let Some(ticket) = session.ticket(&exchange) else {
            *place = Place::Over;
            return;
        };
        let taken_up = CancellationToken::new();
        let entry = Entry {
            principal: session.principal.clone(),
            request: here.repeated(),
            call: self.clone(),
            ticket,
            _awaited: taken_up.clone().drop_guard(),
        };
        let parked = session.around.parked.clone();
        let Some(handle) = parked.add(entry) else {
            let refused = std::mem::take(&mut waiting.questions);
            *place = Place::Here(*here);
            drop(place);
            for question in refused.into_values() {
                question.refuse("too many calls wait for their clients already");
            }
            return;
        };
        drop(place);
        if session.finish(&exchange) {
            let patience = session.around.control.snapshots.now().config.relay.ask_timeout;
            session.around.tracker.spawn(expire(parked, handle.clone(), patience, taken_up));
            exchange.input_required(&questions, Some(&quoted(&handle)));
        } else if let Some(entry) = parked.take(&handle) {
            entry.give_up("the client cancelled the call");
        }
    }

    /// Takes the call up again: the answers go to the source, what is still open is asked again.
    fn take_up(self: &Arc<Self>, here: Here, responses: Option<&Object<'_>>) {
        let mut place = self.lock();
        let Place::Parked(mut waiting) = std::mem::replace(&mut *place, Place::Over) else {
            drop(place);
            let text = "the call does not wait for its client any more";
            return self.refuse(&here, CallError::new(ErrorKind::Cancelled, text, "call again"));
        };
        if let Some(end) = waiting.ended.take() {
            *place = Place::Here(here);
            drop(place);
            return self.ended(end);
        }
        let mut replies: Vec<(Question, Result<String, String>)> = Vec::new();
        for (key, question) in std::mem::take(&mut waiting.questions) {
            if let Some(answer) = responses.and_then(|given| given.get(&key)) {
                replies.push((question, Ok(answer.to_owned())));
            } else if let Some(why) = here.cannot(&question.method(), question.params()) {
                replies.push((question, Err(why.to_string())));
            } else {
                waiting.questions.insert(key, question);
            }
        }
        let is_open = waiting.asks();
        if is_open {
            waiting.here = Some(Box::new(here));
            *place = Place::Parked(waiting);
        } else {
            *place = Place::Here(here);
        }
        drop(place);
        for (question, reply) in replies {
            match reply {
                Ok(result) => question.answer(&result),
                Err(why) => question.refuse(&why),
            }
        }
        if is_open {
            self.answer_with_questions();
        }
    }
}

impl Session {
    /// Takes a waiting call up again if that is what the request is; gives it back if it is not.
    pub(super) fn resume(
        self: &Arc<Self>,
        message: &Message,
        params: Option<&Object<'_>>,
        exchange: Exchange,
    ) -> Option<Exchange> {
        let Some(params) = params.filter(|_| exchange.modern) else { return Some(exchange) };
        let handle = params.get("requestState").and_then(unquoted).filter(|handle| handle.starts_with(MARK));
        let Some(handle) = handle else { return Some(exchange) };
        let given = params.get("inputResponses");
        let responses = given.and_then(Object::parse);
        if given.is_some() && !responses.as_ref().is_some_and(is_answer) {
            exchange.error(protocol::INVALID_PARAMS, NO_RESPONSES, None);
            return None;
        }
        let Some(entry) = self.waiting(&handle, message) else {
            exchange.error(protocol::INVALID_PARAMS, NO_STATE, None);
            return None;
        };
        if self.begin(&exchange, Work::Call(entry.ticket.clone())) {
            let meta = params.get("_meta").map(|text| Span::of(&message.line, text));
            entry.call.take_up(Here::new(self, exchange, message, meta), responses.as_ref());
        } else {
            entry.give_up("the client took the call up under an id that is in flight");
        }
        None
    }

    /// Takes out what waits under this handle, if the request is the one that it waits for.
    fn waiting(&self, handle: &str, message: &Message) -> Option<Entry> {
        let request = same(message)?;
        let mut table = self.around.parked.lock();
        let entry = table.get(handle)?;
        if entry.principal != self.principal || entry.request != request {
            return None;
        }
        table.remove(handle)
    }
}

/// Whether answers are in the shape of some.
pub(super) fn is_answer(responses: &Object<'_>) -> bool {
    responses.members.iter().all(|member| member.value.starts_with('{'))
}

/// What of a request has to be the same when its call is taken up again.
pub fn same(message: &Message) -> Option<String> {
    let params = Object::parse(message.params_text()?)?;
    let parsed = |name: &str| params.get(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let parts: Vec<_> = ["name", "uri", "arguments"].into_iter().map(parsed).collect();
    Some(format!("{} {}", message.method_name(), serde_json::to_string(&parts).unwrap_or_default()))
}
