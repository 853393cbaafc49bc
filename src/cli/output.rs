//! Owns what commands print on stdout. In stdio mode stdout is the wire, and nothing here is used.

use std::io::Write;

/// Prints a text as it is. A reader that is gone is no error.
pub fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
