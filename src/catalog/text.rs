//! Owns the making of short, harmless lines from text that sources wrote: one line, no control characters, bounded.
//! It does not know where a text came from or where it is shown.

use std::borrow::Cow;

use super::json::{is_unseen, quoted};

/// The longest one-line text about a tool or a source, in characters.
pub const LINE_MAX: usize = 160;
/// A cut may go back this many characters to end at a blank.
const WORD_BORDER: usize = 30;
/// Words whose final dot ends no sentence.
const ABBREVIATIONS: &[&str] =
    &["e.g", "i.e", "eg", "ie", "etc", "vs", "cf", "approx", "incl", "esp", "no", "fig", "st"];

/// Characters that show nothing and may mislead a terminal or a reader: controls, text direction, byte order mark.
pub(crate) fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}' | '\u{200E}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// A name as it is shown on a terminal and in reports: as it is where every character of it can be seen, else in quotes with
/// escapes for those that cannot, so that two names which differ look different.
pub fn visible_name(name: &str) -> Cow<'_, str> {
    let is_blank = |c: char| c.is_whitespace() && c != ' ';
    let is_plain = name.trim() == name && !name.contains("  ");
    if is_plain && !name.contains(|c| is_harmful(c) || is_unseen(c) || is_blank(c)) {
        return Cow::Borrowed(name);
    }
    let escaped = |c: char| if is_blank(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(quoted(name).chars().map(escaped).collect())
}

/// The text as one line of at most `max` characters, runs of blanks as one; `…` marks a cut.
pub fn single_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let clean: String = word.chars().filter(|&c| !is_harmful(c)).collect();
        if clean.is_empty() {
            continue;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        length += clean.chars().count();
        line.push_str(&clean);
        if length > max {
            return cut(&line, max);
        }
    }
    line
}

fn cut(line: &str, max: usize) -> String {
    let room = max.saturating_sub(1);
    let end = line.char_indices().nth(room).map_or(line.len(), |(at, _)| at);
    let kept = &line[..end];
    let border = kept.rfind(' ').filter(|&at| kept[at..].chars().count() <= WORD_BORDER);
    let kept = border.map_or(kept, |at| &kept[..at]);
    format!("{}…", kept.trim_end_matches([' ', ',', ';', ':', '-']))
}

/// The first sentence of a text, as it is written: up to a full stop, an empty line, or the head or first item of a list.
pub fn first_sentence(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '>' | '=' | '-'));
    let mut line_is_empty = false;
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        match c {
            '。' | '！' | '？' => return &text[..at + c.len_utf8()],
            '.' | '!' | '?' if rest.chars().next().is_none_or(char::is_whitespace) && !is_abbreviation(&text[..at]) => {
                return &text[..=at];
            }
            '\n' if line_is_empty => return text[..at].trim_end(),
            '\n' if starts_a_list(rest) => return text[..at].trim_end(),
            '\n' => line_is_empty = true,
            _ if !c.is_whitespace() => line_is_empty = false,
            _ => {}
        }
    }
    text.trim_end()
}

fn starts_a_list(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim();
    line.ends_with(':') || line.starts_with(['-', '*', '•', '#', '|', '<', '@', ':'])
}

fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
        || (!word.is_empty() && word.len() <= 2 && word.bytes().all(|c| c.is_ascii_digit()) && before.len() <= 2)
}

/// The text without harmful characters but with its lines, at most `max` bytes.
pub fn bounded_text(text: &str, max: usize) -> String {
    let mut kept = String::new();
    for c in text.chars().filter(|&c| c == '\n' || c == '\t' || !is_harmful(c)) {
        if kept.len() + c.len_utf8() > max {
            break;
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_look_different() {
        for (name, shown) in [
            ("read_note", "read_note"),
            ("read note", "read note"),
            ("读取", "读取"),
            ("read_note ", "\"read_note \""),
            ("a  b", "\"a  b\""),
            ("a\u{1b}[2J\u{7}", "\"a\\u001b[2J\\u0007\""),
            ("a\u{200b}", "\"a\\u200b\""),
            ("\u{202e}eton_daer", "\"\\u202eeton_daer\""),
            ("a\u{a0}b", "\"a\\u00a0b\""),
        ] {
            assert_eq!(visible_name(name), shown, "{name:?}");
        }
    }

    #[test]
    fn lines_are_single_bounded_and_harmless() {
        let word = "w".repeat(30);
        for (text, max, line) in [
            ("  a \n\t b\r\n", 10, "a b"),
            ("a\u{1b}[31mred\u{0}\u{202e}", 20, "a[31mred"),
            ("one two three", 13, "one two three"),
            ("one two three", 12, "one two…"),
            ("one, two", 7, "one…"),
            (&word, 10, "wwwwwwwww…"),
            ("日本語の説明", 4, "日本語…"),
            ("", 5, ""),
        ] {
            assert_eq!(single_line(text, max), line, "{text:?}");
            assert!(single_line(text, max).chars().count() <= max);
        }
    }

    #[test]
    fn sentences_end_where_readers_expect() {
        for (text, sentence) in [
            ("Reads a file. Then more.", "Reads a file."),
            ("Reads v1.2 of a file", "Reads v1.2 of a file"),
            ("Reads data, e.g. a file. More", "Reads data, e.g. a file."),
            ("# Title\n\nText.", "Title"),
            ("one\ntwo\n \nthree", "one\ntwo"),
            ("Adds a row\nArgs:\n  x: y", "Adds a row"),
            ("Adds a row\nto a table\n - x", "Adds a row\nto a table"),
            ("読む。書く。", "読む。"),
            ("\n\n  ", ""),
            ("Is it? Yes.", "Is it?"),
            ("1. First step. Second.", "1. First step."),
        ] {
            assert_eq!(first_sentence(text), sentence, "{text:?}");
        }
    }

    #[test]
    fn long_texts_are_bounded_at_a_character() {
        assert_eq!(bounded_text("a\u{7}\nb", 10), "a\nb");
        assert_eq!(bounded_text("ééé", 5), "éé");
    }
}
