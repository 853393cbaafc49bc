//! Owns the rounds of a modern source that asks by its answer, for a client that has to be asked by requests of its own.
//! It does not know what is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::asks::Lack;
use super::client_call::{ClientCall, Target};
use super::here::Here;
use crate::call::question::named;
use crate::call::{CallError, ErrorKind, Reply};
use crate::protocol;
use crate::wire::raw::Member;
use crate::wire::{Object, Piece, quoted};

/// How often a source may ask during one call.
const ROUNDS_MAX: u32 = 10;

/// Whether a modern source's result asks for input.
pub fn wants_input(result: &Object<'_>) -> bool {
    result.string("resultType").as_deref() == Some("input_required")
}

/// A member of such a result; `null` counts as none.
fn member<'a>(result: &Object<'a>, name: &str) -> Option<&'a str> {
    result.get(name).filter(|value| *value != "null")
}

/// What is wrong with a result that asks for input. Sent once more it would have the call carried out again, for nothing.
fn fault(result: &Object<'_>) -> Option<&'static str> {
    let (wanted, state) = (member(result, "inputRequests"), member(result, "requestState"));
    let questions = wanted.map(Object::parse);
    match (questions, state) {
        (Some(None), _) => Some("its `inputRequests` is no object"),
        (_, Some(state)) if !state.starts_with('"') => Some("its `requestState` is no string"),
        (None, None) => Some("it has neither `inputRequests` nor `requestState`"),
        (Some(Some(questions)), None) if questions.members.is_empty() => {
            Some("its `inputRequests` is empty, and it has no `requestState`")
        }
        _ => None,
    }
}

/// Why a source that asks for input with this result cannot be given any, whoever its client is.
pub fn malformed(result: &Object<'_>, target: &Target) -> Option<CallError> {
    let fault = fault(result)?;
    let source = target.source.id.as_str();
    let text = format!("source `{source}` asked for input, but its answer cannot be read: {fault}");
    let hint = "report this to the authors of the source";
    Some(CallError::new(ErrorKind::Unavailable, text, hint).at(source, Some(target.subject.name())))
}

/// Asks a legacy client what the source asks, and sends the call once more with the answers.
pub fn drive(call: Arc<ClientCall>, here: Here, reply: Reply) {
    here.session.clone().go_on(&here.exchange.clone(), async move {
        if let Err(error) = round(&call, &here, reply).await {
            call.refuse(&here, error);
        }
    });
}

async fn round(call: &Arc<ClientCall>, here: &Here, reply: Reply) -> Result<(), CallError> {
    let Some(Target { source, subject, .. }) = call.target.get() else { return Ok(()) };
    let failure =
        |kind, text: String, hint: &str| CallError::new(kind, text, hint).at(source.id.as_str(), Some(subject.name()));
    if call.rounds.fetch_add(1, Ordering::Relaxed) >= ROUNDS_MAX {
        let text = format!("source `{}` asked for input more than {ROUNDS_MAX} times during one call", source.id);
        return Err(failure(ErrorKind::Unavailable, text, "report this to the authors of the source"));
    }
    let message = &reply.message;
    let result = message.result.and_then(|span| Object::parse(message.text(span)));
    let state = result.as_ref().and_then(|result| member(result, "requestState"));
    let wanted = result.as_ref().and_then(|result| Object::parse(result.get("inputRequests")?));
    let mut waiting = Vec::new();
    for member in wanted.iter().flat_map(|wanted| &wanted.members) {
        let (method, params) = asked(member.value);
        if let Some(lack) = here.cannot(&method, params) {
            let text = format!("source `{}` needs input from the client during this call: {lack}", source.id);
            let hint = "give everything the tool needs in its arguments, or use a client that can be asked";
            return Err(failure(ErrorKind::Unavailable, text, hint));
        }
        let (params, page) = for_legacy(params, &method, source.id.as_str());
        waiting.push((member.key.to_string(), page, here.session.ask_for_answer(here, &method, &params)));
    }
    let mut responses = Vec::new();
    for (key, page, answered) in waiting {
        match answered.await {
            Ok(Ok(result)) => responses.push(format!("{}:{result}", quoted(&key))),
            Ok(Err(error)) => {
                let text = format!("the client did not give what source `{}` asked for: {error}", source.id);
                return Err(failure(ErrorKind::Cancelled, text, "call again, and answer what is asked"));
            }
            // The call is over already.
            Err(_) => return Ok(()),
        }
        if let Some(page) = page {
            here.tell(&[Piece::Text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\"params\":\
                 {{\"elicitationId\":{}}}}}",
                quoted(&page)
            ))]);
        }
    }
    let responses = format!("{{{}}}", responses.join(","));
    let request = reply.request.clone().answering(wanted.as_ref().map(|_| responses.as_str()), state);
    // The rules may have changed while the client was asked.
    if let Some(error) = call.target.get().and_then(|target| call.barred(target)) {
        return Err(error);
    }
    let target = Target { source: source.clone(), subject: subject.clone(), prefix: None, about: None };
    call.send(target, request, reply.limits, reply.ticket.clone());
    Ok(())
}

/// What the client cannot be asked of what a modern source asks by its answer; `None` if it can be asked all.
pub fn lacks(result: &Object<'_>, here: &Here) -> Option<Lack> {
    let wanted = result.get("inputRequests").and_then(Object::parse)?;
    wanted.members.iter().find_map(|member| {
        let (method, params) = asked(member.value);
        here.cannot(&method, params)
    })
}

/// The method and the params of one question.
fn asked(question: &str) -> (String, &str) {
    let question = Object::parse(question);
    let method = question.as_ref().and_then(|question| question.string("method")).unwrap_or_default().into_owned();
    (method, question.as_ref().and_then(|question| question.get("params")).unwrap_or("{}"))
}

/// The params of a question as clients up to 2025-11-25 read them: a page to visit has an id of its own there.
fn for_legacy(params: &str, method: &str, source: &str) -> (String, Option<String>) {
    let Some(object) = Object::parse(params) else { return ("{}".to_owned(), None) };
    let text = named(&object, method, source, |_| true);
    if object.string("mode").as_deref() != Some("url") {
        return (text, None);
    }
    let id = crate::name::unguessable();
    let own = Object::parse(&text).map(|object| {
        object.rewritten(|name| name != "elicitationId", &[&format!("\"elicitationId\":{}", quoted(&id))])
    });
    (own.unwrap_or_default(), Some(id))
}

/// What a modern source asks for a task, by what it says of that, for a modern client, without what the client cannot be asked.
/// `None` where it asks nothing.
pub fn asks_for_task(result: &Object<'_>, here: &Here, source: &str) -> Option<Result<String, Lack>> {
    let wanted = result.get("inputRequests").and_then(Object::parse)?;
    let lack = lacks(result, here);
    let can_any = wanted.members.iter().any(|member| can(member, here));
    Some(match lack {
        Some(lack) if !can_any => Err(lack),
        _ => Ok(asks(result, here, source)),
    })
}

fn can(question: &Member<'_>, here: &Here) -> bool {
    let (method, params) = asked(question.value);
    here.cannot(&method, params).is_none()
}

/// What a modern source asks by its answer, for a modern client that can be asked it: as it came, but that what the user is shown names the
/// source, and that its state is bound to whose it is.
pub fn asks(result: &Object<'_>, here: &Here, source: &str) -> String {
    let one = |member: &Member<'_>| {
        let told = Object::parse(member.value).and_then(|question| {
            let method = question.string("method")?;
            let params = named(&Object::parse(question.get("params")?)?, &method, source, |_| true);
            Some(question.rewritten(|name| name != "params", &[&format!("\"params\":{params}")]))
        });
        format!("{}:{}", quoted(&member.key), told.as_deref().unwrap_or(member.value))
    };
    let wanted = result.get("inputRequests").and_then(Object::parse);
    let requests = wanted.map(|wanted| {
        let all: Vec<String> = wanted.members.iter().filter(|member| can(member, here)).map(one).collect();
        format!("\"inputRequests\":{{{}}}", all.join(","))
    });
    let state = result.string("requestState");
    let state = state.map(|state| format!("\"requestState\":{}", quoted(&here.bound(source, &state))));
    let meta = protocol::meta_without_hop(result);
    let more: Vec<&str> = [&requests, &state, &meta].into_iter().filter_map(Option::as_deref).collect();
    let more: Vec<&str> = more.into_iter().filter(|text| !text.is_empty()).collect();
    let is_new = |name: &str| match name {
        "inputRequests" => requests.is_some(),
        "requestState" => state.is_some(),
        "_meta" => meta.is_some(),
        _ => false,
    };
    let is_none = |name: &str| matches!(name, "inputRequests" | "requestState") && result.get(name) == Some("null");
    result.rewritten(|name| !is_new(name) && !is_none(name), &more)
}
