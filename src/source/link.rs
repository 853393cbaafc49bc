//! Owns one live connection to a source: the calls in flight on it, their ids, and what the source sends back.
//! It does not start or stop the process, and does not know who called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::debt;
use super::failures;
use super::handshake::Greeting;
use super::in_flight::{Pending, Table};
use super::noise::Noise;
use super::updates::Subscribers;
use super::verdict::Verdict;
use crate::call::{Call, CallError, End, Recall, Reply};
use crate::protocol::{self, Era};
use crate::redact::{self, Secrets};
use crate::wire::{Message, Object, Outbox};

/// How many bytes may wait to be written to a source before more calls are refused: a few large arguments, for a source
/// that is slow to read.
pub const OUTBOX_LIMIT: usize = 64 * 1024 * 1024;
/// How many calls may wait for a free place in a source.
const QUEUE_MAX: usize = 1024;
/// From when on a call counts as one that has waited: the rules may have changed meanwhile.
const WAITED: Duration = Duration::from_millis(10);

/// A call that is not sent, and why.
pub(super) type Barred = (Box<Call>, CallError);

/// Ends calls that were never sent. Not called with the table locked.
pub(super) fn refuse(barred: Vec<Barred>) {
    barred.into_iter().for_each(|(call, error)| call.back.end(End::Failed(error)));
}

/// A connection to a running source.
pub struct Link {
    pub source: String,
    pub outbox: Arc<Outbox>,
    pub(super) table: Mutex<Table>,
    era: OnceLock<Era>,
    max_in_flight: usize,
    /// Asks the supervisor of the process or the connection to end it.
    pub stop: CancellationToken,
    /// Why a source that is still there is of no use any more.
    pub verdict: Verdict,
    /// The source said that its list has changed.
    pub list_changed: Notify,
    /// What was no message.
    pub noise: Noise,
    /// Notifications that belong to no call.
    unasked: AtomicU64,
    /// What the answers to its own requests may take, in bytes, from the beginning.
    asked: AtomicU64,
    /// A message has come from the source.
    spoken: AtomicBool,
    /// Who wants to know of changed resources.
    pub subscribers: OnceLock<Subscribers>,
    /// The request by which a modern source was last asked to tell of changed resources; 0 for none. Held while it is sent:
    /// of two at once the last one has all that is wanted.
    pub(super) listening: Mutex<u64>,
    /// It is a legacy source that can be told from which level on it has to send log lines.
    pub logs: AtomicBool,
    /// It says that it has tools. One that does not is asked for them all the same, and may refuse in any way.
    pub declares_tools: AtomicBool,
    /// What it said of itself in a later session.
    pub(super) news: Mutex<Option<Greeting>>,
    secrets: Secrets,
}

impl Link {
    /// A connection that sends its messages through `outbox`. Of the source's own words no `secrets` are shown.
    pub fn new(
        source: &str,
        max_in_flight: usize,
        stop: CancellationToken,
        outbox: Arc<Outbox>,
        secrets: Secrets,
    ) -> Arc<Self> {
        Arc::new(Self {
            source: source.to_owned(),
            outbox,
            table: Mutex::default(),
            era: OnceLock::new(),
            max_in_flight,
            stop,
            verdict: Verdict::default(),
            list_changed: Notify::new(),
            noise: Noise::default(),
            unasked: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            spoken: AtomicBool::new(false),
            subscribers: OnceLock::new(),
            listening: Mutex::default(),
            logs: AtomicBool::new(false),
            declares_tools: AtomicBool::new(false),
            news: Mutex::default(),
            secrets,
        })
    }

    /// The source's own text without whatever may be a secret, fit for a message.
    pub fn masked(&self, text: &str, max: usize) -> String {
        redact::one_line(&redact::mask(text, &(self.secrets)()), max)
    }

    /// The source's own text, but for what it was told as a secret.
    pub fn without_secrets(&self, text: &str) -> String {
        redact::mask_values(text, &(self.secrets)())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn era(&self) -> Era {
        self.era.get().copied().unwrap_or(Era::Legacy)
    }

    /// Whether the handshake has come so far that its era is known.
    pub fn is_greeted(&self) -> bool {
        self.era.get().is_some()
    }

    /// Whether its messages go out one by one instead of in a stream of lines.
    pub fn is_over_http(&self) -> bool {
        !self.outbox.holds_up()
    }

    /// Fixes the era, once, when it has been negotiated.
    pub fn set_era(&self, era: Era) {
        let _ = self.era.set(era);
    }

    /// Sends a call, or lets it wait for its turn. A closed connection gives it back.
    pub fn submit(self: &Arc<Self>, call: Box<Call>) -> Result<(), Box<Call>> {
        let now = Instant::now();
        let mut table = self.lock();
        if table.ending || table.closed.is_some() {
            return Err(call);
        }
        if self.outbox.is_full() || table.queue.len() >= QUEUE_MAX {
            let waiting = table.queue.len();
            drop(table);
            self.refuse_busy(call, waiting);
            return Ok(());
        }
        table.last_id += 1;
        let id = table.last_id;
        let link = Arc::downgrade(self);
        let weak: std::sync::Weak<dyn Recall> = link;
        if !call.ticket.sent(weak, id) {
            return Ok(());
        }
        table.last_used = Some(now);
        let entry = Pending::Call { call, since: now, heard: now, sent: false, after: 0, asked: false, told: 0 };
        table.pending.insert(id, entry);
        table.queue.push_back(id);
        let barred = self.advance(&mut table);
        drop(table);
        refuse(barred);
        Ok(())
    }

    fn refuse_busy(&self, call: Box<Call>, waiting: usize) {
        let error = failures::busy(&self.source, call.subject.name(), waiting);
        call.back.end(End::Failed(error));
    }

    /// Sends the next waiting calls while there is room. Called with the table locked; gives those that are not sent because
    /// they have been forbidden while they waited.
    #[must_use]
    pub(super) fn advance(&self, table: &mut Table) -> Vec<Barred> {
        let mut all = Vec::new();
        while let Some(id) = table.next(self.max_in_flight) {
            let Some(Pending::Call { call, since, sent, after, heard, .. }) = table.pending.get_mut(&id) else {
                continue;
            };
            let barred = if since.elapsed() < WAITED { None } else { call.back.barred() };
            if let Some(error) = barred {
                if let Some(Pending::Call { call, .. }) = table.pending.remove(&id) {
                    all.push((call, error));
                }
                continue;
            }
            *sent = true;
            *after = self.verdict.heard();
            *heard = Instant::now();
            // A closed outbox shows as the end of the connection at once; the call ends with it.
            let owner = call.back.owner();
            let _ = call.request.send(&self.outbox, id, self.era());
            table.owners.add(owner);
            table.running += 1;
            if table.sole && !table.unclear.is_empty() {
                table.clear_up(true);
            }
        }
        all
    }

    /// Takes an entry out, which was `answered` or not, and lets the next call have its place.
    pub(super) fn take(&self, id: u64, answered: bool) -> Option<Pending> {
        let mut table = self.lock();
        let entry = table.pending.remove(&id)?;
        if let Pending::Call { sent, .. } = &entry {
            if *sent {
                table.running -= 1;
            } else {
                table.queue.retain(|queued| *queued != id);
            }
            table.last_used = Some(Instant::now());
            if *sent && !table.unclear.is_empty() {
                table.clear_up(answered);
            }
            let barred = self.advance(&mut table);
            drop(table);
            refuse(barred);
        }
        Some(entry)
    }

    /// Takes what the source sent. Gives the outbox that was written to, so that the reader can wait for room in it.
    pub fn receive(&self, message: &Message) -> Option<Arc<Outbox>> {
        self.receive_for(message, None)
    }

    /// Takes what the source sent, where it is known to belong to the call with this id.
    pub fn receive_for(&self, message: &Message, call: Option<u64>) -> Option<Arc<Outbox>> {
        self.spoken.store(true, Ordering::Relaxed);
        self.verdict.hear();
        match message.kind {
            crate::wire::Kind::Reply => self.reply(message),
            crate::wire::Kind::Notification => {
                let outbox = self.notification(message, call);
                if outbox.is_none() || message.method_name() != "notifications/progress" {
                    self.unasked.fetch_add(1, Ordering::Relaxed);
                }
                outbox
            }
            crate::wire::Kind::Request => {
                self.note_asked(message.line.len());
                self.answer(message, call);
                None
            }
        }
    }

    fn reply(&self, message: &Message) -> Option<Arc<Outbox>> {
        let id = message.number_id().or_else(|| self.meant_by(message));
        if self.era.get().is_some() {
            let mut table = self.lock();
            table.answered = true;
            if table.ghosts.answered(id.unwrap_or_default()) {
                table.clear_up(true);
            }
        }
        let Some(entry) = id.and_then(|id| self.take(id, true)) else {
            tracing::debug!("reply to no call in flight dropped");
            return None;
        };
        match entry {
            Pending::Own(answer) => {
                let _ = answer.send(Ok(message.clone()));
                None
            }
            Pending::Call { call, .. } => {
                let outbox = call.back.outbox();
                let Call { request, limits, ticket, back, .. } = *call;
                let message = message.clone();
                back.end(End::Reply(Box::new(Reply { message, era: self.era(), request, limits, ticket })));
                outbox
            }
        }
    }

    /// The one request in flight, if a source says that it could not read it: it knows no id then.
    fn meant_by(&self, message: &Message) -> Option<u64> {
        if message.id_text() != Some("null") {
            return None;
        }
        let error = message.error.and_then(|error| Object::parse(message.text(error)))?;
        let code = error.get("code")?.parse::<i64>().ok()?;
        let table = self.lock();
        let mut sent = table.pending.iter().filter(|(_, entry)| !matches!(entry, Pending::Call { sent: false, .. }));
        let (Some((id, _)), None) = (sent.next(), sent.next()) else { return None };
        matches!(code, protocol::PARSE_ERROR | protocol::INVALID_REQUEST).then_some(*id)
    }

    fn notification(&self, message: &Message, of: Option<u64>) -> Option<Arc<Outbox>> {
        match &*message.method_name() {
            "notifications/progress" => {
                let params = Object::parse(message.params_text()?)?;
                let token = params.get("progressToken")?;
                let span = crate::wire::Span::of(&message.line, token);
                let mut table = self.lock();
                let Pending::Call { call, heard, .. } = table.pending.get_mut(&crate::wire::message::number(token)?)?
                else {
                    return None;
                };
                *heard = Instant::now();
                call.back.progress(message, span);
                call.back.outbox()
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                self.list_changed.notify_one();
                None
            }
            "notifications/elicitation/complete" => {
                if let Some(subscribers) = self.subscribers.get() {
                    subscribers.visited(&self.source, message);
                }
                None
            }
            "notifications/cancelled" => {
                self.taken_back(message);
                None
            }
            "notifications/message" => {
                let mut table = self.lock();
                // What belongs to a call has a stream to come on.
                let is_stray = of.is_none() && self.is_over_http();
                let ids = if is_stray { table.stray_addressee().map(|id| vec![id]) } else { table.readers(of) }.ok()?;
                let mut backs = ids.into_iter().filter_map(|id| Some(&table.call(id)?.back));
                backs.find(|back| back.tell(message))?.outbox()
            }
            "notifications/resources/updated" => {
                if let Some(subscribers) = self.subscribers.get() {
                    subscribers.notice(&self.source, message);
                }
                None
            }
            _ => None,
        }
    }

    /// A reply that cannot be read: its call ends at once. Gives the outbox that was written to.
    pub fn broken_reply(&self, id: u64, why: &str) -> Option<Arc<Outbox>> {
        let mut error = failures::unreadable(&self.source, why);
        if matches!(self.lock().pending.get(&id), Some(Pending::Call { .. })) {
            error.hint.insert_str(0, "the call was carried out; ");
        }
        self.fail(id, error)
    }

    /// Ends one call or question with a failure, while the connection goes on. Gives the outbox that was written to.
    pub fn fail(&self, id: u64, error: CallError) -> Option<Arc<Outbox>> {
        match self.take(id, false)? {
            Pending::Own(answer) => {
                let _ = answer.send(Err(error));
                None
            }
            Pending::Call { call, .. } => {
                let outbox = call.back.outbox();
                call.back.end(End::Failed(error.at(&self.source, Some(call.subject.name()))));
                outbox
            }
        }
    }

    /// Whether somebody still waits for the answer to this request.
    pub fn is_awaited(&self, id: u64) -> bool {
        match self.lock().pending.get(&id) {
            Some(Pending::Own(answer)) => !answer.is_closed(),
            Some(Pending::Call { .. }) => true,
            None => false,
        }
    }

    /// How long the answer to this request may still take; `None` where no limit is known.
    pub fn patience(&self, id: u64) -> Option<Duration> {
        match self.lock().pending.get(&id)? {
            Pending::Own(_) => None,
            Pending::Call { call, since, heard, .. } => {
                let idle = call.limits.idle.saturating_sub(heard.elapsed());
                Some(idle.min(call.limits.total.saturating_sub(since.elapsed())))
            }
        }
    }

    /// Whether any message has come from the source yet.
    pub fn has_spoken(&self) -> bool {
        self.spoken.load(Ordering::Relaxed)
    }

    /// How many lines came that nobody waits for.
    pub fn in_vain(&self) -> u64 {
        self.noise.lines() + self.unasked.load(Ordering::Relaxed)
    }

    /// A request of its own came, of so many bytes.
    pub fn note_asked(&self, bytes: usize) {
        self.asked.fetch_add(debt::cost(bytes), Ordering::Relaxed);
    }

    /// What the answers to its own requests may have taken, in bytes, from the beginning.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether it has answered anything after the handshake, and every call. A question of the relay's own may be open.
    pub fn is_done(&self) -> bool {
        let table = self.lock();
        table.answered && !table.pending.values().any(|entry| matches!(entry, Pending::Call { .. }))
    }

    /// Takes no more calls: what comes from now on waits for the next start instead of going down with this process.
    pub fn close(&self) {
        self.lock().ending = true;
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// The connection is over: every call in flight ends with `error`.
    pub fn shut(&self, error: &CallError) {
        let mut table = self.lock();
        table.closed.get_or_insert_with(|| error.clone());
        let mut entries: Vec<_> = table.pending.drain().collect();
        table.queue.clear();
        table.running = 0;
        drop(table);
        self.outbox.close();
        entries.sort_unstable_by_key(|(id, _)| *id);
        for (_, entry) in entries {
            match entry {
                Pending::Own(answer) => {
                    let _ = answer.send(Err(error.clone()));
                }
                Pending::Call { call, sent, .. } => {
                    let mut own = error.clone().at(&self.source, Some(call.subject.name()));
                    // That is said of what was refused, and not of what was under way.
                    if let Some(hint) = own.hint.strip_prefix("nothing was done; ").filter(|_| sent).map(str::to_owned)
                    {
                        own.hint = hint;
                    }
                    let effect = match sent {
                        true => "whether the call took effect is not known, check before repeating it",
                        false => "this call still waited for its turn and was not sent, so it may be repeated",
                    };
                    own.hint = format!("{effect}; {}", own.hint);
                    call.back.end(End::Failed(own));
                }
            }
        }
    }
}

impl Recall for Link {
    fn recall(&self, id: u64, reason: Option<&str>) -> bool {
        self.lock().leave(id);
        match self.take(id, false) {
            Some(Pending::Call { sent: false, .. }) => false,
            Some(Pending::Call { .. }) => {
                self.tell_cancelled(id, reason);
                true
            }
            _ => true,
        }
    }
}
