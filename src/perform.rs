//! Owns calls that the relay makes for somebody who waits for the whole answer: a batch, the command line.
//! They take the same path as a client's: [`crate::dispatch`] decides, the source answers.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::call::{
    Arguments, Call, CallError, CallRequest, End, ErrorKind, ReturnPath, Subject, Tenant, Ticket, shape,
};
use crate::dispatch::{self, Asked, Route};
use crate::protocol::{self, Era};
use crate::snapshot::Snapshots;
use crate::wire::busy_poll::UnderWay;
use crate::wire::{Message, Object, Outbox, Span, raw};

/// What a source answered.
pub struct Performed {
    /// Its result as it came, without what belongs to the hop.
    pub result: Box<RawValue>,
    pub is_error: bool,
}

/// Calls a tool for a tenant, one of the principal of this number, and waits for its result. Dropped while it waits, it cancels the call, as its ticket does.
pub async fn perform(
    snapshots: &Snapshots,
    asked: &Asked,
    arguments: &str,
    ticket: Arc<Ticket>,
    tenant: Option<Tenant>,
    owner: u64,
) -> Result<Performed, CallError> {
    let Route { source, tool, limits } = dispatch::settle(snapshots, asked).await?;
    let (id, name) = (source.id.to_string(), tool.to_string());
    let request = request().named(&tool, "");
    // A message is one line; between the tokens of JSON a line end says no more than a blank.
    let request = request.with_arguments(None, Arguments::Text(arguments.replace(['\n', '\r'], " ")));
    let (answer, answered) = oneshot::channel();
    let back = Box::new(Waiter { answer, owner, snapshots: snapshots.clone(), source: id.clone(), tool: name.clone() });
    let (of, subject) = (source.id.clone(), Subject::Tool(tool));
    let under_way = UnderWay::begin();
    let call = Call { source: of, subject, request, limits, ticket: ticket.clone(), tenant, back, under_way };
    let _cancel = CancelOnDrop(ticket);
    source.call(Box::new(call));
    let end = answered.await.map_err(|_| {
        let text = format!("`{name}` of source `{id}` was broken off");
        CallError::new(ErrorKind::Cancelled, text, "call again").at(&id, Some(&name))
    })?;
    match end {
        End::Failed(error) => Err(error),
        End::Reply(reply) => read(&reply.message, reply.era).map_err(|error| {
            let mut error = error.at(&id, Some(&name));
            if error.kind == ErrorKind::InvalidArguments {
                let snapshot = snapshots.now();
                let entry = snapshot.catalog.find(&id, &name);
                error.input_schema = entry.and_then(|entry| RawValue::from_string(entry.schemas().0).ok());
            }
            error
        }),
    }
}

/// A request without a client: its id, name and arguments are put in on the way.
fn request() -> CallRequest {
    const TEXT: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{\"name\":\"\"}}";
    let message = Message::parse(bytes::Bytes::from_static(TEXT.as_bytes())).expect("BUG: the text is a request");
    CallRequest::read(&message).expect("BUG: the text is a tool call").0
}

fn read(reply: &Message, era: Era) -> Result<Performed, CallError> {
    if let Some(error) = reply.error {
        let object = Object::parse(reply.text(error));
        let said = object.as_ref().and_then(|error| raw::string_lossy(error.get("message")?)).unwrap_or_default();
        let code = object.as_ref().and_then(|error| error.get("code")).unwrap_or("?");
        let (kind, hint) = if code == protocol::INVALID_PARAMS.to_string() {
            (ErrorKind::InvalidArguments, "correct the arguments and call again")
        } else {
            (ErrorKind::SourceError, "see what the source says")
        };
        let mut failure = CallError::new(kind, format!("the source answered with error {code}: {said}"), hint);
        failure.cause = RawValue::from_string(reply.text(error).to_owned()).ok();
        return Err(failure);
    }
    let text = reply.text(reply.result.expect("BUG: a reply has a result or an error"));
    let object = Object::parse(text);
    let own = match &object {
        Some(object) if era == Era::Modern => {
            if object.string("resultType").is_some_and(|kind| kind != "complete") {
                let text = "the source asks for input, which it cannot be given here";
                return Err(CallError::new(ErrorKind::Unavailable, text, "call the tool by itself, with all it needs"));
            }
            let meta = protocol::meta_without_hop(object);
            let more: Vec<_> = meta.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
            object.rewritten(|name| name != "resultType" && (name != "_meta" || meta.is_none()), &more)
        }
        _ => text.to_owned(),
    };
    let mended = shape::mended(&own, true);
    let told = mended.as_deref().map_or(object, Object::parse);
    let is_error = told.is_some_and(|object| object.get("isError") == Some("true"));
    let own = mended.unwrap_or(own);
    let result = RawValue::from_string(own).map_err(|error| {
        CallError::new(ErrorKind::Unavailable, format!("the source's result cannot be read: {error}"), "report this")
    })?;
    Ok(Performed { result, is_error })
}

/// Where the answer is waited for, and whose call it is.
struct Waiter {
    answer: oneshot::Sender<End>,
    owner: u64,
    snapshots: Snapshots,
    source: String,
    tool: String,
}

impl ReturnPath for Waiter {
    fn end(self: Box<Self>, end: End) {
        let _ = self.answer.send(end);
    }

    fn progress(&self, _: &Message, _: Span) {}

    fn waits(&self, _: &str) {}

    fn outbox(&self) -> Option<Arc<Outbox>> {
        None
    }

    fn owner(&self) -> Option<u64> {
        Some(self.owner)
    }

    fn barred(&self) -> Option<CallError> {
        dispatch::barred(&self.snapshots.now(), &self.source, &self.tool)
    }
}

/// A call that is taken back when nobody waits for it any more.
pub struct CancelOnDrop(pub Arc<Ticket>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel(Some("nobody waits for the answer any more"));
    }
}
