//! Learning from refusals: a request that a server does not take is tried in another form, and what helped is kept.
//!
//! - this file: the changes that a request can have; `refusal`: which of them may help, by one rule for all servers, and which is tried
//!   next. All of it is pure.

mod refusal;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{ChangeTopic, Message, ModelRequest, ShownPicture},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use self::refusal::{Refusal, SentParts, Trials, candidates};
use crate::config::ModelConfig;

/// One deviation from the usual form of requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// Tools that must not be called are not named.
    WithoutNamedTools,
    /// Earlier thoughts are sent back.
    EchoReasoning,
    /// Earlier thoughts are not sent back, though the configuration says so.
    WithoutEcho,
    /// Signed thoughts are not sent back. Holds for one conversation only, and is not kept.
    WithoutSignedThoughts,
    /// Calls are written into and read from the text.
    TextTools,
    /// The limit of the answer goes by its newer name.
    MaxCompletionTokens,
    /// Words of the person behind a tool's result stand in the message of that result.
    WordsInResults,
    /// Answers may have so many tokens, where nobody has set another limit.
    AnswerLimit(u64),
    /// A field of the body is left out.
    WithoutField(String),
    /// The tool of that name is left out.
    WithoutTool(String),
    /// No pictures are sent.
    WithoutPictures,
    /// The picture of that fingerprint is not sent.
    WithoutPicture(u64),
    /// The schema of that fingerprint stands in the words alone: another one may be taken.
    WithoutSchema(u64),
}

impl Change {
    /// Part of requests that it is about.
    pub(crate) fn topic(&self) -> ChangeTopic {
        match self {
            Self::WithoutNamedTools | Self::TextTools | Self::WithoutTool(_) => ChangeTopic::Tools,
            Self::WithoutPictures | Self::WithoutPicture(_) => ChangeTopic::Pictures,
            Self::EchoReasoning | Self::WithoutEcho | Self::WithoutSignedThoughts => ChangeTopic::Thoughts,
            Self::MaxCompletionTokens
            | Self::WordsInResults
            | Self::AnswerLimit(_)
            | Self::WithoutField(_)
            | Self::WithoutSchema(_) => ChangeTopic::Parameters,
        }
    }

    /// Returns whether it says something of the model, and not of one conversation.
    pub(crate) fn is_lasting(&self) -> bool {
        *self != Self::WithoutSignedThoughts
    }

    /// Number of refusals after which it is remembered. What a model loses by it must have been refused twice, by chance or by
    /// one odd request it may be refused once; a single picture is not sent a second time.
    pub(crate) fn needed(&self) -> u32 {
        if matches!(self, Self::TextTools | Self::WithoutTool(_) | Self::WithoutPictures) { 2 } else { 1 }
    }

    /// Returns whether a record of it can be believed.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::WithoutField(name) => !name.is_empty() && name.len() <= RequestForm::MAX_FIELD && name.is_ascii(),
            Self::AnswerLimit(tokens) => *tokens > 0,
            Self::WithoutTool(name) => name.len() <= RequestForm::MAX_TOOL && !name.contains(char::is_control),
            _ => self.is_lasting(),
        }
    }
}

/// The change in words, behind "asking again".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutNamedTools => f.write_str("without tools, as those that may not be called may be refused"),
            Self::EchoReasoning => f.write_str("with the model's earlier thoughts, which the server demands"),
            Self::WithoutEcho => f.write_str("without the model's earlier thoughts, which the server refuses"),
            Self::WithoutSignedThoughts => f.write_str(
                "without the model's earlier thoughts, which the server does not take in this conversation any more",
            ),
            Self::TextTools => f.write_str("with tools in the text, as their own field may be refused"),
            Self::WithoutTool(name) => write!(f, "without the tool {name}, which the server may refuse"),
            Self::WithoutPictures => f.write_str("without pictures, which the server refuses"),
            Self::WithoutPicture(_) => f.write_str("without a picture that the server may refuse"),
            Self::WordsInResults => {
                f.write_str("with the person's words in the result before them, as the server wants the roles in turns")
            }
            Self::AnswerLimit(tokens) => {
                write!(f, "with answers of at most {tokens} tokens, which is all that the server takes")
            }
            Self::WithoutSchema(_) => {
                f.write_str("with the schema of the answer in words, as its field may be refused")
            }
            Self::MaxCompletionTokens => f.write_str("with max_completion_tokens instead of max_tokens"),
            Self::WithoutField(name) => write!(f, "without {name}, which the server may refuse"),
        }
    }
}

/// Fingerprint of a part of requests, the same after the next start.
fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Fingerprint of a picture.
pub(crate) fn picture_fingerprint(shown: &ShownPicture) -> Option<u64> {
    shown.content.as_ref().map(hash_of)
}

/// Stands in for pictures that are not sent.
const UNSEEN: &str = "(Not all of these pictures are shown: the server of the model refused them.)";

/// Fingerprint of a schema.
pub(crate) fn fingerprint(schema: &AnswerSchema) -> u64 {
    hash_of(&schema.text())
}

/// All deviations that hold for a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestForm(pub(crate) BTreeSet<Change>);

impl RequestForm {
    /// The longest name of a field that is left out, in bytes.
    pub(crate) const MAX_FIELD: usize = 64;
    /// The longest name of a tool that is left out, in bytes.
    pub(crate) const MAX_TOOL: usize = 256;

    /// Returns whether the change is a part of it.
    pub(crate) fn has(&self, change: &Change) -> bool {
        self.0.contains(change)
    }

    /// Returns whether the schema may be sent in its field.
    pub(crate) fn takes_schema(&self, schema: &AnswerSchema) -> bool {
        !self.has(&Change::WithoutSchema(fingerprint(schema)))
    }

    /// The tokens that an answer may have, as far as the server has refused more.
    pub(crate) fn answer_limit(&self) -> Option<u64> {
        let limits = self.0.iter().filter_map(|change| match change {
            Change::AnswerLimit(tokens) => Some(*tokens),
            _ => None,
        });
        limits.min()
    }

    /// Returns whether a field of the body may be sent.
    pub(crate) fn sends(&self, field: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutField(name) if name == field))
    }

    /// The configured fields of the body that may be sent.
    pub(crate) fn configured(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        fields.clone().into_iter().filter(|(field, _)| self.sends(field)).collect()
    }

    /// Returns true if a tool of that name may be sent.
    pub(crate) fn sends_tool(&self, tool: &str) -> bool {
        !self.0.iter().any(|change| matches!(change, Change::WithoutTool(name) if name == tool))
    }

    /// Returns true if a picture may be sent.
    pub(crate) fn shows(&self, picture: &ShownPicture) -> bool {
        let is_refused = |print| self.has(&Change::WithoutPicture(print));
        !self.has(&Change::WithoutPictures) && !picture_fingerprint(picture).is_some_and(is_refused)
    }

    /// The request without the pictures that the server refuses.
    pub(crate) fn shown<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let mut request = Cow::Borrowed(request);
        if !self.0.iter().any(|change| matches!(change, Change::WithoutPictures | Change::WithoutPicture(_))) {
            return request;
        }
        let has_pictures = |message: &Message| matches!(message, Message::Pictures { .. });
        if request.messages.iter().any(has_pictures) {
            request.to_mut().messages.iter_mut().for_each(|message| self.show(message));
        }
        request
    }

    fn show(&self, message: &mut Message) {
        let Message::Pictures { text, pictures } = message else { return };
        let named = pictures.len();
        pictures.retain(|picture| self.shows(picture));
        if pictures.len() < named {
            text.push_str(&format!("\n\n{UNSEEN}"));
        }
        if pictures.is_empty() {
            *message = Message::User { text: std::mem::take(text) };
        }
    }

    /// Returns whether tool calls travel in the wire's own fields.
    pub(crate) fn native_tools(&self, config: &ModelConfig) -> bool {
        config.uses_native_tools() && !self.has(&Change::TextTools)
    }

    /// Returns whether earlier thoughts are sent back.
    pub(crate) fn echoes(&self, config: &ModelConfig) -> bool {
        (config.echo_reasoning || self.has(&Change::EchoReasoning)) && !self.has(&Change::WithoutEcho)
    }
}
