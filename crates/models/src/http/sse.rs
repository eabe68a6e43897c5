//! Decoder of server-sent events from arbitrary byte chunks.
//!
//! This crate has its own decoder because servers send up to hundreds of thousands of events per second and are not
//! trusted. Whole lines are borrowed from the network's buffer, and the size of an event is limited. Unknown lines are
//! skipped, as the format requires, but counted to detect a body of another format.

use std::borrow::Cow;

use memchr::memchr2;

/// Maximum size of one event in bytes.
pub(crate) const MAX_EVENT_BYTES: usize = 4 << 20;

/// Incremental decoder of events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Start of an incomplete line.
    line: Vec<u8>,
    /// Data lines of the incomplete event, each followed by a line feed.
    data: Vec<u8>,
    /// True if the last byte was a carriage return, whose line feed may follow.
    skip_line_feed: bool,
    has_started: bool,
    /// Number of events so far.
    pub(crate) events: u64,
    stray_bytes: usize,
    /// True once an event was too large. Nothing is read afterwards.
    pub(crate) is_too_large: bool,
}

impl Decoder {
    /// Decodes further bytes, and passes the data of each event to `on_event`.
    pub(crate) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        on_event: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(first) = bytes.first().filter(|_| !self.is_too_large) {
            if std::mem::take(&mut self.skip_line_feed) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.buffer_line(bytes);
                break;
            };
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = match (bytes[end], rest.first()) {
                (b'\r', Some(b'\n')) => &rest[1..],
                (b'\r', None) => {
                    self.skip_line_feed = true;
                    rest
                }
                _ => rest,
            };
            if self.line.is_empty() {
                self.process_line(line, bytes, on_event)?;
            } else {
                self.buffer_line(line);
                if self.is_too_large {
                    break;
                }
                let mut whole = std::mem::take(&mut self.line);
                let result = self.process_line(&whole, bytes, on_event);
                whole.clear();
                self.line = whole;
                result?;
            }
        }
        Ok(())
    }

    /// Returns the data of the last event, if the bytes end without its closing empty line.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if let Some(value) = data_of(&line) {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
        let mut data = std::mem::take(&mut self.data);
        data.pop()?;
        Some(String::from_utf8_lossy(&data).into_owned())
    }

    /// Returns the number of bytes that belong to no known field.
    pub(crate) fn stray_bytes(&self) -> usize {
        // The start of a long event does not count.
        let line_bytes = if data_of(&self.line).is_some() { 0 } else { self.line.len() };
        self.stray_bytes + line_bytes
    }

    fn buffer_line(&mut self, part: &[u8]) {
        self.is_too_large = self.line.len() + self.data.len() + part.len() > MAX_EVENT_BYTES;
        if !self.is_too_large {
            self.line.extend_from_slice(part);
        }
    }

    fn process_line<E>(
        &mut self,
        line: &[u8],
        next_bytes: &[u8],
        on_event: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = if self.has_started { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.has_started = true;
        if line.is_empty() {
            return self.end_event(on_event);
        }
        let Some(value) = data_of(line) else {
            let ignored_fields = [b":".as_slice(), b"event", b"id", b"retry"];
            if !ignored_fields.iter().any(|field| line.starts_with(field)) {
                self.stray_bytes = self.stray_bytes.saturating_add(line.len());
            }
            return Ok(());
        };
        // Nearly all events are a single line whose closing empty line has already arrived. Such a line is passed on
        // without a copy, and the empty line after it then has no effect.
        if self.data.is_empty() && matches!(next_bytes.first(), Some(b'\n' | b'\r')) {
            self.events += 1;
            return if value.is_empty() { Ok(()) } else { on_event(&text(value)) };
        }
        if self.data.len() + value.len() > MAX_EVENT_BYTES {
            self.is_too_large = true;
            return Ok(());
        }
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
        Ok(())
    }

    fn end_event<E>(&mut self, on_event: &mut impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        if self.data.pop().is_none() {
            return Ok(());
        }
        self.events += 1;
        let mut data = std::mem::take(&mut self.data);
        let handled = if data.is_empty() { Ok(()) } else { on_event(&text(&data)) };
        data.clear();
        self.data = data;
        handled
    }
}

/// Returns the value of a data line. Some servers send errors in a field named `error`, which counts as data.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data:").or_else(|| line.strip_prefix(b"error:"))?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(parts: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in parts {
            let mut collect = |data: &str| {
                events.push(data.to_owned());
                Ok::<(), ()>(())
            };
            decoder.feed(part, &mut collect).unwrap();
        }
        let rest = decoder.finish();
        (events, rest)
    }

    #[test]
    fn sse_events_are_read_in_all_forms() {
        let check = |stream: &str, expected: &[&str], rest: Option<&str>| {
            let (events, left) = events(&[stream.as_bytes()]);
            assert_eq!(
                (events, left.as_deref()),
                (expected.iter().map(ToString::to_string).collect(), rest),
                "{stream:?}"
            );
        };
        check("", &[], None);
        check("data: a\n\ndata: b\n\n", &["a", "b"], None);
        check("data:a\r\n\r\ndata:  b\r\rdata: c\n\n", &["a", " b", "c"], None);
        check("\u{feff}data: a\n\n", &["a"], None);
        check(": hello\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\n", &["a"], None);
        check("data: a\ndata: b\n\n", &["a\nb"], None);
        check("data: a\nnonsense\n\n", &["a"], None);
        check("error: {}\n\n", &["{}"], None);
        check("data: a\n\ndata: [DONE]", &["a"], Some("[DONE]"));
        check("data: a\n\ndata: b\ndata: c\n", &["a"], Some("b\nc"));
        check("data:\n\ndata\n\n", &[], None);
        check("data: ä\u{1F600}\n\n", &["ä\u{1F600}"], None);
    }

    #[test]
    fn non_sse_stream_is_detected() {
        let mut decoder = Decoder::default();
        let page = b"PK\x03\x04 this is\nsomething else";
        decoder.feed::<()>(page, &mut |_| Ok(())).unwrap();
        assert_eq!((decoder.events, decoder.stray_bytes()), (0, page.len() - 1));
    }

    proptest! {
        #[test]
        fn sse_decoding_is_independent_of_chunking(
            lines in proptest::collection::vec("(data: ?[a-zä\u{1F600}]{0,6}|: x|event: y|)(\r\n|\n|\r)", 0..12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let stream = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(events(&parts), events(&[&stream]));
        }
    }
}
