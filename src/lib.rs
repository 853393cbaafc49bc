//! toolrelay.

pub mod call;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod control;
pub mod dispatch;
pub mod menu;
pub mod name;
pub mod policy;
pub mod protocol;
pub mod redact;
pub mod relay;
pub mod serve;
pub mod session;
pub mod snapshot;
pub mod source;
pub mod store;
pub mod wire;
