//! Origin of a model's output: the model, and opaque fields of its server's answer that only this model understands.
//!
//! The fields are sent back unchanged, byte for byte, to the model that produced them, and never to another model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::CallId;

/// Maximum size of the stored fields of one answer, in bytes. Fields beyond this size are dropped completely, because
/// servers reject partial ones.
pub const MAX_SERVER_FIELDS: usize = 1 << 20;

/// Maximum length of a stored call ID from a server, in bytes. The limit is high because some gateways encode
/// signatures in IDs. Longer IDs are treated as missing.
pub const MAX_SERVER_CALL_ID: usize = 64 << 10;

/// Opaque fields of a server's answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFields {
    /// The server's ID for the call. Empty if the server did not send one. May occur more than once in a session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call_id: String,
    /// Field `extra_content` of the call as JSON (Gemini's thought signature).
    pub extra_content: Option<String>,
    /// Field `reasoning_details` of the answer as JSON (OpenRouter's format for signed and encrypted reasoning).
    pub reasoning_details: Option<String>,
    /// Blocks of the answer in order, as JSON in the format of the wire protocol. They include signed reasoning and all
    /// other blocks that a server requires back at the same position.
    pub blocks: Option<String>,
}

impl ServerFields {
    /// Returns true if there are fields for the whole answer.
    pub fn has_answer_fields(&self) -> bool {
        self.reasoning_details.is_some() || self.blocks.is_some()
    }
}

/// Origin of a single item.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOrigin {
    /// Name of the model, as returned by [`model_origin`].
    pub model: String,
    /// Opaque fields from the server.
    #[serde(flatten)]
    pub fields: ServerFields,
}

/// Origin of one message from a model, assembled from the origins of its items.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerOrigin {
    /// Origins of the message's calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<(CallId, Arc<ItemOrigin>)>,
    /// Origin that contains the fields for the whole answer.
    pub whole: Option<Arc<ItemOrigin>>,
    /// Reasoning that is not sent back, because the model is not known to need it. Some servers only reveal this need
    /// by rejecting a request.
    pub unsent_reasoning: Option<String>,
    /// Model that produced the reasoning. The reasoning is not sent to other models.
    pub thinker: Option<String>,
}

impl AnswerOrigin {
    /// Returns true if the origin is unknown.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.whole.is_none() && self.unsent_reasoning.is_none() && self.thinker.is_none()
    }

    /// Returns true if the reasoning is known to come from another model.
    pub fn has_foreign_reasoning(&self, model: &str) -> bool {
        self.thinker.as_deref().is_some_and(|thinker| thinker != model)
    }

    /// Returns the fields of a call if that model produced the call.
    pub fn of_call(&self, id: &CallId, model: &str) -> Option<&ServerFields> {
        let (_, origin) = self.calls.iter().find(|(call, _)| call == id)?;
        (origin.model == model).then_some(&origin.fields)
    }

    /// Returns the `reasoning_details` if that model produced the answer.
    pub fn details_of(&self, model: &str) -> Option<&str> {
        self.whole_of(model)?.reasoning_details.as_deref()
    }

    /// Returns the blocks of the answer if that model produced the answer.
    pub fn blocks_of(&self, model: &str) -> Option<&str> {
        self.whole_of(model)?.blocks.as_deref()
    }

    fn whole_of(&self, model: &str) -> Option<&ServerFields> {
        self.whole.as_ref().filter(|origin| origin.model == model).map(|origin| &origin.fields)
    }
}

/// Returns the name of a model in an origin, which consists of the model's ID and its server's address. The same ID at
/// another address denotes another model.
pub fn model_origin(id: &str, address: &str) -> String {
    let address = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
    format!("{id}@{}", address.trim_end_matches('/'))
}
