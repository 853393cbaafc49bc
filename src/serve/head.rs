//! Owns what has to be known of a message before its session takes it: read once, with the message, where a large one holds
//! nobody up. It judges nothing.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::protocol::headers::{Repeated, values};
use crate::protocol::{self, META_VERSION};
use crate::session::{self, Refusal};
use crate::wire::{self, Message, Object, Span, Unreadable, unquoted};

/// A message that was read so far.
pub struct Head {
    pub message: Message,
    pub method: String,
    /// The revision that it says it is written in, as it is written.
    version: Option<Box<str>>,
    /// See [`session::is_modern`].
    pub is_modern: Result<bool, Refusal>,
    /// What it asks for by name.
    pub name: Option<String>,
    arguments: Option<Span>,
}

impl Head {
    /// Reads one message. On failure the bytes come back.
    pub fn read(line: Bytes) -> Result<Self, (Unreadable, Bytes)> {
        let message = Message::parse(line)?;
        let method = message.method_name().into_owned();
        let params = message.params_object();
        let member = |name: &str| params.as_ref().and_then(|params| params.get(name));
        let meta = member("_meta").and_then(Object::parse);
        let version = meta.and_then(|meta| meta.get(META_VERSION)).map(Box::from);
        let is_modern = session::is_modern(params.as_ref(), &method);
        let name = protocol::named_by(&method).and_then(member).and_then(unquoted).map(|name| name.into_owned());
        let arguments = member("arguments").map(|text| Span::of(&message.line, text));
        Ok(Self { method, version, is_modern, name, arguments, message })
    }

    /// Whether it says in `_meta` which revision it is written in.
    pub fn says_version(&self) -> bool {
        self.version.is_some()
    }

    /// The revision that it says.
    pub fn version(&self) -> Option<String> {
        unquoted(self.version.as_ref()?).map(|version| version.into_owned())
    }

    /// Gives `judge` the texts of these arguments (see [`values`]).
    pub async fn with_values<T: Send + 'static>(
        &self,
        repeated: Vec<Repeated>,
        judge: impl FnOnce(&[Repeated], Vec<Option<&str>>) -> T + Send + 'static,
    ) -> T {
        let (message, arguments) = (self.message.clone(), self.arguments);
        let work = move |_| {
            let text = arguments.map_or("{}", |span| message.text(span));
            judge(&repeated, values(text, &repeated))
        };
        wire::handle(self.message.line.clone(), work).await
    }
}

/// A message of a batch, or why it is none.
pub type Part = Result<Message, (Unreadable, Bytes)>;

/// Reads the messages of a batch.
pub fn parts(batch: &Bytes) -> serde_json::Result<Vec<Part>> {
    let parts: Vec<&RawValue> = serde_json::from_slice(batch)?;
    Ok(parts.iter().map(|part| Message::parse(batch.slice_ref(part.get().as_bytes()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_read() {
        let check = |text: &'static str, method: &str, version: Option<&str>, name: Option<&str>, arguments: &str| {
            let head = Head::read(Bytes::from_static(text.as_bytes())).unwrap();
            assert_eq!(
                (&*head.method, head.version().as_deref(), head.name.as_deref()),
                (method, version, name),
                "{text}"
            );
            assert_eq!(head.arguments.map_or("", |span| head.message.text(span)), arguments, "{text}");
            head
        };
        let head = check(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","name":"\u0061","arguments":{"x":1e400},
                "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            "tools/call",
            Some("2026-07-28"),
            Some("a"),
            r#"{"x":1e400}"#,
        );
        assert!(head.says_version() && head.is_modern.is_err());
        let head = check(
            r#"{"id":1,"method":"resources/read","params":{"uri":"x:y","_meta":{"io.modelcontextprotocol/protocolVersion":1}}}"#,
            "resources/read",
            None,
            Some("x:y"),
            "",
        );
        assert!(head.says_version());
        let head = check(r#"{"id":1,"method":"tools/call","params":[1]}"#, "tools/call", None, None, "");
        assert!(!head.says_version() && head.is_modern.is_ok_and(|modern| !modern));
        check(r#"{"id":1,"result":{}}"#, "", None, None, "");
    }

    #[test]
    fn parts_of_a_batch_are_told_apart() {
        let batch = Bytes::from_static(br#"[{"id":1,"method":"ping"}, 7, [1]]"#);
        let parts = parts(&batch).unwrap();
        assert_eq!(parts[0].as_ref().unwrap().method_name(), "ping");
        assert_eq!(parts[1].as_ref().unwrap_err().0, Unreadable::NotObject);
        assert_eq!(parts[2].as_ref().unwrap_err().0, Unreadable::Batch);
    }
}
