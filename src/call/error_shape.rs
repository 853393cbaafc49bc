//! Owns the shape of an error that a source answered with: one that clients would not take for an answer, and wait on, is
//! given a legal shape, with nothing lost. One in order stays as it is.

use crate::protocol;
use crate::wire::{Object, quoted};

/// The largest whole number that every client reads (2^53 - 1).
const CODE_MAX: u64 = (1 << 53) - 1;

/// The error in a legal shape; `None` where it has one.
pub fn mended(error: &str) -> Option<String> {
    let Some(object) = Object::parse(error) else {
        let text = format!("the source answered with an error that is no object: {error}");
        return Some(written(protocol::INTERNAL_ERROR, &quoted(&text), None));
    };
    let (code, message) = (object.get("code"), object.get("message").filter(|text| text.starts_with('"')));
    let whole = code.and_then(whole);
    if message.is_some() && whole.is_some_and(|whole| code == Some(&whole.to_string())) {
        return None;
    }
    let text = || quoted(&format!("the source answered with an error without a message: {error}"));
    let message = message.map_or_else(text, str::to_owned);
    // What belongs to a code stays with it; what has none says the rest as a whole.
    let data = object.get("data").filter(|_| whole.is_some()).unwrap_or(error);
    Some(written(whole.unwrap_or(protocol::INTERNAL_ERROR), &message, Some(data)))
}

/// The error under another code, in a legal shape.
pub fn coded(error: &Object<'_>, code: i64) -> String {
    let error = error.rewritten(|name| name != "code", &[&format!("\"code\":{code}")]);
    mended(&error).unwrap_or(error)
}

/// `message` is the text of a string.
fn written(code: i64, message: &str, data: Option<&str>) -> String {
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    format!("{{\"code\":{code},\"message\":{message}{data}}}")
}

/// The value of a code, if it is a whole number.
fn whole(code: &str) -> Option<i64> {
    let number = match code.parse::<i64>() {
        Ok(number) => number,
        Err(_) => {
            let number = code.parse::<f64>().ok().filter(|number| number.fract() == 0.0)?;
            format!("{number:.0}").parse().ok()?
        }
    };
    (number.unsigned_abs() <= CODE_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_order_stays() {
        for error in [
            r#"{"code":-32000,"message":""}"#,
            r#"{ "message":"\ud800", "code": 7,"data":null,"x":1e400 }"#,
            r#"{"code":0,"message":"m","data":[1]}"#,
        ] {
            assert_eq!(mended(error), None, "{error}");
        }
    }

    #[test]
    fn what_is_not_gets_a_legal_shape() {
        let check = |error: &str, want: &str| assert_eq!(mended(error).as_deref(), Some(want), "{error}");
        let unsaid = |error: &str| quoted(&format!("the source answered with an error without a message: {error}"));
        for error in [
            r#"{"code":"ENOENT","message":"t\u00e9"}"#,
            r#"{"message":"t\u00e9"}"#,
            r#"{"code":1.5,"message":"t\u00e9","data":{"a":1e400}}"#,
            r#"{"code":null,"message":"t\u00e9"}"#,
            r#"{"code":99999999999999999999,"message":"t\u00e9"}"#,
        ] {
            check(error, &format!(r#"{{"code":-32603,"message":"t\u00e9","data":{error}}}"#));
        }
        check("{}", &format!(r#"{{"code":-32603,"message":{},"data":{{}}}}"#, unsaid("{}")));
        for error in [r#"{"code":-32000}"#, r#"{"code":-32000,"message":null}"#, r#"{"code":-32000,"message":{"a":1}}"#]
        {
            check(error, &format!(r#"{{"code":-32000,"message":{},"data":{error}}}"#, unsaid(error)));
        }
        let told = r#"{"code":-32000,"data":{"a":1}}"#;
        check(told, &format!(r#"{{"code":-32000,"message":{},"data":{{"a":1}}}}"#, unsaid(told)));
        check(
            r#"{"code":-3.2e4,"message":"m"}"#,
            r#"{"code":-32000,"message":"m","data":{"code":-3.2e4,"message":"m"}}"#,
        );
        check("\"no\"", r#"{"code":-32603,"message":"the source answered with an error that is no object: \"no\""}"#);
    }
}
