//! The choice of a model, and the intent of an input that it follows.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

names! {
    /// Rule by which a model was chosen. In the order of their weight: a person's choice stands above every other.
    #[derive(Default, Hash)]
    pub enum ChoiceRule {
        /// The client named it for the turn.
        Client = "client",
        /// The session is set to it.
        Session = "session",
        /// The agent that works uses it.
        Agent = "agent",
        /// There are pictures, which it sees.
        Pictures = "pictures",
        /// The turn is about code.
        Code = "code",
        /// The task is a complex one.
        ComplexTask = "complex_task",
        /// The turn before had it, and it fits this one: another one would read the whole conversation anew.
        Kept = "kept",
        /// Nothing asks for another one.
        #[default]
        Default = "default",
        /// It writes the last answer of a turn.
        LastAnswer = "last_answer",
        /// It stands in for one that does not answer.
        Fallback = "fallback",
    }
}

impl ChoiceRule {
    /// Returns whether a person chose.
    #[must_use]
    pub fn is_a_persons(self) -> bool {
        matches!(self, Self::Client | Self::Session)
    }
}

names! {
    /// Kind of an input's intent.
    #[derive(Default, Hash)]
    pub enum IntentKind {
        /// Code is to be written or changed.
        CodingTask = "CODING_TASK",
        /// A question about the agent and its abilities.
        CapabilityQuery = "CAPABILITY_QUERY",
        /// Code is to be looked at and explained.
        RepoAnalysis = "REPO_ANALYSIS",
        /// Talk, and questions that need no code.
        GeneralChat = "GENERAL_CHAT",
        /// Nothing speaks clearly for one of them.
        #[default]
        Uncertain = "UNCERTAIN",
    }
}

impl IntentKind {
    /// Returns whether code is what it is about.
    #[must_use]
    pub fn is_about_code(self) -> bool {
        matches!(self, Self::CodingTask | Self::RepoAnalysis)
    }
}

/// Intent of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its kind.
    pub kind: IntentKind,
    /// Confidence in that, in percent.
    pub confidence: u8,
    /// The signs that speak for it, in a few words.
    pub reason: String,
    /// Set if the task has many parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complex: bool,
    /// Id of the model that was asked, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

names! {
    /// Decision on whether a turn begins with a plan.
    #[derive(Default, Hash)]
    pub enum Planning {
        /// Complex coding tasks begin with a plan where somebody can be asked about it.
        Auto = "auto",
        /// Each turn that is no talk begins with a plan.
        Always = "always",
        /// No turn begins with a plan.
        #[default]
        Never = "never",
    }
}

impl FromStr for Planning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text.trim()).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            format!("there is no planning {text:?}; it is auto, always or never")
        })
    }
}
