//! Choice of a model, and the input intent on which the choice is based.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

names! {
    /// Rule by which a model was chosen, ordered by precedence. A user's choice overrides all other rules.
    #[derive(Default, Hash)]
    pub enum ChoiceRule {
        /// The client requested the model for the turn.
        Client = "client",
        /// The model is set for the session.
        Session = "session",
        /// The active agent uses this model.
        Agent = "agent",
        /// The input has pictures, which the model accepts.
        Pictures = "pictures",
        /// The turn is about code.
        Code = "code",
        /// The task is complex.
        ComplexTask = "complex_task",
        /// The previous turn used the model, which also suits this turn. Another model would have to read the whole
        /// conversation again.
        Kept = "kept",
        /// The default model, because no rule selects another model.
        #[default]
        Default = "default",
        /// The model writes the last answer of a turn.
        LastAnswer = "last_answer",
        /// The model replaces another model that does not answer.
        Fallback = "fallback",
    }
}

impl ChoiceRule {
    /// Returns true if a user chose the model.
    #[must_use]
    pub fn is_user_choice(self) -> bool {
        matches!(self, Self::Client | Self::Session)
    }
}

names! {
    /// Kind of an input's intent.
    #[derive(Default, Hash)]
    pub enum IntentKind {
        /// Writing or changing code.
        CodingTask = "CODING_TASK",
        /// A question about the agent and its abilities.
        CapabilityQuery = "CAPABILITY_QUERY",
        /// Reading and explaining code.
        RepoAnalysis = "REPO_ANALYSIS",
        /// Conversation, and questions that need no code.
        GeneralChat = "GENERAL_CHAT",
        /// No kind is clearly indicated.
        #[default]
        Uncertain = "UNCERTAIN",
    }
}

impl IntentKind {
    /// Returns true if the intent is about code.
    #[must_use]
    pub fn is_about_code(self) -> bool {
        matches!(self, Self::CodingTask | Self::RepoAnalysis)
    }
}

/// Intent of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Kind of the intent.
    pub kind: IntentKind,
    /// Confidence in the kind, in percent.
    pub confidence: u8,
    /// Short description of the evidence for this kind.
    pub reason: String,
    /// True if the task has many parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complex: bool,
    /// Id of the model that classified the input, if a model did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

names! {
    /// Setting for turns that begin with a plan.
    #[derive(Default, Hash)]
    pub enum Planning {
        /// Complex coding tasks begin with a plan if a user can approve the plan.
        Auto = "auto",
        /// Every turn except conversation begins with a plan.
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
            format!("invalid planning {text:?}; use auto, always or never")
        })
    }
}
