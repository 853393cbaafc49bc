//! Owns how tables look: columns without lines, fitted to a terminal, one row a line everywhere else.
//! It does not know what stands in them.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, presets};

use super::output;
use crate::redact;

/// Between two columns.
const GAP: u16 = 2;
/// How wide a terminal is where nobody says it.
const COLUMNS: u16 = 80;

/// A table that grows row by row.
pub struct Table {
    inner: comfy_table::Table,
    colours: bool,
}

impl Table {
    pub fn new<T: AsRef<str>>(header: &[T]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if inner.width() == Some(0) {
            inner.set_width(columns());
        }
        let colours = output::takes_colours(&std::io::stdout());
        let title = |text: &T| {
            let cell = Cell::new(text.as_ref().to_uppercase());
            if colours { cell.add_attribute(Attribute::Bold) } else { cell }
        };
        inner.set_header(header.iter().map(title).collect::<Vec<_>>());
        inner.column_iter_mut().for_each(|column| {
            column.set_padding((0, GAP));
        });
        Self { inner, colours }
    }

    /// Adds a row. What sources wrote is made fit for a terminal here.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|text| self.cell(text.as_ref())).collect::<Vec<_>>();
        self.inner.add_row(cells);
    }

    fn cell(&self, text: &str) -> Cell {
        let cell = Cell::new(redact::one_line(text, usize::MAX));
        let colour = match text {
            "ready" => Color::Green,
            "unreachable" | "misconfigured" => Color::Red,
            _ => return cell,
        };
        if self.colours { cell.fg(colour) } else { cell }
    }

    /// The table, with a line end behind each line.
    pub fn text(&self) -> String {
        self.inner.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// The width of a terminal that does not say it: as the environment has it, or the usual one.
fn columns() -> u16 {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// A reason of a source as it stands beside its id.
pub fn beside<'a>(id: &str, reason: &'a str) -> &'a str {
    let named = reason.strip_prefix("source `").and_then(|rest| rest.strip_prefix(id)?.strip_prefix('`'));
    named.map_or(reason, |rest| rest.trim_start_matches(':').trim_start())
}

/// A number of things: `1 tool`, `2 tools`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
