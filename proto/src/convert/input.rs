//! Input of a client beside its words: parts of the input, and tools of its own.

use agentd_core::{
    client_tool::{ClientTool, ClientToolCall},
    input::{InputPart, LineRange, PictureData, Selection},
};

use super::{WireError, json};
use crate::v1::{self, event::ToolRequested, input_part as wire};

/// The parts of an input: its words, and all else in order.
///
/// # Errors
/// When there is one of a kind that is not known here.
pub fn input_parts(parts: Vec<v1::InputPart>) -> Result<(Vec<String>, Vec<InputPart>), WireError> {
    let (mut words, mut others) = (Vec::new(), Vec::new());
    for part in parts {
        others.push(match part.part.ok_or(WireError::Unknown("a part of the input"))? {
            wire::Part::Text(text) => {
                words.push(text);
                continue;
            }
            wire::Part::Picture(picture) => InputPart::Picture(picture.into()),
            wire::Part::File(wire::File { name, data }) => InputPart::File { name, content: data },
            wire::Part::Selection(wire::Selection { uri, lines, text }) => {
                let lines = lines.map(|wire::LineRange { first, last }| LineRange { first, last });
                InputPart::Selection(Selection { uri, lines, text })
            }
        });
    }
    Ok((words, others))
}

impl From<InputPart> for v1::InputPart {
    fn from(part: InputPart) -> Self {
        let part = match part {
            InputPart::Picture(picture) => wire::Part::Picture(picture.into()),
            InputPart::File { name, content } => wire::Part::File(wire::File { name, data: content }),
            InputPart::Selection(Selection { uri, lines, text }) => {
                let lines = lines.map(|LineRange { first, last }| wire::LineRange { first, last });
                wire::Part::Selection(wire::Selection { uri, lines, text })
            }
        };
        Self { part: Some(part) }
    }
}

impl From<PictureData> for wire::Picture {
    fn from(PictureData { name, media_type, content }: PictureData) -> Self {
        Self { data: content, media_type, name }
    }
}

impl From<wire::Picture> for PictureData {
    fn from(wire::Picture { data, media_type, name }: wire::Picture) -> Self {
        Self { name, media_type, content: data }
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

impl From<ClientToolCall> for ToolRequested {
    fn from(ClientToolCall { call_id, name, arguments }: ClientToolCall) -> Self {
        Self { call_id, name, arguments }
    }
}

impl From<ToolRequested> for ClientToolCall {
    fn from(ToolRequested { call_id, name, arguments }: ToolRequested) -> Self {
        Self { call_id, name, arguments }
    }
}
