//! What callers send: arguments of the tools, whose comments callers read. Whatever does not fit is told, and nothing is
//! guessed.

use std::num::NonZeroU32;

use agentd_core::{
    model::Slot,
    turn::{IfBusy, OnInterrupt},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Gives a task or a question to an agent of agentd and waits for its answer. The agent can read, write, run commands and
/// search, as far as its rules and its person allow.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    #[schemars(
        description = "What to ask or tell the agent. Leave it out, with a session_id, to continue a turn that was interrupted."
    )]
    pub(super) prompt: Option<String>,
    /// Session to resume, by id or unique prefix. Omit it to start a new one.
    pub(super) session_id: Option<String>,
    /// The model slot. Leave it out to have one chosen.
    #[schemars(with = "Option<String>", extend("enum" = Slot::ALL))]
    pub(super) model: Option<Slot>,
    /// A folder that the agent sees as /project: the one that this server was started with, or one below it. Leave it out
    /// for that one.
    pub(super) folder: Option<String>,
    /// The steps that the turn may take.
    pub(super) max_steps: Option<NonZeroU32>,
    /// If a person is needed: wait for them (default), deny it and continue, or end the turn.
    #[serde(default)]
    pub(super) on_interrupt: AtInterrupt,
    /// If a turn of the session is running: refuse (default), or queue behind it.
    #[serde(default)]
    pub(super) if_busy: WhenBusy,
}

/// Behaviour at an interrupt: the turn waits, or it is refused and the turn goes on, or the turn ends. There is no word for
/// granting everything: that would be a yes by silence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AtInterrupt {
    #[default]
    Wait,
    Deny,
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

/// Behaviour while another turn runs in the session: it is told and nothing else happens, or the input waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenBusy {
    #[default]
    Refuse,
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

/// Answers what a turn waits for, and returns how the turn went on: its end, or what it waits for next.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    #[schemars(description = "What is answered, as `ask` or `list_sessions` named it.")]
    pub(super) interrupt_id: String,
    /// approve, reject or edit (run it with other args) an approval; answer a question with text, or reject it; or wait
    /// until another client has answered. Approving is for a person: they are asked, or told how.
    pub(super) decision: Decision,
    /// The answer to a question.
    pub(super) text: Option<String>,
    /// Reason for a rejection, shown to the agent.
    pub(super) reason: Option<String>,
    /// All arguments that an edit lets the tool run with.
    pub(super) args: Option<Map<String, Value>>,
    /// With wait: seconds to wait; default 30.
    #[schemars(range(max = 600))]
    pub(super) wait_seconds: Option<u64>,
}

/// Answer to an interrupt: it may run, it may not, it may run with other arguments, the answer to a question, or none,
/// because somebody else answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    Approve,
    Reject,
    Edit,
    Text,
    Wait,
}

/// Finds passages in the documents of a session (PDF, Word, Excel, PowerPoint, text), each with the page to cite.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Session to search, by id or unique prefix.
    pub(super) session_id: String,
    /// Words, "words in quotes" together, or a regular expression.
    pub(super) query: String,
    /// Files or folders of the session, such as uploads/report.pdf. Leave it out for all.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    #[serde(default)]
    #[schemars(description = "Whether the query is a regular expression.")]
    pub(super) regex: bool,
    /// Maximum number of results; default 10.
    #[schemars(range(min = 1, max = 50))]
    pub(super) limit: Option<usize>,
}

/// Lists the sessions that you can resume, and what each waits for.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Maximum number of sessions; default 20.
    #[schemars(range(min = 1, max = 100))]
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
