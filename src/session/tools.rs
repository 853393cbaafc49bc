//! Owns `tools/call`: the relay's own tools, direct names and the dispatcher.
//! Where a call goes is decided in [`crate::dispatch`] alone.

use std::sync::Arc;
use std::time::Duration;

use super::client_call::{ClientCall, Target};
use super::here::Here;
use super::{Exchange, Session, Work};
use crate::call::{Arguments, BadRequest, CallError, CallRequest, End, Subject, Ticket};
use crate::dispatch::{self, Asked, Resolved, Route};
use crate::menu;
use crate::protocol;
use crate::snapshot::Snapshots;
use crate::wire::{Message, Object, Span};

/// How often the client of a call that waits for a listing is told so, if it asked for progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn call_tool(self: &Arc<Self>, message: &Message, params: Option<&Object<'_>>, exchange: Exchange) {
        let Some(exchange) = self.resume(message, params, exchange) else { return };
        let (mut request, name, arguments) = match CallRequest::of(message, params) {
            Ok(read) => read,
            Err(error) => return exchange.error(protocol::INVALID_PARAMS, &bad_request(&error), None),
        };
        // Nobody is told that tasks of 2025-11-25 can be had here: one that was begun could not be asked for again.
        if !exchange.modern && params.is_some_and(|params| params.get("task").is_some()) {
            request = request.without(&["task"]);
        }
        let arguments_text = arguments.map(|span| message.text(span));
        if name == menu::CALL_TOOL {
            let snapshot = self.around.control.snapshots.now();
            return match menu::call_tool::read(&snapshot, arguments_text) {
                Ok(inner) => {
                    if let Some(own) = inner.own() {
                        return self.own_tool(exchange, own.to_owned(), inner.arguments.as_deref());
                    }
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
        match request.decoded(arguments) {
            Ok(request) => self.dispatch(message, request, Asked::Direct(name), exchange),
            Err(error) => exchange.error(protocol::INVALID_PARAMS, &bad_request(&error), None),
        }
    }

    /// One of the control-plane tools.
    fn own_tool(self: &Arc<Self>, exchange: Exchange, name: String, arguments: Option<&str>) {
        let (session, own) = (self.clone(), exchange.clone());
        let arguments = arguments.map(str::to_owned);
        self.spawn(&exchange, async move {
            let around = &session.around;
            let context = menu::Context {
                control: &around.control,
                batches: &around.batches,
                principal: &session.principal,
                tenant: Some(&session.tenant),
            };
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
        let request = request.from(self.caller(&exchange));
        let dispatched = matches!(asked, Asked::Dispatched { .. });
        let call = ClientCall::new(Here::new(self, exchange.clone(), message, request.meta()), dispatched);
        let snapshot = self.around.control.snapshots.now();
        match dispatch::resolve(&snapshot, &asked) {
            Resolved::Route(route) => go(route, request, &asked, ticket, &call),
            Resolved::Refused(error) => call.ended(End::Failed(error)),
            Resolved::NotYet(_) => {
                let snapshots = self.around.control.snapshots.clone();
                self.go_on(&exchange, async move {
                    match settled(&snapshots, &asked, &call).await {
                        Ok(route) => go(route, request, &asked, ticket, &call),
                        Err(error) => call.ended(End::Failed(error)),
                    }
                });
            }
        }
    }
}

/// Waits for the route, and tells the client so now and then.
async fn settled(snapshots: &Snapshots, asked: &Asked, call: &ClientCall) -> Result<Route, CallError> {
    let mut settling = std::pin::pin!(dispatch::settle(snapshots, asked));
    loop {
        match tokio::time::timeout(TELL_EVERY, &mut settling).await {
            Ok(settled) => return settled,
            Err(_) => call.waits("the tools of the source are being listed"),
        }
    }
}

fn go(route: Route, request: CallRequest, asked: &Asked, ticket: Arc<Ticket>, call: &Arc<ClientCall>) {
    let Route { source, tool, limits } = route;
    let written = match asked {
        Asked::Direct(name) => name.as_str(),
        Asked::Dispatched { .. } | Asked::Unreadable(_) => menu::CALL_TOOL,
    };
    let request = request.named(&tool, written);
    call.send(Target { source, subject: Subject::Tool(tool), prefix: None, about: None }, request, limits, ticket);
}

pub(super) fn bad_request(error: &BadRequest) -> String {
    format!("{error}; expected {{\"name\": .., \"arguments\": {{..}}}}")
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
