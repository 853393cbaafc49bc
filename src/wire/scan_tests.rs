//! Tests of the walk: what it takes, what it refuses and where it finds things is what serde_json's raw values have, which
//! stay here as the measure.

use std::fmt;

use bytes::Bytes;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::wire::{Kind, Message, Unreadable};

type Pairs = Vec<(Span, Span)>;

fn span(text: &str, part: &RawValue) -> Span {
    Span::of(text.as_bytes(), part.get())
}

/// The members of an object by serde_json; keys are read as `K`.
struct Pieces<'a, K>(Vec<(K, &'a RawValue)>);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Pieces<'de, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<K>(std::marker::PhantomData<K>);
        impl<'de, K: Deserialize<'de>> Visitor<'de> for Reader<K> {
            type Value = Pieces<'de, K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    found.push(pair);
                }
                Ok(Pieces(found))
            }
        }
        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

/// A key as bytes, control characters and lone surrogates included.
struct LooseKey(Vec<u8>);

impl<'de> Deserialize<'de> for LooseKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = LooseKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E: serde::de::Error>(self, key: &[u8]) -> Result<LooseKey, E> {
                Ok(LooseKey(key.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Reader)
    }
}

/// What a message says of itself: kind, id, method, params, result, error, regular. Or why it is none, without the details.
type Told = Result<(Kind, [Option<Span>; 5], bool), &'static str>;

fn told(line: &[u8]) -> Told {
    let line = Bytes::copy_from_slice(line);
    match Message::parse(line.clone()) {
        Ok(message) => {
            assert!(std::str::from_utf8(&message.line).is_ok() && line.ends_with(&message.line));
            let Message { kind, id, method, params, result, error, regular, .. } = message;
            let moved = line.len() - message.line.len();
            let place = |span: Span| Span { start: span.start + moved, end: span.end + moved };
            Ok((kind, [id, method, params, result, error].map(|span| span.map(place)), regular))
        }
        Err((why, rest)) => {
            assert!(line.ends_with(&rest));
            Err(match why {
                Unreadable::NotUtf8 => "utf-8",
                Unreadable::NotJson(_) => "json",
                Unreadable::Batch => "batch",
                Unreadable::NotObject => "object",
                Unreadable::NotMessage(_) => "message",
            })
        }
    }
}

/// The same by serde_json.
fn told_by_serde(line: &[u8]) -> Told {
    let whole = std::str::from_utf8(line).map_err(|_| "utf-8")?;
    let text = whole.trim_start_matches(['\u{feff}', ' ', '\t', '\r']);
    match text.bytes().next() {
        Some(b'{') => {}
        Some(b'[') => return Err("batch"),
        _ => return Err("object"),
    }
    let Pieces::<LooseKey>(found) = serde_json::from_str(text).map_err(|_| "json")?;
    let count = |name: &str| found.iter().filter(|(key, _)| key.0 == name.as_bytes()).count();
    let get = |name: &str| found.iter().rev().find(|(key, _)| key.0 == name.as_bytes()).map(|(_, value)| *value);
    let [id, method, params, result, error] = ["id", "method", "params", "result", "error"].map(get);
    let kind = match (method, id) {
        (Some(method), _) if !method.get().starts_with('"') => return Err("message"),
        (Some(_), Some(_)) => Kind::Request,
        (Some(_), None) => Kind::Notification,
        (None, Some(_)) if result.is_some() || error.is_some() => Kind::Reply,
        _ => return Err("message"),
    };
    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    let is_in_another_case =
        |key: &[u8]| names.iter().any(|name| key != name.as_bytes() && key.eq_ignore_ascii_case(name.as_bytes()));
    let regular = get("jsonrpc").is_some_and(|version| version.get() == "\"2.0\"")
        && names.iter().all(|name| count(name) < 2)
        && !found.iter().any(|(key, _)| is_in_another_case(&key.0))
        && (result.is_none() || error.is_none());
    let error = error.filter(|error| result.is_none() || error.get() != "null");
    let result = result.filter(|_| error.is_none());
    Ok((kind, [id, method, params, result, error].map(|part| part.map(|part| span(whole, part))), regular))
}

fn own_members(text: &str, keys: Keys) -> Option<Pairs> {
    let mut found = Vec::new();
    let met = members(text.as_bytes(), keys, |key, value| found.push((key, value))).ok()?;
    assert_eq!(met.ascii, text.is_ascii(), "{text}");
    Some(found)
}

#[track_caller]
fn check(text: &str) {
    let want = serde_json::from_str::<Pieces<'_, &RawValue>>(text).ok();
    let want =
        want.map(|Pieces(all)| all.into_iter().map(|(key, value)| (span(text, key), span(text, value))).collect());
    assert_eq!(own_members(text, Keys::Strict), want, "members of {text:?}");
    let loose = serde_json::from_str::<Pieces<'_, LooseKey>>(text).ok();
    let loose = loose.map(|Pieces(all)| all.into_iter().map(|(_, value)| span(text, value)).collect::<Vec<_>>());
    let own = own_members(text, Keys::Loose).map(|all| all.into_iter().map(|(_, value)| value).collect());
    assert_eq!(own, loose, "values of {text:?}");
    let want = serde_json::from_str::<Vec<&RawValue>>(text).ok();
    let mut found = Vec::new();
    let own = elements(text.as_bytes(), |value| found.push(value)).ok().map(|met| {
        assert_eq!(met.ascii, text.is_ascii());
        found
    });
    assert_eq!(own, want.map(|all| all.iter().map(|part| span(text, part)).collect()), "elements of {text:?}");
    check_message(text.as_bytes());
}

#[track_caller]
fn check_message(line: &[u8]) {
    assert_eq!(told(line), told_by_serde(line), "{:?}", String::from_utf8_lossy(line));
}

/// The piece as a value, as a key, and as all there is.
#[track_caller]
fn check_piece(piece: &str) {
    check(piece);
    for (before, behind) in [
        ("[", "]"),
        ("[1,", "]"),
        ("[", ",1]"),
        ("[[", "]]"),
        ("{\"a\":", "}"),
        ("{\"a\":", ",\"b\":1}"),
        ("{", ":1}"),
        ("{", "}"),
        ("{\"a\":{", ":1}}"),
        ("[{\"a\":[{\"b\":", "}]},2]"),
        ("{\"id\":1,\"result\":", "}"),
        ("{\"id\":1,\"result\":1,", ":1}"),
        ("\u{feff} ", ""),
    ] {
        check(&format!("{before}{piece}{behind}"));
    }
}

#[test]
fn nasty_pieces_are_judged_alike() {
    let pieces = "-0|01|-01|1.|1.e1|1e|1e+|1E-|.5|-.5|+1|-|--1|1e400|1E+05|0e0|0.0|00|0x1|1_0|Infinity|NaN|12 34|1a|\
                  true|tru|truE|truex|false|fals|null|nul|nullnull|undefined|\
                  \"|\"a|\"\\u12\"|\"\\u123g\"|\"\\u00e9\"|\"\\U0041\"|\"\\x\"|\"\\|\"\\\"|\"\\\\\"|\"\\'\"|\"\\ud800\"|\"\\udc00\\ud800\"|\
                  \"\\ud800\\u\"|\"\\ud800\\n\"|\"\\ud83d\\ude42\"|'a'|\"a\"b|\"a\"\"b\"|\"é\"|\"漢字🙂\"|é|\"\u{7f}\u{80}\"|\
                  {}|{}x|{} {}|{},|{]|{}}|[]|[]]|[}|[,]|[1,]|[1,,2]|[1 2]|{,}|{\"a\"}|{\"a\":}|{\"a\":1,}|{\"a\":1,,\"b\":2}|\
                  {\"a\" 1}|{\"a\"::1}|{a:1}|{1:1}|{\"a\":1 \"b\":2}|{\"a\":1,\"a\":2}|{\"\":\"\"}|{\"\\u0061\":1,\"\\ud800\":2}|\
                  [{},[],{\"a\":[{}]}]|[1]//|/**/1|#|,|:| |\u{feff}1|\u{a0}1";
    pieces.split('|').for_each(check_piece);
    for byte in 0..=0x20_u8 {
        let byte = char::from(byte);
        for piece in [format!("\"{byte}\""), format!("\"ab{byte}cd\""), format!("{byte}1{byte}"), format!("{byte}")] {
            check_piece(&piece);
        }
        check_piece(&format!("\"\\{byte}\""));
    }
    for blank in ["\u{a0}", "\u{b}", "\u{c}", "\u{2028}", "\u{feff}", "\u{85}"] {
        check_piece(&format!("{blank}1"));
        check_piece(&format!("1{blank}"));
    }
}

#[test]
fn all_short_texts_are_judged_alike() {
    const LETTERS: &[u8] = b"{}[]:,\"\\ 01-.eun\tt";
    let mut text = Vec::new();
    for length in 0..=4 {
        for number in 0..LETTERS.len().pow(length) {
            text.clear();
            text.extend((0..length).map(|place| LETTERS[number / LETTERS.len().pow(place) % LETTERS.len()]));
            let piece = std::str::from_utf8(&text).unwrap();
            check(piece);
            check(&format!("{{{piece}}}"));
            check(&format!("[{piece}]"));
        }
    }
}

/// Wherever in a string a byte stands, and however much is behind it.
#[test]
fn strings_of_any_length_are_judged_alike() {
    let lengths = (0..2 * LONG + 10).chain(STRETCH - 40..STRETCH + 40).chain([2 * STRETCH + LONG, 100_000]);
    for length in lengths {
        let plain = "x".repeat(length);
        for piece in ["", "\\n", "\\q", "\\u00e9", "\\u00", "é", "é\u{1f}", "\u{1f}", "\u{7f}", "\"", "\\\"y\\\\", "\\"]
        {
            check(&format!("{{\"a\":\"{plain}{piece}\"}}"));
            check(&format!("[\"{plain}{piece}"));
            check(&format!("[\"{plain}{piece}{}\"]", &plain[..length % 50]));
        }
        check(&format!("{{\"id\":1,\"result\":\"é{plain}\",\"{plain}\u{1}\":1}}"));
    }
}

#[test]
fn depth_has_no_limit() {
    for depth in [63, 64, 65, 127, 128, 129, 1_000_000] {
        let deep = format!("{{\"id\":1,\"result\":{}{}}}", "[{\"a\":".repeat(depth), "}]".repeat(depth));
        check(&deep);
        check(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
        check(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth - 1)));
        check(&format!("{{\"id\":1,\"result\":{}0{}}}", "[{\"a\":".repeat(depth), "}]".repeat(depth)));
        check(&format!("{}1]{}", "[{\"a\":".repeat(depth), "}]".repeat(depth)));
    }
}

#[test]
fn words_are_met_at_any_depth() {
    let met =
        |text: &str| members(text.as_bytes(), Keys::Strict, |_, _| {}).map(|met| (met.resource_link, met.structured));
    let long = "x".repeat(500);
    assert_eq!(met(r#"{"a":[{"type":"resource_link"}]}"#), Ok((true, false)));
    assert_eq!(met(&format!(r#"{{"a":"{long}","structuredContent":{{"resource_link":"{long}"}}}}"#)), Ok((true, true)));
    assert_eq!(met(r#"{"a":[[{"b":{"structuredContent" : 1}}]]}"#), Ok((false, true)));
    for none in
        ["resource_lin", "resource_links", "structuredContents", r#"\"resource_link"#, r#"structuredConten\""#, ""]
    {
        assert_eq!(met(&format!(r#"{{"a":"{none}","{none}":"{long}{none}"}}"#)), Ok((false, false)), "{none}");
    }
}

#[test]
fn faults_say_what_and_where() {
    let told = |text: &str| match members(text.as_bytes(), Keys::Strict, |_, _| {}) {
        Ok(_) => String::new(),
        Err(fault) => fault.to_string(),
    };
    assert_eq!(told("[]"), "expected `{` at byte 0");
    assert_eq!(told("{\"a\" 1}"), "expected `:` at byte 5");
    assert_eq!(told("{\"a\":[1 2]}"), "expected `,` or `]` at byte 8");
    assert_eq!(told("{\"a\":01}"), "expected no digit behind a leading zero at byte 5");
    assert_eq!(told("{\"a\":\"b\tc\"}"), "expected no control character in a string at byte 7");
    assert_eq!(told("{\"a\":\"\\u12x4\"}"), "expected four hex digits at byte 10");
    assert_eq!(told("{\"a\":{\"b\":1"), "the text breaks off at byte 11");
    assert_eq!(told("{} x"), "expected nothing more at byte 3");
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", "", " ", "\t", "\r", "\n", " \t "])
}

fn text() -> impl Strategy<Value = String> {
    let plain = [
        "a",
        "é",
        "漢字",
        "🙂",
        "\u{7f}",
        "/",
        "\\/",
        "\\n",
        "\\\"",
        "\\\\",
        "\\u0000",
        "\\ud800",
        "\\u00e9",
        "{",
        "[1,",
        ":",
        "0123456789",
        "a row of words behind which more of them come",
    ];
    let piece = prop_oneof![60 => prop::sample::select(plain.to_vec()), 1 => Just("\t")];
    let text = prop::collection::vec(piece, 0..8).prop_map(|parts| parts.concat());
    (text, prop::sample::select(vec![1, 1, 1, 1, 1, 1, 30, 2000]))
        .prop_map(|(text, times)| format!("\"{}\"", text.repeat(times)))
}

fn key() -> impl Strategy<Value = String> {
    let known = ["jsonrpc", "id", "method", "params", "result", "error", "i\\u0064", "Id", "_meta"];
    prop_oneof![3 => prop::sample::select(known.to_vec()).prop_map(|key| format!("\"{key}\"")), 1 => text()]
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((blank(), key(), blank(), value, blank()), 0..6).prop_map(|members| {
        let members = members.iter().map(|(a, key, b, value, c)| format!("{a}{key}{b}:{c}{value}{b}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

/// Any JSON text, laid out in any way.
fn value() -> impl Strategy<Value = String> {
    let plain =
        ["0", "-0", "1.50", "1e3", "1E+3", "1e400", "12345678901234567890123", "true", "false", "null", "\"2.0\""];
    let leaf = prop_oneof![prop::sample::select(plain.to_vec()).prop_map(str::to_owned), text()];
    leaf.prop_recursive(5, 32, 6, |inner| {
        let array = prop::collection::vec((blank(), inner.clone()), 0..5).prop_map(|items| {
            let items = items.iter().map(|(blank, item)| format!("{blank}{item}{blank}"));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        });
        prop_oneof![array, object(inner)]
    })
}

/// One change of a text's bytes: where, how many are dropped, and what is put there.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let letters: Vec<u8> = b"{}[]:,\"\\ \t\n01-.eutnfx\x00\x1f\x0b\xc3\xa9\xef\xbb\xbf\xff".to_vec();
    (any::<prop::sample::Index>(), 0..3_usize, prop::collection::vec(prop::sample::select(letters), 0..3))
}

fn changed(text: &str, changes: &[(prop::sample::Index, usize, Vec<u8>)], end: Option<prop::sample::Index>) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (place, dropped, put) in changes {
        let start = place.index(bytes.len() + 1);
        bytes.splice(start..bytes.len().min(start + dropped), put.iter().copied());
    }
    if let Some(end) = end {
        bytes.truncate(end.index(bytes.len() + 1));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_judged_alike(text in prop_oneof![object(value()), value()], before in blank(), behind in blank()) {
        check(&format!("{before}{text}{behind}"));
    }

    #[test]
    fn any_changed_json_is_judged_alike(
        text in prop_oneof![3 => object(value()), 1 => value()],
        changes in prop::collection::vec(change(), 1..4),
        end in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let bytes = changed(&text, &changes, end);
        check_message(&bytes);
        check(&String::from_utf8_lossy(&bytes));
    }
}
