//! Owns `tools/call`: the relay's own tools, direct names and the dispatcher, and each call's way back.
//! Where a call goes is decided in [`crate::dispatch`] alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;

use super::{Exchange, Session, Work};
use crate::call::{Arguments, BadRequest, Call, CallError, CallRequest, End, ErrorKind, ReturnPath, Ticket};
use crate::dispatch::{self, Asked, Resolved, Route};
use crate::menu;
use crate::protocol::{self, Era};
use crate::snapshot::Snapshots;
use crate::wire::{Message, Object, Outbox, Piece, Span};

/// How often the client of a call that waits for a listing is told so, if it asked for progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn call_tool(self: &Arc<Self>, message: &Message, exchange: Exchange) {
        let (request, name, arguments) = match CallRequest::read(message) {
            Ok(read) => read,
            Err(error) => return exchange.error(protocol::INVALID_PARAMS, &bad_request(&error), None),
        };
        let arguments_text = arguments.map(|span| message.text(span));
        if name == menu::CALL_TOOL {
            return match menu::call_tool::read(&self.around.control.snapshots.now(), arguments_text) {
                Ok(inner) => {
                    let wanted = inner.place(message);
                    let request = request.with_arguments(arguments, wanted);
                    self.dispatch(message, request, inner.asked(), exchange);
                }
                Err(error) => exchange.tool_error(&error),
            };
        }
        if menu::is_own(&name) {
            return self.own_tool(exchange, name, arguments_text);
        }
        self.dispatch(message, request, Asked::Direct(name), exchange);
    }

    /// One of the control-plane tools.
    fn own_tool(self: &Arc<Self>, exchange: Exchange, name: String, arguments: Option<&str>) {
        let (session, own) = (self.clone(), exchange.clone());
        let arguments = arguments.map(str::to_owned);
        self.spawn(&exchange, async move {
            let around = &session.around;
            let context =
                menu::Context { control: &around.control, batches: &around.batches, principal: &session.principal };
            let outcome = menu::run(&context, &name, arguments.as_deref()).await;
            if !session.finish(&own) {
                return;
            }
            match outcome {
                Ok(json) => own.tool_result(&json, false),
                Err(error) => own.tool_error(&error),
            }
        });
    }

    fn dispatch(self: &Arc<Self>, message: &Message, request: CallRequest, asked: Asked, exchange: Exchange) {
        let ticket = Arc::new(Ticket::default());
        if !self.begin(&exchange, Work::Call(ticket.clone())) {
            return;
        }
        let back = Box::new(ClientCall {
            session: self.clone(),
            exchange,
            token: progress_token(message),
            dispatched: matches!(asked, Asked::Dispatched { .. }),
            route: None,
            waited: AtomicU32::new(0),
        });
        let snapshot = self.around.control.snapshots.now();
        match dispatch::resolve(&snapshot, &asked) {
            Resolved::Route(route) => go(route, request, &asked, ticket, back),
            Resolved::Refused(error) => back.refuse(error),
            Resolved::NotYet(_) => {
                let snapshots = self.around.control.snapshots.clone();
                self.around.tracker.spawn(async move {
                    match settled(&snapshots, &asked, &back).await {
                        Ok(route) => go(route, request, &asked, ticket, back),
                        Err(error) => back.refuse(error),
                    }
                });
            }
        }
    }
}

/// Waits for the route, and tells the client so now and then.
async fn settled(snapshots: &Snapshots, asked: &Asked, back: &ClientCall) -> Result<Route, CallError> {
    let mut settling = std::pin::pin!(dispatch::settle(snapshots, asked));
    loop {
        match tokio::time::timeout(TELL_EVERY, &mut settling).await {
            Ok(settled) => return settled,
            Err(_) => back.waits("the tools of the source are being listed"),
        }
    }
}

fn go(route: Route, request: CallRequest, asked: &Asked, ticket: Arc<Ticket>, mut back: Box<ClientCall>) {
    let Route { source, tool, limits } = route;
    let written = match asked {
        Asked::Direct(name) => name.as_str(),
        Asked::Dispatched { .. } | Asked::Unreadable(_) => menu::CALL_TOOL,
    };
    let request = request.named(&tool, written);
    back.route = Some((source.id.to_string(), tool.to_string()));
    source.call(Box::new(Call { source: source.id.clone(), tool, request, limits, ticket, back }));
}

fn progress_token(message: &Message) -> Option<Box<str>> {
    let params = Object::parse(message.params_text()?)?;
    let meta = Object::parse(params.get("_meta")?)?;
    meta.get("progressToken").map(Into::into)
}

fn bad_request(error: &BadRequest) -> String {
    format!("{error}; expected {{\"name\": .., \"arguments\": {{..}}}}")
}

/// The way back of a call that came from a client.
struct ClientCall {
    session: Arc<Session>,
    exchange: Exchange,
    /// The client's progress token, as it wrote it.
    token: Option<Box<str>>,
    /// It came through `call_tool`.
    dispatched: bool,
    route: Option<(String, String)>,
    /// How often its client was told that it waits.
    waited: AtomicU32,
}

impl ClientCall {
    /// The relay's own refusal. Only a name that leads nowhere is a protocol error; all else a model can act on.
    fn refuse(&self, error: CallError) {
        if !self.session.finish(&self.exchange) {
            return;
        }
        if !self.dispatched && error.kind == ErrorKind::UnknownTool {
            let mut text = format!("{}; {}", error.message, error.hint);
            if !error.similar.is_empty() {
                text.push_str(&format!("; did you mean {}?", error.similar.join(", ")));
            }
            return self.exchange.error(protocol::INVALID_PARAMS, &text, None);
        }
        self.exchange.tool_error(&error);
    }

    /// Something that belongs to the call, before its answer.
    fn tell(&self, pieces: &[Piece<'_>]) {
        if self.exchange.out.send(pieces).is_err() {
            tracing::debug!("client is gone, notification dropped");
        }
    }

    /// A source's refusal of the arguments, with the schema it wants them to fit.
    fn rejected_arguments(&self, reply: &Message) -> Option<CallError> {
        let error = reply.error.filter(|_| self.dispatched)?;
        let object = Object::parse(reply.text(error))?;
        if object.get("code")? != protocol::INVALID_PARAMS.to_string() {
            return None;
        }
        let (source, tool) = self.route.as_ref()?;
        let said = object.string("message").unwrap_or_default();
        let text = format!("source `{source}` rejected the call of `{tool}`: {said}");
        let mut failure = CallError::new(ErrorKind::InvalidArguments, text, "correct the arguments and call again");
        failure = failure.at(source, Some(tool));
        let snapshot = self.session.around.control.snapshots.now();
        let entry = snapshot.catalog.find(source, tool);
        failure.input_schema = entry.and_then(|entry| RawValue::from_string(entry.schemas().0.into_owned()).ok());
        failure.cause = RawValue::from_string(reply.text(error).to_owned()).ok();
        Some(failure)
    }
}

impl ReturnPath for ClientCall {
    fn end(self: Box<Self>, end: End) {
        match end {
            End::Failed(error) => self.refuse(error),
            End::Reply(reply, era) => self.pass(&reply, era),
        }
    }

    fn progress(&self, notice: &Message, token: Span) {
        if let Some(own) = &self.token {
            self.tell(&[
                Piece::Slice(&notice.line, 0, token.start),
                Piece::Text(own),
                Piece::Slice(&notice.line, token.end, notice.line.len()),
            ]);
        }
    }

    fn waits(&self, why: &str) {
        if let Some(token) = &self.token {
            // Progress may only grow, and the source's own begins at zero or one: so this stays far below.
            let progress = f64::from(self.waited.fetch_add(1, Ordering::Relaxed) + 1) * 1e-9;
            self.tell(&[Piece::Text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\
                 \"progress\":{progress:.9},\"message\":{}}}}}",
                crate::wire::quoted(why)
            ))]);
        }
    }

    fn outbox(&self) -> Option<&Arc<Outbox>> {
        Some(&self.exchange.out).filter(|out| out.holds_up())
    }
}

impl ClientCall {
    fn pass(&self, reply: &Message, era: Era) {
        if !self.session.finish(&self.exchange) {
            return;
        }
        match self.rejected_arguments(reply) {
            Some(error) => self.exchange.tool_error(&error),
            None => self.exchange.pass_on(reply, era),
        }
    }
}

/// What `call_tool` was asked for, in a form the request can carry on.
impl menu::call_tool::Inner<'_> {
    fn place(&self, message: &Message) -> Arguments {
        match &self.arguments {
            None => Arguments::Empty,
            Some(std::borrow::Cow::Borrowed(text)) if within(message, text) => {
                Arguments::Within(Span::of(&message.line, text))
            }
            Some(text) => Arguments::Text(text.to_string()),
        }
    }

    fn asked(&self) -> Asked {
        Asked::Dispatched { source: self.source.clone(), tool: self.tool.clone() }
    }
}

fn within(message: &Message, text: &str) -> bool {
    message.line.as_ptr_range().contains(&text.as_ptr())
}
