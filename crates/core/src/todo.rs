//! The todo list of a session.

use serde::{Deserialize, Serialize};

/// One entry of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Its id; made up where the model gave none.
    pub id: String,
    /// The task.
    pub content: String,
    /// Its status.
    pub status: TodoStatus,
    /// Its priority.
    #[serde(default)]
    pub priority: TodoPriority,
}

/// Status of a todo.
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

/// Priority of a todo.
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
