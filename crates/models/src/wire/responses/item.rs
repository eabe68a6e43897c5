//! One item of the input, as it is written.

use std::borrow::Cow;

use agentd_core::model::ShownPicture;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

/// One item of the input.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum InputItem<'a> {
    /// One that is written here.
    Written(WireItem<'a>),
    /// Thoughts of an answer as they came.
    Thoughts(&'a RawValue),
    /// Another item of an answer as it came.
    AsItCame(&'a RawValue),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WireItem<'a> {
    Message {
        role: Role,
        content: Vec<Part<'a>>,
        /// The server's own word for its purpose.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<Cow<'a, str>>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Cow<'a, str>,
    },
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String, detail: &'static str },
    OutputText { text: Cow<'a, str> },
}

impl<'a> Part<'a> {
    pub(super) fn said(text: impl Into<Cow<'a, str>>) -> Self {
        Self::InputText { text: text.into() }
    }

    /// A picture whose bytes are there.
    pub(super) fn picture(shown: &ShownPicture) -> Option<Self> {
        let content = shown.content.as_ref()?;
        let image_url = format!("data:{};base64,{}", shown.picture.media_type, BASE64_STANDARD.encode(content));
        Some(Self::InputImage { image_url, detail: "auto" })
    }
}

impl<'a> InputItem<'a> {
    /// Words of the model.
    pub(super) fn answer(text: impl Into<Cow<'a, str>>, phase: Option<Cow<'a, str>>) -> Self {
        let content = vec![Part::OutputText { text: text.into() }];
        Self::Written(WireItem::Message { role: Role::Assistant, content, phase })
    }

    pub(super) fn is_thought(&self) -> bool {
        matches!(self, Self::Thoughts(_))
    }

    /// Returns whether a model can answer behind it.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Written(WireItem::Message { role: Role::User, .. } | WireItem::FunctionCallOutput { .. }))
    }
}
