//! toolrelay.

pub mod catalog;
pub mod config;
pub mod name;
pub mod policy;
