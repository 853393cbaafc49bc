//! `toolrelay schema`: the JSON Schema of sources.toml.

use super::{Failure, output};
use crate::config;

pub fn run() -> Result<(), Failure> {
    output::json(&config::schema())
}
