//! Grants: rules that a user has approved for later calls, so that matching calls run without a question.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// A granted rule. The policy defines which rules exist and which calls they match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Grant {
    /// Rule text as shown to the user.
    pub rule: String,
    /// Time of the grant, if known.
    pub at: Option<Timestamp>,
    /// Client through which the rule was granted, by its self-reported name, if known.
    pub by: Option<String>,
}

/// Serialised form of a grant. Older journals contain only the rule.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Rule(String),
    Full {
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl From<Form> for Grant {
    fn from(form: Form) -> Self {
        match form {
            Form::Rule(rule) => rule.into(),
            Form::Full { rule, at, by } => Self { rule, at, by },
        }
    }
}

impl From<Grant> for Form {
    fn from(grant: Grant) -> Self {
        match grant {
            Grant { rule, at: None, by: None } => Self::Rule(rule),
            Grant { rule, at, by } => Self::Full { rule, at, by },
        }
    }
}

impl<R: Into<String>> From<R> for Grant {
    /// Creates a grant with unknown time and client.
    fn from(rule: R) -> Self {
        Self { rule: rule.into(), at: None, by: None }
    }
}

names! {
    /// Scope of a grant.
    #[derive(Default, Hash)]
    pub enum GrantScope {
        /// One session, until the session is deleted.
        #[default]
        Session = "session",
        /// All sessions, until the grant is revoked.
        ForGood = "for_good",
    }
}

/// A grant with its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedGrant {
    /// Session of the grant. `None` if the grant covers all sessions.
    pub session_id: Option<SessionId>,
    /// Grant with its rule.
    pub grant: Grant,
}

impl ScopedGrant {
    /// Returns the scope of the grant.
    pub fn scope(&self) -> GrantScope {
        if self.session_id.is_some() { GrantScope::Session } else { GrantScope::ForGood }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_parse_in_old_and_new_form() {
        let check = |json: &str, grant: Grant| {
            assert_eq!(serde_json::from_str::<Grant>(json).unwrap(), grant);
            assert_eq!(serde_json::to_string(&grant).unwrap(), json);
        };
        check(r#""write_file""#, "write_file".into());
        check(
            r#"{"rule":"write_file","at":"1970-01-01T00:00:00Z","by":"agentctl"}"#,
            Grant { rule: "write_file".into(), at: Some(Timestamp::UNIX_EPOCH), by: Some("agentctl".into()) },
        );
    }
}
