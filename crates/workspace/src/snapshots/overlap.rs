//! Calls of several sessions that change the same files at once, as a session and its subagents do.
//!
//! A scan of a whole tree sees the changes of all calls. Changes reported by one call when it ended belong to no other;
//! a change reported while another call is still running may be the other's, so it is marked and not reverted alone.

use std::{collections::HashMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use agentd_core::{
    ids::{CallId, SessionId},
    tool::{FileChange, FileChangeKind, FileState},
};

use super::root::SafePath;

/// The calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    calls: Vec<RunningCalls>,
    /// States that the daemon brought about since its start, for calls that a crash cut off.
    set_aside: KeptStates,
}

#[derive(Debug)]
struct RunningCalls {
    session: SessionId,
    call: CallId,
    /// The tree that it works on.
    root: PathBuf,
    /// Set if it may change anything, and not only what it names.
    anywhere: bool,
    /// Changes that others have recorded as theirs meanwhile, in order.
    of_others: Vec<FileChange>,
    /// States that people brought about in other sessions meanwhile.
    kept: KeptStates,
}

/// States that people brought about beside calls, by undo or by an answer, or the check of a call, by the real paths of the files.
pub(super) type KeptStates = HashMap<PathBuf, Option<FileState>>;

/// Changes of a call.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) changes: Vec<FileChange>,
    /// Changes of others that they continue from.
    pub(super) going_on_from: Vec<FileChange>,
}

impl Overlaps {
    /// A call begins. A session has one of them at a time.
    pub(super) fn begin(&mut self, session: SessionId, call: CallId, root: PathBuf, anywhere: bool) {
        self.calls.retain(|running| running.session != session);
        self.calls.push(RunningCalls { session, call, root, anywhere, of_others: Vec::new(), kept: KeptStates::new() });
    }

    /// States that people brought about in other sessions since a call began.
    pub(super) fn kept(&self, session: SessionId, call: &CallId) -> KeptStates {
        let running = self.calls.iter().find(|running| running.session == session && running.call == *call);
        running.map(|running| running.kept.clone()).unwrap_or_default()
    }

    /// States that checks of calls brought about which a crash had cut off.
    pub(super) fn set_aside(&self) -> KeptStates {
        self.set_aside.clone()
    }

    /// Notes what the check of such a call brought about.
    pub(super) fn recovered(&mut self, changes: &[FileChange]) {
        self.set_aside.extend(states(changes));
    }

    /// Notes what a person brought about in a session, or the check of a call in it.
    pub(super) fn note(&mut self, session: SessionId, changes: &[FileChange]) {
        for other in self.calls.iter_mut().filter(|other| other.session != session) {
            other.kept.extend(states(changes));
        }
    }

    /// A call has ended, and this was seen to change meanwhile.
    pub(super) fn end(&mut self, session: SessionId, call: &CallId, seen: Vec<FileChange>) -> Own {
        let ended = self.calls.iter().position(|running| running.session == session && running.call == *call);
        let Some(ended) = ended.map(|index| self.calls.swap_remove(index)) else {
            return Own { changes: seen, going_on_from: Vec::new() };
        };
        let mut own = without(seen, ended.of_others);
        let mut may_be_anothers = false;
        for other in self.calls.iter_mut().filter(|other| other.root == ended.root) {
            other.of_others.extend(own.changes.iter().cloned());
            may_be_anothers |= ended.anywhere && other.anywhere;
        }
        for change in &mut own.changes {
            change.late |= may_be_anothers;
        }
        own
    }
}

/// The changes without those of others: where these led to what is there now, nothing.
fn without(seen: Vec<FileChange>, of_others: Vec<FileChange>) -> Own {
    let mut by_path: HashMap<String, Vec<FileChange>> = HashMap::new();
    for change in of_others.into_iter().filter(FileChange::is_recorded) {
        by_path.entry(change.path.clone()).or_default().push(change);
    }
    let mut own = Own { changes: Vec::with_capacity(seen.len()), going_on_from: Vec::new() };
    for mut change in seen {
        let others = by_path.remove(&change.path).filter(|_| change.is_recorded()).unwrap_or_default();
        let mut goes_on = false;
        for other in others {
            if other.before == change.before {
                goes_on = true;
                change.before.clone_from(&other.after);
                own.going_on_from.push(other);
            }
        }
        if goes_on {
            let Some(kind) = kind_between(&change) else { continue };
            change.change = kind;
        }
        own.changes.push(change);
    }
    own
}

/// Starts changes from what people and checks of other calls brought about meanwhile, and drops those that lead to nothing else.
pub(super) fn from_kept(changes: Vec<FileChange>, kept: &KeptStates) -> Vec<FileChange> {
    let begin = |mut change: FileChange| {
        if let Some(state) = real_path(&change).and_then(|path| kept.get(&path)) {
            change.before.clone_from(state);
            change.change = kind_between(&change)?;
        }
        Some(change)
    };
    changes.into_iter().filter_map(begin).collect()
}

fn kind_between(change: &FileChange) -> Option<FileChangeKind> {
    match (&change.before, &change.after) {
        (before, after) if before == after => None,
        (None, _) => Some(FileChangeKind::Created),
        (Some(_), None) => Some(FileChangeKind::Deleted),
        (Some(_), Some(_)) => Some(FileChangeKind::Modified),
    }
}

fn states(changes: &[FileChange]) -> impl Iterator<Item = (PathBuf, Option<FileState>)> {
    changes.iter().filter_map(|change| Some((real_path(change)?, change.after.clone())))
}

fn real_path(change: &FileChange) -> Option<PathBuf> {
    let below = SafePath::read(&change.path)?.below;
    Some(change.project.as_ref()?.join(OsStr::from_bytes(&below)))
}
