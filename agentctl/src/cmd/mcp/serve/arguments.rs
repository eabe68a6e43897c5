//! What callers send: arguments of the tools. Whatever does not fit is told, and nothing is guessed.

use std::num::NonZeroU32;

use agentd_core::{
    model::Slot,
    turn::{IfBusy, OnInterrupt},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Arguments of `ask`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The input; none continues a turn that was interrupted.
    pub(super) prompt: Option<String>,
    /// The session to go on with; none begins one.
    pub(super) session_id: Option<String>,
    /// The slot.
    pub(super) model: Option<Slot>,
    /// The folder that the session sees as `/project`.
    pub(super) folder: Option<String>,
    /// The steps that the turn may take.
    pub(super) max_steps: Option<NonZeroU32>,
    /// Behaviour at an interrupt.
    #[serde(default)]
    pub(super) on_interrupt: AtInterrupt,
    /// Behaviour while another turn runs in the session.
    #[serde(default)]
    pub(super) if_busy: WhenBusy,
}

/// Behaviour at an interrupt. There is no word for granting everything: that would be a yes by silence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AtInterrupt {
    /// The turn waits.
    #[default]
    Wait,
    /// It is refused, and the turn goes on.
    Deny,
    /// The turn ends.
    Fail,
}

impl From<AtInterrupt> for OnInterrupt {
    fn from(choice: AtInterrupt) -> Self {
        match choice {
            AtInterrupt::Wait => Self::Wait,
            AtInterrupt::Deny => Self::Deny,
            AtInterrupt::Fail => Self::Fail,
        }
    }
}

/// Behaviour while another turn runs in the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenBusy {
    /// It is told, and nothing else happens.
    #[default]
    Refuse,
    /// The input waits.
    Queue,
}

impl From<WhenBusy> for IfBusy {
    fn from(choice: WhenBusy) -> Self {
        match choice {
            WhenBusy::Refuse => Self::Refuse,
            WhenBusy::Queue => Self::Queue,
        }
    }
}

/// Arguments of `answer`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// The interrupt.
    pub(super) interrupt_id: String,
    /// The decision.
    pub(super) decision: Decision,
    /// The words, for a question.
    pub(super) text: Option<String>,
    /// Reason of a rejection, for the model.
    pub(super) reason: Option<String>,
    /// Other arguments, for an edit.
    pub(super) args: Option<Map<String, Value>>,
    /// Time to wait for somebody else's answer.
    pub(super) wait_seconds: Option<u64>,
}

/// Answer to an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    /// It may run.
    Approve,
    /// It may not.
    Reject,
    /// It may run with other arguments.
    Edit,
    /// The answer to a question.
    Text,
    /// Nothing is answered: somebody else does.
    Wait,
}

/// Arguments of `search_documents`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// The session whose documents are searched.
    pub(super) session_id: String,
    /// Words, phrases in quotes, or a regular expression.
    pub(super) query: String,
    /// Files and folders; all where there are none.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    /// Set if the query is a regular expression.
    #[serde(default)]
    pub(super) regex: bool,
    /// Finds at the most.
    pub(super) limit: Option<usize>,
}

/// Arguments of `list_sessions`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Sessions at the most.
    pub(super) limit: Option<usize>,
}

/// Reads the arguments of a tool.
///
/// # Errors
/// When they do not fit; the message says where.
pub(super) fn read<T: DeserializeOwned>(tool: &str, arguments: Option<Map<String, Value>>) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments.unwrap_or_default())).map_err(|error| {
        Failure::usage(format!("the arguments of {tool} do not fit: {error}"))
            .hint("the input schema of the tool says what it takes; the call did nothing")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Option<Map<String, Value>> {
        value.as_object().cloned()
    }

    #[test]
    fn what_is_left_out_is_as_careful_as_can_be() {
        let ask: Ask = read("ask", object(json!({"prompt": "Hi"}))).unwrap();
        assert_eq!((ask.on_interrupt, ask.if_busy), (AtInterrupt::Wait, WhenBusy::Refuse));
        assert_eq!((ask.session_id, ask.model, ask.folder, ask.max_steps), (None, None, None, None));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        #[track_caller]
        fn check<T: DeserializeOwned + std::fmt::Debug>(arguments: Value, said: &str) {
            let failure = read::<T>("it", object(arguments)).unwrap_err();
            assert!(failure.message.contains(said) && failure.hint.is_some(), "{failure:?}");
        }
        check::<Ask>(json!({"prompt": 3}), "expected a string");
        check::<Ask>(json!({"prompt": "x", "on_interrupt": "approve"}), "unknown variant `approve`");
        check::<Ask>(json!({"promt": "x"}), "unknown field `promt`");
        check::<Ask>(json!({"prompt": "x", "model": "huge"}), "unknown variant `huge`");
        check::<Ask>(json!({"prompt": "x", "max_steps": 0}), "nonzero");
        check::<Answer>(json!({"interrupt_id": "x"}), "missing field `decision`");
        check::<Answer>(json!({"interrupt_id": "x", "decision": "always"}), "unknown variant `always`");
        check::<Search>(json!({"query": "x"}), "missing field `session_id`");
        check::<List>(json!({"limit": -1}), "invalid value");
    }
}
