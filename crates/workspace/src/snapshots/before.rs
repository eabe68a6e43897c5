//! What a call starts from: the trees before it, and the paths that it names.
//!
//! Calls of several sessions may change the same files at once, as a session and its subagents do. A scan of a whole tree sees
//! the changes of all calls. Changes reported by one call when it ended belong to no other; a change reported while another
//! call is still running may be the other's, so it is marked and not reverted alone.

use std::{collections::HashMap, ffi::OsStr, io, os::unix::ffi::OsStrExt as _, path::PathBuf, sync::Arc};

use agentd_core::{
    guarded::GuardedNames,
    ids::{CallId, SessionId},
    ports::Workspace,
    tool::{FileChange, FileChangeKind, FileState},
};

use super::{
    blobs::{Blobs, Hash},
    guard::CallGuard,
    ignored::IgnoredFolders,
    record::Heartbeat,
    root::{Kind, Root, SafePath},
    tree::{Content, Difference, Tree, Why},
};
use crate::{
    backend::client::FileClient,
    jail::Jail,
    path::{PathPlace, ToolPath},
    text,
};

/// The trees before a call. The call owns them, so that nothing drops them while it runs.
#[derive(Default)]
pub(super) struct Before {
    pub(super) call: CallId,
    pub(super) scoped: bool,
    pub(super) trees: Vec<Arc<Tree>>,
    pub(super) notes: Vec<String>,
    /// Unsaved texts that the call may change.
    pub(super) unsaved: UnsavedContents,
    /// Names in folders that git ignores.
    pub(super) ignored: IgnoredFolders,
    /// Names that others run or obey, as of the look.
    pub(super) names: GuardedNames,
    /// Guard of a call that is checked when it ends.
    pub(super) guard: Option<CallGuard>,
    /// States that people brought about in other sessions since.
    pub(super) kept: KeptStates,
    /// Guarded paths that it cannot change, and why there may be more.
    pub(super) closed: Vec<PathBuf>,
    pub(super) unchecked: Option<String>,
    /// While the call runs; the last sign comes when the last look is over.
    pub(super) pulse: Option<Heartbeat>,
}

impl Before {
    pub(super) fn new(call: &CallId, scoped: bool, trees: Vec<Arc<Tree>>, names: &GuardedNames) -> Self {
        let (call, names) = (call.clone(), names.clone());
        Self { call, scoped, trees, names, ..Self::default() }
    }

    /// Changes of a tree since. A path that only came into view, as when its folder is no longer ignored, is no new one.
    pub(super) fn differences(&self, tree: &Tree, now: &Tree) -> Vec<Difference> {
        let mut found = tree.differences(now);
        found.retain(|found| found.was.is_some() || self.is_new(tree, &found.below));
        found
    }

    /// Returns true if a path that a tree does not have was not there before the call.
    pub(super) fn is_new(&self, tree: &Tree, below: &[u8]) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.has_seen(tree, below, &self.names))
            || !self.ignored.may_have_held(&SafePath { place: tree.place, below: below.to_vec() })
    }

    /// The paths of which no contents are kept.
    pub(super) fn unkept(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.ignored.shown().chain(self.unkept_files().map(|(_, path)| path)).collect();
        // A question is compared with what it would be now.
        paths.sort();
        paths
    }

    /// The files among them, with the reasons.
    pub(super) fn unkept_files(&self) -> impl Iterator<Item = (Why, String)> {
        let entries = self.trees.iter().flat_map(|tree| tree.entries.iter().map(|entry| (tree.place, entry)));
        entries.filter_map(|(place, (below, entry))| match entry.content {
            Content::Unkept(why) => Some((why, SafePath { place, below: below.clone() }.shown(false))),
            _ => None,
        })
    }
}

/// The paths that a scoped look is of.
pub(super) fn spots_of(tree: &Tree) -> impl Iterator<Item = SafePath> {
    tree.entries.keys().map(|below| SafePath { place: tree.place, below: below.clone() })
}

/// The spots that these paths mean. None if one is a link, or below one, or cannot be read: then the changes may be
/// elsewhere, and everything is scanned.
pub(super) fn scope(roots: &[Root], paths: &[String]) -> Option<Vec<SafePath>> {
    let spots: Vec<SafePath> = paths.iter().map(|path| SafePath::read(path)).collect::<Option<_>>()?;
    let is_link = |spot: &SafePath| {
        let root = roots.iter().find(|root| root.place == spot.place)?;
        let mut on_the_way = spot.folders().chain([spot.clone()]);
        Some(on_the_way.any(
            |spot| !matches!(root.look(&spot.below), Ok(found) if found.is_none_or(|found| found.kind != Kind::Link)),
        ))
    };
    // A path in a tree that cannot be written cannot be changed either.
    spots.iter().all(|spot| is_link(spot) != Some(true)).then_some(spots)
}

/// Contents that are kept of unsaved texts, by the paths of their files.
pub(super) type UnsavedContents = HashMap<String, (Hash, u64)>;

/// The unsaved texts of these files, as the disk would have them.
pub(super) async fn texts(
    client: FileClient,
    workspace: Arc<Workspace>,
    paths: Vec<String>,
) -> HashMap<String, Vec<u8>> {
    let asked = tokio::task::spawn_blocking(move || {
        let jail = Jail::new(workspace);
        let unsaved = |path: String| {
            let parsed = ToolPath::parse(&path).ok().filter(|parsed| parsed.place() == PathPlace::Project)?;
            Some((path, client.unsaved(&jail, &parsed)?))
        };
        paths.into_iter().filter_map(unsaved).collect()
    });
    asked.await.unwrap_or_default()
}

/// Keeps the texts. One for which there is no room is not among what comes back.
pub(super) fn keep(blobs: &Blobs, texts: HashMap<String, Vec<u8>>) -> io::Result<UnsavedContents> {
    let mut intake = blobs.intake(false);
    let mut kept = HashMap::new();
    for (path, text) in texts {
        if let Some(hash) = intake.keep(&text)? {
            kept.insert(path, (hash, text.len() as u64));
        }
    }
    intake.finish()?;
    Ok(kept)
}

/// Maximum size of all changes of one call, in bytes: they are one entry of the journal, and one message to clients,
/// which read no more than 16 MiB.
const MAX_BYTES: usize = 8 << 20;

/// Size of one beside its path, in bytes: its states, with their fingerprints.
const BESIDE_PATH: usize = 256;

/// Cuts changes down to this many, and says what is not among them.
///
/// Undoing a part of what a call did must not lose what the whole would have kept: a folder that was moved is one that
/// was made and one that was removed. So what took something away comes first, and what was made is recorded only where
/// there is room behind that. One of those that are left out stays as a change that is only told of, so that an undo
/// says that it is not whole.
pub(super) fn cut(changes: &mut Vec<FileChange>, limit: usize) -> Option<String> {
    let bytes: usize = changes.iter().map(|change| change.path.len() + BESIDE_PATH).sum();
    let limit = if bytes > MAX_BYTES { limit.min(changes.len().saturating_mul(MAX_BYTES) / bytes) } else { limit };
    let more = changes.len().checked_sub(limit).filter(|more| *more > 0)?;
    let is_made = |change: &FileChange| change.change == FileChangeKind::Created;
    let lossy = changes.iter().filter(|change| !is_made(change)).count();
    let (mut lossy_left, mut made_left) = (limit, limit.saturating_sub(lossy));
    let mut told = false;
    changes.retain_mut(|change| {
        let left = if is_made(change) { &mut made_left } else { &mut lossy_left };
        if *left > 0 {
            *left -= 1;
            return true;
        }
        (change.before, change.after) = (None, None);
        !std::mem::replace(&mut told, true)
    });
    Some(format!("{} were changed beyond the {limit} that are recorded", text::count(more, "file")))
}

/// The calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    calls: Vec<RunningCalls>,
    /// States that the daemon brought about since its start, for calls that a crash cut off.
    pub(super) set_aside: KeptStates,
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

#[cfg(test)]
mod tests {
    use agentd_core::tool::FileKind;

    use super::*;

    /// Changes by their first letters: `d`eleted, `m`odified, `c`reated; in capitals if they are only reported.
    #[track_caller]
    fn check(before: &str, limit: usize, after: &str) {
        let kinds = [('d', FileChangeKind::Deleted), ('m', FileChangeKind::Modified), ('c', FileChangeKind::Created)];
        let state = || Some(FileState { kind: FileKind::File, hash: "1".to_owned(), size: 1, mode: 0o644 });
        let change = |letter: char| {
            let kind = kinds.iter().find(|(known, _)| *known == letter).unwrap().1;
            FileChange { before: state(), after: state(), ..FileChange::new(letter, kind) }
        };
        let mut changes: Vec<FileChange> = before.chars().map(change).collect();
        let note = cut(&mut changes, limit);
        let letter = |change: &FileChange| match change.before {
            Some(_) => change.path.clone(),
            None => change.path.to_uppercase(),
        };
        assert_eq!(changes.iter().map(letter).collect::<String>(), after);
        assert_eq!(note.is_some(), before.len() > limit);
    }

    #[test]
    fn long_paths_take_the_room_of_several() {
        let path = |number: usize| format!("{}/{number}", "long".repeat(1_000));
        let mut changes: Vec<FileChange> =
            (0..4_000).map(|number| FileChange::new(path(number), FileChangeKind::Created)).collect();
        assert!(cut(&mut changes, 30_000).is_some());
        assert!((1_500..2_500).contains(&changes.len()), "{} are left", changes.len());
    }

    #[test]
    fn what_took_something_away_comes_first() {
        check("cdm", 3, "cdm");
        check("cccdm", 3, "cCdm");
        check("cccddd", 3, "Cddd");
        check("ccdddmc", 3, "Cddd");
        check("ddcc", 1, "dD");
        check("ccc", 2, "ccC");
    }
}
