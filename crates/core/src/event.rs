//! Events: numbered facts about a turn, an item or an interrupt.
//!
//! Stored events of a session are numbered from 1 without gaps. An [`EventKind::ItemDelta`] is published but not
//! stored. Its number is that of the last stored event before it, and its offset is the position of its text in the
//! item in bytes, so that a reader can detect missing deltas. Every `ItemStarted` is followed by exactly one
//! `ItemCompleted`, and no event of a turn follows its `TurnEnded`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::Subagent,
    answer_schema::AnswerSchema,
    context::{PromptReport, TokenLevel, Window},
    environment::ClientEnvironment,
    files::Picture,
    ids::{CallId, InterruptId, ItemId, SessionId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy, Interrupt},
    item::{Item, ItemStatus},
    model::Slot,
    routing::{ChoiceRule, Intent},
    settings::{SessionSettings, Todo},
    state_files::StateFileChange,
    surroundings::Surroundings,
    tool::FileChange,
    turn::{QueuedTurn, TurnOptions, TurnResult},
    usage::{CallTiming, Usage},
};

/// Numbered fact about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Session that the event belongs to.
    pub session_id: SessionId,
    /// Turn that the event belongs to. `None` for events about the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Number of the event in the session, starting at 1.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Kind and content of the event.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Code of the warning that replaces an unreadable event.
const DAMAGED: &str = "damaged_event";

impl Event {
    /// Creates a placeholder for a stored event that is damaged, so that readers see no gap in the numbers.
    pub fn damaged(session_id: SessionId, turn_id: Option<TurnId>, seq: u64) -> Self {
        let message = format!("event {seq} is damaged on disk and is left out");
        let kind = EventKind::Warning { code: DAMAGED.to_owned(), message, retry_in_ms: None };
        Self { session_id, turn_id, seq, at: Timestamp::UNIX_EPOCH, kind }
    }

    /// Returns true if this is a placeholder for a damaged event. Decisions that depend on the missing event must
    /// become stricter, never more permissive.
    pub fn is_damaged(&self) -> bool {
        matches!(&self.kind, EventKind::Warning { code, .. } if code == DAMAGED)
    }
}

/// Kind and content of an event.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A turn of the session started.
    TurnStarted {
        /// ID that links the turn to logs and traces.
        trace_id: TraceId,
        /// Slot that was chosen for the turn.
        slot: Slot,
        /// Model ID as used by the model's server.
        model: String,
        /// Reason why the slot was chosen.
        reason: String,
        /// Rule by which the slot was chosen.
        #[serde(default)]
        rule: ChoiceRule,
        /// Step limit of the turn.
        max_steps: u32,
        /// True if the turn only compacts the history.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        compacts: bool,
        /// The client's environment for its tools. Stored so that the turn can continue after a restart. Not shown to
        /// readers.
        #[serde(default, skip_serializing_if = "ClientEnvironment::is_empty")]
        environment: ClientEnvironment,
        /// Files that users uploaded since the previous turn. Stored so that the model is informed of the files even
        /// after a restart. Readers were notified of each upload.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_over: Vec<String>,
        /// Schema for the turn's answer. Stored so that it still applies if the turn is continued. Not shown to
        /// readers.
        answer_schema: Option<AnswerSchema>,
        /// Options of the turn, set by the client. Stored so that they still apply after a restart. Not shown to
        /// readers.
        options: Option<Box<TurnOptions>>,
    },
    /// An item was started. For a tool result, this means that the tool started to run.
    ItemStarted {
        /// Initial state of the item, usually without content.
        item: Item,
    },
    /// Text was added to an unfinished item. Published but not stored.
    ItemDelta {
        /// Item to which the text was added.
        item_id: ItemId,
        /// Byte offset of the added text in the item's text.
        offset: u64,
        /// Text that was added.
        text: String,
    },
    /// An item is complete or will not be continued.
    ItemCompleted {
        /// Final state of the item.
        item: Item,
        /// Final status of the item.
        status: ItemStatus,
    },
    /// The turn waits for an answer.
    InterruptRaised {
        /// Interrupt that is now pending.
        interrupt: Box<Interrupt>,
    },
    /// An interrupt was answered.
    InterruptResolved {
        /// Interrupt that was answered.
        interrupt_id: InterruptId,
        /// Tool call that raised it, if any.
        call_id: Option<CallId>,
        /// Answer to the question.
        answer: Answer,
        /// Source of the answer.
        by: AnsweredBy,
    },
    /// The usage of a model call was recorded.
    UsageUpdated {
        /// Number of the call's step in the turn, starting at 1. 0 for a call that is not a step, such as a side
        /// question.
        step: u32,
        /// Slot of the model.
        slot: Slot,
        /// ID of the model that answered.
        model: String,
        /// Token usage of the call.
        usage: Usage,
        /// Usage of the turn up to this call.
        turn: Usage,
        /// Comparison of the request with the previous one.
        prompt: Option<PromptReport>,
        /// True for the sum of calls made by subagents. The sessions of the subagents report each call with its own
        /// model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        delegated: bool,
        /// Duration of the call's phases. `None` for a sum of calls, and in older journals.
        timing: Option<CallTiming>,
    },
    /// The intent of the turn's input was classified.
    IntentClassified {
        /// Intent of the input.
        intent: Intent,
    },
    /// The turn continues with another model.
    ModelChosen {
        /// Slot of the new model.
        slot: Slot,
        /// Model ID as used by the model's server.
        model: String,
        /// Rule by which the model was chosen.
        rule: ChoiceRule,
        /// Reason as one sentence.
        reason: String,
    },
    /// The state of the session changed.
    StateChanged {
        /// Change of the session's state.
        change: StateChange,
    },
    /// Information for the user about a problem that does not end the turn, such as a retry or a truncated answer.
    Warning {
        /// Stable code of the warning, such as `model_retry`.
        code: String,
        /// Text of the warning, one sentence.
        message: String,
        /// Time until the announced retry, in milliseconds.
        retry_in_ms: Option<u64>,
    },
    /// The turn has ended.
    TurnEnded {
        /// Result of the turn.
        result: Box<TurnResult>,
    },
}

impl EventKind {
    /// Returns the stable name of the event kind, as used in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TurnStarted { .. } => "turn_started",
            Self::ItemStarted { .. } => "item_started",
            Self::ItemDelta { .. } => "item_delta",
            Self::ItemCompleted { .. } => "item_completed",
            Self::InterruptRaised { .. } => "interrupt_raised",
            Self::InterruptResolved { .. } => "interrupt_resolved",
            Self::UsageUpdated { .. } => "usage_updated",
            Self::IntentClassified { .. } => "intent_classified",
            Self::ModelChosen { .. } => "model_chosen",
            Self::StateChanged { .. } => "state_changed",
            Self::Warning { .. } => "warning",
            Self::TurnEnded { .. } => "turn_ended",
        }
    }

    /// Returns true if the journal stores events of this kind.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::ItemDelta { .. })
    }
}

/// Change of a session's state.
#[allow(clippy::large_enum_variant, reason = "settings change rarely, and events are shared behind an `Arc`")]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StateChange {
    /// The todo list was replaced.
    Todos {
        /// Complete list after the change.
        todos: Vec<Todo>,
    },
    /// The title of the session was set.
    Title {
        /// New title of the session.
        title: String,
    },
    /// The session's settings were changed.
    Settings {
        /// All settings of the session after the change.
        settings: SessionSettings,
    },
    /// The queue of pending turns changed.
    Queue {
        /// Number of turns in the queue.
        length: u32,
        /// Turn that was queued. Stored so that the turn survives a restart. The turn leaves the queue with its
        /// `TurnStarted`, even if it never runs. Not shown to readers.
        added: Option<Box<QueuedTurn>>,
    },
    /// The history was reset. Earlier events stay in the journal but are hidden from models. The state files are
    /// removed.
    Reset,
    /// A file in the session's state was written or removed.
    File(StateFileChange),
    /// A user uploaded a file. The next turn's model is notified of the upload.
    HandedOver {
        /// Path of the file in the form that tools use.
        path: String,
        /// Picture for models, if the file is a picture.
        picture: Option<Picture>,
    },
    /// The session is a copy of another session. All earlier events are copied and have their original numbers.
    Forked {
        /// Session that was copied.
        from: SessionId,
        /// Number of the last copied turn, from 1.
        turn: u64,
    },
    /// A subagent's session executes a call of this session.
    Subagent(Subagent),
    /// The active agent of the session changed.
    Agent {
        /// Agents to which the session was transferred, in order. Empty if the main agent is active.
        stack: Vec<String>,
    },
    /// Additional tools were mentioned or discovered. Later turns of the session show these tools.
    Tools {
        /// All tools mentioned or discovered so far, in order of discovery.
        names: Vec<String>,
    },
    /// The surroundings of the session were determined. Later instructions of the session include them.
    Surroundings(Surroundings),
    /// The fill level of the window changed.
    TokenLevel {
        /// Level after the change.
        level: TokenLevel,
        /// Number of tokens of the last request and its answer.
        tokens: u64,
        /// Maximum number of tokens of a request and its answer.
        window: u64,
    },
    /// A compaction was undone. The model sees the replaced history again.
    Window {
        /// Visible part of the history after the change.
        window: Window,
    },
    /// The user withdrew unanswered and unread messages when cancelling. These messages are hidden from models.
    Withdrawn {
        /// Numbers of the events that completed the withdrawn items.
        items: Vec<u64>,
        /// Input of the turn as typed, if it was withdrawn.
        input: Option<String>,
        /// Withdrawn messages that were added to the running turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
    },
    /// The file changes of a turn were reverted or restored.
    Undone {
        /// Turn whose changes were reverted or restored.
        turn_id: TurnId,
        /// True if the changes were restored after a revert.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
        /// Effects on the files.
        files: Vec<FileChange>,
    },
}
