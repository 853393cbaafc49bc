//! Owns a source's own request to the client of a call (sampling, elicitation, roots), until it is answered.
//! It does not know who answers it.

use std::borrow::Cow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::protocol;
use crate::wire::{Message, Object, Outbox, Span, quoted, raw};

/// Whose call it is, where several clients share a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// The same for all calls of one client's session.
    pub client: u64,
    /// The same for all clients of one principal.
    pub owner: u64,
    /// The client has been asked something, and is away until it answers.
    pub is_away: bool,
    /// Its questions reach the client whichever of its calls they belong to.
    pub any_call: bool,
}

/// A client that can be asked for its roots outside of a call.
pub trait Rooted: Send + Sync {
    fn ask_for_roots(self: Arc<Self>, question: Question);
}

/// One request of a source. It is answered once; one that is dropped is refused, unless the source has taken it back.
pub struct Question {
    pub source: Arc<str>,
    /// Requests of the same client, by their ids, that it may belong to as well.
    pub others: Vec<Arc<str>>,
    message: Message,
    to: Option<Arc<Outbox>>,
    withdrawn: Arc<CancellationToken>,
}

impl Question {
    /// `message` is the request; its answer goes to `to`.
    pub fn new(source: &str, message: Message, to: Arc<Outbox>) -> Self {
        Self { source: source.into(), others: Vec::new(), message, to: Some(to), withdrawn: Arc::default() }
    }

    pub fn method(&self) -> Cow<'_, str> {
        self.message.method_name()
    }

    /// The source's own id, as it wrote it.
    pub fn id(&self) -> &str {
        self.message.id_text().unwrap_or("null")
    }

    /// Cancelled when the source takes the question back: it waits for no answer then, and gets none.
    pub fn withdrawn(&self) -> &Arc<CancellationToken> {
        &self.withdrawn
    }

    /// The text of its params; of an empty object where there are none.
    pub fn params(&self) -> &str {
        self.message.params_text().unwrap_or("{}")
    }

    /// Its params for the client: `elicitationId`, `task` and `_meta` belong to hops of 2025-11-25 and are left out for a
    /// `modern` one, and what is shown to the user names the source.
    pub fn params_for(&self, modern: bool) -> String {
        let Some(params) = Object::parse(self.params()) else { return "{}".to_owned() };
        named(&params, &self.method(), &self.source, |name| {
            !(name == "task" || modern && matches!(name, "_meta" | "elicitationId"))
        })
    }

    /// Tells the source how far its client is, if it wants to know; `token` is where the token stands in the notification.
    pub fn progress(&self, notice: &Message, token: Span) {
        let meta = Object::parse(self.params()).and_then(|params| Object::parse(params.get("_meta")?));
        let own = meta.and_then(|meta| meta.get("progressToken"));
        let (Some(to), Some(own)) = (self.to.as_ref().filter(|_| !self.withdrawn.is_cancelled()), own) else { return };
        let (before, after) = (Span { start: 0, end: token.start }, Span { start: token.end, end: notice.line.len() });
        let text = format!("{}{own}{}", notice.text(before), notice.text(after));
        let _ = to.send_text(&text.replace(['\n', '\r'], " "));
    }

    /// Answers with a result, given as the text of an object.
    pub fn answer(mut self, result: &str) {
        self.reply("result", result);
    }

    /// Answers with an error, given as the text of an object.
    pub fn fail(mut self, error: &str) {
        self.reply("error", error);
    }

    /// Answers that nobody can be asked.
    pub fn refuse(mut self, why: &str) {
        self.reply("error", &error(protocol::METHOD_NOT_FOUND, why));
    }

    fn reply(&mut self, member: &str, text: &str) {
        let Some(to) = self.to.take().filter(|_| !self.withdrawn.is_cancelled()) else { return };
        let id = self.id();
        // A message is one line.
        let text = text.replace(['\n', '\r'], " ");
        if to.send_text(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{text}}}")).is_err() {
            tracing::debug!(source = %self.source, "answer to a source that is gone dropped");
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.reply("error", &error(protocol::INTERNAL_ERROR, "the client did not answer"));
    }
}

/// The text of an error of the relay's own.
pub fn error(code: i64, why: &str) -> String {
    format!("{{\"code\":{code},\"message\":{}}}", quoted(&format!("toolrelay: {why}")))
}

/// The params of a question with a progress token of the relay's own in place of the source's, or with none: two sources may
/// have the same, and one that waits for no answer cannot be told. `None` where there is none to replace.
pub fn retokened(params: &str, token: Option<&str>) -> Option<String> {
    let params = Object::parse(params)?;
    let meta = Object::parse(params.get("_meta")?)?;
    meta.get("progressToken")?;
    let token = token.map(|token| format!("\"progressToken\":{token}"));
    let more: Vec<&str> = token.iter().map(String::as_str).collect();
    let meta = meta.rewritten(|name| name != "progressToken", &more);
    Some(params.rewritten(|name| name != "_meta", &[&format!("\"_meta\":{meta}")]))
}

/// The params of a source's question with its name before the message that the user is shown; members that `keep` refuses
/// are left out.
pub fn named(params: &Object<'_>, method: &str, source: &str, keep: impl Fn(&str) -> bool) -> String {
    let message = (method == "elicitation/create").then(|| params.get("message").and_then(raw::string_lossy)).flatten();
    let told = message.map(|message| format!("\"message\":{}", quoted(&format!("[{source}] {message}"))));
    let more: Vec<&str> = told.iter().map(String::as_str).collect();
    params.rewritten(|name| keep(name) && (told.is_none() || name != "message"), &more)
}
