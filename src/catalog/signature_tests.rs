//! Tests of signatures.

use super::*;

fn check(schema: &str, text: &str, lossy: bool) {
    assert_eq!(Signature::of(schema), Signature { text: text.to_owned(), lossy }, "{schema}");
}

/// The signature of one property `a`.
fn check_type(schema: &str, text: &str, lossy: bool) {
    check(&format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#), &format!("(a: {text})"), lossy);
}

#[test]
fn required_arguments_come_first() {
    check(
        r#"{"type":"object","properties":{"limit":{"type":"integer","minimum":1},"query":{"type":"string"},
            "state":{"enum":["open","closed"],"default":"open"}},"required":["query","ghost"]}"#,
        r#"(query*: string, ghost*: any, limit: integer, state: "open"|"closed" = "open")"#,
        false,
    );
    check(
        r#"{"properties":{"b":{},"a\ud83d":{},"\"c":{}},"required":["a\ud83d",7]}"#,
        r#"("a\ud83d"*: any, b: any, "\"c": any)"#,
        false,
    );
    check("{}", "()", false);
    check(r#"{"type":"object","additionalProperties":false}"#, "()", false);
    check(r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "([key]: string)", false);
}

#[test]
fn types_are_written_short() {
    for (schema, text) in [
        ("{}", "any"),
        ("true", "any"),
        (r#"{"type":"string","pattern":"x","minLength":1}"#, "string"),
        (r#"{"type":"string","format":"date-time"}"#, "string date-time"),
        (r#"{"type":"string","format":"a format | of its own"}"#, "string"),
        (r#"{"type":["string","null"],"format":"uri"}"#, "string uri|null"),
        (r#"{"type":"integer","minimum":1,"maximum":50,"default":20}"#, "integer 1..50 = 20"),
        (r#"{"type":"number","maximum":0.5}"#, "number ..0.5"),
        (r#"{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}"#, "integer"),
        (r#"{"type":"integer","minimum":1,"maximum":"5"}"#, "integer"),
        (r#"{"type":"array","items":{"type":"integer","minimum":1,"maximum":9}}"#, "(integer 1..9)[]"),
        (r#"{"type":["string","null"]}"#, "string|null"),
        (r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}"#, "string|null"),
        (r#"{"oneOf":[{"type":"string"},{"const":7},{"type":"string"}]}"#, "string|7"),
        (r#"{"type":"string","nullable":true}"#, "string|null"),
        (r#"{"type":"array","items":{"type":"string"}}"#, "string[]"),
        (r#"{"type":"array","items":{"enum":["a","b"]}}"#, r#"("a"|"b")[]"#),
        (r#"{"items":{"anyOf":[{"properties":{"x":{}}},{"type":"null"}]}}"#, "({x: any}|null)[]"),
        (r#"{"items":{"properties":{"x":{"type":["string","null"]}}}}"#, "{x: string|null}[]"),
        (r#"{"items":{"const":"a|\"|b"}}"#, r#""a|\"|b"[]"#),
        (r#"{"type":"array"}"#, "any[]"),
        (r#"{"prefixItems":[{"type":"number"},{"type":"number"}]}"#, "[number, number]"),
        (r#"{"properties":{"x":{"type":"integer"},"y z":{}},"required":["x"]}"#, r#"{x*: integer, "y z": any}"#),
        (r#"{"type":"array","items":{"properties":{"x":{"type":"integer"}}}}"#, "{x: integer}[]"),
        (r#"{"type":"object"}"#, "object"),
        (r#"{"type":"object","additionalProperties":{"type":"number"}}"#, "{[key]: number}"),
        (r#"{"type":"number","default":1e400}"#, "number = 1e400"),
        (r#"{"allOf":[{"type":"string"}]}"#, "string"),
    ] {
        check_type(schema, text, false);
    }
}

#[test]
fn what_a_line_cannot_say_is_marked() {
    for (schema, text) in [
        (r#"{"properties":{"x":{"properties":{"y":{}}}}}"#, "{x: {...}}"),
        (r#"{"allOf":[{"type":"string"},{"type":"null"}]}"#, "..."),
        (r##"{"$ref":"#/$defs/missing"}"##, "..."),
        (r#"{"type":"string","default":"123456789012345678901234567890123"}"#, "string = ..."),
        (r#"{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13]}"#, "1|2|3|4|5|6|7|8|9|10|11|12|..."),
        (r#"{"type":"string","not":{"const":"x"}}"#, "string, ..."),
        ("5", "any, ..."),
    ] {
        check_type(schema, text, true);
    }
    for schema in ["", "5", "{oops", r#"{"anyOf":[{"properties":{"a":{}}}]}"#, r##"{"$ref":"#"}"##] {
        check(schema, "(...)", true);
    }
    check(r#"{"properties":{"a":{}},"anyOf":[{"required":["a"]}]}"#, "(a: any, ...)", true);
}

#[test]
fn references_are_followed_and_recursion_ends() {
    check(
        r##"{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"s":{"$ref":"#/$defs/S"},"n":{"$ref":"#/$defs/Node"}}},
            "S":{"enum":["a"]},"Node":{"properties":{"next":{"$ref":"#/$defs/Node"},"v":{"type":"integer"}}}}}"##,
        r#"(s: "a", n: {next: ..., v: integer})"#,
        true,
    );
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(3000), "}".repeat(3000));
    check_type(&deep, "...[][][][][][][][]", true);
}

/// Limits are the first to go where the line is full, and nothing else goes with them.
#[test]
fn limits_stand_where_there_is_room() {
    let property = |at: usize| format!(r#""argument_{at:02}":{{"type":"integer","minimum":1,"maximum":50}}"#);
    let schema = |count: usize| {
        let list: Vec<_> = (0..count).map(property).collect();
        format!(r#"{{"properties":{{{}}}}}"#, list.join(","))
    };
    assert!(Signature::of(&schema(13)).text.ends_with("argument_12: integer 1..50)"));
    let full = Signature::of(&schema(15));
    assert!(
        full.text.ends_with("argument_14: integer)") && !full.text.contains("1..50") && !full.lossy,
        "{}",
        full.text
    );
}

#[test]
fn long_signatures_are_cut() {
    let property =
        |at: usize| format!(r#""argument_{at:02}":{{"type":"object","properties":{{"inner":{{"type":"string"}}}}}}"#);
    let schema = |count: usize| {
        let list: Vec<_> = (0..count).map(property).collect();
        format!(r#"{{"properties":{{{}}},"required":["argument_59"]}}"#, list.join(","))
    };
    let flat = Signature::of(&schema(20));
    assert!(flat.text.starts_with("(argument_59*: any, argument_00: {...}, argument_01"), "{}", flat.text);
    let cut = Signature::of(&schema(60));
    assert!(
        cut.text.starts_with("(argument_59*: {...}, argument_00: {...}") && cut.text.ends_with(", ...)"),
        "{}",
        cut.text
    );
    assert!(cut.lossy && flat.lossy && cut.text.chars().count() <= SIGNATURE_MAX);
    let long = format!(r#"{{"properties":{{"{}":{{}}}}}}"#, "x".repeat(500));
    check(&long, "(...)", true);
}

#[test]
fn schemas_that_unfold_without_end_are_cut() {
    let level = |at: usize| {
        let next = format!(r##"{{"$ref":"#/$defs/L{}"}}"##, at + 1);
        format!(r#""L{at}":{{"anyOf":[{}]}}"#, vec![next; 40].join(","))
    };
    let levels: Vec<_> = (0..12).map(level).collect();
    let schema = format!(
        r##"{{"properties":{{"a":{{"$ref":"#/$defs/L0"}},"b":{{"$ref":"#/$defs/L6"}}}},"$defs":{{{},"L12":{{}}}}}}"##,
        levels.join(",")
    );
    check(&schema, "(a: ..., b: ...)", true);
}
