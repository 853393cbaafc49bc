//! Owns calls to legacy sources that wait for a modern client: the source asks in the middle of a call, the client's
//! request is answered with what it asks, and the client's next request takes the call up again (SEP-2322).
//! A call is taken up once for each handle, by the principal it belongs to, with the same request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::client_call::{ClientCall, Here, Place};
use super::{Exchange, Session, Work};
use crate::call::{End, Question, Ticket};
use crate::protocol;
use crate::snapshot::Principal;
use crate::wire::{Message, Object, quoted, unquoted};

/// How long a call waits for its client.
const PATIENCE: Duration = Duration::from_secs(300);
/// How many calls may wait, of one principal and of all.
const EACH_MAX: usize = 64;
const ALL_MAX: usize = 1024;
/// What a source asks within so long is asked of the client in one go.
const TOGETHER: Duration = Duration::from_millis(20);
/// What every handle begins with: sources have request states of their own.
const MARK: &str = "toolrelay-parked-";

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
    /// One more question, under a key of its own.
    pub fn add(&mut self, question: Question) {
        self.asked += 1;
        self.questions.insert(format!("input_{}", self.asked), question);
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
}

/// All calls that wait for their clients. Cheap to clone.
#[derive(Clone, Default)]
pub struct Parked(Arc<Mutex<HashMap<String, Entry>>>);

impl Parked {
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
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).expect("BUG: the system gives random numbers");
        let handle = format!("{MARK}{}", random.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        table.insert(handle.clone(), entry);
        Some(handle)
    }

    /// Nobody came back: the call is given up.
    async fn expire(self, handle: String) {
        tokio::time::sleep(PATIENCE).await;
        let found = self.lock().remove(&handle);
        if let Some(entry) = found {
            tracing::info!("a call whose client was asked something and did not come back is given up");
            entry.give_up();
        }
    }
}

impl Entry {
    fn give_up(self) {
        let place = std::mem::replace(&mut *self.call.lock(), Place::Over);
        drop(place);
        self.ticket.cancel(Some("the client did not come back with what it was asked"));
    }
}

impl ClientCall {
    /// Answers the client's request with a question, and lets the call wait.
    pub(super) fn park(self: &Arc<Self>, here: Here, question: Question) {
        let owner = here.session.principal.number();
        let mut waiting = Waiting { here: Some(Box::new(here.clone())), owner, ..Waiting::default() };
        waiting.add(question);
        *self.lock() = Place::Parked(waiting);
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
        let questions = waiting.to_json();
        let (session, exchange) = (here.session.clone(), here.exchange.clone());
        let Some(ticket) = session.ticket(&exchange) else {
            *place = Place::Over;
            return;
        };
        let entry =
            Entry { principal: session.principal.clone(), request: here.repeated(), call: self.clone(), ticket };
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
            session.around.tracker.spawn(parked.expire(handle.clone()));
            exchange.input_required(&questions, Some(&quoted(&handle)));
        } else if let Some(entry) = parked.lock().remove(&handle) {
            entry.give_up();
        }
    }

    /// Takes the call up again: the answers go to the source, what is still open is asked again.
    fn take_up(self: &Arc<Self>, here: Here, responses: Option<&str>) {
        let mut place = self.lock();
        let Place::Parked(mut waiting) = std::mem::replace(&mut *place, Place::Over) else { return };
        if let Some(end) = waiting.ended.take() {
            *place = Place::Here(here);
            drop(place);
            return self.ended(end);
        }
        let responses = responses.and_then(Object::parse);
        let answer = |key: &String| responses.as_ref().and_then(|given| given.get(key));
        let answered: Vec<String> = waiting.questions.keys().filter(|key| answer(key).is_some()).cloned().collect();
        let answered: Vec<(Question, &str)> =
            answered.iter().filter_map(|key| Some((waiting.questions.remove(key)?, answer(key)?))).collect();
        if waiting.questions.is_empty() {
            *place = Place::Here(here);
        } else {
            waiting.here = Some(Box::new(here.clone()));
            *place = Place::Parked(waiting);
        }
        let is_open = matches!(*place, Place::Parked(_));
        drop(place);
        for (question, result) in answered {
            question.answer(result);
        }
        if is_open {
            self.answer_with_questions();
        }
    }
}

impl Session {
    /// Takes a waiting call up again if that is what the request is; gives it back if it is not.
    pub(super) fn resume(self: &Arc<Self>, message: &Message, exchange: Exchange) -> Option<Exchange> {
        let params = message.params_text().filter(|text| exchange.modern && text.contains(MARK));
        let Some(params) = params.and_then(Object::parse) else { return Some(exchange) };
        let handle = params.get("requestState").and_then(unquoted).filter(|handle| handle.starts_with(MARK));
        let Some(handle) = handle else { return Some(exchange) };
        let found = {
            let mut table = self.around.parked.lock();
            let fits = table.get(&*handle).is_some_and(|entry| {
                entry.principal == self.principal && same(message).is_some_and(|request| request == entry.request)
            });
            if fits { table.remove(&*handle) } else { None }
        };
        let Some(Entry { call, ticket, .. }) = found else {
            let text = "`requestState` does not fit: it was used already, has expired after 300 s, or belongs to another \
                        request; send the request again without it";
            exchange.error(protocol::INVALID_PARAMS, text, None);
            return None;
        };
        if self.begin(&exchange, Work::Call(ticket)) {
            call.take_up(Here::new(self, exchange, message), params.get("inputResponses"));
        }
        None
    }
}

/// What of a request has to be the same when its call is taken up again.
pub fn same(message: &Message) -> Option<String> {
    let params = Object::parse(message.params_text()?)?;
    let parsed = |name: &str| params.get(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let parts: Vec<_> = ["name", "uri", "arguments"].into_iter().map(parsed).collect();
    Some(format!("{} {}", message.method_name(), serde_json::to_string(&parts).unwrap_or_default()))
}
