//! Events and items.

use agentd_core::{
    agent::Subagent,
    context::Compaction,
    event::{Event, EventKind, StateChange},
    files::StoredInput,
    item::{Item, ItemBody, ItemStatus, NoticeSource, NoticeTopic},
    routing::{ChoiceRule, Intent, IntentKind},
    state_files::StateFileChange,
    surroundings::Surroundings,
};

use super::{Wire, WireError, by_name, choices, mirrored};
use crate::{
    v1::{
        self,
        event::{self as wire, state_changed},
        item,
    },
    view::NumberedItem,
};

mirrored! {
    Event as v1::Event: session_id turn_id seq, at = at "the time of an event", kind = kind "an event"
}

by_name! {
    ChoiceRule: |rule| rule.as_str().to_owned(), |name, _| Ok(Self::named(name));
    IntentKind: |kind| kind.as_str().to_owned(), |name, _| Ok(Self::named(name));
}

// An event of a kind that is not known here, or about something of such a kind, gives `WireError::Unknown`.
choices! { EventKind as wire::Kind, wire, "an event" {
    TurnStarted {
        trace_id slot model reason rule max_steps compacts
        .. environment: Default::default(), handed_over: Vec::new(), answer_schema: None, options: None
    },
    ItemStarted { , item = item "the item" },
    ItemDelta { item_id offset text },
    ItemCompleted { status, item = item "the item" },
    InterruptRaised { , interrupt = interrupt "the interrupt" },
    InterruptResolved { interrupt_id call_id, answer = answer "the answer", by = by "who answered" },
    UsageUpdated {
        step slot model prompt delegated timing, usage = usage "the usage of a call", turn = turn "the usage of a turn"
    },
    StateChanged { change },
    Warning { code message },
    IntentClassified [intent],
    ModelChosen { slot model rule reason },
    TurnEnded { , result = result "the result of a turn" },
}
    // Those are no facts of the session: its stream has them beside the events.
    wire::Kind::ToolRequested(_) => "a call of a client's tool",
    wire::Kind::FileRequested(_) => "a question about a client's file",
}

impl Wire<wire::IntentClassified> for Intent {
    fn to_wire(&self) -> wire::IntentClassified {
        let Self { kind, confidence, reason, complex, by } = self.clone();
        wire::IntentClassified { kind: kind.to_wire(), confidence: confidence.into(), reason, complex, by }
    }

    fn from_wire(wire: wire::IntentClassified, what: &'static str) -> Result<Self, WireError> {
        let wire::IntentClassified { kind, confidence, reason, complex, by } = wire;
        let confidence = u8::try_from(confidence).unwrap_or(100).min(100);
        Ok(Self { kind: Wire::from_wire(kind, what)?, confidence, reason, complex, by })
    }
}

/// The messages of changes, by the names of their variants.
mod change {
    pub(super) use crate::v1::event::state_changed::{
        Agent, Forked, Queue, Reset, Todos, TokenLevelChange as TokenLevel, Tools, Undone, Withdrawn,
    };
}

// What waits, and what is shown of a picture, is for the daemon to know.
choices! { StateChange as state_changed::Change, change, "a change of state" {
    Todos { todos },
    Title [title],
    Settings [settings],
    Queue { length .. added: None },
    Reset {},
    File(file),
    HandedOver [path .. picture: None],
    Forked { from turn },
    Agent { stack },
    Tools { names },
    Surroundings(found),
    Subagent(subagent),
    TokenLevel { level tokens window },
    Window [window],
    Withdrawn { items input added },
    Undone { turn_id redo files },
} }

mirrored! { StateFileChange as state_changed::StateFile: path content }
mirrored! { Surroundings as state_changed::Surroundings: project client start text }
mirrored! {
    Subagent as state_changed::Subagent: call_id session_id name task, after = after_seq "the last event before"
}

mirrored!(ItemStatus, "the status of an item", [Done, Cut, Unknown]);
mirrored!(
    NoticeTopic,
    "the topic of a notice",
    [
        General,
        Memory,
        Skills,
        Files,
        Todos,
        Mode,
        Level,
        Mentions,
        LastAnswer,
        Continue,
        ReadAgain,
        Recall,
        Pins,
        Advice,
        AnswerForm,
        Plan,
        Planned,
        TurnInstructions,
        Diagnostics,
        CodeMap,
        Interrupted,
        FolderMemory,
        Repetition
    ]
);

// What only the daemon's models understand, and what it needs for the next compaction, does not travel.
mirrored! { Item as v1::Item: id turn_id body .. origin: None }
choices! { ItemBody as item::Body, item, "an item" {
    UserMessage { text steered typed_bytes stored },
    AgentMessage { text },
    Reasoning { text },
    ToolCall(call),
    ToolResult(result),
    Compaction(compaction),
    Notice { text sources pictures ? topic },
} }
mirrored! {
    Compaction as item::Compaction:
        summary through ? before ? report .. file: Default::default(), offloaded: Vec::new(), restores: None
}
mirrored! { StoredInput as item::StoredInput: path bytes lines shown_bytes shown_lines }
mirrored! { NoticeSource as item::NoticeSource: name bytes digest of_bytes }
mirrored! { NumberedItem as v1::NumberedItem: seq, item = item "the item" }
