//! Interrupts: durable pauses that need an answer from a person.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{CallId, InterruptId, SessionId, TurnId},
    policy::Risk,
};

/// A pause that is stored before anybody is asked, survives clients and restarts, and is answered once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its id.
    pub id: InterruptId,
    /// The session that waits.
    pub session_id: SessionId,
    /// The turn that waits.
    pub turn_id: TurnId,
    /// The tool call that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
    /// When it was asked.
    pub raised_at: Timestamp,
    /// When [`Interrupt::on_deadline`] is taken for the answer, if ever.
    pub deadline: Option<Timestamp>,
    /// The answer that is taken when nobody gave one in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_deadline: Option<Answer>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// May this tool run?
    Approval {
        /// The tool's name.
        tool: String,
        /// Its arguments; a text where they are no JSON.
        args: Value,
        /// How much harm it may do.
        risk: Risk,
        /// Why it is asked.
        reason: String,
        /// What would happen, for people: a unified diff or a command line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<String>,
        /// The exact rule that `always` would keep for the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<String>,
    },
    /// The model asks the person.
    Question {
        /// The question.
        question: String,
        /// What it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// The answer that is taken where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
        /// Whether an empty answer is refused.
        required: bool,
    },
}

/// An answer to an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Run it.
    Approve,
    /// Do not.
    Reject {
        /// What the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Run it, and do not ask again in this session for what [`Ask::Approval`] named as its grant.
    Always,
    /// Run it with these arguments instead.
    Edit {
        /// The new arguments.
        args: Value,
    },
    /// The answer to a question.
    Text {
        /// The words.
        text: String,
    },
}

impl Answer {
    /// Why this answer does not fit what was asked, if it does not. The sentence says what fits.
    #[must_use]
    pub fn misfit(&self, ask: &Ask) -> Option<&'static str> {
        match (ask, self) {
            (Ask::Approval { .. }, Self::Text { .. }) => {
                Some("this asks for an approval; answer approve, reject, always or edit")
            }
            (Ask::Approval { .. }, Self::Edit { args }) if !args.is_object() => {
                Some("edited arguments must be a JSON object")
            }
            (Ask::Question { required: true, default: None, .. }, Self::Text { text }) if text.trim().is_empty() => {
                Some("this question needs an answer that is not empty")
            }
            (Ask::Question { .. }, Self::Approve | Self::Always | Self::Edit { .. }) => {
                Some("this is a question; answer it with a text, or reject it")
            }
            _ => None,
        }
    }
}

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A client, by the name that it gave, such as `agentctl`.
    Client(String),
    /// Nobody, in time.
    Deadline,
    /// The daemon, because the turn ended first.
    Daemon,
}
