//! The text format of a recording: JSON lines with one fact per line, so that a diff shows each change at its position.
//!
//! A request is written as the difference from the previous request of the same voice: the number of messages that both
//! requests share, then each further message on a separate line. Tools are written when they change.

use std::{collections::HashMap, sync::Arc};

use agentd_core::model::Slot;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    recording::{
        Exchange, RecordedAnswer, RecordedEnd, RecordedQuestion, RecordedRequest, RecordedResult, RecordedStart,
        RecordedTurn, Recording, RecordingHead, SubagentVoice, TurnFact, VERSION, is_default,
    },
    request::{Redaction, each_text, shared},
};

/// Maximum size of a recording in bytes.
pub const MAX_RECORDING: usize = 64 << 20;

/// Maximum number of messages in one request. Far larger than any model's context window allows.
const MAX_MESSAGES: usize = 100_000;

/// Maximum total number of messages that the requests in a recording share with earlier requests. Each request is
/// expanded in memory, so without this limit a short text could use a lot of memory.
const MAX_VALUES: usize = 4_000_000;

/// Reason why a text is not a valid recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// The text is too long.
    #[error("the recording has {0} bytes; the limit is {MAX_RECORDING}")]
    TooLong(usize),
    /// A newer agentd wrote the recording.
    #[error("the recording has version {0}; this agentd supports up to {VERSION}: update agentd")]
    Newer(u32),
    /// A line is invalid.
    #[error("line {line} of the recording: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
enum Line {
    Recording(RecordingHead),
    Turn(Box<RecordedStart>),
    Subagent(SubagentVoice),
    Request(RequestLine),
    Message { message: Value },
    Tool { tool: Value },
    Answer(AnswerLine),
    Result(RecordedResult),
    Question(Box<RecordedQuestion>),
    End(RecordedEnd),
}

#[derive(Debug, Serialize, Deserialize)]
struct RequestLine {
    #[serde(default, skip_serializing_if = "is_default")]
    voice: u32,
    slot: Slot,
    /// Number of leading messages shared with the previous request.
    keeps: usize,
    /// True if the tools follow. Otherwise the request has the tools of the previous request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    new_tools: bool,
    may_call: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct AnswerLine {
    #[serde(default, skip_serializing_if = "is_default")]
    voice: u32,
    slot: Slot,
    #[serde(flatten)]
    answer: RecordedAnswer,
}

/// Writes a recording as text.
///
/// # Errors
/// Returns an error if a part cannot be serialised as JSON, which is a bug.
pub fn write(recording: &Recording) -> Result<String, serde_json::Error> {
    let mut writer = Writer::default();
    writer.line(&Line::Recording(recording.head.clone()))?;
    for turn in &recording.turns {
        writer.line(&Line::Turn(Box::new(turn.start.clone())))?;
        for fact in &turn.facts {
            match fact {
                TurnFact::Subagent(voice) => writer.line(&Line::Subagent(voice.clone()))?,
                TurnFact::Exchange(exchange) => writer.exchange(exchange)?,
                TurnFact::Result(result) => writer.line(&Line::Result(result.clone()))?,
                TurnFact::Question(question) => writer.line(&Line::Question(question.clone()))?,
            }
        }
        if let Some(end) = &turn.end {
            writer.line(&Line::End(end.clone()))?;
        }
    }
    Ok(writer.text)
}

#[derive(Default)]
struct Writer {
    text: String,
    /// The last request of each voice.
    last: HashMap<u32, Arc<RecordedRequest>>,
}

impl Writer {
    fn line(&mut self, line: &Line) -> Result<(), serde_json::Error> {
        self.text.push_str(&serde_json::to_string(line)?);
        self.text.push('\n');
        Ok(())
    }

    fn exchange(&mut self, exchange: &Exchange) -> Result<(), serde_json::Error> {
        let Exchange { voice, slot, request, answer } = exchange;
        if let Some(request) = request {
            let before = self.last.insert(*voice, Arc::clone(request));
            let keeps = before.as_ref().map_or(0, |before| shared(before, request));
            let new_tools = before.is_none_or(|before| before.tools != request.tools);
            let may_call = request.may_call;
            self.line(&Line::Request(RequestLine { voice: *voice, slot: *slot, keeps, new_tools, may_call }))?;
            for message in request.messages.iter().skip(keeps) {
                self.line(&Line::Message { message: Value::clone(message) })?;
            }
            for tool in request.tools.iter().filter(|_| new_tools) {
                self.line(&Line::Tool { tool: tool.clone() })?;
            }
        }
        self.line(&Line::Answer(AnswerLine { voice: *voice, slot: *slot, answer: answer.clone() }))
    }
}

/// Redacts every string in a recording.
///
/// # Errors
/// Returns an error if the result is not a valid recording.
pub fn redacted(recording: &Recording, redact: &Redaction) -> Result<Recording, RecordingError> {
    let write_error = |error: serde_json::Error| problem(0, error.to_string());
    let mut text = String::new();
    for line in write(recording).map_err(write_error)?.lines() {
        let mut value: Value = serde_json::from_str(line).map_err(write_error)?;
        each_text(&mut value, "", &mut |_, text| *text = redact(text));
        text.push_str(&value.to_string());
        text.push('\n');
    }
    read(&text)
}

/// Parses a recording.
///
/// # Errors
/// Returns an error for the first invalid line.
pub fn read(text: &str) -> Result<Recording, RecordingError> {
    if text.len() > MAX_RECORDING {
        return Err(RecordingError::TooLong(text.len()));
    }
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((number, first)) = lines.next() else {
        return Err(problem(1, "the recording is empty; `agentctl sessions record` creates one"));
    };
    let head = head(number + 1, first)?;
    let mut reader = Reader::default();
    for (number, line) in lines {
        let parsed = serde_json::from_str(line).map_err(|error| problem(number + 1, error.to_string()))?;
        reader.add(parsed).map_err(|message| problem(number + 1, message))?;
    }
    Ok(Recording { head, turns: reader.turns })
}

fn problem(line: usize, problem: impl Into<String>) -> RecordingError {
    RecordingError::Line { line, problem: problem.into() }
}

/// Parses the first line. The version is checked first, because the other fields may depend on it.
fn head(number: usize, line: &str) -> Result<RecordingHead, RecordingError> {
    #[derive(Deserialize)]
    struct Version {
        fact: String,
        version: u32,
    }
    let not_a_recording = || problem(number, "not a recording: it does not begin with {\"fact\":\"recording\",…}");
    let found: Version = serde_json::from_str(line).map_err(|_| not_a_recording())?;
    if found.fact != "recording" {
        return Err(not_a_recording());
    }
    if found.version > VERSION {
        return Err(RecordingError::Newer(found.version));
    }
    match serde_json::from_str(line) {
        Ok(Line::Recording(head)) => Ok(head),
        Ok(_) => Err(not_a_recording()),
        Err(error) => Err(problem(number, error.to_string())),
    }
}

#[derive(Default)]
struct Reader {
    turns: Vec<RecordedTurn>,
    last: HashMap<u32, Arc<RecordedRequest>>,
    /// Request whose messages and tools are being read.
    open: Option<(RequestLine, RecordedRequest, Vec<Value>)>,
    values: usize,
}

impl Reader {
    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Recording(_) => return Err("duplicate start of a recording".to_owned()),
            Line::Turn(start) => {
                self.check_closed()?;
                self.turns.push(RecordedTurn { start: *start, ..RecordedTurn::default() });
            }
            Line::Request(request) => self.begin_request(request)?,
            Line::Message { message } => {
                let open = self.open.as_mut().ok_or("a message without a request before it")?;
                if open.1.messages.len() >= MAX_MESSAGES {
                    return Err(format!("the request has more than {MAX_MESSAGES} messages"));
                }
                open.1.messages.push(Arc::new(message));
            }
            Line::Tool { tool } => {
                let open = self.open.as_mut().filter(|(line, ..)| line.new_tools);
                open.ok_or("a tool without a request with new tools")?.2.push(tool);
            }
            Line::Answer(answer) => self.answer(answer)?,
            Line::Subagent(voice) => self.fact(TurnFact::Subagent(voice))?,
            Line::Result(result) => self.fact(TurnFact::Result(result))?,
            Line::Question(question) => self.fact(TurnFact::Question(question))?,
            Line::End(end) => {
                self.check_closed()?;
                self.turn()?.end = Some(end);
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<&mut RecordedTurn, String> {
        self.turns.last_mut().ok_or_else(|| "a fact without a turn before it".to_owned())
    }

    fn check_closed(&self) -> Result<(), String> {
        if self.open.is_some() { Err("the request before it has no answer".to_owned()) } else { Ok(()) }
    }

    fn fact(&mut self, fact: TurnFact) -> Result<(), String> {
        self.check_closed()?;
        self.turn()?.facts.push(fact);
        Ok(())
    }

    fn begin_request(&mut self, line: RequestLine) -> Result<(), String> {
        self.check_closed()?;
        let before = self.last.get(&line.voice);
        let available = before.map_or(0, |before| before.messages.len());
        if line.keeps > available {
            return Err(format!("it repeats {} messages of a request that has {available}", line.keeps));
        }
        self.values += line.keeps;
        if self.values > MAX_VALUES {
            return Err("the requests of the recording are too large".to_owned());
        }
        let messages = before.map(|before| before.messages[..line.keeps].to_vec()).unwrap_or_default();
        let tools = before.map(|before| Arc::clone(&before.tools)).unwrap_or_default();
        let request = RecordedRequest { messages, tools, may_call: line.may_call };
        self.open = Some((line, request, Vec::new()));
        Ok(())
    }

    fn answer(&mut self, line: AnswerLine) -> Result<(), String> {
        let AnswerLine { voice, slot, answer } = line;
        let request = match self.open.take() {
            None => None,
            Some((open, ..)) if open.voice != voice => {
                return Err("the answer does not match the request before it".to_owned());
            }
            Some((open, mut request, tools)) => {
                if open.new_tools {
                    request.tools = Arc::new(tools);
                }
                let request = Arc::new(request);
                self.last.insert(voice, Arc::clone(&request));
                Some(request)
            }
        };
        self.fact(TurnFact::Exchange(Exchange { voice, slot, request, answer }))
    }
}
