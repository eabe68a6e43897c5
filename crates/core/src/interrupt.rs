//! Interrupts: durable pauses that need an answer from the user.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::{
    grant::GrantScope,
    ids::{CallId, InterruptId, SessionId, TurnId},
    policy::{Layer, Risk},
};

/// Prefix of the result of a refused call. Followed by the reason.
pub const REFUSAL_PREFIX: &str = "refused: ";
/// Suffix of the result of a refused call, with advice for the model.
pub const AFTER_REFUSAL: &str = "Do not try the same again; ask, or go another way";

/// Pause that is stored before the question is asked, survives disconnects and restarts, and is answered exactly once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// ID of the interrupt.
    pub id: InterruptId,
    /// Session of the waiting turn.
    pub session_id: SessionId,
    /// Turn that waits for the answer.
    pub turn_id: TurnId,
    /// Tool call that raised the interrupt, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Origin of the question.
    #[serde(default)]
    pub asked_by: AskedBy,
    /// Question and its details.
    #[serde(flatten)]
    pub ask: Ask,
    /// Time at which the interrupt was raised.
    pub raised_at: Timestamp,
    /// Time after which [`Interrupt::on_deadline`] is the answer. `None` if the interrupt waits without a limit.
    pub deadline: Option<Timestamp>,
    /// Answer that applies when the deadline passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_deadline: Option<Answer>,
}

/// Source of a question, as far as it is known.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// Agent that asks the question. `main` for the session's main agent.
    pub agent: String,
    /// Title of the session when the question was asked.
    pub session_title: Option<String>,
    /// Client that started the turn, by its self-reported name.
    pub client: Option<String>,
}

impl Default for AskedBy {
    fn default() -> Self {
        Self { agent: "main".to_owned(), session_title: None, client: None }
    }
}

impl AskedBy {
    /// Returns true if the question comes from the session's main agent, in a turn that this client started.
    pub fn is_own(&self, client: &str) -> bool {
        self.agent == "main" && self.client.as_deref().is_none_or(|started_by| started_by == client)
    }
}

/// Owner of a third-party tool at the time when approval was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Rule that covers every call to the tool, by MCP server and tool name.
    pub rule: String,
    /// Fingerprint that distinguishes the server's configuration entry from other entries with the same name.
    pub entry: String,
}

/// Question to the user.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// Request for approval of a tool call.
    Approval {
        /// Name of the tool.
        tool: String,
        /// Arguments of the call. A string if the arguments are not valid JSON.
        args: Value,
        /// Risk of the call.
        risk: Risk,
        /// Reason why approval is required.
        reason: String,
        /// Preview for the user: a unified diff or a command line.
        preview: Option<String>,
        /// Policy layer that requires approval. `None` in questions from older versions.
        layer: Option<Layer>,
        /// Policy rule that requires approval.
        rule: Option<String>,
        /// Exact rules that `always` would grant: one for each part of the call that needs approval. Empty if no exact
        /// rule is possible, in which case `always` is not a valid answer.
        #[serde(default, alias = "grant", deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
        grants: Vec<String>,
        /// Broader rules, sorted from narrow to broad. The user may grant one of them instead of the exact rules. Empty
        /// if there are no broader rules.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        wider: Vec<String>,
        /// Permanent variants of the exact rules. Each one contains the question's folder, so that it does not match
        /// another folder in another session. Empty if they are the same as the exact rules.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        for_good: Vec<String>,
        /// Owner of a third-party tool. `None` in questions from older versions.
        owner: Option<Box<Owner>>,
    },
    /// Question from the model to the user.
    Question {
        /// Text of the question.
        question: String,
        /// Additional context for the user.
        context: Option<String>,
        /// Answer that applies if the user gives none.
        default: Option<String>,
        /// True if an empty answer is rejected.
        required: bool,
        /// Suggested answers. Other answers are accepted as well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
        /// True if the answer is a secret, such as a password. The answer is neither shown nor stored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        secret: bool,
    },
}

impl Ask {
    /// Pseudo-tool for the approval of a plan, and name of the argument that contains the plan. No real tool has this
    /// name.
    pub const PLAN: &str = "plan";

    /// Pseudo-tool for the question about quarantined files: files that other programs execute or follow automatically,
    /// and that were written by a command without review. No real tool has this name.
    pub const KEEP: &str = "keep_files";

    /// Creates a request for the approval of a plan.
    pub fn of_plan(plan: &str) -> Self {
        Self::Approval {
            tool: Self::PLAN.to_owned(),
            args: json!({ Self::PLAN: plan }),
            risk: Risk::Medium,
            reason: "the turn begins with a plan: nothing is changed before the plan is approved".to_owned(),
            preview: Some(plan.to_owned()),
            layer: None,
            rule: None,
            grants: Vec::new(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        }
    }

    /// Returns the plan if this is a request for the approval of a plan.
    pub fn plan(&self) -> Option<&str> {
        match self {
            Self::Approval { tool, args, .. } if tool == Self::PLAN => args.get(Self::PLAN)?.as_str(),
            _ => None,
        }
    }

    /// Pseudo-tool for the question about a read-only project: whether it becomes writable. No real tool has this name.
    pub const MAKE_WRITABLE: &str = "make_writable";

    /// Name of the argument with the path of that project.
    const FOLDER: &str = "folder";

    /// Creates the question whether a read-only project becomes writable, because a call of `tool` would change `path`.
    pub fn of_writable(project: &Path, tool: &str, path: &str) -> Self {
        let folder = project.display().to_string();
        Self::Approval {
            tool: Self::MAKE_WRITABLE.to_owned(),
            risk: Risk::Medium,
            reason: format!("{tool} would change {path}, and this session has the folder read-only"),
            preview: Some(format!(
                "{folder} becomes writable for this session, until `/project ro`\nits mode and the rules still decide \
                 about each change"
            )),
            args: json!({ Self::FOLDER: folder }),
            layer: None,
            rule: None,
            grants: Vec::new(),
            wider: Vec::new(),
            for_good: Vec::new(),
            owner: None,
        }
    }

    /// Returns the path of the project if this is the question whether a project becomes writable.
    pub fn writable_project(&self) -> Option<&str> {
        match self {
            Self::Approval { tool, args, .. } if tool == Self::MAKE_WRITABLE => args.get(Self::FOLDER)?.as_str(),
            _ => None,
        }
    }

    /// Returns true if the answer is a secret. Only a user can answer such a question, and only the component that
    /// asked receives the answer.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Question { secret: true, .. })
    }

    /// Prefix of every question from an MCP server, followed by the server's name.
    pub const MCP_SERVER_PREFIX: &str = "The MCP server ";

    /// Returns true if a broader rule can be granted for all sessions. A prefix rule matches commands in any folder of
    /// a session, so its grant is limited to one session.
    pub fn is_for_good(rule: &str) -> bool {
        !rule.ends_with(" *")
    }

    /// Returns the suggested answers, or an empty list for an approval.
    pub fn choices(&self) -> &[String] {
        match self {
            Self::Question { choices, .. } => choices,
            Self::Approval { .. } => &[],
        }
    }

    /// Resolves typed text to a choice by its number, starting at 1. Returns other text unchanged. Text that exactly
    /// equals a choice resolves to that choice, even if it is a number.
    pub fn chosen<'a>(&'a self, text: &'a str) -> &'a str {
        let (choices, typed) = (self.choices(), text.trim());
        let at = || typed.parse::<usize>().ok()?.checked_sub(1);
        match choices.iter().find(|choice| *choice == typed).or_else(|| choices.get(at()?)) {
            Some(choice) => choice,
            None => text,
        }
    }

    /// Returns true if the question is from an MCP server. Such a question requests the user's consent, so models must
    /// not answer it. If a model starts its own question with this prefix, the only effect is that no other model can
    /// answer the question.
    pub fn is_from_mcp_server(&self) -> bool {
        matches!(self, Self::Question { question, .. } if question.starts_with(Self::MCP_SERVER_PREFIX))
    }
}

/// Answer to an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Run the call as requested.
    Approve,
    /// Do not run the call.
    Reject {
        /// Reason, sent to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Run the call, and grant the rules in `grants` of [`Ask::Approval`].
    Always {
        /// Scope of the grant.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        scope: GrantScope,
    },
    /// Run the call, and grant one of the rules in `wider` of [`Ask::Approval`].
    Keep {
        /// Text of the rule, verbatim.
        rule: String,
        /// Scope of the grant.
        #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
        scope: GrantScope,
    },
    /// Run the call with modified arguments.
    Edit {
        /// Arguments that replace those of the model.
        args: Value,
    },
    /// Answer to a question.
    Text {
        /// Text of the answer.
        text: String,
    },
}

impl Answer {
    /// Returns the answer in the form that is stored and shown. A secret is replaced by a placeholder.
    pub fn shown(&self, ask: &Ask) -> Self {
        match self {
            Self::Text { .. } if ask.is_secret() => Self::Text { text: Self::SECRET.to_owned() },
            answer => answer.clone(),
        }
    }

    /// Placeholder for a secret answer.
    pub const SECRET: &str = "(not shown)";

    /// Returns the reason why the answer is not valid for the question, or `None` if it is valid. The reason names the
    /// valid answers.
    pub fn misfit(&self, ask: &Ask) -> Option<&'static str> {
        match (ask, self) {
            (Ask::Approval { .. }, Self::Text { .. }) => {
                Some("this is a request for approval; answer approve, reject, always or edit")
            }
            (Ask::Approval { grants, .. }, Self::Always { .. }) if grants.is_empty() => {
                Some("no rule can cover exactly this call; answer approve, reject or edit")
            }
            (Ask::Approval { wider, .. }, Self::Keep { rule, .. }) if !wider.contains(rule) => {
                Some("this rule was not offered; answer approve, reject, always or edit")
            }
            (Ask::Approval { .. }, Self::Keep { rule, scope: GrantScope::ForGood }) if !Ask::is_for_good(rule) => {
                Some("this rule covers commands in any folder, so it can be granted for this session only")
            }
            (Ask::Approval { .. }, Self::Edit { args })
                if ask.plan().is_some()
                    && args.get(Ask::PLAN).and_then(Value::as_str).is_none_or(|plan| plan.trim().is_empty()) =>
            {
                Some(r#"an edited plan must be an object with the text of the plan: {"plan": "1. …"}"#)
            }
            (Ask::Approval { tool, .. }, Self::Edit { .. })
                if [Ask::KEEP, Ask::MAKE_WRITABLE].contains(&tool.as_str()) =>
            {
                Some("this can only be approved as shown; answer approve or reject")
            }
            (Ask::Approval { .. }, Self::Edit { args }) if !args.is_object() => {
                Some("edited arguments must be a JSON object")
            }
            (Ask::Question { required: true, default: None, .. }, Self::Text { text }) if text.trim().is_empty() => {
                Some("this question needs a non-empty answer")
            }
            (Ask::Question { .. }, Self::Approve | Self::Always { .. } | Self::Keep { .. } | Self::Edit { .. }) => {
                Some("this is a question; answer with text, or reject it")
            }
            _ => None,
        }
    }

    /// Returns the rules that the answer grants and their scope, or `None` if the answer grants nothing.
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

/// Source of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A client, identified by its self-reported name, such as `agentctl`.
    Client(String),
    /// The deadline passed without an answer.
    Deadline,
    /// The daemon, because the turn ended before an answer.
    Daemon,
}

impl AnsweredBy {
    /// Returns the name of the client, if a client answered.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Client(name) => Some(name),
            Self::Deadline | Self::Daemon => None,
        }
    }
}

/// Deserialises the list of rules. Older versions stored one rule or none.
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
    use super::*;

    #[test]
    fn choice_is_selected_by_number_or_text() {
        let ask = |choices: &[&str]| Ask::Question {
            secret: false,
            question: "Which?".to_owned(),
            context: None,
            default: None,
            required: true,
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        };
        let check = |choices: &[&str], typed: &str, expected: &str| assert_eq!(ask(choices).chosen(typed), expected);
        check(&["red", "green"], "2", "green");
        check(&["red", "green"], " 1 ", "red");
        check(&["red", "green"], "green", "green");
        check(&["red", "green"], "3", "3");
        check(&["red", "green"], "0", "0");
        check(&["red", "green"], "neither ", "neither ");
        // An exact match takes precedence over the number.
        check(&["2", "1"], "1", "1");
        check(&[], "1", "1");
        let older: Ask =
            serde_json::from_value(json!({"kind": "question", "question": "?", "required": true})).unwrap();
        assert!(older.choices().is_empty());
        assert!(!serde_json::to_string(&older).unwrap().contains("choices"));
    }

    #[test]
    fn writable_project_is_approved_as_shown_or_rejected() {
        let ask = Ask::of_writable(Path::new("/src/app"), "write_file", "/project/a.txt");
        assert_eq!(ask.writable_project(), Some("/src/app"));
        assert_eq!(Ask::of_plan("1. Look").writable_project(), None);
        let check = |answer: Answer, fits: bool| assert_eq!(answer.misfit(&ask).is_none(), fits, "{answer:?}");
        check(Answer::Approve, true);
        check(Answer::Reject { reason: None }, true);
        check(Answer::Edit { args: json!({"folder": "/"}) }, false);
        check(Answer::Always { scope: GrantScope::ForGood }, false);
        check(Answer::Text { text: "yes".to_owned() }, false);
    }

    #[test]
    fn interrupts_of_older_versions_parse() {
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
