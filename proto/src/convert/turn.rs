//! Conversions for the start and the result of a turn, its input, and its requests to the client.

use agentd_core::{
    answer_schema::AnswerSchema,
    client_file::{ClientFileAnswer, ClientFileRequest, FileAction},
    client_tool::{ClientTool, ClientToolCall},
    environment::ClientEnvironment,
    error::ErrorKind,
    input::{InputPart, LineRange, PictureData, Selection},
    routing::Planning,
    turn::{Denial, IfBusy, OnInterrupt, StartTurn, StopReason, TurnError, TurnOptions, TurnResult},
};

use super::{Wire, WireError, by_name, json, mirrored, or_default};
use crate::v1::{
    self,
    event::{FileRequested, ToolRequested, file_requested},
    input_part as wire,
    turn_request::{self, FileAnswer, file_answer},
};

mirrored! {
    StopReason, "the stop reason", [
        Completed, Cancelled, MaxSteps, TimeLimit, Budget, Denied, Failed, Interrupted, Suspended, NoAnswer, Cut,
        Filtered, WrongForm, Loop
    ]
}
mirrored!(OnInterrupt, "the handling of interrupts", [Wait, Approve, Deny, Fail]);
mirrored!(IfBusy, "the handling of a busy session", [Refuse, Queue, Steer]);

mirrored! { ClientToolCall as ToolRequested: call_id name arguments }
mirrored! { Denial as v1::Denial: call_id tool reason }
mirrored! { ClientTool as v1::ClientTool }
mirrored! { LineRange as wire::LineRange: first last }
mirrored! { Selection as wire::Selection: uri lines text }
mirrored! { PictureData as wire::Picture: name media_type, content = data "the data of a picture" }
mirrored! { TurnError as v1::TurnError: message hint ! kind (ErrorKind::Internal) }
mirrored! {
    TurnResult as v1::TurnResult:
        turn_id trace_id text tool_used error steps denials files duration_ms only_compacted,
        usage = usage "the usage of a turn" ! stop_reason (StopReason::Failed)
}

by_name! {
    Planning: |planning| planning.as_str().to_owned(), |name, field| {
        name.parse().map_err(|_| WireError::Value { field, problem: "must be auto, always or never" })
    };
}

/// Frame that starts a turn. The caller sets the session.
impl From<&StartTurn> for turn_request::Start {
    fn from(start: &StartTurn) -> Self {
        Self {
            text: start.text.clone(),
            typed_bytes: start.typed_bytes,
            whole: start.whole,
            answer_schema: start.answer_schema.as_ref().map(|schema| schema.text().to_owned()),
            compact: start.compact.to_wire(),
            slot: start.slot.to_wire(),
            max_steps: start.max_steps.unwrap_or(0),
            planning: start.planning.to_wire(),
            on_interrupt: start.on_interrupt.to_wire(),
            while_connected: start.while_connected,
            if_busy: start.if_busy.to_wire(),
            generate_title: start.generate_title,
            client: start.client.clone(),
            environment: start.environment.sent().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            tools: start.tools.to_wire(),
            instructions: start.options.instructions.clone(),
            allowed_tools: start.options.allowed_tools.clone().map(|names| v1::ToolNames { names }),
            model: start.options.model.clone(),
            limits: limits_to_wire(&start.options),
            agent: start.options.agent.clone(),
            ..Self::default()
        }
    }
}

fn limits_to_wire(options: &TurnOptions) -> Option<v1::TurnLimits> {
    let (time_ms, tokens) = (options.time_ms.unwrap_or(0), options.tokens.unwrap_or(0));
    (time_ms > 0 || tokens > 0).then_some(v1::TurnLimits { time_ms, tokens })
}

/// Options of a turn. The caller converts the session with its settings and title, and the parts of the input.
impl TryFrom<turn_request::Start> for StartTurn {
    type Error = WireError;

    fn try_from(start: turn_request::Start) -> Result<Self, WireError> {
        let limits = start.limits.unwrap_or_default();
        let non_zero = |number: u64| (number > 0).then_some(number);
        let options = TurnOptions {
            agent: start.agent,
            instructions: start.instructions,
            allowed_tools: start.allowed_tools.map(|allowed| allowed.names),
            model: start.model,
            slot: None,
            time_ms: non_zero(limits.time_ms),
            tokens: non_zero(limits.tokens),
        };
        Ok(Self {
            text: start.text,
            typed_bytes: start.typed_bytes,
            whole: start.whole,
            answer_schema: start.answer_schema.map(AnswerSchema::unchecked),
            compact: Wire::from_wire(start.compact, "the strategy of a compaction")?,
            slot: Wire::from_wire(start.slot, "the model slot")?,
            max_steps: (start.max_steps > 0).then_some(start.max_steps),
            planning: Wire::from_wire(start.planning, "planning")?,
            on_interrupt: or_default(start.on_interrupt, "the handling of interrupts")?,
            while_connected: start.while_connected,
            if_busy: or_default(start.if_busy, "the handling of a busy session")?,
            generate_title: start.generate_title,
            client: start.client,
            environment: ClientEnvironment::unchecked(start.environment),
            attached: Vec::new(),
            tools: super::all(start.tools)?,
            options,
        })
    }
}

/// Replaces a value in a turn's end that only newer daemons define, because the end of a turn must not be skipped.
pub(crate) fn newer<T>(value: Result<T, WireError>, stand_in: T) -> Result<T, WireError> {
    if matches!(value, Err(WireError::Unknown(_))) { Ok(stand_in) } else { value }
}

/// Splits the parts of an input into the texts and all other parts, in order.
///
/// # Errors
/// Fails if a part is of an unknown kind.
pub fn input_parts(parts: Vec<v1::InputPart>) -> Result<(Vec<String>, Vec<InputPart>), WireError> {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for part in parts {
        others.push(match part.part.ok_or(WireError::Unknown("a part of the input"))? {
            wire::Part::Text(text) => {
                texts.push(text);
                continue;
            }
            wire::Part::Picture(picture) => InputPart::Picture(picture.try_into()?),
            wire::Part::File(wire::File { name, data }) => InputPart::File { name, content: data },
            wire::Part::Selection(selection) => InputPart::Selection(selection.try_into()?),
        });
    }
    Ok((texts, others))
}

impl From<InputPart> for v1::InputPart {
    fn from(part: InputPart) -> Self {
        let part = match part {
            InputPart::Picture(picture) => wire::Part::Picture(picture.to_wire()),
            InputPart::File { name, content } => wire::Part::File(wire::File { name, data: content }),
            InputPart::Selection(selection) => wire::Part::Selection(selection.to_wire()),
        };
        Self { part: Some(part) }
    }
}

impl From<&ClientTool> for v1::ClientTool {
    fn from(tool: &ClientTool) -> Self {
        let effect = if tool.only_looks { v1::ClientToolEffect::Looks } else { v1::ClientToolEffect::Changes };
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters_json: tool.parameters.to_string(),
            effect: effect.into(),
        }
    }
}

impl TryFrom<v1::ClientTool> for ClientTool {
    type Error = WireError;

    fn try_from(tool: v1::ClientTool) -> Result<Self, WireError> {
        let effect = v1::ClientToolEffect::try_from(tool.effect)
            .map_err(|_| WireError::Unknown("the effect of a tool of the client"))?;
        let parameters = match tool.parameters_json.trim() {
            "" => serde_json::json!({"type": "object", "properties": {}}),
            schema => json(schema, "the schema of a tool of the client")?,
        };
        let only_looks = effect == v1::ClientToolEffect::Looks;
        Ok(Self { name: tool.name, description: tool.description, parameters, only_looks })
    }
}

impl From<ClientFileRequest> for FileRequested {
    fn from(ClientFileRequest { id, path, action }: ClientFileRequest) -> Self {
        let action = match action {
            FileAction::Read => file_requested::Action::Read(file_requested::Read {}),
            FileAction::Write(text) => file_requested::Action::Write(file_requested::Write { text }),
        };
        Self { request_id: id, path, action: Some(action) }
    }
}

impl TryFrom<FileRequested> for ClientFileRequest {
    type Error = WireError;

    fn try_from(FileRequested { request_id, path, action }: FileRequested) -> Result<Self, WireError> {
        let action = match action {
            Some(file_requested::Action::Read(_)) => FileAction::Read,
            Some(file_requested::Action::Write(write)) => FileAction::Write(write.text),
            None => return Err(WireError::Unknown("the action of a question about a client's file")),
        };
        Ok(Self { id: request_id, path, action })
    }
}

/// Creates the frame that answers a file request.
pub(crate) fn file_answer(request_id: &str, answer: ClientFileAnswer) -> FileAnswer {
    let outcome = match answer {
        ClientFileAnswer::Text(text) => file_answer::Outcome::Text(text),
        ClientFileAnswer::Written => file_answer::Outcome::Written(file_answer::Written {}),
        ClientFileAnswer::Absent => file_answer::Outcome::Absent(file_answer::Absent {}),
        ClientFileAnswer::Refused(why) => file_answer::Outcome::Error(why),
    };
    FileAnswer { request_id: request_id.to_owned(), outcome: Some(outcome) }
}

/// Returns the answer in a frame.
pub fn answered_file(answer: FileAnswer) -> ClientFileAnswer {
    match answer.outcome {
        Some(file_answer::Outcome::Text(text)) => ClientFileAnswer::Text(text),
        Some(file_answer::Outcome::Written(_)) => ClientFileAnswer::Written,
        Some(file_answer::Outcome::Absent(_)) => ClientFileAnswer::Absent,
        Some(file_answer::Outcome::Error(why)) => ClientFileAnswer::Refused(why),
        None => ClientFileAnswer::Refused(String::new()),
    }
}
