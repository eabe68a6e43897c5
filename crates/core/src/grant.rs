//! Grants: rules approved by a user, so that matching calls run without a question.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// Granted rule. The policy defines the syntax of rules and the calls that they match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Grant {
    /// Rule text as shown to the user.
    pub rule: String,
    /// Time of the grant. `None` if unknown.
    pub at: Option<Timestamp>,
    /// Client through which the rule was granted, by its self-reported name. `None` if unknown.
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
    /// Creates a grant whose time and client are unknown.
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

/// Grant together with its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedGrant {
    /// Session to which the grant applies. `None` if it applies to all sessions.
    pub session_id: Option<SessionId>,
    /// The granted rule, with its time and client.
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
