//! Grants: rules that a person keeps, so that nobody is asked again for what they name.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// A rule that a person keeps. Which rules there are, and what they cover, is for the policy to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Grant {
    /// The rule, as it was shown.
    pub rule: String,
    /// When it was kept, where that is known.
    pub at: Option<Timestamp>,
    /// The client through which it was kept, by the name that it gave, where that is known.
    pub by: Option<String>,
}

/// A grant as it is written: older journals hold the rule alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Rule(String),
    Known {
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
            Form::Known { rule, at, by } => Self { rule, at, by },
        }
    }
}

impl From<Grant> for Form {
    fn from(grant: Grant) -> Self {
        match grant {
            Grant { rule, at: None, by: None } => Self::Rule(rule),
            Grant { rule, at, by } => Self::Known { rule, at, by },
        }
    }
}

impl<R: Into<String>> From<R> for Grant {
    /// A rule of which nobody knows when and by whom it was kept.
    fn from(rule: R) -> Self {
        Self { rule: rule.into(), at: None, by: None }
    }
}

names! {
    /// Scope of a grant.
    #[derive(Default, Hash)]
    pub enum GrantScope {
        /// One session, as long as it lives.
        #[default]
        Session = "session",
        /// Every session, until it is taken back.
        ForGood = "for_good",
    }
}

/// A grant and where it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGrant {
    /// The one session that it was kept for; none where it was kept for good.
    pub session_id: Option<SessionId>,
    /// The grant.
    pub grant: Grant,
}

impl HeldGrant {
    /// Its scope.
    pub fn scope(&self) -> GrantScope {
        if self.session_id.is_some() { GrantScope::Session } else { GrantScope::ForGood }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_in_the_old_form_and_in_the_new() {
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
