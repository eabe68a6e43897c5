//! Turns: the client's request, the end of a turn, and the result.

use serde::{Deserialize, Serialize};

pub use crate::tool::Denial;
use crate::{
    answer_schema::AnswerSchema,
    client_tool::ClientTool,
    context::CompactionStrategy,
    environment::ClientEnvironment,
    error::ErrorKind,
    ids::{SessionId, TraceId, TurnId},
    input::AttachedPart,
    model::Slot,
    routing::Planning,
    tool::FileChange,
    usage::Usage,
};

/// A request to start a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTurn {
    /// Input of the turn. `None` continues a turn that was ended by a daemon stop, a cancel or a limit.
    pub text: Option<String>,
    /// Number of leading bytes of the input that the user typed, if the user did not type all of the input. The rest
    /// came through a pipe, and must not be treated as the user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_bytes: Option<u64>,
    /// True if an input that exceeds the model's window is rejected. Otherwise, the input is stored in a file, and the
    /// model gets the path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Schema that the answer must match. A continued turn inherits the schema if this field is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Strategy for a turn that only compacts the history. Excludes an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<CompactionStrategy>,
    /// Slot of the model. `None` uses the session's slot, or routing.
    pub slot: Option<Slot>,
    /// Maximum number of steps. `None` uses the model's default.
    pub max_steps: Option<u32>,
    /// Setting for plans. `None` uses the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<Planning>,
    /// Behaviour at an interrupt.
    pub on_interrupt: OnInterrupt,
    /// True if `on_interrupt` applies only while the client that started the turn is connected. After a disconnect, the
    /// turn waits for answers, so that a disconnected client approves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_connected: bool,
    /// Behaviour if a turn is already running.
    pub if_busy: IfBusy,
    /// True if the session's model makes a title for the session after its first turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generate_title: bool,
    /// Name of the client, such as `agentctl`, for the audit log.
    pub client: String,
    /// Environment of the client as passed to tools.
    #[serde(default, skip_serializing_if = "ClientEnvironment::is_empty")]
    pub environment: ClientEnvironment,
    /// Attachments as stored. The daemon fills this in from the attachments that the client sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedPart>,
    /// Tools that the client answers itself while it is connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Options for this turn only.
    #[serde(default, skip_serializing_if = "TurnOptions::is_default")]
    pub options: TurnOptions,
}

/// Options of a client for one turn. Stored with the turn's start, so that the options survive a restart.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// Agent for this turn and later turns of the session. `None` keeps the session's agent.
    pub agent: Option<String>,
    /// Additional instructions for the model.
    pub instructions: Option<String>,
    /// Tools that the turn may use. `None` for all.
    pub allowed_tools: Option<Vec<String>>,
    /// Id of a model on the server of `slot`. `None` for the session's model.
    pub model: Option<String>,
    /// Slot of the chosen model. The daemon fills in the slot when it accepts the `StartTurn`.
    pub slot: Option<Slot>,
    /// Time limit in milliseconds, if lower than the configured one.
    pub time_ms: Option<u64>,
    /// Token limit, if lower than the configured one.
    pub tokens: Option<u64>,
}

/// Maximum length of a turn's own instructions, in bytes.
pub const MAX_TURN_INSTRUCTIONS: usize = 64 << 10;

impl TurnOptions {
    /// Returns true if no option is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Merges with the options of another turn. Options of `self` take precedence.
    #[must_use]
    pub fn or(self, before: Self) -> Self {
        // The slot belongs to the model, so both come from the same turn.
        let (model, slot) = if self.model.is_some() { (self.model, self.slot) } else { (before.model, before.slot) };
        Self {
            agent: self.agent.or(before.agent),
            instructions: self.instructions.or(before.instructions),
            allowed_tools: self.allowed_tools.or(before.allowed_tools),
            model,
            slot,
            time_ms: self.time_ms.or(before.time_ms),
            tokens: self.tokens.or(before.tokens),
        }
    }
}

impl StartTurn {
    /// Records that the client has disconnected.
    pub fn note_disconnect(&mut self) {
        if self.while_connected {
            self.on_interrupt = OnInterrupt::Wait;
        }
    }
}

/// A turn that is queued while another one runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedTurn {
    /// Id of the turn, already reported to the client.
    pub turn_id: TurnId,
    /// Request that starts the turn.
    pub start: StartTurn,
}

/// Behaviour if a turn needs an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// Stores and asks the question. The turn waits, for days if necessary.
    #[default]
    Wait,
    /// Grants approvals as if a user had approved each. Questions get their default answer.
    Approve,
    /// Denies the call. The model is notified, the turn continues, and the turn's result lists the denial.
    Deny,
    /// Ends the turn with [`StopReason::Denied`].
    Fail,
}

/// Behaviour of a [`StartTurn`] while a turn is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfBusy {
    /// Rejects the request with an error.
    #[default]
    Refuse,
    /// Queues the turn after the running one.
    Queue,
    /// Adds the request's text to the running turn.
    Steer,
}

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Id that links the turn to logs and traces.
    pub trace_id: TraceId,
    /// Answer, or the incomplete answer if the turn did not complete.
    pub text: String,
    /// True if any tool ran.
    pub tool_used: bool,
    /// Reason why the turn ended.
    pub stop_reason: StopReason,
    /// Error, if the turn failed or the answer does not match its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// Number of model calls, including the last answer.
    pub steps: u32,
    /// Usage of the model calls.
    pub usage: Usage,
    /// Calls that were denied.
    pub denials: Vec<Denial>,
    /// Files that were changed, each once.
    pub files: Vec<FileChange>,
    /// Duration of the turn in milliseconds, including the time spent waiting for users.
    pub duration_ms: u64,
    /// True if the turn only compacted the history, or tried to. The previous turn can then be continued as if this
    /// turn had not happened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_compacted: bool,
}

impl TurnResult {
    /// Creates the result for a turn that did nothing.
    pub fn new(turn_id: TurnId, trace_id: TraceId, stop_reason: StopReason) -> Self {
        Self {
            turn_id,
            trace_id,
            text: String::new(),
            tool_used: false,
            stop_reason,
            error: None,
            steps: 0,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 0,
            only_compacted: false,
        }
    }
}

/// Reason why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model gave its answer.
    Completed,
    /// A client cancelled the turn.
    Cancelled,
    /// The step limit was reached.
    MaxSteps,
    /// The time limit was reached.
    TimeLimit,
    /// The token limit of the turn was reached.
    Budget,
    /// An approval was needed, and the client had chosen to fail.
    Denied,
    /// An error occurred, described in `error`.
    Failed,
    /// The daemon was killed or crashed during the turn. The turn can be continued.
    Interrupted,
    /// The daemon was shut down during the turn. The turn can be continued.
    Suspended,
    /// The model gave no usable answer, neither text nor a valid call, even when asked again.
    NoAnswer,
    /// The answer was cut off by the token limit or by a repetition, and requesting the rest failed.
    Cut,
    /// The provider withheld the answer, or the rest of the answer.
    Filtered,
    /// The answer does not match the client's schema even when asked again. The error contains the position.
    WrongForm,
    /// The model repeated the same calls with the same results, even after a notice about the repetition.
    Loop,
}

impl StopReason {
    /// Returns true if a start without input may continue the turn.
    #[must_use]
    pub fn can_continue(self) -> bool {
        !matches!(self, Self::Completed)
    }

    /// Returns true if the turn ended with the model's own answer, even an empty or incomplete one.
    #[must_use]
    pub fn is_model_answer(self) -> bool {
        matches!(self, Self::Completed | Self::NoAnswer | Self::Cut | Self::Filtered | Self::WrongForm)
    }
}

/// Error of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    /// Kind of the error, for programs.
    pub kind: ErrorKind,
    /// Message that states what was attempted and how it failed.
    pub message: String,
    /// Hint on how to fix the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A turn that was open when the daemon started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredTurn {
    /// Session of the turn.
    pub session_id: SessionId,
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Calls that completed and are not run again.
    pub finished: Vec<String>,
    /// Calls that never ran.
    pub never_ran: Vec<String>,
    /// Calls that were running when the daemon stopped. These calls may or may not have taken effect.
    pub unknown: Vec<String>,
    /// True if the turn waits for an answer, or continues with one, and was not ended.
    pub goes_on: bool,
}
