//! Owns what commands print on stdout, and what may be printed there. In stdio mode stdout is the wire, and nothing here
//! is used.

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::Failure;

/// Prints a text; on a terminal without what could steer it, since sources write much of it. A reader that is gone has had
/// enough, and is no error; a full disk is one.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let harmless;
    let text = if out.is_terminal() {
        harmless = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect::<String>();
        &harmless
    } else {
        text
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("the output cannot be written: {error}"), "see where stdout goes"))
        }
        _ => Ok(()),
    }
}

/// Prints a text of the relay's own or a source's, with a line end behind it if it has none.
pub fn lines(text: &str) -> Result<(), Failure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    self::text(&format!("{text}{end}"))
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("BUG: what commands print always serializes");
    self::text(&format!("{text}\n"))
}

/// Whether colours may go to this stream.
pub fn takes_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
