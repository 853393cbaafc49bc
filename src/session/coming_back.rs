//! Owns the requests of modern clients that bring back a state or answers (SEP-2322) to a source that knows none, a legacy one:
//! nothing of the kind reaches it. A request that takes up a call which waits here never comes this far: that is the concern
//! of [`super::parked`].

use std::sync::Arc;

use super::client_call::{ClientCall, Target};
use super::here::Here;
use super::pages;
use super::parked::{NO_RESPONSES, NO_STATE, is_answer};
use crate::call::{CallError, CallRequest, OF_ROUNDS, Ticket};
use crate::config::CallLimits;
use crate::protocol::{self, Era};
use crate::wire::{Message, Object};

/// Why a request is not sent to its source.
enum Refused {
    Params(&'static str),
    Call(CallError),
}

impl ClientCall {
    /// Sends a request that brings something back, once it is known which era its source speaks.
    pub(super) fn come_back(
        self: &Arc<Self>,
        target: Target,
        request: CallRequest,
        limits: CallLimits,
        ticket: Arc<Ticket>,
    ) {
        // Not with the place locked: what follows looks at it, too.
        let Some(here) = self.here().filter(|here| here.exchange.modern) else {
            return self.go(target, request, limits, ticket);
        };
        if let Some(era) = target.source.era_for(&self.tenant) {
            return self.come_back_to(era, &here, target, request, limits, ticket);
        }
        let call = self.clone();
        here.session.clone().go_on(&here.exchange.clone(), async move {
            // One that does not start fails the call as any other.
            let _ = target.source.start(&call.tenant).await;
            let era = target.source.era_for(&call.tenant).unwrap_or(Era::Modern);
            // Nor does one that has been forbidden meanwhile.
            if let Some(error) = call.barred(&target) {
                let _ = call.target.set(target);
                return call.refuse(&here, error);
            }
            call.come_back_to(era, &here, target, request, limits, ticket);
        });
    }

    fn come_back_to(
        self: &Arc<Self>,
        era: Era,
        here: &Here,
        target: Target,
        request: CallRequest,
        limits: CallLimits,
        ticket: Arc<Ticket>,
    ) {
        if era == Era::Modern {
            return self.go(target, request, limits, ticket);
        }
        match for_legacy(here, target.source.id.as_str()) {
            Ok(()) => self.go(target, request.without(&OF_ROUNDS), limits, ticket),
            Err(Refused::Call(error)) => {
                let error = error.at(target.source.id.as_str(), Some(target.subject.name()));
                let _ = self.target.set(target);
                self.refuse(here, error);
            }
            Err(Refused::Params(why)) => {
                if here.session.finish(&here.exchange) {
                    here.exchange.error(protocol::INVALID_PARAMS, why, None);
                }
            }
        }
    }
}

/// Whether the request may go to a legacy source, without what it brings back: no state is one of such a source, and answers
/// without a state can only be those to pages that had to be visited first.
fn for_legacy(here: &Here, source: &str) -> Result<(), Refused> {
    let Some(params) = here.request().and_then(Message::params_object) else { return Ok(()) };
    let given = |name: &str| params.get(name).filter(|value| *value != "null");
    if given("requestState").is_some() {
        return Err(Refused::Params(NO_STATE));
    }
    let Some(responses) = given("inputResponses") else { return Ok(()) };
    let responses = Object::parse(responses).filter(is_answer).ok_or(Refused::Params(NO_RESPONSES))?;
    pages::declined(&responses, source).map_or(Ok(()), |error| Err(Refused::Call(error)))
}
