//! Owns the fronts: how clients' bytes come in and go out.
//! It does not decide what is answered; that is the session's.

mod answers;
mod body;
mod endpoint;
mod events;
mod guard;
mod head;
mod headers;
pub mod http;
pub mod pipes;
mod sessions;
pub mod stdio;
