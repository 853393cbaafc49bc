//! Owns the question whether a regular expression is one for JavaScript with its `u` flag, which is how clients compile
//! those of a schema. It matches nothing; what it is not sure of, it takes for bad.

use std::collections::BTreeSet;

/// Whether JavaScript compiles `pattern`.
pub fn is_sound(pattern: &str) -> bool {
    Reader { chars: pattern.chars().collect(), ..Reader::default() }.read().is_some()
}

#[derive(Default)]
struct Reader {
    chars: Vec<char>,
    at: usize,
    /// The groups that are open, and which of them are assertions.
    open: Vec<bool>,
    captures: u32,
    names: BTreeSet<String>,
    /// The highest number, and the names, that are referred to.
    last_number: u32,
    wanted: BTreeSet<String>,
}

/// What an escape stands for.
enum Escape {
    One(u32),
    Set,
    Assertion,
}

impl Reader {
    fn read(mut self) -> Option<()> {
        let mut repeatable = false;
        while let Some(c) = self.next() {
            repeatable = match c {
                '(' => {
                    let assertion = self.group()?;
                    self.open.push(assertion);
                    false
                }
                ')' => !self.open.pop()?,
                '|' | '^' | '$' => false,
                '*' | '+' | '?' | '{' => {
                    if !repeatable || c == '{' && !self.counts() {
                        return None;
                    }
                    self.take('?');
                    false
                }
                '}' | ']' => return None,
                '[' => self.class().map(|()| true)?,
                '\\' => !matches!(self.escape(false)?, Escape::Assertion),
                _ => true,
            };
        }
        let known = self.last_number <= self.captures && self.wanted.is_subset(&self.names);
        (self.open.is_empty() && known).then_some(())
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.at += 1;
        Some(found)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// What follows an opening parenthesis; whether it is an assertion.
    fn group(&mut self) -> Option<bool> {
        if !self.take('?') {
            self.captures += 1;
            return Some(false);
        }
        match self.next()? {
            ':' => Some(false),
            '=' | '!' => Some(true),
            '<' if self.take('=') || self.take('!') => Some(true),
            '<' => {
                self.captures += 1;
                let name = self.until('>')?;
                (is_name(&name) && self.names.insert(name)).then_some(false)
            }
            _ => None,
        }
    }

    fn until(&mut self, end: char) -> Option<String> {
        let length = self.chars[self.at..].iter().position(|&c| c == end)?;
        let text = self.chars[self.at..self.at + length].iter().collect();
        self.at += length + 1;
        Some(text)
    }

    /// `n}`, `n,}` or `n,m}`.
    fn counts(&mut self) -> bool {
        let Some(text) = self.until('}') else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        match text.split_once(',') {
            None => is_number(&text),
            Some((low, "")) => is_number(low),
            Some((low, high)) => {
                let value = |text: &str| text.parse::<f64>().unwrap_or(f64::INFINITY);
                is_number(low) && is_number(high) && value(low) <= value(high)
            }
        }
    }

    fn class(&mut self) -> Option<()> {
        self.take('^');
        while !self.take(']') {
            let low = self.class_atom()?;
            if self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|&c| c != ']') {
                self.at += 1;
                let (Escape::One(low), Escape::One(high)) = (low, self.class_atom()?) else { return None };
                if low > high {
                    return None;
                }
            }
        }
        Some(())
    }

    fn class_atom(&mut self) -> Option<Escape> {
        match self.next()? {
            '\\' => self.escape(true),
            c => Some(Escape::One(c.into())),
        }
    }

    fn escape(&mut self, in_class: bool) -> Option<Escape> {
        let c = self.next()?;
        Some(match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Escape::Set,
            'b' if in_class => Escape::One(8),
            'b' | 'B' if !in_class => Escape::Assertion,
            't' => Escape::One(9),
            'n' => Escape::One(10),
            'v' => Escape::One(11),
            'f' => Escape::One(12),
            'r' => Escape::One(13),
            'c' => Escape::One(u32::from(self.next().filter(char::is_ascii_alphabetic)?) % 32),
            '0' if self.peek().is_none_or(|c| !c.is_ascii_digit()) => Escape::One(0),
            '1'..='9' if !in_class => {
                let mut number = c.to_digit(10)?;
                while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
                    number = number.saturating_mul(10).saturating_add(digit);
                    self.at += 1;
                }
                self.last_number = self.last_number.max(number);
                Escape::Set
            }
            'x' => Escape::One(self.hex(2)?),
            'u' => Escape::One(self.code_point()?),
            'k' if !in_class && self.take('<') => {
                let name = self.until('>')?;
                self.wanted.insert(name);
                Escape::Set
            }
            'p' | 'P' if self.take('{') => is_property(&self.until('}')?).then_some(Escape::Set)?,
            '-' if in_class => Escape::One(c.into()),
            _ if "^$\\.*+?()[]{}|/".contains(c) => Escape::One(c.into()),
            _ => return None,
        })
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        (0..digits).try_fold(0, |number, _| Some(number * 16 + self.next()?.to_digit(16)?))
    }

    /// What follows `\u`.
    fn code_point(&mut self) -> Option<u32> {
        if self.take('{') {
            return u32::from_str_radix(&self.until('}')?, 16).ok().filter(|&code| code <= 0x10_ffff);
        }
        let high = self.hex(4)?;
        let at = self.at;
        if (0xd800..0xdc00).contains(&high)
            && self.take('\\')
            && self.take('u')
            && let Some(low) = self.hex(4).filter(|low| (0xdc00..0xe000).contains(low))
        {
            return Some(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
        self.at = at;
        Some(high)
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.starts_with(|c: char| is_part(c) && !c.is_numeric()) && text.chars().all(is_part)
}

/// A Unicode property; of its long names any is believed.
fn is_property(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let is_category =
        |word: &str| is_word(word) && (word.len() > 2 || word.starts_with(['C', 'L', 'M', 'N', 'P', 'S', 'Z']));
    match text.split_once('=') {
        Some(("Script" | "sc" | "Script_Extensions" | "scx", script)) => is_word(script),
        Some(("General_Category" | "gc", category)) => is_category(category),
        Some(_) => false,
        None => is_category(text) && !text.starts_with("Is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_judged_as_javascript_judges_them() {
        for pattern in [
            "",
            "^[a-z0-9_-]{1,64}$",
            r"^\d{4}-\d{2}-\d{2}T.*?$",
            r"(?:a|b)+?(?<year>\d+)\k<year>(x)\2",
            r"(?=a)(?!b)(?<=c)(?<!d)[^\]\\-]",
            r"[\w.+-]+@[\w-]+\.[\w.]+\/",
            r"\p{L}\p{Lu}\P{Script=Greek}\u{1F600}[\ud83d\ude00-\ud83d\ude4f]\x41\cA\0",
            "[]a[b-]|[^]",
            "查询{2,}",
        ] {
            assert!(is_sound(pattern), "{pattern}");
        }
        for pattern in [
            "(",
            ")",
            "[",
            "a)",
            "[a",
            "*",
            "+a",
            "a**",
            "a++",
            "a{2,1}",
            "a{,2}",
            "{",
            "}",
            "]",
            r"\",
            r"\A",
            r"\Z",
            r"\-",
            r"\_",
            r"\x4",
            r"\u12",
            "[b-a]",
            r"[\d-z]",
            "(?i)a",
            "(?P<n>a)",
            "(?<n>a)(?<n>b)",
            r"\1",
            r"\k<n>",
            "(?>a)",
            "(?=a)*",
            "^*",
            "a|*",
            r"\p{",
            r"\p",
            r"\p{Foo=x}",
            "[[:alpha:]]",
            r"\c1",
            r"\01",
            "a(?#c)",
        ] {
            assert!(!is_sound(pattern), "{pattern}");
        }
    }
}
