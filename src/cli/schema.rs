//! `toolrelay schema`: the JSON Schema of sources.toml.

use super::output;
use crate::config;

pub fn run() {
    output::json(&config::schema());
}
