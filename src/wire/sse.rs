//! Owns the reading of server-sent events: bytes in, whole events out, wherever the bytes are cut.
//! It does not know what an event's data says.

use std::time::Duration;

use bytes::BytesMut;

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Empty where the stream gave none.
    pub name: String,
    pub data: BytesMut,
}

/// An event has more data than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {0} bytes")]
pub struct TooLong(pub usize);

/// Reads one stream (the HTML standard, section 9.2.6).
#[derive(Debug, Default)]
pub struct SseReader {
    /// A line whose end has not come.
    line: BytesMut,
    /// The last chunk ended with a carriage return: a line feed at the start of the next belongs to it.
    after_return: bool,
    begun: bool,
    name: String,
    data: BytesMut,
    has_data: bool,
    id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    limit: usize,
}

impl SseReader {
    /// A reader that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The id of the last event, with data or without, for `Last-Event-ID`.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the stream wants to be left alone before it is opened again.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes what came, and appends the events that are whole to `events`.
    pub fn feed(&mut self, mut chunk: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if self.after_return && !chunk.is_empty() {
            self.after_return = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) {
            if self.line.is_empty() {
                self.take_line(&chunk[..end], events)?;
            } else {
                self.line.extend_from_slice(&chunk[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, events)?;
            }
            let is_return = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            if is_return {
                match chunk.first() {
                    Some(b'\n') => chunk = &chunk[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
        }
        self.line.extend_from_slice(chunk);
        self.check(self.line.len())
    }

    /// The stream is over. An event that only lacks its empty line counts if what it says is whole; its id does not: whoever
    /// takes the stream up again gets it once more.
    pub fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, events)?;
        }
        self.id = None;
        if serde_json::from_slice::<&serde_json::value::RawValue>(&self.data).is_ok() {
            self.dispatch(events);
        }
        Ok(())
    }

    fn check(&self, more: usize) -> Result<(), TooLong> {
        // The field's name does not count.
        if self.data.len() + more > self.limit.saturating_add(16) { Err(TooLong(self.limit)) } else { Ok(()) }
    }

    fn take_line(&mut self, mut line: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                // The line end between two lines counts as well.
                self.check(value.len() + usize::from(self.has_data))?;
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.extend_from_slice(b"\n");
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()));
                self.retry = millis.and_then(|text| text.parse().ok()).map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        if let Some(id) = self.id.take() {
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        self.has_data = false;
        if !data.is_empty() {
            events.push(Event { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = (Vec<(String, String)>, Option<String>, Option<u64>);

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
        let mut reader = SseReader::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            reader.feed(chunk, &mut events).unwrap();
        }
        reader.finish(&mut events).unwrap();
        let text = |event: Event| (event.name, String::from_utf8(event.data.to_vec()).unwrap());
        let retry = reader.retry().and_then(|retry| u64::try_from(retry.as_millis()).ok());
        (events.into_iter().map(text).collect(), reader.last_id().map(str::to_owned), retry)
    }

    fn check(stream: &str, events: &[(&str, &str)], id: Option<&str>, retry: Option<u64>) {
        let own = |&(name, data): &(&str, &str)| (name.to_owned(), data.to_owned());
        let want = (events.iter().map(own).collect(), id.map(str::to_owned), retry);
        assert_eq!(read([stream.as_bytes()]), want, "{stream:?}");
    }

    #[test]
    fn events_are_read_as_the_standard_has_it() {
        check("data: a\n\n", &[("", "a")], None, None);
        check("\u{feff}data:a\r\n\r\ndata:  b\r\r", &[("", "a"), ("", " b")], None, None);
        check("event: message\ndata: {\ndata:\ndata: }\n\n", &[("message", "{\n\n}")], None, None);
        check(": ping\n\nevent: ping\n\n:\ndata: a\n\n", &[("", "a")], None, None);
        check("id: 7\nretry: 500\ndata:\n\n", &[], Some("7"), Some(500));
        check("id: 7\ndata: a\n\nid\n\n", &[("", "a")], None, None);
        check("id: 7\n\nid: 8\u{0}\n\nretry: x\n\nretry: \n\nunknown: x\n\n", &[], Some("7"), None);
        check("data: {\"a\":1}", &[("", "{\"a\":1}")], None, None);
        check("event: x\ndata: [1]\n", &[("x", "[1]")], None, None);
        check("", &[], None, None);
        check("data: x: y\n\nDATA: z\n\n", &[("", "x: y")], None, None);
    }

    /// The answer that was cut off came never again, since the stream was taken up behind it.
    #[test]
    fn an_event_that_is_cut_off_is_none() {
        let begun = "id: 11\ndata: {}\n\n";
        for cut in ["id: 1", "id: 12\n", "id: 12\ndata: {\"a", "id: 12\ndata: {\"a\":[\n"] {
            check(&format!("{begun}{cut}"), &[("", "{}")], Some("11"), None);
        }
        check(&format!("{begun}id: 12\ndata: [2]\n"), &[("", "{}"), ("", "[2]")], Some("11"), None);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut reader = SseReader::new(1000);
        let mut events = Vec::new();
        assert_eq!(reader.feed(&[b'x'; 2000], &mut events), Err(TooLong(1000)));
        let mut reader = SseReader::new(1000);
        let line = format!("data: {}\n", "x".repeat(600));
        assert_eq!(reader.feed(line.as_bytes(), &mut events), Ok(()));
        assert_eq!(reader.feed(line.as_bytes(), &mut events), Err(TooLong(1000)));
        assert_eq!(events, []);
    }

    fn line() -> impl Strategy<Value = String> {
        let field = prop::sample::select(vec![
            "data: ", "data:", "data", "event: ", "id: ", "retry: ", ": ", "other: ", "\u{feff}", "",
        ]);
        let end = prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r"]);
        (field, "[0-9a-zé:{} ]{0,6}", end).prop_map(|(field, value, end)| format!("{field}{value}{end}"))
    }

    proptest! {
        /// Wherever the bytes are cut, the events are the same: at every single place, and at all of them.
        #[test]
        fn cuts_do_not_matter(lines in prop::collection::vec(line(), 0..12)) {
            let stream = lines.concat();
            let bytes = stream.as_bytes();
            let whole = read([bytes]);
            for cut in 0..=bytes.len() {
                prop_assert_eq!(&read([&bytes[..cut], &bytes[cut..]]), &whole);
            }
            prop_assert_eq!(&read(bytes.chunks(1)), &whole);
        }
    }
}
