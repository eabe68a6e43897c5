//! Initial state of a call: the trees before the call, and the paths that the call names.
//!
//! Concurrent calls in several sessions may change the same files, as a session and its subagents do. A scan of a whole
//! tree sees the changes made by all calls. A change that one call reported when it ended is not attributed to any
//! other call. A change reported while another call is still running may belong to that call, so the change is marked,
//! and is not reverted without the changes of that call.

use std::{collections::HashMap, ffi::OsStr, io, os::unix::ffi::OsStrExt as _, path::PathBuf, sync::Arc};

use agentd_core::{
    guarded::GuardedNames,
    ids::{CallId, SessionId},
    ports::Workspace,
    tool::{FileChange, FileChangeKind, FileState},
};

use super::{
    baseline::{Baseline, EarlierCalls},
    blobs::{Blobs, Hash},
    guard::{CallGuard, GuardedPaths},
    ignored_folders::IgnoredFolders,
    record::Heartbeat,
    root::{Kind, Root, SafePath},
    tree::{Content, Difference, Entry, SkipReason, Tree},
};
use crate::{
    backend::client::FileClient,
    jail::Jail,
    path::{PathPlace, ToolPath},
    text,
};

/// Trees before a call. The call owns the trees, so that they are not evicted while it runs.
#[derive(Default)]
pub(super) struct BaseState {
    pub(super) call: CallId,
    pub(super) scoped: bool,
    pub(super) trees: Vec<Arc<Tree>>,
    pub(super) notes: Vec<String>,
    /// Unsaved texts of files that the call may change.
    pub(super) unsaved: UnsavedContents,
    /// Entry names in folders that git ignores.
    pub(super) ignored: Arc<IgnoredFolders>,
    /// Guarded names at the time of the scan.
    pub(super) names: GuardedNames,
    /// Guard for a call that is checked when it ends.
    pub(super) guard: Option<CallGuard>,
    /// States created by users in other sessions since the scan.
    pub(super) external: ExternalStates,
    /// States created by the checks of other calls since the scan. They are not the call's changes, but they do not
    /// justify a change to a guarded file.
    pub(super) checked: ExternalStates,
    /// Calls that ran during the first scan and still run.
    pub(super) earlier: Vec<Arc<Baseline>>,
    /// Trees as scanned, without the corrections for these calls.
    pub(super) scanned: Vec<Arc<Tree>>,
    /// Guarded paths that the call cannot change. `unchecked` is the reason why more may exist.
    pub(super) closed: Vec<PathBuf>,
    pub(super) unchecked: Option<String>,
    /// Heartbeat of the running call; its last beat follows the last scan.
    pub(super) pulse: Option<Heartbeat>,
}

impl BaseState {
    pub(super) fn new(call: &CallId, scoped: bool, trees: Vec<Arc<Tree>>, names: &GuardedNames) -> Self {
        let (call, names) = (call.clone(), names.clone());
        Self { call, scoped, trees, names, ..Self::default() }
    }

    /// Returns the changes to a tree since the call began. A path that only became visible, for example because its
    /// folder is no longer ignored, is not new.
    pub(super) fn differences(&self, tree: &Tree, now: &Tree) -> Vec<Difference> {
        let mut found = tree.differences(now);
        found.retain(|found| found.was.is_some() || self.is_new(tree, &found.below));
        found
    }

    /// Returns true if a path that is missing in a tree did not exist before the call.
    pub(super) fn is_new(&self, tree: &Tree, below: &[u8]) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.has_seen(tree, below, &self.names))
            || !self.ignored.may_have_held(&SafePath { place: tree.place, below: below.to_vec() })
    }

    /// Returns the tree with the states that users have decided since the scan. Omits paths that scans omit.
    pub(super) fn with_decisions(&self, tree: &Arc<Tree>, now: &Tree, is_missing: impl Fn(&[u8]) -> bool) -> Arc<Tree> {
        let mut decided = Arc::clone(tree);
        for (path, state) in self.external.iter().filter(|_| tree.place.is_mounted() && self.guard.is_some()) {
            let Ok(below) = path.strip_prefix(&tree.path) else { continue };
            let below = below.as_os_str().as_bytes();
            let is_scanned = tree.entries.contains_key(below) || now.entries.contains_key(below) || is_missing(below);
            if below.is_empty() || !is_scanned {
                continue;
            }
            let entries = &mut Arc::make_mut(&mut decided).entries;
            match state.as_ref().map(Entry::of_state) {
                Some(Some(entry)) => drop(entries.insert(below.to_vec(), entry)),
                Some(None) => {}
                None => drop(entries.remove(below)),
            }
        }
        decided
    }

    /// Returns true if the first scan found the same state of a path, although the state before the call was another.
    pub(super) fn was_scanned(&self, below: &[u8], now: &Tree) -> bool {
        let scanned = self.scanned.iter().find(|scanned| scanned.place == now.place && scanned.path == now.path);
        let present = |tree: &Tree| tree.entries.get(below).filter(|entry| entry.content != Content::Absent).cloned();
        scanned.is_some_and(|scanned| match (present(scanned), present(now)) {
            (Some(was), Some(now)) => was.is_same(&now),
            (was, now) => was.is_none() && now.is_none(),
        })
    }

    /// Returns the sorted paths whose contents are not stored.
    pub(super) fn unstored(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.ignored.shown().chain(self.unstored_files().map(|(_, path)| path)).collect();
        // Sorted, because an approval request is compared with a later version of itself.
        paths.sort();
        paths
    }

    /// Returns the files whose contents are not stored, with the reasons.
    pub(super) fn unstored_files(&self) -> impl Iterator<Item = (SkipReason, String)> {
        let entries = self.trees.iter().flat_map(|tree| tree.entries.iter().map(|entry| (tree.place, entry)));
        entries.filter_map(|(place, (below, entry))| match entry.content {
            Content::Unstored(reason) => Some((reason, SafePath { place, below: below.clone() }.shown(false))),
            _ => None,
        })
    }
}

/// Returns the paths in a scoped scan.
pub(super) fn safe_paths_of(tree: &Tree) -> impl Iterator<Item = SafePath> {
    tree.entries.keys().map(|below| SafePath { place: tree.place, below: below.clone() })
}

/// Resolves the paths for a scoped scan. Returns `None` if a path is a link, is below a link, or cannot be read: the
/// call may then change other paths, so everything is scanned.
pub(super) fn scope(roots: &[Root], paths: &[String]) -> Option<Vec<SafePath>> {
    let safe_paths: Vec<SafePath> = paths.iter().map(|path| SafePath::read(path)).collect::<Option<_>>()?;
    let is_link = |safe_path: &SafePath| {
        let root = roots.iter().find(|root| root.place == safe_path.place)?;
        let mut ancestors = safe_path.folders().chain([safe_path.clone()]);
        Some(ancestors.any(
            |safe_path| !matches!(root.stamp_of(&safe_path.below), Ok(found) if found.is_none_or(|found| found.kind != Kind::Link)),
        ))
    };
    // Paths outside the writable trees cannot be changed.
    safe_paths.iter().all(|safe_path| is_link(safe_path) != Some(true)).then_some(safe_paths)
}

/// Stored contents of unsaved texts, by file path.
pub(super) type UnsavedContents = HashMap<String, (Hash, u64)>;

/// Returns the unsaved texts of these files, in the encoding of the files on disk.
pub(super) async fn texts(
    client: FileClient,
    workspace: Arc<Workspace>,
    paths: Vec<String>,
) -> HashMap<String, Vec<u8>> {
    let read_texts = tokio::task::spawn_blocking(move || {
        let jail = Jail::new(workspace);
        let unsaved = |path: String| {
            let parsed = ToolPath::parse(&path).ok().filter(|parsed| parsed.place() == PathPlace::Project)?;
            Some((path, client.unsaved(&jail, &parsed)?))
        };
        paths.into_iter().filter_map(unsaved).collect()
    });
    read_texts.await.unwrap_or_default()
}

/// Stores the texts. The result omits texts that exceed the storage limit.
pub(super) fn store_texts(blobs: &Blobs, texts: HashMap<String, Vec<u8>>) -> io::Result<UnsavedContents> {
    let mut blob_writer = blobs.blob_writer(false);
    let mut stored = HashMap::new();
    for (path, text) in texts {
        if let Some(hash) = blob_writer.store(&text)? {
            stored.insert(path, (hash, text.len() as u64));
        }
    }
    blob_writer.finish()?;
    Ok(stored)
}

/// Maximum size of all changes made by one call, in bytes. The changes are sent as one journal entry and one message to
/// clients, which read messages of at most 16 MiB.
const MAX_BYTES: usize = 8 << 20;

/// Estimated size of a change without its path, in bytes: its states and their hashes.
const BESIDE_PATH: usize = 256;

/// Reduces the changes to `limit`, and returns a note about the omitted ones.
///
/// Undoing a part of a call must not lose data that undoing the whole call would preserve: moving a folder creates a
/// folder and removes another. Deletions and modifications therefore come first, and creations are recorded only below
/// the limit. One omitted change is retained without its states, so that undo reports that it is incomplete.
pub(super) fn limit_changes(changes: &mut Vec<FileChange>, limit: usize) -> Option<String> {
    let bytes: usize = changes.iter().map(|change| change.path.len() + BESIDE_PATH).sum();
    let limit = if bytes > MAX_BYTES { limit.min(changes.len().saturating_mul(MAX_BYTES) / bytes) } else { limit };
    let more = changes.len().checked_sub(limit).filter(|more| *more > 0)?;
    let is_creation = |change: &FileChange| change.change == FileChangeKind::Created;
    let lossy = changes.iter().filter(|change| !is_creation(change)).count();
    let (mut lossy_budget, mut created_budget) = (limit, limit.saturating_sub(lossy));
    let mut has_marker = false;
    changes.retain_mut(|change| {
        let left = if is_creation(change) { &mut created_budget } else { &mut lossy_budget };
        if *left > 0 {
            *left -= 1;
            return true;
        }
        (change.before, change.after) = (None, None);
        !std::mem::replace(&mut has_marker, true)
    });
    Some(format!("{} changed beyond the limit of {limit} recorded files", text::count(more, "file")))
}

/// Running calls in all sessions.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    calls: Vec<RunningCalls>,
    /// States created by the daemon since its start, for calls interrupted by a crash.
    pub(super) set_aside: ExternalStates,
}

#[derive(Debug)]
struct RunningCalls {
    session: SessionId,
    call: CallId,
    /// Tree that the call works on.
    root: PathBuf,
    /// True if the call may change any file, rather than only the paths that it names.
    anywhere: bool,
    /// Changes recorded by other calls meanwhile, in order.
    of_others: Vec<FileChange>,
    /// See [`BaseState::external`] and [`BaseState::checked`].
    external: ExternalStates,
    checked: ExternalStates,
    /// State found by the first scan. `None` until the scan has ended, and for a call that is not checked.
    baseline: Option<Arc<Baseline>>,
    /// Calls that ended during the first scan, which may have seen their changes. `None` once the scan has ended.
    ended: Option<Vec<(Arc<Baseline>, ExternalStates)>>,
}

/// States created outside of calls, by undo or a user's answer, or by the check of a call. The keys are real paths.
pub(super) type ExternalStates = HashMap<PathBuf, Option<FileState>>;

/// Changes attributed to a call.
#[derive(Debug)]
pub(super) struct OwnChanges {
    pub(super) changes: Vec<FileChange>,
    /// Changes by other calls that these changes build on.
    pub(super) continued_from: Vec<FileChange>,
}

impl Overlaps {
    /// Registers a call. A session has at most one at a time.
    pub(super) fn begin(&mut self, session: SessionId, call: CallId, root: PathBuf, anywhere: bool) {
        self.calls.retain(|running| running.session != session);
        self.calls.push(RunningCalls {
            session,
            call,
            root,
            anywhere,
            of_others: Vec::new(),
            external: ExternalStates::new(),
            checked: ExternalStates::new(),
            baseline: None,
            ended: Some(Vec::new()),
        });
    }

    /// Returns the calls whose effects the first scan of this call may have seen: those that run, and those that ended
    /// during the scan. Calls scanned later start their commands later.
    pub(super) fn earlier(&mut self, session: SessionId, call: &CallId) -> EarlierCalls {
        let others = self.calls.iter().filter(|other| other.session != session);
        let others = others.filter_map(|other| Some((Arc::clone(other.baseline.as_ref()?), other.external.clone())));
        let mut earlier: Vec<_> = others.collect();
        let Some(own) = self.running(session, call) else { return EarlierCalls::default() };
        earlier.extend(own.ended.take().into_iter().flatten());
        let mut baselines = Vec::new();
        for (baseline, external) in earlier {
            for (path, state) in external {
                if baseline.checks(&path, &GuardedPaths::default()) {
                    own.external.entry(path).or_insert(state);
                }
            }
            baselines.push(baseline);
        }
        EarlierCalls { baselines, decided: own.external.keys().cloned().collect() }
    }

    /// Records the state before a call. Its command starts afterwards.
    pub(super) fn scanned(&mut self, session: SessionId, before: &BaseState) {
        if let Some(own) = self.running(session, &before.call) {
            own.baseline = Baseline::of(before);
        }
    }

    fn running(&mut self, session: SessionId, call: &CallId) -> Option<&mut RunningCalls> {
        self.calls.iter_mut().find(|running| running.session == session && running.call == *call)
    }

    /// Adds what happened in other sessions since the first scan of a call.
    pub(super) fn update(&mut self, session: SessionId, before: &mut BaseState) {
        if let Some(running) = self.running(session, &before.call) {
            before.external.clone_from(&running.external);
            before.checked.clone_from(&running.checked);
        }
        let running = || self.calls.iter().filter_map(|call| call.baseline.as_ref());
        before.earlier.retain(|earlier| running().any(|baseline| Arc::ptr_eq(earlier, baseline)));
    }

    /// Records the states created by the check of an interrupted call, which may follow the first scans of running calls.
    pub(super) fn note_recovered(&mut self, session: SessionId, changes: &[FileChange]) {
        self.set_aside.extend(states(changes));
        self.note(session, changes);
    }

    /// Records the states created by the check of a call.
    pub(super) fn note_check(&mut self, session: SessionId, changes: &[FileChange]) {
        for other in self.calls.iter_mut().filter(|other| other.session != session) {
            other.checked.extend(states(changes));
        }
    }

    /// Records the states created in a session by a user, or after a crash.
    pub(super) fn note(&mut self, session: SessionId, changes: &[FileChange]) {
        for other in self.calls.iter_mut().filter(|other| other.session != session) {
            other.external.extend(states(changes));
        }
    }

    /// Ends a call, and returns the share of the `seen` changes that belongs to it.
    pub(super) fn end(&mut self, session: SessionId, call: &CallId, seen: Vec<FileChange>) -> OwnChanges {
        let ended = self.calls.iter().position(|running| running.session == session && running.call == *call);
        let Some(ended) = ended.map(|index| self.calls.swap_remove(index)) else {
            return OwnChanges { changes: seen, continued_from: Vec::new() };
        };
        let mut own_changes = without(seen, ended.of_others);
        let mut is_ambiguous = false;
        for other in self.calls.iter_mut().filter(|other| other.root == ended.root) {
            other.of_others.extend(own_changes.changes.iter().cloned());
            is_ambiguous |= ended.anywhere && other.anywhere;
        }
        if let Some(baseline) = ended.baseline {
            for during_scan in self.calls.iter_mut().filter_map(|other| other.ended.as_mut()) {
                during_scan.push((Arc::clone(&baseline), ended.external.clone()));
            }
        }
        for change in &mut own_changes.changes {
            change.late |= is_ambiguous;
        }
        own_changes
    }
}

/// Removes changes made by other calls. If such a change led to the current state, no change remains.
fn without(seen: Vec<FileChange>, of_others: Vec<FileChange>) -> OwnChanges {
    let mut by_path: HashMap<String, Vec<FileChange>> = HashMap::new();
    for change in of_others.into_iter().filter(FileChange::is_recorded) {
        by_path.entry(change.path.clone()).or_default().push(change);
    }
    let mut own_changes = OwnChanges { changes: Vec::with_capacity(seen.len()), continued_from: Vec::new() };
    for mut change in seen {
        let others = by_path.remove(&change.path).filter(|_| change.is_recorded()).unwrap_or_default();
        let mut continues = false;
        for other in others {
            if other.before == change.before {
                continues = true;
                change.before.clone_from(&other.after);
                own_changes.continued_from.push(other);
            }
        }
        if continues {
            let Some(kind) = kind_between(&change) else { continue };
            change.change = kind;
        }
        own_changes.changes.push(change);
    }
    own_changes
}

/// Makes changes start at the states that users and checks of other calls created in the meantime, and drops changes
/// without an effect.
pub(super) fn from_external(changes: Vec<FileChange>, external: &ExternalStates) -> Vec<FileChange> {
    let begin = |mut change: FileChange| {
        if let Some(state) = real_path(&change).and_then(|path| external.get(&path)) {
            // The states of a change without stored contents are unknown.
            if change.is_recorded() {
                change.before.clone_from(state);
                change.change = kind_between(&change)?;
            } else if state.is_none() {
                change.change = Some(FileChangeKind::Created).filter(|_| change.change != FileChangeKind::Deleted)?;
            }
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

/// Returns the paths and their states after the changes.
fn states(changes: &[FileChange]) -> impl Iterator<Item = (PathBuf, Option<FileState>)> {
    changes.iter().filter_map(|change| Some((real_path(change)?, change.after.clone())))
}

fn real_path(change: &FileChange) -> Option<PathBuf> {
    let below = SafePath::read(&change.path)?.below;
    Some(change.project.as_ref()?.join(OsStr::from_bytes(&below)))
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::FileKind;

    use super::*;

    /// Checks changes by their initials: `d`eleted, `m`odified, `c`reated; upper case for changes that are only
    /// reported.
    #[track_caller]
    fn check(before: &str, limit: usize, after: &str) {
        let kinds = [('d', FileChangeKind::Deleted), ('m', FileChangeKind::Modified), ('c', FileChangeKind::Created)];
        let state = || Some(FileState { kind: FileKind::File, hash: "1".to_owned(), size: 1, mode: 0o644 });
        let change = |letter: char| {
            let kind = kinds.iter().find(|(known, _)| *known == letter).unwrap().1;
            FileChange { before: state(), after: state(), ..FileChange::new(letter, kind) }
        };
        let mut changes: Vec<FileChange> = before.chars().map(change).collect();
        let note = limit_changes(&mut changes, limit);
        let letter = |change: &FileChange| match change.before {
            Some(_) => change.path.clone(),
            None => change.path.to_uppercase(),
        };
        assert_eq!(changes.iter().map(letter).collect::<String>(), after);
        assert_eq!(note.is_some(), before.len() > limit);
    }

    #[test]
    fn long_paths_count_as_several_changes() {
        let path = |number: usize| format!("{}/{number}", "long".repeat(1_000));
        let mut changes: Vec<FileChange> =
            (0..4_000).map(|number| FileChange::new(path(number), FileChangeKind::Created)).collect();
        assert!(limit_changes(&mut changes, 30_000).is_some());
        assert!((1_500..2_500).contains(&changes.len()), "{} are left", changes.len());
    }

    #[test]
    fn deletions_and_modifications_are_listed_first() {
        check("cdm", 3, "cdm");
        check("cccdm", 3, "cCdm");
        check("cccddd", 3, "Cddd");
        check("ccdddmc", 3, "Cddd");
        check("ddcc", 1, "dD");
        check("ccc", 2, "ccC");
    }
}
