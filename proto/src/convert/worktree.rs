//! Git worktrees of sessions.

use agentd_core::worktree::{SessionWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport};

use super::{WireError, id};
use crate::v1;

impl From<&SessionWorktree> for v1::SessionWorktree {
    fn from(worktree: &SessionWorktree) -> Self {
        let SessionWorktree { name, branch, project, left_out } = worktree.clone();
        Self { name, branch, project: project.to_string_lossy().into_owned(), left_out }
    }
}

impl From<v1::SessionWorktree> for SessionWorktree {
    fn from(worktree: v1::SessionWorktree) -> Self {
        let v1::SessionWorktree { name, branch, project, left_out } = worktree;
        Self { name, branch, project: project.into(), left_out }
    }
}

impl From<&WorktreeReport> for v1::Worktree {
    fn from(report: &WorktreeReport) -> Self {
        Self {
            name: report.name.clone(),
            branch: report.branch.clone(),
            session: report.session.to_string(),
            is_orphan: report.is_orphan,
            folder: report.folder.to_string_lossy().into_owned(),
            project: report.project.to_string_lossy().into_owned(),
            base: report.base.clone(),
            changed: report.changed,
            ahead: report.ahead,
            is_merged: report.is_merged,
            problem: report.problem.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<v1::Worktree> for WorktreeReport {
    type Error = WireError;

    fn try_from(worktree: v1::Worktree) -> Result<Self, WireError> {
        Ok(Self {
            name: worktree.name,
            branch: worktree.branch,
            session: id(&worktree.session)?,
            is_orphan: worktree.is_orphan,
            folder: worktree.folder.into(),
            project: worktree.project.into(),
            base: worktree.base,
            changed: worktree.changed,
            ahead: worktree.ahead,
            is_merged: worktree.is_merged,
            problem: Some(worktree.problem).filter(|problem| !problem.is_empty()),
        })
    }
}

impl From<&WorktreeDiff> for v1::WorktreeDiff {
    fn from(diff: &WorktreeDiff) -> Self {
        let WorktreeDiff { name, base, files, text, is_cut, is_lossy } = diff.clone();
        Self { name, base, files, text, is_cut, is_lossy }
    }
}

impl From<v1::WorktreeDiff> for WorktreeDiff {
    fn from(diff: v1::WorktreeDiff) -> Self {
        let v1::WorktreeDiff { name, base, files, text, is_cut, is_lossy } = diff;
        Self { name, base, files, text, is_cut, is_lossy }
    }
}

impl From<&WorktreeApplied> for v1::AppliedWorktree {
    fn from(applied: &WorktreeApplied) -> Self {
        let WorktreeApplied { name, commit, onto, files } = applied.clone();
        Self { name, commit, onto, files }
    }
}

impl From<v1::AppliedWorktree> for WorktreeApplied {
    fn from(applied: v1::AppliedWorktree) -> Self {
        let v1::AppliedWorktree { name, commit, onto, files } = applied;
        Self { name, commit, onto, files }
    }
}
