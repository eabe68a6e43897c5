//! The todo list of a session.

use serde::{Deserialize, Serialize};

/// One entry of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Its id; made up where the model gave none.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// How much it matters.
    #[serde(default)]
    pub priority: TodoPriority,
}

/// How far a todo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Under way; at most one is.
    InProgress,
    /// Done.
    Completed,
}

/// How much a todo matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    /// First.
    High,
    /// In between.
    #[default]
    Medium,
    /// Last.
    Low,
}
