//! The tree of a turn. A model call and the tool calls that it requested are siblings; all other parts of a span are
//! below that span.

use agentd_core::{
    Timestamp,
    context::{CompactionReport, PromptReport},
    ids::{CallId, InterruptId, SessionId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask},
    item::NoticeTopic,
    model::Slot,
    tool::{FileChange, ToolDetails, ToolErrorCode},
    turn::{Denial, StopReason, TurnError},
    usage::Usage,
};
use serde::Serialize;

/// Trace of one turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnTrace {
    /// Session of the turn.
    pub session_id: SessionId,
    /// ID of the turn.
    pub turn_id: TurnId,
    /// Number among the turns of the session, from 1.
    pub number: u64,
    /// ID that links the turn to logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
    /// Agent at the start of the turn.
    pub agent: String,
    /// Number of the first event.
    pub first_seq: u64,
    /// Number of the last event.
    pub last_seq: u64,
    /// Start of the turn.
    pub at: Timestamp,
    /// End of the turn, or the time of the last event if it is open.
    pub end: Timestamp,
    /// True if the journal does not contain the end.
    pub is_open: bool,
    /// Slot at the start of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Model at the start of the turn.
    pub model: String,
    /// Reason for choosing that model.
    pub reason: String,
    /// Maximum number of steps.
    pub max_steps: u32,
    /// Outcome of the turn, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnEnd>,
    /// Time when the end was stored. After a crash, this is long after the actual end.
    #[serde(skip)]
    pub settled_at: Option<Timestamp>,
    /// Total usage in the tree, including subagents.
    pub usage: Usage,
    /// Time spent waiting for the user, in milliseconds.
    pub waited_ms: u64,
    /// Spans of the turn, in the order in which they began.
    pub spans: Vec<Span>,
}

/// Outcome of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnEnd {
    /// Reason for the end.
    pub reason: StopReason,
    /// Error of a turn that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// Number of steps taken.
    pub steps: u32,
    /// Text of the final answer.
    pub text: String,
    /// Duration measured by the turn itself, in milliseconds.
    pub duration_ms: u64,
    /// Tool calls that were denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// Files changed by the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
}

/// Part of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Span {
    /// Name in the tree, unique within the session.
    pub id: String,
    /// Start of the span.
    pub at: Timestamp,
    /// End of the span, never before its start.
    pub end: Timestamp,
    /// True if the end is unknown, because the journal does not contain it or a crash interrupted the span.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
    /// Content of the span.
    #[serde(flatten)]
    pub kind: SpanKind,
    /// Child spans, whose times are all within this span's times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Span>,
}

/// Content of a span.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpanKind {
    /// A message from the user.
    Input {
        /// Text of the message.
        text: String,
        /// True if the message was added while the turn ran.
        steered: bool,
    },
    /// A request to a model, with its answer.
    ModelCall(Box<ModelCallSpan>),
    /// Text from the model, within its call.
    Message {
        /// Text of the message.
        text: String,
    },
    /// The model's reasoning, within its call.
    Reasoning {
        /// Text of the reasoning.
        text: String,
    },
    /// A call to a tool, with its result.
    Tool(Box<ToolSpan>),
    /// A question to the user.
    Interrupt(Box<InterruptSpan>),
    /// A session of a subagent that works for a tool call.
    Subagent(Box<SubagentSpan>),
    /// A compaction of the history.
    Compaction {
        /// Text of the summary.
        summary: String,
        /// Report of the compaction; `None` while it is in progress.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<Box<CompactionReport>>,
    },
    /// A notice from the daemon to the model or the user.
    Notice {
        /// Topic of the notice.
        topic: NoticeTopic,
        /// Text of the notice.
        text: String,
    },
    /// A warning from the daemon.
    Warning {
        /// Stable code of the warning.
        code: String,
        /// Message in one sentence.
        message: String,
    },
    /// A change of model or agent, or the classification of the intent.
    Choice {
        /// Outcome of the choice.
        choice: String,
        /// Reason for the choice.
        reason: String,
    },
}

/// Details of a model call.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ModelCallSpan {
    /// Step of the call, from 1; 0 for the classification of an input's intent.
    pub step: u32,
    /// Slot of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Name of the model.
    pub model: String,
    /// Host and port of the server. Only available when reading the journal directly; clients do not receive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time to the first part of the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// True if the times are estimated from neighbouring events.
    pub is_estimated: bool,
    /// Measured duration in milliseconds. Equals the span's duration unless the clock was set back.
    #[serde(skip)]
    pub took_ms: Option<u64>,
    /// Kind of the error, if the call failed and the turn continued with another model or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of retried requests.
    pub retries: u32,
    /// Tokens and cost of the call.
    pub usage: Usage,
    /// Report on the part of the request that repeats the previous request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptReport>,
}

/// Details of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolSpan {
    /// ID that joins the call to its result.
    pub call_id: CallId,
    /// Step of the model call that requested the tool call.
    pub step: u32,
    /// Name of the tool.
    pub name: String,
    /// Arguments as written by the model.
    pub arguments: String,
    /// Arguments that the user substituted for the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<String>,
    /// True if the call began to run.
    pub ran: bool,
    /// Error code, if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolErrorCode>,
    /// Exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Duration of the tool call in milliseconds, without the time of waiting for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Text of the result, as shown to the model.
    pub text: String,
    /// Parts of the result as structured fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ToolDetails>>,
    /// Files changed by the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Usage of model calls requested by the tool itself.
    #[serde(skip_serializing_if = "is_nothing")]
    pub sampled: Usage,
    /// Usage of the sessions that worked for the call.
    #[serde(skip_serializing_if = "is_nothing")]
    pub delegated: Usage,
}

/// Details of a question to the user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterruptSpan {
    /// ID of the question.
    pub interrupt_id: InterruptId,
    /// Session that asks. Differs from the turn's session if a subagent asks.
    pub session_id: SessionId,
    /// Content of the question.
    pub ask: Ask,
    /// Answer to the question, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Author of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweredBy>,
}

/// Details of a session that works for a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubagentSpan {
    /// ID of the session.
    pub session_id: SessionId,
    /// Number of the last event that belongs to earlier work in that session.
    pub after: u64,
    /// Name of the agent.
    pub name: String,
    /// Task of the agent, in one line.
    pub task: String,
    /// Turns that did the work, if the events of the session are known.
    pub turns: Vec<TurnTrace>,
}

impl TurnTrace {
    /// Returns the duration from the first event to the last, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        between(self.at, self.end)
    }

    /// Iterates over all spans of the turn, parents before children. Spans of nested turns are not included.
    pub fn walk(&self) -> impl Iterator<Item = &Span> {
        let mut pending: Vec<&Span> = self.spans.iter().rev().collect();
        std::iter::from_fn(move || {
            let span = pending.pop()?;
            pending.extend(span.children.iter().rev());
            Some(span)
        })
    }
}

impl Span {
    /// Returns the duration of the span in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        between(self.at, self.end)
    }

    /// Returns the usage of the span itself: of a model call, or of the subagents and model calls of a tool.
    pub fn usage(&self) -> Usage {
        match &self.kind {
            SpanKind::ModelCall(call) => call.usage,
            SpanKind::Tool(tool) => {
                let mut usage = tool.sampled;
                usage += tool.delegated;
                usage
            }
            _ => Usage::default(),
        }
    }
}

/// Returns the time between two timestamps in milliseconds, or 0 if the clock was set back.
pub fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}
