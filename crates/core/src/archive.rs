//! Sessions that travel: exported from one journal, imported into another.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{context::ContextView, files::FilesCopied, ids::SessionId, settings::SessionSettings};

/// Description of a session in front of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArchivedSession {
    /// Its id.
    pub id: SessionId,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its settings, without grants.
    pub settings: SessionSettings,
    /// The number of its last event.
    pub events: u64,
    /// Content of its window as it leaves, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}

/// Identifier of events that belong to no session yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DraftId(pub SessionId);

/// A session to be made of the events of a draft.
#[derive(Debug, Clone)]
pub struct SessionDraft {
    /// The draft.
    pub draft: DraftId,
    /// The id of the session.
    pub id: SessionId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was imported, which counts as its last use.
    pub at: Timestamp,
    /// Its settings, whatever its events say of them.
    pub settings: SessionSettings,
    /// Set if its model calls count as calls of this journal: they do not where the session is a copy.
    pub counts_usage: bool,
}

/// A file of a session's own tree, apart from its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Its path in the tree, such as `uploads/data/a.csv`.
    pub path: String,
    /// Set if its owner may execute it.
    pub executable: bool,
    /// When it was last changed, in seconds since 1970, where that is known.
    pub modified: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Report on an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub title: String,
    /// The id that it had, where it was given a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_id: Option<SessionId>,
    /// Number of its turns.
    pub turns: u64,
    /// Number of stored events, those of its subagents included.
    pub events: u64,
    /// Number of its subagents.
    pub subagents: u64,
    /// The files that came along.
    pub files: FilesCopied,
    /// Set if a turn was open, and is interrupted now.
    pub interrupted: bool,
    /// Parts of a foreign history that have no form here and were left out, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Pinned rules that the archive brings. None is used until a person pins it here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
}

/// Maximum number of files of one archive.
pub const MAX_TREE_FILES: u64 = 10_000;
/// Maximum size of all files of one archive, in bytes.
pub const MAX_TREE_BYTES: u64 = 1 << 30;
/// Maximum nesting of folders in one archive.
pub const MAX_TREE_DEPTH: usize = 32;
/// Folders of a session's tree that travel with it. `temp/` stays behind, and skills are copied anew.
pub const TREE_AREAS: [&str; 4] = ["uploads", "outputs", "large_tool_results", "conversation_history"];

/// Refuses the path of a file that is not below one of [`TREE_AREAS`], or not written in the one plain way.
///
/// # Errors
/// Why, completing "the path of a file …".
pub fn check_tree_path(path: &str) -> Result<(), &'static str> {
    const MAX_PATH: usize = 4000;
    const MAX_NAME: usize = 255;
    if path.len() > MAX_PATH || path.chars().any(char::is_control) {
        return Err("is too long, or has control characters");
    }
    let mut names = path.split('/');
    if !names.next().is_some_and(|area| TREE_AREAS.contains(&area)) {
        return Err("is not below a folder of the session");
    }
    let names: Vec<&str> = names.collect();
    if names.is_empty() || names.len() > MAX_TREE_DEPTH {
        return Err("names no file, or lies too deep");
    }
    if names.iter().any(|name| matches!(*name, "" | "." | "..") || name.len() > MAX_NAME) {
        return Err("leads elsewhere, or has a name that no file can have");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folders_of_a_session() {
        for path in ["uploads/a.txt", "outputs/a/b/..c", "large_tool_results/x"] {
            assert_eq!(check_tree_path(path), Ok(()), "{path:?}");
        }
        let (long, deep) = (format!("uploads/{}", "a".repeat(256)), format!("uploads/{}x", "a/".repeat(40)));
        let unsound = "uploads|uploads/|uploads//a|uploads/../../etc/passwd|uploads/./a|/uploads/a|../uploads/a|\
                       skills/x/SKILL.md|temp/a|.metadata.json|uploads/a\nb";
        for path in unsound.split('|').chain([&*long, &deep]) {
            assert!(check_tree_path(path).is_err(), "{path:?}");
        }
    }
}
