//! Owns what a modern client is told whose source asks what it cannot be asked, or where nobody can be. It asks nothing.

use super::asks::Lack;
use super::client_call::{ClientCall, Target};
use super::here::Here;
use crate::call::Subject;
use crate::protocol;

impl ClientCall {
    /// Whether a modern client may be answered with questions: only where its request can be made again with what it answers
    /// (SEP-2322).
    pub(super) fn takes_rounds(&self) -> bool {
        !self.target.get().is_some_and(|target| matches!(target.subject, Subject::Method(_)))
    }

    /// Whether it is about a task.
    pub(super) fn is_of_task(&self) -> bool {
        self.target.get().is_some_and(|Target { subject, .. }| match subject {
            Subject::Method(method) => method.starts_with("tasks/"),
            _ => false,
        })
    }

    /// Answers a modern client, whose request is over, that its source asks where nobody can be asked.
    pub(super) fn asks_in_vain(&self, here: &Here) {
        let method = self.target.get().map(|target| target.subject.name()).unwrap_or_default();
        let text = format!("source `{}` asks for input at `{method}`, where it can be given none", self.source_id());
        here.exchange.error(protocol::INTERNAL_ERROR, &text, None);
    }

    /// Answers a modern client, whose request is over, that it would have to be asked what it cannot be.
    pub(super) fn lacks(&self, here: &Here, lack: &Lack, what: &str) {
        match lack.required() {
            Some(required) => {
                let data = format!("{{\"requiredCapabilities\":{required}}}");
                here.exchange.error(protocol::MISSING_CAPABILITY, &format!("{what}: {lack}"), Some(&data));
            }
            None => here.exchange.error(protocol::INTERNAL_ERROR, &format!("{what}: {lack}"), None),
        }
    }
}
