//! Events: numbered facts about a turn, an item or an interrupt.
//!
//! Stored events of a session are numbered from 1 without a gap. An [`EventKind::ItemDelta`] is
//! published but not stored: it carries the number of the last stored event before it and the byte
//! offset of its text in the item, so that a reader who lost some knows it. Every `ItemStarted` gets
//! exactly one `ItemCompleted`, and nothing of a turn follows its `TurnEnded`.

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

/// A numbered fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The session that it is about.
    pub session_id: SessionId,
    /// The turn that it is about; facts about the session itself have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The fact.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The code of the warning that stands in for an event which cannot be read.
const DAMAGED: &str = "damaged_event";

impl Event {
    /// Stand-in for an event that is damaged on the disk, so that readers have every number.
    pub fn damaged(session_id: SessionId, turn_id: Option<TurnId>, seq: u64) -> Self {
        let message = format!("event {seq} is damaged on the disk and is left out");
        let kind = EventKind::Warning { code: DAMAGED.to_owned(), message };
        Self { session_id, turn_id, seq, at: Timestamp::UNIX_EPOCH, kind }
    }

    /// Returns whether it only stands in for one that is damaged. Whoever decides by events must then allow less, never
    /// more.
    pub fn is_damaged(&self) -> bool {
        matches!(&self.kind, EventKind::Warning { code, .. } if code == DAMAGED)
    }
}

/// A fact.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A turn began.
    TurnStarted {
        /// Ties the turn to logs and traces.
        trace_id: TraceId,
        /// The slot that was chosen.
        slot: Slot,
        /// The model's id, as its server knows it.
        model: String,
        /// Why that slot.
        reason: String,
        /// The rule by which it was chosen.
        #[serde(default)]
        rule: ChoiceRule,
        /// The steps that the turn may take at the most.
        max_steps: u32,
        /// Set if it compacts the history and does nothing else.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        compacts: bool,
        /// The client's environment as its tools see it. Stored, so that the turn can continue after a restart; no
        /// reader is shown it.
        #[serde(default, skip_serializing_if = "ClientEnvironment::is_empty")]
        environment: ClientEnvironment,
        /// The files that people handed over since the turn before it: its model is told of them. Stored, so that it is told
        /// after a restart, too; readers were told of each when it came.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_over: Vec<String>,
        /// The form that its answer has to be in. Stored, so that a turn that continues is held to it; no reader is shown it.
        answer_schema: Option<AnswerSchema>,
        /// Wishes of its client for it. Stored, so that they hold after a restart; no reader is shown them.
        options: Option<Box<TurnOptions>>,
    },
    /// An item is under way. For a tool result this says: the tool starts to run now.
    ItemStarted {
        /// The item as it stands, mostly empty.
        item: Item,
    },
    /// Text was added to an item under way. Published, not stored.
    ItemDelta {
        /// The item.
        item_id: ItemId,
        /// Where the text belongs, in bytes from the start of the item's text.
        offset: u64,
        /// The text.
        text: String,
    },
    /// An item is whole, or as whole as it will ever be.
    ItemCompleted {
        /// The item.
        item: Item,
        /// Its end.
        status: ItemStatus,
    },
    /// The turn needs an answer and waits.
    InterruptRaised {
        /// The question.
        interrupt: Box<Interrupt>,
    },
    /// An interrupt has its answer.
    InterruptResolved {
        /// Which.
        interrupt_id: InterruptId,
        /// The tool call that had asked, if one had.
        call_id: Option<CallId>,
        /// The answer.
        answer: Answer,
        /// Author of the answer.
        by: AnsweredBy,
    },
    /// A model call was paid for.
    UsageUpdated {
        /// The step it belongs to, from 1.
        step: u32,
        /// The slot that was asked.
        slot: Slot,
        /// The model that answered.
        model: String,
        /// Usage of the call.
        usage: Usage,
        /// Usage of the turn so far.
        turn: Usage,
        /// The part of the request that repeated the one before it.
        prompt: Option<PromptReport>,
        /// Set if it sums up calls of sessions that worked for this one. Those count each of them, under their models.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        delegated: bool,
        /// Timing of the call; none where it sums up several calls, and in older journals.
        timing: Option<CallTiming>,
    },
    /// The intent of the turn's input was classified.
    IntentClassified {
        /// The intent.
        intent: Intent,
    },
    /// Another model continues the turn.
    ModelChosen {
        /// The slot.
        slot: Slot,
        /// The model's id, as its server knows it.
        model: String,
        /// The rule by which it was chosen.
        rule: ChoiceRule,
        /// Why, in a sentence.
        reason: String,
    },
    /// The session's state changed.
    StateChanged {
        /// The new state.
        change: StateChange,
    },
    /// Something that the person should know and that ends nothing: a retry, a cut answer.
    Warning {
        /// A stable code, such as `model_retry`.
        code: String,
        /// One sentence.
        message: String,
    },
    /// The turn is over.
    TurnEnded {
        /// Its result.
        result: Box<TurnResult>,
    },
}

impl EventKind {
    /// The stable name of the kind, as it is written in JSON.
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

    /// Returns whether the journal keeps it.
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
    /// The todo list was written.
    Todos {
        /// The whole list.
        todos: Vec<Todo>,
    },
    /// The session was named.
    Title {
        /// The name.
        title: String,
    },
    /// The session's settings were changed.
    Settings {
        /// All of them.
        settings: SessionSettings,
    },
    /// Turns wait behind the one that runs.
    Queue {
        /// The number.
        length: u32,
        /// The one that joined, so that it is not lost with the process. It leaves with its `TurnStarted`, even where
        /// it never runs. For the journal, not for readers.
        added: Option<Box<QueuedTurn>>,
    },
    /// The history was set aside: what came before is kept in the journal, but no model sees it. The files of the
    /// session's own state are gone with it.
    Reset,
    /// A file of the session's own state was written or removed.
    File(StateFileChange),
    /// A person handed a file over, of which the next turn's model is told.
    HandedOver {
        /// Its path, as tools write it.
        path: String,
        /// Picture for models, where it is one.
        picture: Option<Picture>,
    },
    /// The session goes on from a copy: all events before this one are another session's, with their numbers.
    Forked {
        /// That session.
        from: SessionId,
        /// The number of its last turn that was copied, from 1.
        turn: u64,
    },
    /// Another session works for a call of this one.
    Subagent(Subagent),
    /// Another agent works in the session from here on.
    Agent {
        /// Whom the session was handed to, one by the other; empty where the main agent works.
        stack: Vec<String>,
    },
    /// Tools were mentioned or found that turns of the session show from here on.
    Tools {
        /// All of them, in the order in which they came.
        names: Vec<String>,
    },
    /// Where the session works was found out: its instructions tell that from here on.
    Surroundings(Surroundings),
    /// The window has become fuller, or there is room again.
    TokenLevel {
        /// The level.
        level: TokenLevel,
        /// The tokens of the last request and its answer.
        tokens: u64,
        /// The tokens that they may have together.
        window: u64,
    },
    /// A compaction was undone: the model sees what it had replaced.
    Window {
        /// The window that it sees now.
        window: Window,
    },
    /// A person took back, with a cancel, what no model has answered or read: no model is shown these items.
    Withdrawn {
        /// Numbers of the events that completed them.
        items: Vec<u64>,
        /// The input of the turn, as it was typed, where it was taken back.
        input: Option<String>,
        /// Additions to the turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
    },
    /// A turn's changes of files were reverted, or brought back after that.
    Undone {
        /// The turn.
        turn_id: TurnId,
        /// It was brought back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
        /// The changes.
        files: Vec<FileChange>,
    },
}
