//! Events: numbered facts about a turn, an item or an interrupt.
//!
//! Stored events of a session are numbered from 1 without gaps. An [`EventKind::ItemDelta`] is published but not
//! stored. It carries the number of the last stored event before it and the byte offset of its text in the item, so
//! that a reader can detect missing deltas. Every `ItemStarted` is followed by exactly one `ItemCompleted`, and no
//! event of a turn follows its `TurnEnded`.

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

/// A numbered fact about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Session of the event.
    pub session_id: SessionId,
    /// Turn of the event. `None` for events about the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Number of the event in the session, from 1.
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
    /// Creates a placeholder for an event that is damaged on the disk, so that readers see no gap in the numbers.
    pub fn damaged(session_id: SessionId, turn_id: Option<TurnId>, seq: u64) -> Self {
        let message = format!("event {seq} is damaged on disk and is left out");
        let kind = EventKind::Warning { code: DAMAGED.to_owned(), message };
        Self { session_id, turn_id, seq, at: Timestamp::UNIX_EPOCH, kind }
    }

    /// Returns true if this is a placeholder for a damaged event. Decisions that depend on the missing event must be
    /// stricter, never more permissive.
    pub fn is_damaged(&self) -> bool {
        matches!(&self.kind, EventKind::Warning { code, .. } if code == DAMAGED)
    }
}

/// Kind and content of an event.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A turn of the session began.
    TurnStarted {
        /// Id that links the turn to logs and traces.
        trace_id: TraceId,
        /// Slot that was chosen for the turn.
        slot: Slot,
        /// Id of the model, as its server names it.
        model: String,
        /// Reason for the choice of slot.
        reason: String,
        /// Rule that chose the slot.
        #[serde(default)]
        rule: ChoiceRule,
        /// Maximum number of steps of the turn.
        max_steps: u32,
        /// True if the turn only compacts the history.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        compacts: bool,
        /// The client's environment as passed to its tools. Stored so that the turn can continue after a restart. Not
        /// shown to readers.
        #[serde(default, skip_serializing_if = "ClientEnvironment::is_empty")]
        environment: ClientEnvironment,
        /// Files that users uploaded since the previous turn, for the model. Stored so that the model is informed of
        /// them even after a restart. Readers were notified of each upload.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_over: Vec<String>,
        /// Schema for the turn's answer. Stored so that a continued turn still applies it; not shown to readers.
        answer_schema: Option<AnswerSchema>,
        /// Options that the client set for the turn. Stored so that they apply after a restart; not shown to readers.
        options: Option<Box<TurnOptions>>,
    },
    /// An item has begun. For a tool result, this means that the tool starts to run.
    ItemStarted {
        /// Initial state of the item, mostly empty.
        item: Item,
    },
    /// Text was added to an item in progress. Published, not stored.
    ItemDelta {
        /// Item to which the text was added.
        item_id: ItemId,
        /// Byte offset of the added text in the item's text.
        offset: u64,
        /// Text that was added.
        text: String,
    },
    /// An item is complete, or will not be continued.
    ItemCompleted {
        /// Final state of the item.
        item: Item,
        /// Status at the end of the item.
        status: ItemStatus,
    },
    /// The turn needs an answer and waits.
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
        /// Author of the answer.
        by: AnsweredBy,
    },
    /// The usage of a model call was recorded.
    UsageUpdated {
        /// Number of the call's step in the turn, from 1.
        step: u32,
        /// Slot of the call.
        slot: Slot,
        /// Id of the model that answered.
        model: String,
        /// Token usage of the call.
        usage: Usage,
        /// Usage of the turn so far.
        turn: Usage,
        /// Report on how much of the request repeats the previous one.
        prompt: Option<PromptReport>,
        /// True for the sum of calls made by subagents. The subagents' sessions report each call under its own model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        delegated: bool,
        /// Timing of the call. `None` for a sum of calls, and in older journals.
        timing: Option<CallTiming>,
    },
    /// The intent of the turn's input was classified.
    IntentClassified {
        /// Intent of the input.
        intent: Intent,
    },
    /// Another model continues the turn.
    ModelChosen {
        /// Slot of the new model.
        slot: Slot,
        /// Id of the model, as its server names it.
        model: String,
        /// Rule that chose the model.
        rule: ChoiceRule,
        /// Reason, in one sentence.
        reason: String,
    },
    /// The session's state changed.
    StateChanged {
        /// Change to the session's state.
        change: StateChange,
    },
    /// Information for the user that does not end the turn, such as a retry or a truncated answer.
    Warning {
        /// A stable code, such as `model_retry`.
        code: String,
        /// Warning text, one sentence.
        message: String,
    },
    /// The turn has ended.
    TurnEnded {
        /// Result of the turn.
        result: Box<TurnResult>,
    },
}

impl EventKind {
    /// Returns the stable name of the kind, as written in JSON.
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

/// Change to a session's state.
#[allow(clippy::large_enum_variant, reason = "settings change rarely, and events are shared behind an `Arc`")]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StateChange {
    /// The todo list was written.
    Todos {
        /// The whole new list.
        todos: Vec<Todo>,
    },
    /// The session got a title.
    Title {
        /// Title after the change.
        title: String,
    },
    /// The session's settings were changed.
    Settings {
        /// All settings after the change.
        settings: SessionSettings,
    },
    /// The queue of pending turns changed.
    Queue {
        /// Number of turns in the queue.
        length: u32,
        /// Turn that was queued. Stored so that the turn survives a restart. It leaves the queue with its
        /// `TurnStarted`, even if it never runs. For the journal, not for readers.
        added: Option<Box<QueuedTurn>>,
    },
    /// The history was reset: earlier events stay in the journal, but no model sees them. The state files are removed.
    Reset,
    /// A file in the session's state was written or removed.
    File(StateFileChange),
    /// A user uploaded a file. The next turn's model is notified of the upload.
    HandedOver {
        /// Path of the file as tools write it.
        path: String,
        /// Picture for models, if the file is a picture.
        picture: Option<Picture>,
    },
    /// The session continues from a copy: all earlier events are from another session, with their original numbers.
    Forked {
        /// Session that was copied.
        from: SessionId,
        /// Number of the last copied turn, from 1.
        turn: u64,
    },
    /// A subagent's session works on a call of this session.
    Subagent(Subagent),
    /// The active agent of the session changed.
    Agent {
        /// Stack of agents that the session was transferred to; empty if the main agent is active.
        stack: Vec<String>,
    },
    /// More tools were mentioned or discovered. Turns of the session show them from now on.
    Tools {
        /// All of these tools, in order of discovery.
        names: Vec<String>,
    },
    /// The surroundings of the session were determined. Its instructions include them from now on.
    Surroundings(Surroundings),
    /// The fill level of the window changed.
    TokenLevel {
        /// Level after the change.
        level: TokenLevel,
        /// Tokens of the last request and its answer.
        tokens: u64,
        /// Maximum tokens of request and answer together.
        window: u64,
    },
    /// A compaction was undone: the model sees the replaced history again.
    Window {
        /// The window after the change.
        window: Window,
    },
    /// On cancel, the user withdrew messages that no model had answered or read. The messages are hidden from models.
    Withdrawn {
        /// Numbers of the events that completed the withdrawn items.
        items: Vec<u64>,
        /// Input of the turn as typed, if the input was withdrawn.
        input: Option<String>,
        /// Withdrawn messages that were added to the running turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
    },
    /// A turn's file changes were reverted or restored.
    Undone {
        /// Turn whose changes were reverted or restored.
        turn_id: TurnId,
        /// True if the changes were restored after a revert.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
        /// Changes made to files.
        files: Vec<FileChange>,
    },
}
