//! Interrupts: durable pauses that need an answer from a person.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    grant::GrantScope,
    ids::{CallId, InterruptId, SessionId, TurnId},
    policy::{Layer, Risk},
};

/// Beginning of the result of a call that was refused; the reason follows.
pub const REFUSED: &str = "refused: ";
/// End of such a result: advice for the model.
pub const AFTER_REFUSAL: &str = "Do not try the same again; ask, or go another way";

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
    /// For whom it is asked.
    #[serde(default)]
    pub asked_by: AskedBy,
    /// The question.
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

/// For whom a person is asked, as far as it is known.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// The agent; `main` for a session's own.
    pub agent: String,
    /// The name that the session had.
    pub session_title: Option<String>,
    /// The client that had started the turn, by the name that it gave.
    pub client: Option<String>,
}

impl Default for AskedBy {
    fn default() -> Self {
        Self { agent: "main".to_owned(), session_title: None, client: None }
    }
}

impl AskedBy {
    /// Returns whether it is for a session's own agent, in a turn that this client started.
    pub fn is_own(&self, client: &str) -> bool {
        self.agent == "main" && self.client.as_deref().is_none_or(|started_by| started_by == client)
    }
}

/// Whose a tool is that is somebody else's, as it stood when a person was asked about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The rule that covers any call of the tool: it names the MCP server and the tool.
    pub rule: String,
    /// Distinguishes the server's entry in the configuration from another one under the same name.
    pub entry: String,
}

/// A question.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// May this tool run?
    Approval {
        /// The tool's name.
        tool: String,
        /// Its arguments; a text where they are no JSON.
        args: Value,
        /// Its risk.
        risk: Risk,
        /// Why it is asked.
        reason: String,
        /// Preview for people: a unified diff or a command line.
        preview: Option<String>,
        /// The layer of the rules that made it a question; not known of what older versions asked.
        layer: Option<Layer>,
        /// The rule that made it a question.
        rule: Option<String>,
        /// The exact rules that `always` would keep, one for each part that needs one; empty where no rule could be
        /// exact, and then `always` is no answer.
        #[serde(default, alias = "grant", deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
        grants: Vec<String>,
        /// Rules that reach further, one of which a person may keep instead; the last reaches furthest. Empty where there
        /// are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        wider: Vec<String>,
        /// Permanent forms of the exact rules: each names the folder that it was asked for, so that it means no other
        /// one in another session. Empty where they are the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        for_good: Vec<String>,
        /// Whose tool it is, where it is somebody else's; not known of what older versions asked.
        owner: Option<Box<Owner>>,
    },
    /// The model asks the person.
    Question {
        /// The question.
        question: String,
        /// Its subject.
        context: Option<String>,
        /// The answer that is taken where none is given.
        default: Option<String>,
        /// Set if an empty answer is refused.
        required: bool,
        /// Answers to choose from. Another one is taken, too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
        /// Set if the answer is a secret, such as a password: nothing shows it, and nothing stores it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        secret: bool,
    },
}

impl Ask {
    /// The tool that the approval of a plan names, and the argument that has its words. There is no tool of that name.
    pub const PLAN: &str = "plan";

    /// The tool that the question about set-aside files names: files that others run or obey, and that a command wrote which
    /// nobody looked at. There is no tool of that name.
    pub const KEEP: &str = "keep_files";

    /// The question about a plan.
    pub fn of_plan(plan: &str) -> Self {
        Self::Approval {
            tool: Self::PLAN.to_owned(),
            args: serde_json::json!({ Self::PLAN: plan }),
            risk: Risk::Medium,
            reason: "the turn begins with a plan: nothing is changed before it is approved".to_owned(),
            preview: Some(plan.to_owned()),
            layer: None,
            rule: None,
            grants: Vec::new(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        }
    }

    /// The plan that it asks about, where it does.
    pub fn plan(&self) -> Option<&str> {
        match self {
            Self::Approval { tool, args, .. } if tool == Self::PLAN => args.get(Self::PLAN)?.as_str(),
            _ => None,
        }
    }

    /// Returns whether the answer is a secret. Only a person gives one, and only whoever asked learns it.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Question { secret: true, .. })
    }

    /// Prefix of every question that an MCP server asks. Its name follows.
    pub const OF_MCP_SERVER: &str = "The MCP server ";

    /// Returns whether one of the wider rules can be kept for good. A rule by prefix means commands in whatever folder a
    /// session works in, so it is kept for one session only.
    pub fn is_for_good(rule: &str) -> bool {
        !rule.ends_with(" *")
    }

    /// Answers to choose from; none for an approval.
    pub fn choices(&self) -> &[String] {
        match self {
            Self::Question { choices, .. } => choices,
            Self::Approval { .. } => &[],
        }
    }

    /// The answer that a person means: the choice of that number, counted from 1, or the text itself. A text that is a
    /// choice to the letter is that one, also where it is a number.
    pub fn chosen<'a>(&'a self, text: &'a str) -> &'a str {
        let (choices, typed) = (self.choices(), text.trim());
        let at = || typed.parse::<usize>().ok()?.checked_sub(1);
        match choices.iter().find(|choice| *choice == typed).or_else(|| choices.get(at()?)) {
            Some(choice) => choice,
            None => text,
        }
    }

    /// Returns whether an MCP server asks. It wants a person to agree to something, which is more than the question of
    /// a model: no model may answer it. A model that begins its own question like this only loses that it can be
    /// answered by another.
    pub fn is_of_mcp_server(&self) -> bool {
        matches!(self, Self::Question { question, .. } if question.starts_with(Self::OF_MCP_SERVER))
    }
}

/// An answer to an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Run it.
    Approve,
    /// Do not.
    Reject {
        /// Reason for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Run it, and do not ask again for what [`Ask::Approval`] named as its grants.
    Always {
        /// Their scope.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        scope: GrantScope,
    },
    /// Run it, and keep one of the rules that [`Ask::Approval`] named as wider.
    Keep {
        /// The rule, to the letter.
        rule: String,
        /// Its scope.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        scope: GrantScope,
    },
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
    /// The answer as it is stored and told to others than whoever asked.
    pub fn shown(&self, ask: &Ask) -> Self {
        match self {
            Self::Text { .. } if ask.is_secret() => Self::Text { text: Self::SECRET.to_owned() },
            answer => answer.clone(),
        }
    }

    /// The text that stands in the place of a secret.
    pub const SECRET: &str = "(not shown)";

    /// Why this answer does not fit what was asked, if it does not. The sentence says what fits.
    pub fn misfit(&self, ask: &Ask) -> Option<&'static str> {
        match (ask, self) {
            (Ask::Approval { .. }, Self::Text { .. }) => {
                Some("this asks for an approval; answer approve, reject, always or edit")
            }
            (Ask::Approval { grants, .. }, Self::Always { .. }) if grants.is_empty() => {
                Some("no rule could name exactly this, so there is nothing to keep; answer approve, reject or edit")
            }
            (Ask::Approval { wider, .. }, Self::Keep { rule, .. }) if !wider.contains(rule) => {
                Some("this rule is none of those that the question names; answer approve, reject, always or edit")
            }
            (Ask::Approval { .. }, Self::Keep { rule, scope: GrantScope::ForGood }) if !Ask::is_for_good(rule) => {
                Some("this rule covers commands in any folder, so it can be kept for this session only")
            }
            (Ask::Approval { .. }, Self::Edit { args })
                if ask.plan().is_some()
                    && args.get(Ask::PLAN).and_then(Value::as_str).is_none_or(|plan| plan.trim().is_empty()) =>
            {
                Some(r#"a changed plan is an object with its words: {"plan": "1. …"}"#)
            }
            (Ask::Approval { tool, .. }, Self::Edit { .. }) if tool == Ask::KEEP => {
                Some("these files can be kept as they are shown, or not; answer approve or reject")
            }
            (Ask::Approval { .. }, Self::Edit { args }) if !args.is_object() => {
                Some("edited arguments must be a JSON object")
            }
            (Ask::Question { required: true, default: None, .. }, Self::Text { text }) if text.trim().is_empty() => {
                Some("this question needs an answer that is not empty")
            }
            (Ask::Question { .. }, Self::Approve | Self::Always { .. } | Self::Keep { .. } | Self::Edit { .. }) => {
                Some("this is a question; answer it with a text, or reject it")
            }
            _ => None,
        }
    }

    /// The rules that it keeps of those that were named, and how far they reach; none where it keeps nothing.
    pub fn kept<'a>(&'a self, ask: &'a Ask) -> Option<(&'a [String], GrantScope)> {
        match (ask, self) {
            (Ask::Approval { for_good, .. }, Self::Always { scope: GrantScope::ForGood }) if !for_good.is_empty() => {
                Some((for_good, GrantScope::ForGood))
            }
            (Ask::Approval { grants, .. }, Self::Always { scope }) => Some((grants, *scope)),
            (Ask::Approval { wider, .. }, Self::Keep { rule, scope }) if wider.contains(rule) => {
                Some((std::slice::from_ref(rule), *scope))
            }
            _ => None,
        }
    }
}

/// Author of an answer.
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

impl AnsweredBy {
    /// The name of the client, where a client answered.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Client(name) => Some(name),
            Self::Deadline | Self::Daemon => None,
        }
    }
}

/// Older versions kept one rule, or none.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<Form>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Form::One(rule)) => vec![rule],
        Some(Form::Many(rules)) => rules,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_is_meant_by_its_number_or_by_its_words() {
        let ask = |choices: &[&str]| Ask::Question {
            secret: false,
            question: "Which?".to_owned(),
            context: None,
            default: None,
            required: true,
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        };
        let check = |choices: &[&str], typed: &str, meant: &str| assert_eq!(ask(choices).chosen(typed), meant);
        check(&["red", "green"], "2", "green");
        check(&["red", "green"], " 1 ", "red");
        check(&["red", "green"], "green", "green");
        check(&["red", "green"], "3", "3");
        check(&["red", "green"], "0", "0");
        check(&["red", "green"], "neither ", "neither ");
        // The words come first.
        check(&["2", "1"], "1", "1");
        check(&[], "1", "1");
        let older: Ask =
            serde_json::from_value(json!({"kind": "question", "question": "?", "required": true})).unwrap();
        assert!(older.choices().is_empty());
        assert!(!serde_json::to_string(&older).unwrap().contains("choices"));
    }

    #[test]
    fn interrupts_of_older_versions_are_read() {
        let check = |grant: Value, expected: &[&str]| {
            let mut stored = json!({
                "id": "0193a5b2-7c1d-7000-8000-000000000001",
                "session_id": "0193a5b2-7c1d-7000-8000-000000000002",
                "turn_id": "0193a5b2-7c1d-7000-8000-000000000003",
                "kind": "approval", "tool": "write_file", "args": {"path": "a.txt"}, "risk": "medium",
                "reason": "it changes files", "raised_at": "2026-01-01T00:00:00Z", "deadline": null
            });
            for (key, value) in grant.as_object().unwrap() {
                stored[key] = value.clone();
            }
            let interrupt: Interrupt = serde_json::from_str(&stored.to_string()).unwrap();
            assert_eq!(interrupt.asked_by, AskedBy::default());
            let Ask::Approval { grants, layer: None, rule: None, .. } = interrupt.ask else { panic!("{interrupt:?}") };
            assert_eq!(grants, expected);
        };
        check(json!({}), &[]);
        check(json!({"grant": "write_file"}), &["write_file"]);
        check(
            json!({"grants": ["run_bash_command: make", "run_bash_command: make test"]}),
            &["run_bash_command: make", "run_bash_command: make test"],
        );
        let always: Answer = serde_json::from_value(json!({"answer": "always"})).unwrap();
        assert_eq!(always, Answer::Always { scope: GrantScope::Session });
        assert_eq!(serde_json::to_value(always).unwrap(), json!({"answer": "always"}));
        let for_good = Answer::Always { scope: GrantScope::ForGood };
        assert_eq!(serde_json::to_value(for_good).unwrap(), json!({"answer": "always", "scope": "for_good"}));
    }
}
