//! Owns the request states of modern sources on their way through clients (SEP-2322): a source sees one client, the relay,
//! so the state that it gives to the owner of one credential must not be taken from another's. Such a state goes out with
//! a seal over whose it is; without credentials there is one owner, and states pass as they are. It keeps no state itself.

use sha2::{Digest, Sha256};

use super::here::Here;
use crate::call::CallRequest;
use crate::wire::{Object, Span, unquoted};

/// What every sealed state begins with; the seal and a dash follow.
const MARK: &str = "toolrelay-bound-";
/// Hex digits of a seal.
const SEAL: usize = 32;
const BLOCK: usize = 64;

/// What states are sealed with: another key in each run.
#[derive(Clone)]
pub struct Key([u8; BLOCK]);

impl Default for Key {
    fn default() -> Self {
        let mut key = [0; BLOCK];
        getrandom::fill(&mut key).expect("BUG: the system gives random numbers");
        Self(key)
    }
}

impl Key {
    /// HMAC-SHA-256 (RFC 2104), shortened.
    fn seal(&self, parts: &[&str]) -> String {
        let mut inner = Sha256::new();
        inner.update(self.0.map(|byte| byte ^ 0x36));
        for part in parts {
            inner.update((part.len() as u64).to_be_bytes());
            inner.update(part);
        }
        let outer = Sha256::new().chain_update(self.0.map(|byte| byte ^ 0x5c)).chain_update(inner.finalize());
        outer.finalize().iter().take(SEAL / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Here {
    /// A source's state as this client gets it.
    pub fn bound(&self, source: &str, state: &str) -> String {
        let Some(owner) = self.session.principal.credential_id() else { return state.to_owned() };
        let seal = self.session.around.parked.key().seal(&[owner, source, state]);
        format!("{MARK}{seal}-{state}")
    }

    /// The request with the state as its source gave it; `None` where that was given to somebody else.
    pub fn unbound(&self, source: &str, request: CallRequest) -> Option<CallRequest> {
        let (Some(owner), Some(message)) = (self.session.principal.credential_id(), self.request()) else {
            return Some(request);
        };
        let params = message.params_text().and_then(Object::parse);
        let state = params.and_then(|params| params.get("requestState")).filter(|state| *state != "null");
        let Some(raw) = state else { return Some(request) };
        let told = unquoted(raw)?;
        let (seal, state) = told.strip_prefix(MARK)?.split_at_checked(SEAL)?;
        let state = state.strip_prefix('-')?;
        let right = self.session.around.parked.key().seal(&[owner, source, state]);
        let differs = right.bytes().zip(seal.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        (differs == 0).then(|| request.with_state(Span::of(&message.line, raw), state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_differ_by_key_owner_source_and_state() {
        let (key, other) = (Key::default(), Key::default());
        let seal = key.seal(&["a", "s", "state"]);
        assert_eq!((seal.len(), &seal), (SEAL, &key.seal(&["a", "s", "state"])));
        assert_ne!(seal, other.seal(&["a", "s", "state"]));
        for parts in [["b", "s", "state"], ["a", "t", "state"], ["a", "s", "stat"], ["as", "", "state"]] {
            assert_ne!(seal, key.seal(&parts));
        }
    }
}
