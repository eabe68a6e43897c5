//! Turns: what a client asks for, how a turn ends and what it returns.

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
    /// The input. None continues a turn that a stop of the daemon, a cancel or a limit ended.
    pub text: Option<String>,
    /// The bytes at the beginning of the input that the person typed, where not all of it was typed: the rest came through a
    /// pipe, and whatever it says is no word of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_bytes: Option<u64>,
    /// The input is refused where it does not fit into the model's window, instead of being kept in a file that the model
    /// is told of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The form that the answer has to be in. One that continues a turn has that turn's form where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// The turn compacts the history in this way, and does nothing else. It has no input then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<CompactionStrategy>,
    /// The slot to use; the session's own, or routing, decides where absent.
    pub slot: Option<Slot>,
    /// The steps that the turn may take; the model's default where absent.
    pub max_steps: Option<u32>,
    /// Says whether it begins with a plan; the configuration decides where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<Planning>,
    /// Behaviour at an interrupt.
    pub on_interrupt: OnInterrupt,
    /// That holds while whoever started the turn is connected. Once they are gone the turn waits for answers, so that a client
    /// that is dead approves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_connected: bool,
    /// Behaviour when a turn is already running.
    pub if_busy: IfBusy,
    /// The client's name, such as `agentctl`, for the audit.
    pub client: String,
    /// The client's environment as tools see it.
    #[serde(default, skip_serializing_if = "ClientEnvironment::is_empty")]
    pub environment: ClientEnvironment,
    /// Parts of the input beside its words, as they are kept. No client writes these: they are made of what it gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedPart>,
    /// Tools that the client answers itself, as long as it is connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Wishes for this turn alone.
    #[serde(default, skip_serializing_if = "TurnOptions::is_default")]
    pub options: TurnOptions,
}

/// Wishes of a client for one turn. Stored with its start, so that they hold after a restart, too.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// The agent that works in it, and in later turns of the session; the session's own where absent.
    pub agent: Option<String>,
    /// Instructions for the model.
    pub instructions: Option<String>,
    /// The tools that it may use; all where absent.
    pub allowed_tools: Option<Vec<String>>,
    /// The id of a model on the server of `slot`; the session's where absent.
    pub model: Option<String>,
    /// The slot of that model. No client writes it: it is settled when the start is taken.
    pub slot: Option<Slot>,
    /// Time that it may work, in milliseconds, where that is less than what is configured.
    pub time_ms: Option<u64>,
    /// Tokens that it may take, where they are fewer than what is configured.
    pub tokens: Option<u64>,
}

/// Length of a turn's own instructions at the most, in bytes.
pub const MAX_TURN_INSTRUCTIONS: usize = 64 << 10;

impl TurnOptions {
    /// Returns whether nothing is wished.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// These wishes, and those of another turn where they say nothing.
    #[must_use]
    pub fn or(self, before: Self) -> Self {
        // The slot belongs to the model.
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
    /// Takes note that whoever asked for it is gone.
    pub fn client_is_gone(&mut self) {
        if self.while_connected {
            self.on_interrupt = OnInterrupt::Wait;
        }
    }
}

/// A turn that waits behind another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedTurn {
    /// Its id, which the client knows already.
    pub turn_id: TurnId,
    /// The start.
    pub start: StartTurn,
}

/// Behaviour when a turn needs an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// It is stored and asked; the turn waits, for days if need be.
    #[default]
    Wait,
    /// Approvals are granted, as if a person had said yes to each; questions get their default.
    Approve,
    /// It is refused, the model is told, the turn goes on and lists it.
    Deny,
    /// The turn ends.
    Fail,
}

/// Treatment of a start while a turn is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfBusy {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits its turn.
    Queue,
    /// Its text is added to the running turn.
    Steer,
}

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The turn.
    pub turn_id: TurnId,
    /// Ties it to logs and traces.
    pub trace_id: TraceId,
    /// The answer; what there was of it where the turn did not complete.
    pub text: String,
    /// Set if any tool ran.
    pub tool_used: bool,
    /// Why the turn ended.
    pub stop_reason: StopReason,
    /// The error, where it failed or the answer is in the wrong form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// Model calls, the last answer's included.
    pub steps: u32,
    /// Usage of the model calls.
    pub usage: Usage,
    /// Denied calls.
    pub denials: Vec<Denial>,
    /// The files that were changed, each once.
    pub files: Vec<FileChange>,
    /// Duration of the turn, waiting for people included, in milliseconds.
    pub duration_ms: u64,
    /// Set if it compacted the history, or tried to, and did nothing else: then what came before it can be continued as
    /// if it had not been.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_compacted: bool,
}

impl TurnResult {
    /// The result of a turn that ended so and did nothing.
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

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model gave its answer.
    Completed,
    /// A client cancelled it.
    Cancelled,
    /// It took as many steps as it might.
    MaxSteps,
    /// It took as long as it might.
    TimeLimit,
    /// It took as many tokens as it might.
    Budget,
    /// An approval was needed and the client had said to fail.
    Denied,
    /// Something broke; the error says what.
    Failed,
    /// The daemon was killed or crashed while it ran. It can be continued.
    Interrupted,
    /// The daemon was told to stop while it ran. It can be continued.
    Suspended,
    /// The model gave no answer that could be used, though it was asked again: neither words nor a call that could be run.
    NoAnswer,
    /// The answer was cut by the token limit, or because it repeated itself, and asking for the rest did not help.
    Cut,
    /// The provider withheld the answer, or the rest of it.
    Filtered,
    /// The answer does not match the schema that the client gave, though it was asked for again. The error says where.
    WrongForm,
    /// The model repeated the same calls with the same results, though it was told so.
    Loop,
}

impl StopReason {
    /// Returns whether a start without input may go on from here.
    #[must_use]
    pub fn can_continue(self) -> bool {
        !matches!(self, Self::Completed)
    }

    /// Returns whether the model had its say, however little it was.
    #[must_use]
    pub fn is_last_word(self) -> bool {
        matches!(self, Self::Completed | Self::NoAnswer | Self::Cut | Self::Filtered | Self::WrongForm)
    }
}

/// Error of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// Message: what was attempted and what came of it.
    pub message: String,
    /// Hint on what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A turn that the daemon found open when it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredTurn {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Calls that ran to their end and are not run again.
    pub finished: Vec<String>,
    /// Calls that never ran.
    pub never_ran: Vec<String>,
    /// Calls that ran when the daemon stopped: they may have taken effect or not.
    pub unknown: Vec<String>,
    /// Set if the turn waits for an answer, or continues with one that was given, instead of being ended.
    pub goes_on: bool,
}
