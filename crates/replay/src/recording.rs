//! Data types of a recording.

use std::sync::Arc;

use agentd_core::{
    answer_schema::AnswerSchema,
    interrupt::{Answer, Ask},
    model::{Finish, Slot, SlotInfo},
    origin::ServerFields,
    surroundings::Surroundings,
    tool::{FileChange, ToolDetails, ToolErrorCode},
    turn::{StopReason, TurnOptions},
    usage::Usage,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format. Readers reject newer versions.
pub const VERSION: u32 = 1;

/// Recorded session with all external input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Facts about the session as a whole.
    pub head: RecordingHead,
    /// Turns of the session, in order.
    pub turns: Vec<RecordedTurn>,
}

/// Facts about the session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingHead {
    /// Version of the format.
    pub version: u32,
    /// Version of the agentd that wrote the recording.
    pub agentd: String,
    /// Start of the session, which is included in its instructions.
    pub began: Timestamp,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Project of the session, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<RecordedProject>,
    /// Surroundings of the session, as described in its instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    /// Models for all slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<SlotInfo>,
}

/// Project of a recorded session. Its path is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedProject {
    /// True if tools could change the project.
    pub writable: bool,
}

/// Recorded turn of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedTurn {
    /// Start of the turn.
    pub start: RecordedStart,
    /// External facts, in their order of arrival.
    pub facts: Vec<TurnFact>,
    /// End of the turn, or `None` if the journal ends before it.
    pub end: Option<RecordedEnd>,
}

/// Start of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedStart {
    /// Time of the start.
    pub at: Timestamp,
    /// Input of the turn, or `None` if it resumed the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Number of leading bytes that the user typed. `None` if the user typed the whole input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_bytes: Option<u64>,
    /// Inputs that were added while the turn ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<String>,
    /// Slot of the turn's model.
    #[serde(default)]
    pub slot: Slot,
    /// Maximum number of steps.
    #[serde(default)]
    pub max_steps: u32,
    /// Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Options set by the turn's client.
    #[serde(default, skip_serializing_if = "TurnOptions::is_default")]
    pub options: TurnOptions,
}

/// External fact within a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnFact {
    /// A subagent started to work for the turn.
    Subagent(SubagentVoice),
    /// A model answered a request.
    Exchange(Exchange),
    /// A tool returned a result.
    Result(RecordedResult),
    /// A user answered a question.
    Question(Box<RecordedQuestion>),
}

/// Subagent in a recording. Its requests are identified by its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentVoice {
    /// Number in the recording, starting at 1. The session itself is 0.
    pub voice: u32,
    /// Input of its first turn.
    pub task: String,
}

/// Request to a model with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Origin of the request: 0 for the session itself, otherwise the number of a subagent.
    pub voice: u32,
    /// Slot of the model that was called.
    pub slot: Slot,
    /// The request, or `None` if it has not been learned yet.
    pub request: Option<Arc<RecordedRequest>>,
    /// The model's answer to the request.
    pub answer: RecordedAnswer,
}

/// Canonical form of a request for comparison: call IDs are numbered in order, and opaque server data is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRequest {
    /// Messages in canonical form.
    pub messages: Vec<Arc<Value>>,
    /// Tools, each with its description and schema.
    pub tools: Arc<Vec<Value>>,
    /// True if the tools may be called.
    pub may_call: bool,
}

/// Answer from a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// Text and calls, in order.
    pub parts: Vec<SpokenPart>,
    /// Usage as counted by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Reason why the answer ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finish: RecordedFinish,
}

/// Reason why an answer ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedFinish {
    /// The model completed its answer.
    #[default]
    Stop,
    /// The token limit truncated the answer.
    Length,
    /// The provider withheld the remaining text.
    Filtered,
    /// The journal has no complete answer: the call failed, or the daemon stopped during the call.
    Unknown,
}

impl RecordedFinish {
    /// Returns the finish reason in a model's stream, or `None` if it is unknown.
    #[must_use]
    pub fn finish(self) -> Option<Finish> {
        match self {
            Self::Stop => Some(Finish::Stop),
            Self::Length => Some(Finish::Length),
            Self::Filtered => Some(Finish::Filtered),
            Self::Unknown => None,
        }
    }
}

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpokenPart {
    /// Text for the user.
    Text(String),
    /// Text of the model's reasoning.
    Reasoning(String),
    /// Call to a tool.
    Call {
        /// Name of the tool, as the model wrote it.
        name: String,
        /// Arguments, as the model wrote them.
        arguments: String,
        /// Provider-specific fields of the call.
        #[serde(default, skip_serializing_if = "is_default")]
        fields: ServerFields,
    },
    /// Provider-specific fields of the whole answer.
    Fields(ServerFields),
}

/// Result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedResult {
    /// Origin of the call, as in [`Exchange::voice`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub voice: u32,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: String,
    /// Text for the model.
    pub text: String,
    /// Reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolErrorCode>,
    /// Exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Structured parts of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ToolDetails>>,
    /// Files that the call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
}

/// Returns true if a field has its default value and can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Question to a user with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// The question that was asked.
    pub ask: Ask,
    /// The user's answer to the question.
    pub answer: Answer,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Reason for the end.
    pub reason: StopReason,
    /// Text of the answer.
    pub text: String,
    /// Number of model calls.
    pub steps: u32,
}
