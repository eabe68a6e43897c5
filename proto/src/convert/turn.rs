//! What a turn is asked for and what it comes to.

use agentd_core::{
    answer_schema::AnswerSchema,
    environment::ClientEnvironment,
    error::ErrorKind,
    ids::CallId,
    routing::Planning,
    turn::{Denial, IfBusy, OnInterrupt, StartTurn, StopReason, TurnError, TurnOptions, TurnResult},
};

use super::{
    WireError, all, enum_to_wire, id, mirrored, model::optional_slot_to_wire, optional_enum, required, required_enum,
};
use crate::v1::{self, turn_request};

mirrored!(
    StopReason,
    "the reason of a turn's end",
    [
        Completed,
        Cancelled,
        MaxSteps,
        TimeLimit,
        Budget,
        Denied,
        Failed,
        Interrupted,
        Suspended,
        NoAnswer,
        Cut,
        Filtered,
        WrongForm,
        Loop
    ]
);

mirrored!(OnInterrupt, "what happens at an interrupt", [Wait, Approve, Deny, Fail]);

mirrored!(IfBusy, "what happens while a turn runs", [Refuse, Queue, Steer]);

/// The frame that starts a turn in a session that exists; the caller adds which one.
impl From<&StartTurn> for turn_request::Start {
    fn from(start: &StartTurn) -> Self {
        Self {
            session: String::new(),
            settings: None,
            title: None,
            text: start.text.clone(),
            typed_bytes: start.typed_bytes,
            whole: start.whole,
            answer_schema: start.answer_schema.as_ref().map(|schema| schema.text().to_owned()),
            compact: start.compact.map_or(0, enum_to_wire),
            slot: optional_slot_to_wire(start.slot),
            max_steps: start.max_steps.unwrap_or(0),
            planning: start.planning.map(|planning| planning.as_str().to_owned()),
            on_interrupt: enum_to_wire(start.on_interrupt),
            while_connected: start.while_connected,
            if_busy: enum_to_wire(start.if_busy),
            client: start.client.clone(),
            environment: start.environment.sent().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            variables: Default::default(),
            parts: Vec::new(),
            tools: start.tools.iter().map(Into::into).collect(),
            instructions: start.options.instructions.clone(),
            allowed_tools: start.options.allowed_tools.clone().map(|names| v1::ToolNames { names }),
            model: start.options.model.clone(),
            limits: limits_to_wire(&start.options),
            agent: start.options.agent.clone(),
            client_files: None,
            folders: Vec::new(),
        }
    }
}

fn limits_to_wire(options: &TurnOptions) -> Option<v1::TurnLimits> {
    let (time_ms, tokens) = (options.time_ms.unwrap_or(0), options.tokens.unwrap_or(0));
    (time_ms > 0 || tokens > 0).then_some(v1::TurnLimits { time_ms, tokens })
}

/// Which turns begin with a plan.
fn planning(name: Option<&str>) -> Result<Option<Planning>, WireError> {
    let odd = |_| WireError::Value { what: "planning", problem: "is auto, always or never" };
    name.map(|name| name.parse().map_err(odd)).transpose()
}

/// Start of a turn; the session, its settings and title, and the parts of its input are read by the caller.
impl TryFrom<turn_request::Start> for StartTurn {
    type Error = WireError;

    fn try_from(start: turn_request::Start) -> Result<Self, WireError> {
        let limits = start.limits.unwrap_or_default();
        let given = |number: u64| (number > 0).then_some(number);
        let options = TurnOptions {
            agent: start.agent,
            instructions: start.instructions,
            allowed_tools: start.allowed_tools.map(|allowed| allowed.names),
            model: start.model,
            slot: None,
            time_ms: given(limits.time_ms),
            tokens: given(limits.tokens),
        };
        Ok(Self {
            text: start.text,
            typed_bytes: start.typed_bytes,
            whole: start.whole,
            answer_schema: start.answer_schema.map(AnswerSchema::unjudged),
            compact: optional_enum(start.compact)?,
            slot: optional_enum(start.slot)?,
            max_steps: (start.max_steps > 0).then_some(start.max_steps),
            planning: planning(start.planning.as_deref())?,
            on_interrupt: optional_enum(start.on_interrupt)?.unwrap_or_default(),
            while_connected: start.while_connected,
            if_busy: optional_enum(start.if_busy)?.unwrap_or_default(),
            client: start.client,
            environment: ClientEnvironment::unjudged(start.environment),
            attached: Vec::new(),
            tools: all(start.tools)?,
            options,
        })
    }
}

/// A value of a turn's end, with a stand-in for one that only newer daemons know: an end is never skipped.
pub(crate) fn newer<T>(value: Result<T, WireError>, stand_in: T) -> Result<T, WireError> {
    if matches!(value, Err(WireError::Unknown(_))) { Ok(stand_in) } else { value }
}

impl From<&TurnResult> for v1::TurnResult {
    fn from(result: &TurnResult) -> Self {
        Self {
            turn_id: result.turn_id.to_string(),
            trace_id: result.trace_id.to_string(),
            text: result.text.clone(),
            tool_used: result.tool_used,
            stop_reason: enum_to_wire(result.stop_reason),
            error: result.error.as_ref().map(Into::into),
            steps: result.steps,
            usage: Some((&result.usage).into()),
            denials: result.denials.iter().map(Into::into).collect(),
            files: result.files.iter().map(Into::into).collect(),
            duration_ms: result.duration_ms,
            only_compacted: result.only_compacted,
        }
    }
}

impl TryFrom<v1::TurnResult> for TurnResult {
    type Error = WireError;

    fn try_from(result: v1::TurnResult) -> Result<Self, WireError> {
        Ok(Self {
            turn_id: id(&result.turn_id)?,
            trace_id: id(&result.trace_id)?,
            text: result.text,
            tool_used: result.tool_used,
            stop_reason: newer(required_enum(result.stop_reason), StopReason::Failed)?,
            error: result.error.map(TryInto::try_into).transpose()?,
            steps: result.steps,
            usage: required(result.usage, "the usage of a turn")?.into(),
            denials: result.denials.into_iter().map(Into::into).collect(),
            files: all(result.files)?,
            duration_ms: result.duration_ms,
            only_compacted: result.only_compacted,
        })
    }
}

impl From<&TurnError> for v1::TurnError {
    fn from(error: &TurnError) -> Self {
        Self { kind: enum_to_wire(error.kind), message: error.message.clone(), hint: error.hint.clone() }
    }
}

impl TryFrom<v1::TurnError> for TurnError {
    type Error = WireError;

    fn try_from(error: v1::TurnError) -> Result<Self, WireError> {
        Ok(Self {
            kind: newer(required_enum(error.kind), ErrorKind::Internal)?,
            message: error.message,
            hint: error.hint,
        })
    }
}

impl From<&Denial> for v1::Denial {
    fn from(denial: &Denial) -> Self {
        Self { call_id: denial.call_id.to_string(), tool: denial.tool.clone(), reason: denial.reason.clone() }
    }
}

impl From<v1::Denial> for Denial {
    fn from(denial: v1::Denial) -> Self {
        Self { call_id: CallId::from(denial.call_id), tool: denial.tool, reason: denial.reason }
    }
}
