//! Items: the stored units of a session's history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    context::Compaction,
    files::{Picture, StoredInput},
    ids::{ItemId, TurnId},
    origin::ItemOrigin,
    tool::{ToolCall, ToolResult},
};

/// Stored unit of a session's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// ID of the item.
    pub id: ItemId,
    /// Turn that created the item.
    pub turn_id: TurnId,
    /// Model that produced the item. `None` for items that no model produced, and in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<ItemOrigin>>,
    /// Content of the item.
    #[serde(flatten)]
    pub body: ItemBody,
}

impl Item {
    /// Creates an item that was not produced by a model.
    pub fn new(turn_id: TurnId, body: ItemBody) -> Self {
        Self { id: ItemId::generate(), turn_id, origin: None, body }
    }
}

/// Content of an item.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemBody {
    /// Message from the user, at the start of the turn or during the turn.
    UserMessage {
        /// Received text, or the part of it that fits into the window.
        text: String,
        /// True if the message was added to a turn that was already running.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steered: bool,
        /// Number of bytes at the start that the user typed. `None` if the user typed the whole text.
        typed_bytes: Option<u64>,
        /// File with the whole input, if the input exceeds the window. In this case, `text` is the beginning of the
        /// input with a reference to the file.
        stored: Option<StoredInput>,
    },
    /// Message from the model to the user.
    AgentMessage {
        /// Text received so far, or the whole text.
        text: String,
    },
    /// Reasoning of the model before its answer.
    Reasoning {
        /// Text received so far, or the whole text.
        text: String,
    },
    /// Tool call by the model.
    ToolCall(ToolCall),
    /// Result of a tool call. The item starts when the tool starts, and completes when the tool has finished.
    ToolResult(ToolResult),
    /// Replacement of a prefix of the history by a summary.
    Compaction(Compaction),
    /// Information from the daemon for the model and the user, such as the consequences of a crash.
    Notice {
        /// Text of the notice.
        text: String,
        /// Subject of the notice.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        topic: NoticeTopic,
        /// Files whose content is part of the notice.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<NoticeSource>,
        /// Pictures in addition to the text, for models that accept pictures.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Picture>,
    },
}

impl ItemBody {
    /// Returns the stable name of the item kind, as used in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user_message",
            Self::AgentMessage { .. } => "agent_message",
            Self::Reasoning { .. } => "reasoning",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Compaction(_) => "compaction",
            Self::Notice { .. } => "notice",
        }
    }

    /// Creates a notice about an event.
    pub fn notice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), topic: NoticeTopic::General, sources: Vec::new(), pictures: Vec::new() }
    }

    /// Creates a notice with advice for the model.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), topic: NoticeTopic::Advice, sources: Vec::new(), pictures: Vec::new() }
    }
}

/// File whose content is part of a notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeSource {
    /// Path in the form shown to users.
    pub name: String,
    /// Number of bytes of the file that the notice contains.
    pub bytes: u64,
    /// Digest of the file, used to detect changes.
    pub digest: String,
    /// Size of the whole file in bytes, which may exceed `bytes`. 0 if the size was not determined.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub of_bytes: u64,
}

impl NoticeSource {
    /// Returns true if the notice contains only the beginning of the file or no content.
    pub fn is_cut(&self) -> bool {
        self.bytes < self.of_bytes
    }
}

/// Subject of a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeTopic {
    /// An event such as a crash or an undo.
    #[default]
    General,
    /// Content of `AGENTS.md` files. A later notice replaces earlier ones.
    Memory,
    /// The catalogue of skills. A later notice replaces earlier ones.
    Skills,
    /// Files that users uploaded with their input.
    Files,
    /// Reminder about the todo list.
    Todos,
    /// Mode of the session.
    Mode,
    /// Fill level of the window.
    Level,
    /// Tools, skills and agents that the turn's input mentions.
    Mentions,
    /// Request for the final answer of a turn.
    LastAnswer,
    /// Request to continue after an incomplete answer.
    Continue,
    /// Current content of files, if a summary replaced the work on them.
    ReadAgain,
    /// Passages of the compacted history that are relevant to the input.
    Recall,
    /// Rules that the user has pinned.
    Pins,
    /// Advice on the model's behaviour. Users see a warning instead.
    Advice,
    /// Request for a plan before any changes.
    Plan,
    /// Approval of a plan.
    Planned,
    /// Schema that the turn's answer must match.
    AnswerForm,
    /// The client's instructions for one turn.
    TurnInstructions,
    /// A map of the project's code.
    CodeMap,
    /// New errors in edited files, as reported by language servers.
    Diagnostics,
    /// Cancellation of a turn after its answer had started, or the continuation of such a turn.
    Interrupted,
    /// Content of `AGENTS.md` files in project folders where the model currently works.
    FolderMemory,
    /// Advice on repeated calls with identical results.
    Repetition,
}

impl NoticeTopic {
    /// Returns true if only the model sees the notice.
    #[must_use]
    pub fn is_for_model(self) -> bool {
        match self {
            Self::General
            | Self::Memory
            | Self::FolderMemory
            | Self::Skills
            | Self::Files
            | Self::ReadAgain
            | Self::Recall => false,
            Self::Todos
            | Self::Mode
            | Self::Level
            | Self::Mentions
            | Self::LastAnswer
            | Self::Continue
            | Self::Pins
            | Self::Plan
            | Self::Planned
            | Self::AnswerForm
            | Self::TurnInstructions
            | Self::CodeMap
            | Self::Diagnostics
            | Self::Interrupted
            | Self::Repetition
            | Self::Advice => true,
        }
    }
}

/// Final status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// The item is complete.
    Done,
    /// The item was cut short by a cancellation, a limit or an interrupted stream. It contains the content received so
    /// far.
    Cut,
    /// The daemon stopped before the item was complete, so its actual effect is unknown.
    Unknown,
}
