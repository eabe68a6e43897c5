//! Items: the stored units that a session's history is made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    context::Compaction,
    files::{Picture, StoredInput},
    ids::{ItemId, TurnId},
    origin::ItemOrigin,
    tool::{ToolCall, ToolResult},
};

/// One stored unit of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The item's own id.
    pub id: ItemId,
    /// The turn that it came from.
    pub turn_id: TurnId,
    /// Origin of what a model said; none of what it did not say, and in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<ItemOrigin>>,
    /// Its content.
    #[serde(flatten)]
    pub body: ItemBody,
}

impl Item {
    /// A new item of a turn that no model said.
    pub fn new(turn_id: TurnId, body: ItemBody) -> Self {
        Self { id: ItemId::generate(), turn_id, origin: None, body }
    }
}

/// Content of an item.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemBody {
    /// Words of the person, at the start of the turn or while it ran.
    UserMessage {
        /// The words, as they came, or what of them fits into the window.
        text: String,
        /// Set if they were added to a turn that was already running.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steered: bool,
        /// The bytes at the beginning that the person typed; none where all of it was.
        typed_bytes: Option<u64>,
        /// The file that has all of what was given, where it does not fit into the window: then the words are its
        /// beginning, and the way to the rest.
        stored: Option<StoredInput>,
    },
    /// Words of the model to the person.
    AgentMessage {
        /// The words so far, or all of them.
        text: String,
    },
    /// Thoughts of the model before its answer.
    Reasoning {
        /// The words so far, or all of them.
        text: String,
    },
    /// A tool that the model asked for.
    ToolCall(ToolCall),
    /// Result of a tool call. Started when the tool starts to run, completed when it has run.
    ToolResult(ToolResult),
    /// A prefix of the history, replaced by a summary.
    Compaction(Compaction),
    /// A fact that the daemon adds for the model and the person, such as what a crash left behind.
    Notice {
        /// The words.
        text: String,
        /// Its subject.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        topic: NoticeTopic,
        /// The files whose words these are.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<NoticeSource>,
        /// Pictures beside the words, for models that see.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Picture>,
    },
}

impl ItemBody {
    /// The stable name of the kind, as it is written in JSON.
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

    /// A fact about what happened.
    pub fn notice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), topic: NoticeTopic::General, sources: Vec::new(), pictures: Vec::new() }
    }

    /// A word for the model on what it did.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), topic: NoticeTopic::Advice, sources: Vec::new(), pictures: Vec::new() }
    }
}

/// A file whose words are in a notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeSource {
    /// Its path, as people are shown it.
    pub name: String,
    /// Number of its bytes in the notice.
    pub bytes: u64,
    /// Says whether it is as it was.
    pub digest: String,
    /// Size of the whole file in bytes, where it may be more than is in the notice; 0 where nobody counted.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub of_bytes: u64,
}

impl NoticeSource {
    /// Returns true if the notice has only the beginning of the file, or nothing of it.
    pub fn is_cut(&self) -> bool {
        self.bytes < self.of_bytes
    }
}

/// Subject of a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeTopic {
    /// An event: a crash, an undo.
    #[default]
    General,
    /// Content of `AGENTS.md` files. A later notice replaces those before it.
    Memory,
    /// The catalogue of skills. A later one takes the place of those before it.
    Skills,
    /// Files that people handed over with their words.
    Files,
    /// The todo list, as far as the model needs to be reminded of it.
    Todos,
    /// The mode of the session.
    Mode,
    /// Fill level of the window.
    Level,
    /// Tools, skills and agents that the input of the turn mentions.
    Mentions,
    /// The request for the last answer of a turn.
    LastAnswer,
    /// The request to go on behind an answer that was not the end.
    Continue,
    /// Files as they are now, behind a summary of the work on them.
    ReadAgain,
    /// Passages of what was set aside, for an input that is about them.
    Recall,
    /// The rules that the person pinned.
    Pins,
    /// A word on what the model did, beside a warning that tells people of it.
    Advice,
    /// The request for a plan, before anything is changed.
    Plan,
    /// The approval of a plan.
    Planned,
    /// The schema that the answer of the turn has to match.
    AnswerForm,
    /// Instructions of the client for one turn.
    TurnInstructions,
    /// A map of the project's code.
    CodeMap,
    /// New errors in files that were edited, as language servers word them.
    Diagnostics,
    /// A cancel of a turn that had begun to answer, or its later continuation.
    Interrupted,
    /// Content of `AGENTS.md` files in folders of the project that the work has come to.
    FolderMemory,
    /// The same calls with the same results, again and again.
    Repetition,
}

impl NoticeTopic {
    /// Returns whether the notice is meant for the model alone.
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

/// The way in which an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// It is whole.
    Done,
    /// It was cut short: by a cancel, a limit or a broken stream. What it holds is what there was.
    Cut,
    /// The daemon stopped while it was under way, so that nobody knows how far it came.
    Unknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::origin::ServerFields;

    #[test]
    fn an_item_keeps_its_origin_and_one_of_an_older_journal_has_none() {
        let (id, turn_id) = (ItemId::generate(), TurnId::generate());
        let old = json!({"id": id, "turn_id": turn_id, "kind": "tool_call", "call_id": "c", "name": "now", "arguments": "{}"});
        let mut item: Item = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(item.origin, None);
        assert_eq!(serde_json::to_value(&item).unwrap(), old);
        // As it came: a server signed these bytes.
        let extra_content = Some(r#"{ "google":{"thought_signature":"A\/b=="}}"#.to_owned());
        let fields = ServerFields { call_id: "functions.now:0".to_owned(), extra_content, ..ServerFields::default() };
        item.origin = Some(Arc::new(ItemOrigin { model: "m@host/v1".to_owned(), fields }));
        let written = serde_json::to_string(&item).unwrap();
        assert_eq!(serde_json::from_str::<Item>(&written).unwrap(), item);
    }
}
