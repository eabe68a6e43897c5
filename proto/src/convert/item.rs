//! Items.

use agentd_core::{
    context::Compaction,
    files::StoredInput,
    item::{Item, ItemBody, ItemStatus, NoticeSource, NoticeTopic},
};

use super::{WireError, enum_to_wire, id, mirrored, optional_enum, part};
use crate::{
    v1::{self, item},
    view::NumberedItem,
};

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

impl From<&Item> for v1::Item {
    fn from(item: &Item) -> Self {
        Self { id: item.id.to_string(), turn_id: item.turn_id.to_string(), body: Some((&item.body).into()) }
    }
}

impl TryFrom<v1::Item> for Item {
    type Error = WireError;

    fn try_from(item: v1::Item) -> Result<Self, WireError> {
        let body = item.body.ok_or(WireError::Unknown("an item"))?;
        // What only the daemon's models understand is not told to clients.
        Ok(Self { id: id(&item.id)?, turn_id: id(&item.turn_id)?, origin: None, body: body.try_into()? })
    }
}

impl From<&ItemBody> for item::Body {
    fn from(body: &ItemBody) -> Self {
        match body {
            ItemBody::UserMessage { text, steered, typed_bytes, stored } => Self::UserMessage(item::UserMessage {
                text: text.clone(),
                steered: *steered,
                typed_bytes: *typed_bytes,
                stored: stored.as_ref().map(Into::into),
            }),
            ItemBody::AgentMessage { text } => Self::AgentMessage(item::AgentMessage { text: text.clone() }),
            ItemBody::Reasoning { text } => Self::Reasoning(item::Reasoning { text: text.clone() }),
            ItemBody::ToolCall(call) => Self::ToolCall(call.into()),
            ItemBody::ToolResult(result) => Self::ToolResult(result.into()),
            ItemBody::Compaction(compaction) => Self::Compaction(item::Compaction {
                summary: compaction.summary.clone(),
                through: compaction.through,
                before: Some((&compaction.before).into()),
                report: Some((&compaction.report).into()),
            }),
            ItemBody::Notice { text, topic, sources, pictures } => Self::Notice(item::Notice {
                text: text.clone(),
                topic: enum_to_wire(*topic),
                sources: sources.iter().map(Into::into).collect(),
                pictures: pictures.iter().map(Into::into).collect(),
            }),
        }
    }
}

impl TryFrom<item::Body> for ItemBody {
    type Error = WireError;

    fn try_from(body: item::Body) -> Result<Self, WireError> {
        Ok(match body {
            item::Body::UserMessage(message) => Self::UserMessage {
                text: message.text,
                steered: message.steered,
                typed_bytes: message.typed_bytes,
                stored: message.stored.map(Into::into),
            },
            item::Body::AgentMessage(message) => Self::AgentMessage { text: message.text },
            item::Body::Reasoning(reasoning) => Self::Reasoning { text: reasoning.text },
            item::Body::ToolCall(call) => Self::ToolCall(call.into()),
            item::Body::ToolResult(result) => Self::ToolResult(result.try_into()?),
            item::Body::Compaction(compaction) => Self::Compaction(Compaction {
                summary: compaction.summary,
                through: compaction.through,
                before: compaction.before.map(Into::into).unwrap_or_default(),
                report: compaction.report.map(TryInto::try_into).transpose()?.unwrap_or_default(),
                // What the daemon needs for the next one is not told to clients.
                ..Compaction::default()
            }),
            item::Body::Notice(notice) => Self::Notice {
                text: notice.text,
                topic: optional_enum(notice.topic)?.unwrap_or_default(),
                sources: notice.sources.into_iter().map(Into::into).collect(),
                pictures: notice.pictures.into_iter().map(Into::into).collect(),
            },
        })
    }
}

impl From<&StoredInput> for item::StoredInput {
    fn from(stored: &StoredInput) -> Self {
        let StoredInput { path, bytes, lines, shown_bytes, shown_lines } = stored.clone();
        Self { path, bytes, lines, shown_bytes, shown_lines }
    }
}

impl From<item::StoredInput> for StoredInput {
    fn from(stored: item::StoredInput) -> Self {
        let item::StoredInput { path, bytes, lines, shown_bytes, shown_lines } = stored;
        Self { path, bytes, lines, shown_bytes, shown_lines }
    }
}

impl From<&NoticeSource> for item::NoticeSource {
    fn from(source: &NoticeSource) -> Self {
        Self {
            name: source.name.clone(),
            bytes: source.bytes,
            digest: source.digest.clone(),
            of_bytes: source.of_bytes,
        }
    }
}

impl From<item::NoticeSource> for NoticeSource {
    fn from(source: item::NoticeSource) -> Self {
        Self { name: source.name, bytes: source.bytes, digest: source.digest, of_bytes: source.of_bytes }
    }
}

impl From<&NumberedItem> for v1::NumberedItem {
    fn from(numbered: &NumberedItem) -> Self {
        Self { seq: numbered.seq, item: Some((&numbered.item).into()) }
    }
}

impl TryFrom<v1::NumberedItem> for NumberedItem {
    type Error = WireError;

    fn try_from(numbered: v1::NumberedItem) -> Result<Self, WireError> {
        Ok(Self { seq: numbered.seq, item: part(numbered.item, "the item")? })
    }
}
