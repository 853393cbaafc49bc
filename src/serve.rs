//! Owns the fronts: how clients' bytes come in and go out.
//! It does not look into a message; that is the session's.

pub mod pipes;
pub mod stdio;
