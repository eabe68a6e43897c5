//! The worktree of a session, as people are told of it.

use agentd_core::worktree::SessionWorktree;

use crate::{report, terminal::sanitize::clean_line};

/// A worktree in one line.
pub(crate) fn shown(worktree: &SessionWorktree) -> String {
    let project = worktree.project.display().to_string();
    format!("{} (branch {}) of {}", clean_line(&worktree.name), clean_line(&worktree.branch), clean_line(&project))
}

/// The same for a session that has just got it, with what is not in it.
pub(crate) fn announced(worktree: &SessionWorktree) -> String {
    let mut line = format!("worktree {}", shown(worktree));
    if worktree.left_out > 0 {
        let files = report::count(worktree.left_out, "file");
        line.push_str(&format!("; {files} with changes that are not committed stay in the main tree"));
    }
    line
}
