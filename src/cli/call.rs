//! `toolrelay call`: one call of one tool, on the same way as a client's.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::progress::Progress;
use super::{Common, Failure, blocks, output, relayed};
use crate::call::{Call, CallError, CallRequest, End, ErrorKind, ReturnPath, Subject};
use crate::dispatch::{self, Asked};
use crate::perform::CancelOnDrop;
use crate::protocol::Era;
use crate::redact::one_line;
use crate::relay::Relay;
use crate::wire::busy_poll::UnderWay;
use crate::wire::{Message, Object, Outbox, Span, quoted};

/// The longest message of a source that is told in an error.
const MESSAGE_MAX: usize = 2_000;

#[derive(clap::Args)]
pub struct Arguments {
    /// The source's id
    source: String,
    /// The tool's name, as its source spells it
    tool: String,
    /// The tool's arguments, a JSON object; `-` reads it from stdin
    #[arg(default_value = "{}")]
    arguments: String,
    /// Print the source's whole message, as it came
    #[arg(long)]
    raw: bool,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    let request = request(arguments)?;
    relayed::run(common, async |relay, progress| {
        progress.say(format!("calling {}/{}", arguments.source, arguments.tool));
        let ended = progress.during(call(relay, arguments, request, progress)).await;
        let (reply, era) = match ended {
            Ok(reply) => reply,
            Err(error) => return failed(common, &error),
        };
        print(common, arguments, &reply)?;
        judge(arguments, &reply, era)
    })
}

/// The arguments as they were given, on one line.
fn request(arguments: &Arguments) -> Result<CallRequest, Failure> {
    let given = match arguments.arguments.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::usage(format!("stdin cannot be read: {error}"), "give a JSON object on stdin"))?,
        text => text.to_owned(),
    };
    let text = if given.trim().is_empty() { "{}" } else { given.trim() };
    if Object::parse(text).is_none() {
        let why = match serde_json::from_str::<&serde_json::value::RawValue>(text) {
            Ok(_) => "they are JSON, but no object".to_owned(),
            Err(error) => error.to_string(),
        };
        return Err(Failure::usage(
            format!("the arguments cannot be read: {why}"),
            "give a JSON object in quotes of the shell, as in '{\"query\":\"x\"}', or `-` to read it from stdin",
        ));
    }
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":{},\"arguments\":{},\"_meta\":{{\"progressToken\":1}}}}}}",
        quoted(&arguments.tool),
        // Outside of strings, and JSON has none inside, a line end is a space like any other.
        text.replace(['\n', '\r'], " ")
    );
    let message = Message::parse(Bytes::from(line)).map_err(|(why, _)| why).expect("BUG: the request is well-formed");
    let (request, _, _) = CallRequest::read(&message).expect("BUG: the request is complete");
    Ok(request)
}

async fn call(
    relay: &Relay,
    arguments: &Arguments,
    request: CallRequest,
    progress: &Progress,
) -> Result<(Message, Era), CallError> {
    let asked = Asked::Dispatched { source: Some(arguments.source.clone()), tool: arguments.tool.clone() };
    let dispatch::Route { source, tool, limits } = dispatch::settle(&relay.control.snapshots, &asked).await?;
    let request = request.named(&tool, &arguments.tool);
    let ticket = CancelOnDrop(Arc::default());
    let (end, ended) = oneshot::channel();
    let back = Box::new(Back { end, progress: progress.clone(), called: format!("{}/{tool}", source.id) });
    let id = source.id.clone();
    source.call(Box::new(Call {
        source: id,
        subject: Subject::Tool(tool),
        request,
        limits,
        ticket: ticket.0.clone(),
        tenant: None,
        back,
        under_way: UnderWay::begin(),
    }));
    match ended.await {
        Ok(End::Reply(reply)) => Ok((reply.message, reply.era)),
        Ok(End::Failed(error)) => Err(error),
        Err(_) => {
            let (text, hint) = ("the call ended without an answer", "see the log with `--log debug`");
            Err(CallError::new(ErrorKind::Cancelled, text, hint))
        }
    }
}

/// The way back to the command.
struct Back {
    end: oneshot::Sender<End>,
    progress: Progress,
    called: String,
}

impl ReturnPath for Back {
    fn end(self: Box<Self>, end: End) {
        let _ = self.end.send(end);
    }

    fn progress(&self, notice: &Message, _: Span) {
        let Some(params) = notice.params_text().and_then(Object::parse) else { return };
        let mut note = self.called.clone();
        if let Some(done) = params.get("progress") {
            note.push_str(&format!(": {done}"));
            note.push_str(&params.get("total").map(|total| format!(" of {total}")).unwrap_or_default());
        }
        if let Some(message) = params.string("message") {
            note.push_str(&format!(" {message}"));
        }
        self.progress.say(one_line(&note, MESSAGE_MAX));
    }

    fn waits(&self, why: &str) {
        self.progress.say(one_line(why, MESSAGE_MAX));
    }

    fn outbox(&self) -> Option<Arc<Outbox>> {
        None
    }
}

/// A failure of the relay's own, for scripts where a source's error would be.
fn failed(common: &Common, error: &CallError) -> Result<(), Failure> {
    if common.json {
        let mut told = error.clone();
        told.hint = relayed::hint(error);
        output::lines(&format!("{{\"error\":{}}}", told.to_json()))?;
    }
    Err(relayed::refused(error))
}

fn print(common: &Common, arguments: &Arguments, reply: &Message) -> Result<(), Failure> {
    let result = reply.result.map(|span| reply.text(span));
    let error = reply.error.map(|span| reply.text(span));
    match (result, error) {
        _ if arguments.raw => output::lines(&String::from_utf8_lossy(&reply.line)),
        (Some(result), _) if common.json => output::lines(result),
        (None, Some(error)) if common.json => output::lines(&format!("{{\"error\":{error}}}")),
        (Some(result), _) => output::lines(&blocks::told(result)),
        // It is told as this command's failure.
        (None, _) => Ok(()),
    }
}

/// Whether the call did what it was to do.
fn judge(arguments: &Arguments, reply: &Message, era: Era) -> Result<(), Failure> {
    let Arguments { source, tool, .. } = arguments;
    let schema = format!("`toolrelay tools {source} --schema` shows what its tools take");
    if let Some(error) = reply.error.map(|span| reply.text(span)) {
        let object = Object::parse(error);
        let code = object.as_ref().and_then(|object| object.get("code")).unwrap_or("without a code");
        let said = object.as_ref().and_then(|object| object.string("message"));
        let said = one_line(said.as_deref().unwrap_or(error), MESSAGE_MAX);
        return Err(Failure::run(format!("source `{source}` answered with error {code}: {said}"), schema));
    }
    let result = reply.result.and_then(|span| Object::parse(reply.text(span)));
    let member = |name: &str| result.as_ref().and_then(|result| result.get(name));
    if era == Era::Modern && member("resultType") == Some("\"input_required\"") {
        return Err(Failure::run(
            format!("tool `{tool}` of source `{source}` asks for input, which the command line cannot be asked for"),
            "give everything the tool needs in its arguments",
        ));
    }
    if member("isError") == Some("true") {
        return Err(Failure::run(format!("tool `{tool}` of source `{source}` reports that it failed"), schema));
    }
    Ok(())
}
