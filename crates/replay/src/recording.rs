//! Parts of a recording.

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

/// Version of the format. A reader refuses newer ones.
pub const VERSION: u32 = 1;

/// A recorded session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// The session.
    pub head: RecordingHead,
    /// Its turns, in order.
    pub turns: Vec<RecordedTurn>,
}

/// Facts about the session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingHead {
    /// Version of the format.
    pub version: u32,
    /// Version of the agentd that wrote it.
    pub agentd: String,
    /// Beginning of the session: its instructions name it.
    pub began: Timestamp,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Project of the session, where it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<RecordedProject>,
    /// Place where it worked, as its instructions tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    /// Models of all slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<SlotInfo>,
}

/// Project of a recorded session. Its path does not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedProject {
    /// Set if tools could change it.
    pub writable: bool,
}

/// A recorded turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedTurn {
    /// Its start.
    pub start: RecordedStart,
    /// Everything from outside, in the order in which it came.
    pub facts: Vec<TurnFact>,
    /// Its end; none where the journal ends before it.
    pub end: Option<RecordedEnd>,
}

/// Start of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedStart {
    /// Time of it.
    pub at: Timestamp,
    /// Input; none where it went on with the turn before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Bytes of the input that the person typed, where that is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_bytes: Option<u64>,
    /// Inputs that were added while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<String>,
    /// Slot that it used.
    #[serde(default)]
    pub slot: Slot,
    /// Most steps that it may take.
    #[serde(default)]
    pub max_steps: u32,
    /// Form of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Wishes of its client.
    #[serde(default, skip_serializing_if = "TurnOptions::is_default")]
    pub options: TurnOptions,
}

/// Something that came from outside of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnFact {
    /// A subagent that began to work for it.
    Subagent(SubagentVoice),
    /// A model was asked, and answered.
    Exchange(Exchange),
    /// A tool returned something.
    Result(RecordedResult),
    /// A person was asked, and answered.
    Question(Box<RecordedQuestion>),
}

/// A subagent. Its requests are known by its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentVoice {
    /// Its number in the recording, from 1. The session itself is 0.
    pub voice: u32,
    /// Input of its first turn.
    pub task: String,
}

/// A request to a model with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Whose it is: 0 for the session itself, else the number of a subagent.
    pub voice: u32,
    /// Slot that was asked.
    pub slot: Slot,
    /// The request; none until it was learned.
    pub request: Option<Arc<RecordedRequest>>,
    /// The answer.
    pub answer: RecordedAnswer,
}

/// A request as it is compared: call ids stand by their order, and what only a server understands is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRequest {
    /// Messages.
    pub messages: Vec<Arc<Value>>,
    /// Tools, each with its description and schema.
    pub tools: Arc<Vec<Value>>,
    /// Set if the tools may be called.
    pub may_call: bool,
}

/// Answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// Words and calls, in order.
    pub parts: Vec<SpokenPart>,
    /// Usage as it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finish: RecordedFinish,
}

/// End of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedFinish {
    /// The model had said all.
    #[default]
    Stop,
    /// The token limit.
    Length,
    /// The provider withheld the rest.
    Filtered,
    /// The journal does not tell the answer: the call failed, or the daemon ended in it.
    Unknown,
}

impl RecordedFinish {
    /// The finish as a model's stream tells it; none where nobody knows it.
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
    /// Words for the person.
    Text(String),
    /// Words of reasoning.
    Reasoning(String),
    /// A tool call.
    Call {
        /// Name of the tool, as the model wrote it.
        name: String,
        /// Arguments, as the model wrote them.
        arguments: String,
        /// The server's own fields of it.
        #[serde(default, skip_serializing_if = "is_default")]
        fields: ServerFields,
    },
    /// The server's own fields of the answer as a whole.
    Fields(ServerFields),
}

/// Result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedResult {
    /// Whose call it was, as in [`Exchange::voice`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub voice: u32,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: String,
    /// Text for the model.
    pub text: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolErrorCode>,
    /// Exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Parts of it as fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ToolDetails>>,
    /// Files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
}

/// Returns whether a field says nothing, and is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Question to a person with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// The question.
    pub ask: Ask,
    /// The answer.
    pub answer: Answer,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Why it ended.
    pub reason: StopReason,
    /// The answer.
    pub text: String,
    /// Model calls.
    pub steps: u32,
}
