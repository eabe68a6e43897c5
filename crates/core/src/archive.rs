//! Types for moving sessions between machines: export from one journal, import into another.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{context::ContextView, files::FilesCopied, ids::SessionId, settings::SessionSettings};

/// Session description, which precedes the session's events in an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArchivedSession {
    /// ID of the session.
    pub id: SessionId,
    /// Time of the session's creation.
    pub created_at: Timestamp,
    /// Settings of the session, without grants.
    pub settings: SessionSettings,
    /// Number of the session's last event.
    pub events: u64,
    /// Content of the context window at the time of the export, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}

/// Identifier of imported events that do not belong to a session yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DraftId(pub SessionId);

/// Session to be created from the events of a draft.
#[derive(Debug, Clone)]
pub struct SessionDraft {
    /// Draft that contains the events.
    pub draft: DraftId,
    /// ID of the session.
    pub id: SessionId,
    /// Time of the session's creation.
    pub created_at: Timestamp,
    /// Time of the import, which counts as the last use of the session.
    pub at: Timestamp,
    /// Settings of the session. They override the settings in its events.
    pub settings: SessionSettings,
    /// True if the session's model calls count towards this journal's usage. False for a copy of a session.
    pub counts_usage: bool,
}

/// File of a session's own tree, without content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Path in the tree, such as `uploads/data/a.csv`.
    pub path: String,
    /// True if the file's owner may execute it.
    pub executable: bool,
    /// Time of the last change, in seconds since 1970, if known.
    pub modified: Option<u64>,
    /// File size in bytes.
    pub bytes: u64,
}

/// Report on an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// ID of the imported session.
    pub session_id: SessionId,
    /// Title of the session.
    pub title: String,
    /// Original ID of the session, if a new one was assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_id: Option<SessionId>,
    /// Number of turns in the session.
    pub turns: u64,
    /// Number of stored events, including those of subagents.
    pub events: u64,
    /// Number of imported subagent sessions.
    pub subagents: u64,
    /// Files that were imported with the session.
    pub files: FilesCopied,
    /// True if the imported session had an open turn, which was interrupted by the import.
    pub interrupted: bool,
    /// Descriptions of skipped parts of a foreign history that have no equivalent in agentd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Pinned rules in the archive. They only apply after a user pins them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
}

/// Maximum number of files in an archive.
pub const MAX_TREE_FILES: u64 = 10_000;
/// Maximum total size of the files in an archive, in bytes.
pub const MAX_TREE_BYTES: u64 = 1 << 30;
/// Maximum nesting of folders in an archive.
pub const MAX_TREE_DEPTH: usize = 32;
/// Exported folders of a session's tree. `temp/` is not exported, and skills are copied again.
pub const TREE_AREAS: [&str; 4] = ["uploads", "outputs", "large_tool_results", "conversation_history"];

/// Rejects paths that are outside the [`TREE_AREAS`] or not in canonical form.
///
/// # Errors
/// Returns the reason as the continuation of "the path of a file …".
pub fn check_tree_path(path: &str) -> Result<(), &'static str> {
    const MAX_PATH: usize = 4000;
    const MAX_NAME: usize = 255;
    if path.len() > MAX_PATH || path.chars().any(char::is_control) {
        return Err("is too long, or has control characters");
    }
    let mut names = path.split('/');
    if !names.next().is_some_and(|area| TREE_AREAS.contains(&area)) {
        return Err("is not in an exported folder of the session");
    }
    let names: Vec<&str> = names.collect();
    if names.is_empty() || names.len() > MAX_TREE_DEPTH {
        return Err("names no file, or is nested too deeply");
    }
    if names.iter().any(|name| matches!(*name, "" | "." | "..") || name.len() > MAX_NAME) {
        return Err("points outside the session, or has an invalid file name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_paths_stay_below_session_folders() {
        for path in ["uploads/a.txt", "outputs/a/b/..c", "large_tool_results/x"] {
            assert_eq!(check_tree_path(path), Ok(()), "{path:?}");
        }
        let (long, deep) = (format!("uploads/{}", "a".repeat(256)), format!("uploads/{}x", "a/".repeat(40)));
        let invalid = "uploads|uploads/|uploads//a|uploads/../../etc/passwd|uploads/./a|/uploads/a|../uploads/a|\
                       skills/x/SKILL.md|temp/a|.metadata.json|uploads/a\nb";
        for path in invalid.split('|').chain([&*long, &deep]) {
            assert!(check_tree_path(path).is_err(), "{path:?}");
        }
    }
}
