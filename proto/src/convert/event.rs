//! Conversions for events and items.
//!
//! Also for tools, their calls and results.

use agentd_core::{
    agent::Subagent,
    catalogue::{CatalogueTool, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    context::Compaction,
    event::{Event, EventKind, StateChange},
    files::StoredInput,
    item::{Item, ItemBody, ItemStatus, NoticeSource, NoticeTopic},
    routing::{ChoiceRule, Intent, IntentKind},
    state_files::StateFileChange,
    surroundings::Surroundings,
    tool::{
        Effect, FileChange, FileChangeKind, PrintedText, ToolCall, ToolDetails, ToolErrorCode, ToolResult, ToolSpec,
    },
};

use crate::{
    convert::{Wire, WireError, by_name, choices, mirrored},
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
    ChoiceRule: |rule| rule.as_str().to_owned(), |name, _| Ok(Self::from_name(name).unwrap_or_default());
    IntentKind: |kind| kind.as_str().to_owned(), |name, _| Ok(Self::from_name(name).unwrap_or_default());
}

// Events of an unknown kind, or with content of an unknown kind, return `WireError::Unknown`.
choices! { EventKind as wire::Kind, wire, "an event" {
    TurnStarted {
        trace_id slot model reason rule max_steps compacts
        .. environment: Default::default(), handed_over: Vec::new(), answer_schema: None, options: None
    },
    ItemStarted { , item = item "the item" },
    ItemDelta { item_id offset text },
    ItemCompleted { status, item = item "the item" },
    InterruptRaised { , interrupt = interrupt "the interrupt" },
    InterruptResolved { interrupt_id call_id, answer = answer "the answer", by = by "the answerer" },
    UsageUpdated {
        step slot model prompt delegated timing, usage = usage "the usage of a call", turn = turn "the usage of a turn"
    },
    StateChanged { change },
    Warning { code message retry_in_ms },
    IntentClassified [intent],
    ModelChosen { slot model rule reason },
    TurnEnded { , result = result "the result of a turn" },
}
    // These frames are not session events; they are only sent in the stream of the turn.
    wire::Kind::ToolRequested(_) => "a call of a client's tool",
    wire::Kind::FileRequested(_) => "a question about a client's file",
}

impl Wire<wire::IntentClassified> for Intent {
    fn to_wire(&self) -> wire::IntentClassified {
        let Self { kind, confidence, reason, complex, by } = self.clone();
        wire::IntentClassified { kind: kind.to_wire(), confidence: confidence.into(), reason, complex, by }
    }

    fn from_wire(wire: wire::IntentClassified, field: &'static str) -> Result<Self, WireError> {
        let wire::IntentClassified { kind, confidence, reason, complex, by } = wire;
        let confidence = u8::try_from(confidence).unwrap_or(100).min(100);
        Ok(Self { kind: Wire::from_wire(kind, field)?, confidence, reason, complex, by })
    }
}

/// Messages for changes, named like the enum variants.
mod change {
    pub(super) use crate::v1::event::state_changed::{
        Agent, Forked, Queue, Reset, Todos, TokenLevelChange as TokenLevel, Tools, Undone, Withdrawn,
    };
}

// Queued turns and pictures for models are internal to the daemon.
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
mirrored! {
    NoticeTopic, "the topic of a notice", [
        General, Memory, Skills, Files, Todos, Mode, Level, Mentions, LastAnswer, Continue, ReadAgain, Recall, Pins,
        Advice, AnswerForm, Plan, Planned, TurnInstructions, Diagnostics, CodeMap, Interrupted, FolderMemory, Repetition
    ]
}

// Opaque data from models and data for the next compaction are not sent.
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

mirrored!(Effect, "the effect of a tool", [Read, State, Write, Execute, Network]);
mirrored!(ToolTier, "the tier of a tool", [Core, Enabled, Discovered, Off]);
mirrored! {
    ToolErrorCode, "the code of a tool error", [
        InvalidArgs, UnknownTool, Tool, Timeout, Denied, Path, Cancelled, NotRun, UnknownOutcome
    ]
}
mirrored!(FileChangeKind, "the kind of a file change", [Created, Modified, Deleted]);

mirrored! { ToolSpec as v1::ToolSpec: name description effect, parameters = parameters_json "the schema of a tool" }
mirrored! { ToolCall as v1::ToolCall: call_id name arguments }
mirrored! {
    ToolResult as v1::ToolResult:
        call_id name text error files ran_with duration_ms exit_code details
        .. takes_back: None, found: Vec::new(), pictures: Vec::new(), said: None, unchanged: None
}
mirrored! {
    FileChange as v1::FileChange:
        path change .. before: None, after: None, project: None, late: false, shared: None
}
mirrored! { ToolDetails as v1::ToolDetails: stdout stderr diff stored own_bytes }
mirrored! { PrintedText as v1::PrintedText: text bytes cut tail }

/// Prefix of an MCP server's name.
const OF_SERVER: &str = "mcp:";

by_name! {
    ToolOrigin: |origin| match origin {
        Self::BuiltIn => "built_in".to_owned(),
        Self::Conversation => "conversation".to_owned(),
        Self::Mcp { server } => format!("{OF_SERVER}{server}"),
    }, |origin, _| match (origin, origin.strip_prefix(OF_SERVER)) {
        ("built_in", _) => Ok(Self::BuiltIn),
        ("conversation", _) => Ok(Self::Conversation),
        (_, Some(server)) => Ok(Self::Mcp { server: server.to_owned() }),
        _ => Err(WireError::Unknown("the origin of a tool")),
    };
}

impl From<&ToolStanding> for v1::ToolStanding {
    fn from(standing: &ToolStanding) -> Self {
        let ToolStanding { tool: CatalogueTool { spec, origin, label, .. }, visible, why } = standing;
        let ToolLabel { tier, always_available, category, tags } = label.clone();
        Self {
            tool: spec.to_wire(),
            origin: origin.to_wire(),
            tier: tier.to_wire(),
            always_available,
            category,
            tags,
            visible: *visible,
            why: why.clone(),
        }
    }
}

impl TryFrom<v1::ToolStanding> for ToolStanding {
    type Error = WireError;

    fn try_from(standing: v1::ToolStanding) -> Result<Self, WireError> {
        let v1::ToolStanding { tool, origin, tier, always_available, category, tags, visible, why } = standing;
        let origin = Wire::from_wire(origin, "the origin of a tool")?;
        let label = ToolLabel { tier: Wire::from_wire(tier, "the tier")?, always_available, category, tags };
        let spec = Wire::from_wire(tool, "a tool")?;
        let tool = CatalogueTool { spec, origin, label, stands_for: None, foreign: None };
        Ok(Self { tool, visible, why })
    }
}
