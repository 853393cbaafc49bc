//! Owns the indenting of JSON text. It never reads a value, so that numbers stay as they were written.

const STEP: &str = "  ";

/// Well-formed JSON over several lines; every token as it came.
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    // An opening bracket waits for what follows: an empty pair stays together.
    let mut opened = false;
    for c in json.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !std::mem::take(&mut opened) {
                    line(&mut out, depth);
                }
                out.push(c);
                continue;
            }
            _ => {}
        }
        if std::mem::take(&mut opened) {
            line(&mut out, depth);
        }
        out.push(c);
        match c {
            '{' | '[' => (depth, opened) = (depth + 1, true),
            ',' => line(&mut out, depth),
            ':' => out.push(' '),
            '"' => in_string = true,
            _ => {}
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(STEP, depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stay_as_they_are() {
        let check = |text: &str, want: &str| assert_eq!(indented(text), want);
        check("1e400", "1e400");
        check("{}", "{}");
        check("{ }", "{}");
        check(r#"{"a":{},"b":[]}"#, "{\n  \"a\": {},\n  \"b\": []\n}");
        check(r#"[12345678901234567890,-1E-7]"#, "[\n  12345678901234567890,\n  -1E-7\n]");
        check(
            r#"{"a":[{"x" : "},: \" [\\"}]}"#,
            "{\n  \"a\": [\n    {\n      \"x\": \"},: \\\" [\\\\\"\n    }\n  ]\n}",
        );
    }

    #[test]
    fn it_is_what_serde_would_print() {
        let text = r#"{"a":[1,2,{"b":null}],"c":{"d":[],"e":"x"},"f":true}"#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(indented(text), serde_json::to_string_pretty(&value).unwrap());
    }
}
