//! Owns the mending of prompts, resources and templates: members of a type that would make a strict client drop the whole
//! list. It changes nothing that such a client takes, and knows nothing of skills.

use super::edit::Edit;
use super::mending::{is_icons, is_object, is_text};
use crate::wire::raw::{self, Kind, Members};

/// A member's value in place of the bad one; `None`: it is left out.
type Change = (&'static str, Option<String>);

/// The item in a shape that strict clients take; `None` where it has one. `key` is the member by which it is told apart, and
/// says what it is.
pub(super) fn mended(text: &str, members: &Members<'_>, key: &str) -> Option<String> {
    let is_bad = |name: &str, is_good: &dyn Fn(&str) -> bool| members.get(name).is_some_and(|value| !is_good(value));
    let mut changes: Vec<Change> = Vec::new();
    let mut leave_out = |names: &[&'static str]| {
        let bad = names.iter().filter(|name| is_bad(name, &|value| may_be(name, value)));
        changes.extend(bad.map(|name| (*name, None)));
    };
    leave_out(&["title", "description", "_meta", "icons"]);
    if key != "name" {
        leave_out(&["mimeType", "size"]);
    }
    if key == "name" {
        changes.extend(members.get("arguments").and_then(arguments).map(|mended| ("arguments", mended)));
    } else {
        if !members.get("name").is_some_and(is_text) {
            changes.push(("name", members.get(key).map(str::to_owned)));
        }
        changes.extend(members.get("annotations").and_then(annotations).map(|mended| ("annotations", mended)));
    }
    changed(text, members, &changes)
}

/// Whether an optional member of a resource, or of a link to one, may have this value.
pub(crate) fn may_be(name: &str, value: &str) -> bool {
    match name {
        "title" | "description" | "mimeType" => is_text(value),
        "_meta" => is_object(value),
        "icons" => is_icons(value),
        "size" => is_whole(value),
        _ => true,
    }
}

fn changed(text: &str, members: &Members<'_>, changes: &[Change]) -> Option<String> {
    let mut edit = Edit::new(text, members);
    for (name, value) in changes {
        match value {
            Some(value) => edit.set(name, value),
            None => edit.remove(name),
        }
    }
    (!changes.is_empty()).then(|| edit.finish())
}

/// A prompt's arguments, where they have to change: those without a name are left out, and the list as a whole if it is none.
fn arguments(list: &str) -> Option<Option<String>> {
    let Some(all) = raw::elements(list) else { return Some(None) };
    let (mut kept, mut is_changed) = (Vec::new(), false);
    for text in all {
        let members = Members::of(text).filter(|members| members.get("name").is_some_and(is_text));
        let mended = members.as_ref().and_then(|members| changed(text, members, &argument(members)));
        is_changed |= members.is_none() || mended.is_some();
        kept.extend(members.map(|_| mended.unwrap_or_else(|| text.to_owned())));
    }
    is_changed.then(|| Some(format!("[{}]", kept.join(","))))
}

fn argument(members: &Members<'_>) -> Vec<Change> {
    let is_bad_text = |name: &&str| members.get(name).is_some_and(|value| !is_text(value));
    let texts = ["title", "description"].into_iter().filter(is_bad_text).map(|name| (name, None));
    let required = members.get("required").filter(|value| raw::kind(value) != Kind::Bool);
    // Without the word the argument would seem to be one that can be left out.
    let read = |value: &str| raw::string(value).filter(|word| word == "true" || word == "false").map(String::from);
    texts.chain(required.map(|value| ("required", read(value)))).collect()
}

/// The annotations, where they have to change.
fn annotations(text: &str) -> Option<Option<String>> {
    let Some(members) = Members::of(text) else { return Some(None) };
    let is_bad = |name: &str, is_good: &dyn Fn(&str) -> bool| members.get(name).is_some_and(|value| !is_good(value));
    let is_role = |value: &str| matches!(raw::string(value).as_deref(), Some("user" | "assistant"));
    let is_audience = |value: &str| raw::elements(value).is_some_and(|roles| roles.into_iter().all(is_role));
    let is_share = |value: &str| {
        raw::kind(value) == Kind::Number && value.parse::<f64>().is_ok_and(|share| (0.0..=1.0).contains(&share))
    };
    let is_time = |value: &str| raw::string(value).is_some_and(|text| is_time(&text));
    let mut changes = Vec::new();
    for (name, is_good) in
        [("audience", &is_audience as &dyn Fn(&str) -> bool), ("priority", &is_share), ("lastModified", &is_time)]
    {
        if is_bad(name, is_good) {
            changes.push((name, None));
        }
    }
    changed(text, &members, &changes).map(Some)
}

fn is_whole(value: &str) -> bool {
    raw::kind(value) == Kind::Number
        && value.parse::<f64>().is_ok_and(|number| number.is_finite() && number.fract() == 0.0)
}

/// Whether a text is a day with a time and its zone (ISO 8601), which is all that some clients take.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00T00:00") else { return false };
    let rest = match rest.strip_prefix(":00") {
        Some(rest) => rest.strip_prefix(".0").map_or(rest, |rest| rest.trim_start_matches('0')),
        None => rest,
    };
    let within = |at: usize, most: u32| text[at..at + 2].parse::<u32>().is_ok_and(|number| number <= most);
    let is_day = within(5, 12) && within(8, 31) && !text[5..10].split('-').any(|part| part == "00");
    let is_second = !shape[16..].starts_with(':') || within(17, 59);
    is_day && within(11, 23) && within(14, 59) && is_second && matches!(rest, "Z" | "+00:00" | "-00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an item becomes; an empty text: it stays.
    fn check(key: &str, text: &str, want: &str) {
        let members = Members::of(text).unwrap();
        let got = mended(text, &members, key);
        assert_eq!(got.as_deref().unwrap_or_default(), want, "{text}");
        if let Some(got) = got {
            assert_eq!(mended(&got, &Members::of(&got).unwrap(), key), None, "{got}");
        }
    }

    #[test]
    fn what_is_in_order_stays() {
        for (key, text) in [
            ("name", r#"{"name":"p"}"#),
            ("name", r#"{"name":"p", "title":"", "description":"d","_meta":{"a":null},"x":null,"mimeType":null}"#),
            ("name", r#"{"name":"p","arguments":[],"icons":[{"src":"data:,","theme":"dark"}]}"#),
            ("name", r#"{"name":"p","arguments":[ {"name":"a","title":"A","required":false,"x":5} ]}"#),
            ("uri", r#"{"uri":"x:1","name":"n","size":5,"mimeType":"text/plain","arguments":null}"#),
            ("uri", r#"{"uri":"x:1","name":"","annotations":{"audience":["user"],"priority":1,"x":null}}"#),
            ("uri", r#"{"uri":"x:1","name":"n","annotations":{"lastModified":"2025-01-12T15:00:58Z"}}"#),
            ("uriTemplate", r#"{"name":"n","uriTemplate":"x:{a}","annotations":{"priority":0.5}}"#),
        ] {
            check(key, text, "");
        }
    }

    #[test]
    fn prompts_are_mended() {
        for rest in [
            r#""description":null"#,
            r#""arguments":null"#,
            r#""arguments":{"a":1}"#,
            r#""_meta":null"#,
            r#""_meta":[]"#,
            r#""title":5"#,
            r#""icons":{}"#,
            r#""icons":[{"src":5}]"#,
            r#""title":null,"description":7,"icons":null"#,
        ] {
            check("name", &format!("{{\"name\":\"p\",{rest}}}"), r#"{"name":"p"}"#);
        }
        let of = |arguments: &str| format!("{{\"name\":\"p\",\"arguments\":[{arguments}],\"x\":1e400}}");
        for (arguments, want) in [
            (r#"{"description":"x"},5,{"name":"a","y" : 1}"#, r#"{"name":"a","y" : 1}"#),
            (r#"{"name":"a","required":"true"}"#, r#"{"name":"a","required":true}"#),
            (r#"{"name":"a","required":null,"description":null}"#, r#"{"name":"a"}"#),
            (r#"{"name":null}"#, ""),
        ] {
            check("name", &of(arguments), &of(want));
        }
    }

    #[test]
    fn resources_and_templates_are_mended() {
        for (key, uri) in [("uri", "x://1"), ("uriTemplate", "x://{a}")] {
            let of = |rest: &str| format!("{{\"{key}\":\"{uri}\"{rest}}}");
            let named = of(&format!(",\"name\":\"{uri}\""));
            check(key, &of(""), &named);
            check(key, &of(",\"name\":null"), &named);
            for rest in [
                r#""description":null"#,
                r#""mimeType":null"#,
                r#""size":"5""#,
                r#""size":5.5"#,
                r#""annotations":null"#,
                r#""annotations":[],"_meta":5,"icons":[5]"#,
            ] {
                check(key, &of(&format!(",\"name\":\"n\",{rest}")), &of(",\"name\":\"n\""));
            }
            let annotated = |rest: &str| of(&format!(",\"name\":\"n\",\"annotations\":{{{rest}}}"));
            for rest in [
                r#""priority":5"#,
                r#""priority":null"#,
                r#""audience":"user""#,
                r#""audience":["developer"]"#,
                r#""lastModified":"yesterday""#,
            ] {
                check(key, &annotated(&format!("\"x\":1,{rest}")), &annotated("\"x\":1"));
            }
        }
    }

    #[test]
    fn times_are_told() {
        for (text, is) in [
            ("2025-01-12T15:00:58Z", true),
            ("2025-01-12T15:00:58.123+02:00", true),
            ("2025-01-12T15:00Z", true),
            ("2025-01-12T15:00:58", false),
            ("2025-01-12T15:00:58.Z", false),
            ("2025-13-12T15:00:58Z", false),
            ("2025-01-00T15:00:58Z", false),
            ("2025-01-12T24:00:58Z", false),
            ("2025-01-12T15:00:60Z", false),
            ("2025-01-12", false),
            ("é", false),
            ("", false),
        ] {
            assert_eq!(is_time(text), is, "{text}");
        }
    }
}
