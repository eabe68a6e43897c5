//! The older way over HTTP: an event stream that stays open, and an address, named by its first event, that messages are
//! posted to.

use std::{collections::VecDeque, io, pin::Pin};

use futures_util::{Stream, StreamExt as _};
use reqwest::{Client, Url, header::ACCEPT};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

/// The longest message that is taken, in bytes.
pub(super) const LONGEST: usize = 16 << 20;

/// A server that is spoken to so.
pub(super) struct EventStream {
    client: Client,
    /// Where messages go.
    post: Url,
    /// The events; none once it is closed.
    events: Option<Events>,
}

/// The stream, and what was read of it and not yet taken.
struct Events {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    parser: Parser,
}

impl EventStream {
    /// Opens the stream and waits for the address.
    pub(super) async fn open(client: Client, url: &str, route: &str) -> Result<Self, String> {
        let told = |error: reqwest::Error| format!("could not reach it {route}: {}", error.without_url());
        let answer = client.get(url).header(ACCEPT, "text/event-stream").send().await.map_err(told)?;
        if !answer.status().is_success() {
            return Err(format!("it answered {} to a request for its events", answer.status()));
        }
        let base = answer.url().clone();
        let bytes = answer.bytes_stream().map(|piece| piece.map(|piece| piece.to_vec()));
        let mut events = Events { bytes: Box::pin(bytes), parser: Parser::default() };
        loop {
            match events.next().await {
                Some(Event { name, data }) if name == "endpoint" => {
                    let post = base.join(data.trim()).map_err(|_| "it named an address that is none".to_owned())?;
                    // Keys go with every message: they stay with whom they were meant for.
                    if post.origin() != base.origin() {
                        return Err("it wants messages to be sent to another host".to_owned());
                    }
                    return Ok(Self { client, post, events: Some(events) });
                }
                Some(_) => {}
                None => return Err("its events ended before it named an address for messages".to_owned()),
            }
        }
    }
}

impl Transport<RoleClient> for EventStream {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let request = self.client.post(self.post.clone()).json(&item);
        async move {
            let answer = request.send().await.and_then(reqwest::Response::error_for_status);
            answer.map(drop).map_err(|error| io::Error::other(error.without_url()))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.events.as_mut()?.next().await?;
            if (event.name.is_empty() || event.name == "message")
                && let Ok(message) = serde_json::from_str(&event.data)
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = None;
        Ok(())
    }
}

impl Events {
    /// The next event; none when the stream has ended, broke, or sent what is too long. It can be dropped between two reads,
    /// and nothing is lost.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.ready.pop_front() {
                return Some(event);
            }
            if self.parser.held() > LONGEST {
                return None;
            }
            let piece = self.bytes.next().await?.ok()?;
            self.parser.take(&piece);
        }
    }
}

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
}

/// Bytes to events.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return, which may be the first half of a line's end.
    after_return: bool,
    event: Event,
    has_data: bool,
    ready: VecDeque<Event>,
}

impl Parser {
    fn held(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.end_line(&String::from_utf8_lossy(&line));
                }
                _ => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
        }
    }

    fn end_line(&mut self, line: &str) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        pieces.iter().for_each(|piece| parser.take(piece));
        parser.ready.into()
    }

    #[test]
    fn events_are_read_as_they_are_meant() {
        let read = events(&[
            b": hello\r\nevent: endpoint\r\ndata: /messages?id=1\r\n\r\n",
            b"data:a\ndata: b\n\nevent: x\n\n",
        ]);
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
        assert_eq!(read, [event("endpoint", "/messages?id=1"), event("", "a\nb")]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "(event: a|data: b|:c|\r\n|\n|\r|d){0,30}", cut in 0..60usize) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(events(&[&bytes[..cut], &bytes[cut..]]), events(&[bytes]));
        }
    }
}
