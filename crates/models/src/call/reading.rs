//! Reading one answer: bytes to events to pieces to chunks. Text passes two filters last: reasoning is split off, then
//! calls are searched for.

use std::{collections::VecDeque, sync::Arc};

use agentd_core::{
    model::{Finish, ModelChunk, UnrunReason},
    tool::ToolSpec,
    usage::{Prices, Usage},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap},
};

use crate::{
    answer::{
        Answer, Kind, RawCall,
        runaway::{self, Guard},
        text_protocol::{Scanner, clean_name, is_mark},
        thoughts::{Part, Splitter},
    },
    http::{
        failure::{Failure, excerpt},
        request::Recording,
        sse::Decoder,
        target::{Deadline, LAST_BYTES, Target, USAGE_TAIL},
    },
    wire::dialect::AnswerReader,
};

/// Maximum size of an answer in a single JSON object, in bytes.
const MAX_WHOLE_BODY: usize = 16 << 20;

/// Maximum size of a body without any event, in bytes. A larger body is rejected.
const MAX_STRAY_BYTES: usize = 64 << 10;

/// Maximum number of bytes read at once, if the network is faster than the reader.
const MAX_READ: usize = 64 << 10;

/// Hint for an answer that broke off.
const CONNECTION_CLOSED: &str = "the server or a proxy closed the connection; try again";

pub(super) enum Progress {
    More,
    /// The server has paused. The answer continues once this content is sent back.
    Paused(String),
    Ended,
}

/// Format of the body, known from its first byte.
enum Form {
    Unknown,
    Events(Decoder),
    /// A single JSON object, from a server that does not stream.
    Whole(Vec<u8>),
}

pub(super) struct AnswerStream {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    is_html: bool,
    first_byte: Deadline,
    /// Deadline for the next part of the answer, regardless of other data, or `None` directly after such a part.
    keep_alive: Option<Deadline>,
    /// Deadline for the rest of the transfer, once the answer has ended.
    tail: Option<Deadline>,
    form: Form,
    reader: Box<dyn AnswerReader>,
    answer: Answer,
    text_filter: TextFilter,
    guard: Guard,
    prices: Option<Prices>,
    /// Usage before the last pause. Each part of a paused answer is a separately priced request.
    before_pause: Option<Usage>,
    /// Usage that was last sent.
    counted: Option<Usage>,
}

impl AnswerStream {
    pub(super) fn new(
        response: Response,
        first_byte: Deadline,
        reader: Box<dyn AnswerReader>,
        text_filter: TextFilter,
        prices: Option<Prices>,
    ) -> Self {
        Self {
            is_html: is_html(response.headers()),
            body: response.bytes_stream().boxed(),
            first_byte,
            keep_alive: None,
            tail: None,
            form: Form::Unknown,
            reader,
            answer: Answer::default(),
            text_filter,
            guard: Guard::new(runaway::PROSE),
            prices,
            before_pause: None,
            counted: None,
        }
    }

    /// Continues with the rest of a paused answer.
    pub(super) fn resume(&mut self, response: Response, first_byte: Deadline) {
        self.is_html = is_html(response.headers());
        self.body = response.bytes_stream().boxed();
        (self.first_byte, self.keep_alive, self.tail, self.form) = (first_byte, None, None, Form::Unknown);
        (self.answer.finish, self.answer.done) = (None, false);
        (self.before_pause, self.answer.usage) = (self.counted, None);
    }

    /// Returns true if any part of the answer itself has arrived.
    pub(super) fn began(&self) -> bool {
        self.answer.began
    }

    /// Reads available data and adds the resulting chunks. If it fails, text and usage from before the failure are in
    /// `chunks`.
    pub(super) async fn advance(
        &mut self,
        target: &Target,
        chunks: &mut VecDeque<ModelChunk>,
        recording: &mut Recording,
    ) -> Result<Progress, Failure> {
        let read = self.read_available(target, recording).await;
        let runaway = self.emit_pieces(chunks);
        self.send_usage(chunks);
        if let Some(description) = runaway {
            return Ok(self.end_runaway(description, chunks));
        }
        if read? && !self.tail.is_some_and(|tail| tail.has_passed()) {
            return Ok(Progress::More);
        }
        let end = self.end(target);
        self.send_usage(chunks);
        end?;
        if let Some(content) = self.reader.paused() {
            return Ok(Progress::Paused(content));
        }
        // The end of the body may have contained one more event.
        if let Some(description) = self.emit_pieces(chunks) {
            return Ok(self.end_runaway(description, chunks));
        }
        Ok(self.emit_end(chunks))
    }

    /// Waits for data and reads all that is available, so that it is emitted together. Returns false at the end.
    async fn read_available(&mut self, target: &Target, recording: &mut Recording) -> Result<bool, Failure> {
        let mut received = 0;
        let mut next = match self.wait(target).await {
            Ok(next) => next,
            // Missing data after the end of the answer is not a failure.
            Err(_) if self.answer.finish.is_some() => return Ok(false),
            Err(failure) => return Err(failure),
        };
        loop {
            match next {
                None => return Ok(false),
                Some(Err(_)) if self.answer.finish.is_some() => return Ok(false),
                Some(Err(error)) => {
                    return Err(Failure::cut(format!("the answer of the model at {target} was cut off"))
                        .hint(CONNECTION_CLOSED)
                        .caused_by(error));
                }
                Some(Ok(bytes)) => {
                    received += bytes.len();
                    recording.bytes(&bytes);
                    self.consume(target, &bytes)?;
                }
            }
            if received > MAX_READ {
                return Ok(true);
            }
            let Some(available) = self.body.next().now_or_never() else { return Ok(true) };
            next = available;
        }
    }

    async fn wait(&mut self, target: &Target) -> Result<Option<reqwest::Result<Bytes>>, Failure> {
        let deadlines = &target.deadlines;
        let deadline = if self.answer.done {
            let tail_deadline = deadlines.tail(LAST_BYTES);
            *self.tail.insert(self.tail.map_or(tail_deadline, |tail| tail.earlier(tail_deadline)))
        } else if self.answer.finish.is_some() {
            *self.tail.get_or_insert_with(|| deadlines.tail(USAGE_TAIL))
        } else if matches!(self.form, Form::Unknown) {
            self.first_byte
        } else {
            deadlines.idle().earlier(*self.keep_alive.get_or_insert_with(|| deadlines.keep_alive()))
        };
        let read = target.within(&deadline, self.body.next()).await;
        self.first_byte = self.first_byte.after_miss();
        self.keep_alive = self.keep_alive.map(Deadline::after_miss);
        read
    }

    fn consume(&mut self, target: &Target, bytes: &[u8]) -> Result<(), Failure> {
        if matches!(self.form, Form::Unknown) {
            self.form = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'<') => return Err(Failure::html(target)),
                Some(_) if self.is_html => return Err(Failure::html(target)),
                Some(b'{' | b'[') => Form::Whole(Vec::new()),
                Some(_) => Form::Events(Decoder::default()),
            };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Whole(body) if body.len() + bytes.len() > MAX_WHOLE_BODY => {
                Err(Failure::protocol(format!("the model at {target} answered with more than 16 MiB at once")))
            }
            Form::Whole(body) => {
                body.extend_from_slice(bytes);
                self.keep_alive = None;
                Ok(())
            }
            Form::Events(decoder) => {
                let (reader, answer, keep_alive) = (&mut self.reader, &mut self.answer, &mut self.keep_alive);
                decoder.feed(bytes, &mut |data| {
                    if answer.done {
                        return Ok(());
                    }
                    let before = answer.size;
                    reader.process_event(target, data, answer)?;
                    if answer.size != before {
                        *keep_alive = None;
                    }
                    Ok(())
                })?;
                if decoder.is_too_large {
                    return Err(Failure::protocol(format!("the model at {target} sent an event of more than 4 MiB")));
                }
                if decoder.events == 0 && decoder.stray_bytes() > MAX_STRAY_BYTES {
                    return Err(no_events(target));
                }
                Ok(())
            }
        }
    }

    /// Reads data that is only complete at the end, and rejects an incomplete answer.
    fn end(&mut self, target: &Target) -> Result<(), Failure> {
        let mut nothing_readable = false;
        match &mut self.form {
            Form::Unknown => {}
            Form::Whole(body) => {
                let text = String::from_utf8_lossy(body);
                self.reader.process_event(target, &text, &mut self.answer)?;
                if self.answer.finish.is_none() {
                    return Err(Failure::protocol(format!(
                        "the model at {target} answered with JSON that is not an answer: {}",
                        excerpt(target, &text)
                    )));
                }
            }
            Form::Events(decoder) => {
                nothing_readable = decoder.events == 0 && decoder.stray_bytes() > 0;
                if let Some(rest) = decoder.finish()
                    && self.answer.finish.is_none()
                {
                    // A complete last event is valid even without its empty line. Half an event means that the stream
                    // was cut.
                    nothing_readable = false;
                    let whole = rest == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&rest).is_ok();
                    if whole {
                        self.reader.process_event(target, &rest, &mut self.answer)?;
                    }
                }
            }
        }
        if self.answer.finish.is_some() {
            return Ok(());
        }
        if nothing_readable {
            return Err(no_events(target));
        }
        Err(Failure::cut(format!("the answer of the model at {target} ended before it was complete"))
            .hint(CONNECTION_CLOSED))
    }

    /// Emits the text read so far. If the text repeats endlessly, it is cut there, and a description of the repetition
    /// is returned.
    fn emit_pieces(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Option<String> {
        while let Some((kind, mut text)) = self.answer.pieces.pop_front() {
            let runaway = self.guard.check(&text);
            if let Some(runaway) = &runaway {
                text.truncate(runaway.keep);
            }
            match kind {
                Kind::Reasoning => chunks.push_back(ModelChunk::Reasoning(text)),
                Kind::Text => self.text_filter.push(&text, chunks),
            }
            if let Some(runaway) = runaway {
                return Some(runaway.description);
            }
        }
        self.answer.runaway.take()
    }

    fn end_runaway(&mut self, description: String, chunks: &mut VecDeque<ModelChunk>) -> Progress {
        self.text_filter.emit_buffered(chunks);
        chunks.push_back(ModelChunk::Runaway { what: description });
        self.finish(Finish::Runaway, chunks)
    }

    fn emit_end(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Progress {
        let finish = self.answer.finish.unwrap_or(Finish::Stop);
        let calls = self.reader.calls();
        let (calls, unrun) = self.text_filter.finish(calls, finish == Finish::Length, chunks);
        if matches!(finish, Finish::Stop | Finish::Length) {
            chunks.extend(self.reader.fields().map(ModelChunk::AnswerFields));
            chunks.extend(calls.into_iter().map(|RawCall { name, arguments, fields }| ModelChunk::ToolCall {
                name,
                arguments,
                fields,
            }));
            chunks.extend(unrun.map(|(name, reason)| ModelChunk::UnrunCall { name, why: reason }));
        }
        self.finish(finish, chunks)
    }

    fn finish(&mut self, finish: Finish, chunks: &mut VecDeque<ModelChunk>) -> Progress {
        chunks.extend(std::mem::take(&mut self.answer.remarks).into_iter().map(ModelChunk::Remark));
        chunks.push_back(ModelChunk::End(finish));
        Progress::Ended
    }

    /// Emits the usage if it has changed. It is charged even if the answer breaks off.
    fn send_usage(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        let Some(mut usage) = self.answer.priced_usage(self.prices.as_ref()) else { return };
        if let Some(before) = self.before_pause {
            usage += before;
        }
        if self.counted != Some(usage) {
            self.counted = Some(usage);
            chunks.push_back(ModelChunk::Usage(usage));
        }
    }
}

fn is_html(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/html"))
}

fn no_events(target: &Target) -> Failure {
    Failure::protocol(format!("the model at {target} did not answer with an event stream"))
        .hint("check base_url, and that wire matches this server")
}

/// Text processing of one answer.
pub(super) struct TextFilter {
    splitter: Splitter,
    /// Present if the request has tools.
    scanner: Option<Scanner>,
    tools: Arc<[ToolSpec]>,
}

impl TextFilter {
    /// Creates the filter for a request with these tools. `text_calls` is true if calls are read from the text.
    pub(super) fn new(tools: Arc<[ToolSpec]>, text_calls: bool) -> Self {
        let scanner = (!tools.is_empty()).then(|| Scanner::new(Arc::clone(&tools), text_calls));
        Self { splitter: Splitter::default(), scanner, tools }
    }

    fn push(&mut self, text: &str, chunks: &mut VecDeque<ModelChunk>) {
        for part in self.splitter.push(text) {
            self.emit(part, chunks);
        }
    }

    /// Emits all buffered text as is, because the answer was cut.
    fn emit_buffered(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        for part in self.splitter.finish() {
            self.emit(part, chunks);
        }
        self.emit_pending(chunks);
    }

    /// Ends the answer, which the token limit may have cut. `calls` are the calls outside of the text. Returns all
    /// calls, and the call that does not run, if any.
    fn finish(
        &mut self,
        mut calls: Vec<RawCall>,
        is_cut: bool,
        chunks: &mut VecDeque<ModelChunk>,
    ) -> (Vec<RawCall>, Option<(String, UnrunReason)>) {
        for part in self.splitter.finish() {
            self.emit(part, chunks);
        }
        let mut unrun = None;
        // The limit has cut the last call, unless its arguments are complete.
        if is_cut
            && let Some(cut) =
                calls.pop_if(|call| serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_err())
        {
            unrun = Some((cut.name, UnrunReason::Cut));
        }
        if let Some(scanner) = &mut self.scanner {
            if calls.is_empty() && unrun.is_none() {
                let found = scanner.finish(is_cut);
                push_text(chunks, found.text);
                calls.extend(found.call);
                unrun = found.unrun;
            } else {
                push_text(chunks, Some(scanner.take_pending()).filter(|text| !is_mark(text)).unwrap_or_default());
            }
        }
        let cleaned = |name: String| clean_name(&name, &self.tools);
        for call in &mut calls {
            call.name = cleaned(std::mem::take(&mut call.name));
        }
        (calls, unrun.map(|(name, reason)| (cleaned(name), reason)))
    }

    fn emit(&mut self, part: Part, chunks: &mut VecDeque<ModelChunk>) {
        match part {
            Part::Thought(thought) => chunks.push_back(ModelChunk::Reasoning(thought)),
            Part::Text(text) => {
                let text = self.scanner.as_mut().map(|scanner| scanner.push(&text)).unwrap_or(text);
                push_text(chunks, text);
            }
            Part::WasThought => {
                // A call in the pending text was only part of the reasoning.
                self.emit_pending(chunks);
                chunks.push_back(ModelChunk::WasReasoning);
            }
        }
    }

    fn emit_pending(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        push_text(chunks, self.scanner.as_mut().map(Scanner::take_pending).unwrap_or_default());
    }
}

fn push_text(chunks: &mut VecDeque<ModelChunk>, text: String) {
    if !text.is_empty() {
        chunks.push_back(ModelChunk::Text(text));
    }
}
