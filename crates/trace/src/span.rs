//! The tree of a turn. A model call and the tool calls that it asked for are neighbours; what happened within one is below it.

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

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnTrace {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Its number among the turns of the session, from 1.
    pub number: u64,
    /// Ties it to logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
    /// The agent with which it began.
    pub agent: String,
    /// Number of its first event.
    pub first_seq: u64,
    /// Number of its last event.
    pub last_seq: u64,
    /// Its start.
    pub at: Timestamp,
    /// Its end; of an open turn, the time of its last event.
    pub end: Timestamp,
    /// Set if the journal does not have its end.
    pub is_open: bool,
    /// The slot with which it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The model with which it began.
    pub model: String,
    /// Reason for that model.
    pub reason: String,
    /// Steps that it might take.
    pub max_steps: u32,
    /// The end, with its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnEnd>,
    /// The time at which the journal was told of its end: of a turn that a crash cut off, long after it.
    #[serde(skip)]
    pub settled_at: Option<Timestamp>,
    /// Sum of all usage in the tree, subagents included.
    pub usage: Usage,
    /// Time in which a person was waited for, in milliseconds.
    pub waited_ms: u64,
    /// Parts of the turn, in the order in which they began.
    pub spans: Vec<Span>,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnEnd {
    /// Reason of the end.
    pub reason: StopReason,
    /// The error, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// Number of its steps.
    pub steps: u32,
    /// The answer.
    pub text: String,
    /// The time that the turn counted for itself, in milliseconds.
    pub duration_ms: u64,
    /// Calls that were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// Files that were changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Span {
    /// Its name in the tree, unique in the session.
    pub id: String,
    /// Its start.
    pub at: Timestamp,
    /// Its end, never before its start.
    pub end: Timestamp,
    /// Set if the journal does not have its end, or nobody knows it: a crash cut it off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
    /// Its content.
    #[serde(flatten)]
    pub kind: SpanKind,
    /// Parts of it. All of them lie inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Span>,
}

/// Content of a span.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpanKind {
    /// Words of the person.
    Input {
        /// The words.
        text: String,
        /// Set if they were added while the turn ran.
        steered: bool,
    },
    /// A model call.
    ModelCall(Box<ModelCallSpan>),
    /// Words of the model, in its call.
    Message {
        /// The words.
        text: String,
    },
    /// Thoughts of the model, in its call.
    Reasoning {
        /// The words.
        text: String,
    },
    /// A tool call.
    Tool(Box<ToolSpan>),
    /// A question to a person.
    Interrupt(Box<InterruptSpan>),
    /// A session that works for a tool call.
    Subagent(Box<SubagentSpan>),
    /// A compaction of the history.
    Compaction {
        /// The summary.
        summary: String,
        /// The report; none while it is under way.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<Box<CompactionReport>>,
    },
    /// Words of the daemon to the model or the person.
    Notice {
        /// The subject.
        topic: NoticeTopic,
        /// The words.
        text: String,
    },
    /// A warning.
    Warning {
        /// Its stable code.
        code: String,
        /// One sentence.
        message: String,
    },
    /// Another model or agent goes on, or the intent was classified.
    Choice {
        /// The choice.
        choice: String,
        /// The reason.
        reason: String,
    },
}

/// A model call.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ModelCallSpan {
    /// Its step, from 1; 0 for the question about the intent of an input.
    pub step: u32,
    /// The slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The model.
    pub model: String,
    /// Host and port of its server, where the journal is read itself; clients are not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time to the first part of the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// Set if its times are estimated from the events around it.
    pub is_estimated: bool,
    /// Duration as it was measured, in milliseconds: that of the span, unless clocks were put back.
    #[serde(skip)]
    pub took_ms: Option<u64>,
    /// Kind of its error, where the turn went on with another model or ended with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of retries.
    pub retries: u32,
    /// Usage.
    pub usage: Usage,
    /// The part of the request that repeated the one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptReport>,
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolSpan {
    /// Joins it to its result.
    pub call_id: CallId,
    /// The step of the model call that asked for it.
    pub step: u32,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// The arguments that a person put in their place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<String>,
    /// Set if it has begun to run.
    pub ran: bool,
    /// Code of its failure, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolErrorCode>,
    /// Exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Time that the tool took, in milliseconds; waiting for people is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The result, as the model reads it.
    pub text: String,
    /// Parts of the result as fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ToolDetails>>,
    /// Files that it changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Usage of model calls that the tool itself asked for.
    #[serde(skip_serializing_if = "is_nothing")]
    pub sampled: Usage,
    /// Usage of the sessions that worked for it.
    #[serde(skip_serializing_if = "is_nothing")]
    pub delegated: Usage,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterruptSpan {
    /// Its id.
    pub interrupt_id: InterruptId,
    /// The session that asks: another one where a subagent does.
    pub session_id: SessionId,
    /// The question.
    pub ask: Ask,
    /// The answer. A secret is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Author of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweredBy>,
}

/// A session that works for a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubagentSpan {
    /// The session.
    pub session_id: SessionId,
    /// Number of the last event of that session that belongs to earlier work.
    pub after: u64,
    /// The name of the agent.
    pub name: String,
    /// Its task, in one line.
    pub task: String,
    /// Its turns that did the work, where its events are known.
    pub turns: Vec<TurnTrace>,
}

impl TurnTrace {
    /// Duration from the first event to the last, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        between(self.at, self.end)
    }

    /// All spans of the turn, parents before their children. Those of nested turns are not among them.
    pub fn walk(&self) -> impl Iterator<Item = &Span> {
        let mut left: Vec<&Span> = self.spans.iter().rev().collect();
        std::iter::from_fn(move || {
            let span = left.pop()?;
            left.extend(span.children.iter().rev());
            Some(span)
        })
    }
}

impl Span {
    /// Duration, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        between(self.at, self.end)
    }

    /// Usage of the span itself: of a model call, and of the sessions and the model that a tool used.
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

/// Time between two moments, in milliseconds; 0 where the clock was put back.
pub fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}
