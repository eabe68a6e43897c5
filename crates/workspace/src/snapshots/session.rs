//! State of one session: the last scan of its trees, and the state of the trees before the running call. Blobs and
//! the last scan of each project are shared by all sessions.
//!
//! ```text
//! {session}/look                     last scan before a call; for the user's folders, only their paths
//! {session}/calls/{call}.look        scan before that call: a link to `look`, or a separate file
//! {session}/calls/{call}.project     scan of the first folder of the user, usually the project
//! {session}/calls/{call}.project-2   scan of the second one, and so on; all are renamed when the call has ended
//! {session}/calls/{call}.guard       guard of a call that is checked when it ends
//! {session}/kept                     blobs before and after the session's changes
//! {session}/read                     state of the files that the session has read
//! {session}/alive                    timestamp of the last heartbeat during a call
//! ```
//!
//! The scan before a call is removed once a later call has ended, because the earlier call's result is in the journal
//! by then.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guarded::GuardedNames,
    ids::CallId,
    ports::{Changes, Workspace},
    tool::FileChange,
    undo::FilesReverted,
};

use super::{
    base::{self, BaseState, ExternalStates, from_external, safe_paths_of, scope},
    baseline::EarlierCalls,
    blobs,
    config::SnapshotConfig,
    guard::{CallGuard, GuardedPaths},
    ignored_folders::IgnoredFolders,
    record::{self, Heartbeat, LastSign},
    restore,
    root::{Root, SafePath},
    store::{ENDED, ENDED_OF_PROJECT, Store},
    tree::{Content, Difference, Entry, SkipReason, Tree, tree_of},
};
use crate::{private, text};

/// Extensions of scan files before calls: for the session's own tree, and for the user's folders.
const LOOK: &str = "look";
const OF_PROJECT: &str = "project";
/// Extension of a call's guard file.
const GUARD: &str = "guard";
/// Returns the extension for a user's folder, by its position among these folders.
fn extension_of(first: &str, at: usize) -> String {
    if at == 0 { first.to_owned() } else { format!("{first}-{}", at + 1) }
}

/// Stored state of one session.
pub(super) struct SessionRecord {
    pub(super) folder: PathBuf,
    pub(super) config: SnapshotConfig,
    pub(super) store: Arc<Store>,
    /// Trees as of the last scan.
    pub(super) trees: Vec<Arc<Tree>>,
    /// True if the file `look` describes these trees, including the paths of the user's folders.
    pub(super) saved: bool,
    named: Vec<PathBuf>,
    /// Number of removals at the time when all blobs of the trees were known to be stored.
    pub(super) removals: Option<u64>,
    /// True if the last scan found no space for a blob, although the scan before it did.
    pub(super) lacks_space: bool,
    /// Folders that git ignores, in the last scan.
    pub(super) left_out: Vec<SafePath>,
    /// Names that other programs run or obey, and the guarded files of the last scan.
    pub(super) names: GuardedNames,
    pub(super) guarded: GuardedPaths,
    /// The user's read-only folders. Links in these folders may lead to files that the session may change.
    pub(super) around: Vec<PathBuf>,
}

impl SessionRecord {
    /// Opens the state, creating the folder if it is missing.
    pub(super) fn open(folder: PathBuf, config: SnapshotConfig, store: Arc<Store>) -> io::Result<Self> {
        private::folder(&folder.join("calls"))?;
        let scan = record::read(&folder.join("look"))?;
        let saved = scan.is_some();
        let (mounted, trees): (Vec<Tree>, Vec<Tree>) =
            scan.into_iter().flat_map(|scan| scan.trees).partition(|tree| tree.place.is_mounted());
        let named = mounted.into_iter().map(|tree| tree.path).collect();
        let trees = trees.into_iter().map(Arc::new).collect();
        let (removals, lacks_space, left_out, names, guarded, around) = Default::default();
        Ok(Self { folder, config, store, trees, saved, named, removals, lacks_space, left_out, names, guarded, around })
    }

    /// Scans everything that a call may change, and stores the scan.
    pub(super) fn before(
        &mut self,
        workspace: &Workspace,
        call: &CallId,
        paths: Option<&[String]>,
        unsaved: HashMap<String, Vec<u8>>,
        (names, guard, is_checked): (GuardedNames, CallGuard, bool),
        earlier: impl FnOnce() -> EarlierCalls,
    ) -> io::Result<BaseState> {
        self.names = names;
        let project = workspace.project.iter().map(|mount| (mount.writable, &mount.path));
        let folders = workspace.folders.iter().map(|folder| (folder.writable, &folder.path));
        self.around = project.chain(folders).filter(|(writable, _)| !writable).map(|(_, path)| path.clone()).collect();
        let store = Arc::clone(&self.store);
        let roots = Root::all(workspace)?;
        let marker = self.marker(call);
        // A scan before an approval prompt is outdated when the call finally runs.
        self.forget_markers(|path| path.file_stem() == marker.file_stem());
        let scoped = paths.and_then(|paths| scope(&roots, paths));
        let mut before = if let Some(safe_paths) = scoped {
            let _gate = store.blobs.gate();
            let trees = self.scan_paths(&roots, &safe_paths)?;
            let unsaved = base::store_texts(&store.blobs, unsaved)?;
            store.blobs.sync_contents()?;
            record::write(&marker, true, trees.iter().map(Arc::as_ref))?;
            let before = BaseState { unsaved, ..BaseState::new(call, true, trees, &self.names) };
            let notes = before.unstored_files().map(|(reason, path)| self.config.note(reason, &[&path])).collect();
            BaseState { notes, ..before }
        } else {
            let roots = Root::of_commands(roots);
            {
                let _gate = store.blobs.gate();
                self.adopt_project_scans(&roots)?;
            }
            let (mut notes, _gate) = self.scan_with_space(&store, &roots, &[])?;
            notes.extend(self.full_note());
            store.blobs.sync_contents()?;
            let (mut guard, earlier) = (guard.with(&self.guarded, &self.left_out), earlier());
            earlier.baselines.iter().for_each(|earlier| guard.correct(&earlier.guard, &earlier.trees));
            guard.write(&marker.with_extension(GUARD))?;
            let guard = Some(guard).filter(CallGuard::is_due);
            let mut trees = self.trees.clone();
            if let Some(guard) = &guard {
                trees
                    .iter_mut()
                    .for_each(|tree| *tree = earlier.corrected(tree, &roots, (guard, &self.names, &self.guarded)));
            }
            self.mark(&marker, &trees)?;
            let ignored = IgnoredFolders::before(&roots, std::mem::take(&mut self.left_out)).into();
            let (closed, unchecked) = if guard.is_some() { self.guarded.found() } else { (Vec::new(), None) };
            let before = BaseState::new(call, false, trees, &self.names);
            let scanned = if earlier.baselines.is_empty() { Vec::new() } else { self.trees.clone() };
            BaseState { notes, ignored, guard, closed, unchecked, scanned, earlier: earlier.baselines, ..before }
        };
        if let Some(paths) = paths.filter(|_| is_checked) {
            before.unchecked = self.approval_reason(&Root::all(workspace)?, paths)?;
        }
        File::open(self.folder.join("calls"))?.sync_all()?;
        before.pulse = Some(Heartbeat::start(&self.heartbeat_file())?);
        Ok(before)
    }

    /// Note about files for which there is no space, even after old contents were removed.
    fn full_note(&self) -> Option<String> {
        let is_full = |entry: &&Entry| entry.content == Content::Unstored(SkipReason::Full);
        let files = self.trees.iter().flat_map(|tree| tree.entries.values()).filter(is_full).count();
        let limit = text::size(self.config.max_total_bytes);
        (files > 0)
            .then(|| format!("{} cannot be recorded: the limit of {limit} is reached", text::count(files, "file")))
    }

    /// Adopts the last scans of the user's folders, made by any session.
    fn adopt_project_scans(&mut self, roots: &[Root]) -> io::Result<()> {
        for root in roots.iter().filter(|root| root.place.is_mounted()) {
            if self.known(root).is_some_and(|known| known.skip_reason.is_some()) {
                continue;
            }
            if let Some(last) = self.store.projects.last(&root.path, &self.store.blobs)? {
                self.trees.retain(|tree| tree.place != root.place);
                // The project of one session can be an added folder of another session.
                self.trees.push(if last.place == root.place {
                    last
                } else {
                    Arc::new(Tree { place: root.place, ..Tree::clone(&last) })
                });
            }
        }
        Ok(())
    }

    /// Stores the trees before a call. The session's own tree comes last, because its file marks the scan as complete.
    fn mark(&mut self, marker: &Path, trees: &[Arc<Tree>]) -> io::Result<()> {
        let mounted: Vec<&Arc<Tree>> = trees.iter().filter(|tree| tree.place.is_mounted()).collect();
        for (at, tree) in mounted.iter().enumerate() {
            let name = marker.with_extension(extension_of(OF_PROJECT, at));
            match tree.skip_reason {
                None if self.trees.iter().any(|scanned| Arc::ptr_eq(scanned, tree)) => {
                    self.store.projects.keep(tree, &self.store.blobs, &name)?;
                }
                _ => record::write(&name, false, [tree.as_ref()])?,
            }
        }
        let named: Vec<PathBuf> = mounted.iter().map(|tree| tree.path.clone()).collect();
        let only_name: Vec<Tree> = mounted.iter().map(|tree| Tree::new(tree.place, tree.path.clone())).collect();
        let own = trees.iter().filter(|tree| !tree.place.is_mounted()).map(Arc::as_ref);
        let all: Vec<&Tree> = own.chain(&only_name).collect();
        let scan = self.folder.join("look");
        if !self.saved || self.named != named {
            record::write(&scan, false, all.iter().copied())?;
            (self.saved, self.named) = (true, named);
        }
        record::link(&scan, marker, all)
    }

    /// Scans again, and returns the changes.
    pub(super) fn after(&mut self, workspace: &Workspace, before: BaseState) -> io::Result<Changes> {
        // Another call, or a reload of this record, may have changed the names since the call began.
        self.names = before.names.clone();
        let changes = self.changes_checked(&before, workspace, None);
        let changes = changes.or_else(|error| self.remove_planted(&before, workspace).and(Err(error)))?;
        let marker = self.marker(&before.call);
        // A call without changes needs no recovery.
        let has_changed = !changes.files.is_empty() || !changes.set_aside.files.is_empty();
        self.forget_markers(|path| !has_changed || path.file_stem() != marker.file_stem());
        if let Some(mut guard) = before.guard.filter(|_| !changes.set_aside.files.is_empty()) {
            guard.set_aside.clone_from(&changes.set_aside.changes);
            // On failure, the renamed scans show the next start that the call has ended.
            let _ = guard.write(&marker.with_extension(GUARD));
        }
        let mounted = self.trees.iter().filter(|tree| tree.place.is_mounted()).enumerate();
        let mounted = mounted.map(|(at, _)| (extension_of(OF_PROJECT, at), extension_of(ENDED_OF_PROJECT, at)));
        for (open, ended) in mounted.chain([(LOOK.to_owned(), ENDED.to_owned())]) {
            // If a file cannot be renamed, the only effect is that blobs are retained longer than necessary.
            let _ = fs::rename(marker.with_extension(open), marker.with_extension(ended));
        }
        Ok(changes)
    }

    /// Changes made by a call that a crash interrupted. Changes that someone else may have made are marked as late.
    pub(super) fn unfinished(
        &mut self,
        workspace: &Workspace,
        call: &CallId,
        external: ExternalStates,
    ) -> io::Result<Changes> {
        let mut marker = self.marker(call);
        let mut of_project = OF_PROJECT;
        if !marker.exists() {
            marker.set_extension(ENDED);
            of_project = ENDED_OF_PROJECT;
        }
        let Some(record) = record::read(&marker)? else { return Ok(Changes::default()) };
        let mut trees = record.trees;
        if !record.scoped {
            // The user's folders are stored in separate files.
            let named = trees.extract_if(.., |tree| tree.place.is_mounted()).count();
            for at in 0..named {
                let mounted = record::read(&marker.with_extension(extension_of(of_project, at)))?;
                trees.extend(mounted.into_iter().flat_map(|record| record.trees));
            }
        }
        let trees = trees.into_iter().map(Arc::new).collect();
        let guard = CallGuard::read(&marker.with_extension(GUARD))?;
        self.names = guard.names();
        let earlier = guard.set_aside.clone();
        let ignored = IgnoredFolders::unread(&guard.left_out).into();
        let guard = Some(guard).filter(|guard| guard.is_due() && of_project == OF_PROJECT);
        let before = BaseState { guard, ignored, external, ..BaseState::new(call, record.scoped, trees, &self.names) };
        let checked = self.changes_checked(&before, workspace, Some(&LastSign::read(&self.heartbeat_file())));
        let mut changes = checked.or_else(|error| self.remove_planted(&before, workspace).and(Err(error)))?;
        changes.set_aside.changes.extend(earlier);
        Ok(changes)
    }

    /// Determines all changes, and separately the changes to guarded files. `sign` is the last heartbeat after a crash.
    pub(super) fn changes_since(
        &mut self,
        before: &BaseState,
        workspace: &Workspace,
        sign: Option<&LastSign>,
    ) -> io::Result<(Changes, Vec<FileChange>)> {
        let store = Arc::clone(&self.store);
        let mut roots = Root::all(workspace)?;
        // The notes from before the call do not apply if only single paths are scanned.
        let mut notes = if before.scoped { Vec::new() } else { before.notes.clone() };
        let _gate;
        let now = if before.scoped {
            let safe_paths: Vec<SafePath> = before.trees.iter().flat_map(|tree| safe_paths_of(tree)).collect();
            _gate = store.blobs.gate();
            self.scan_paths(&roots, &safe_paths)?
        } else {
            // All known paths must be scanned again, even if a crash lost the last scan.
            roots = Root::of_commands(roots);
            let tree_at = |root: &Root| tree_of(&before.trees, root).or_else(|| self.known(root));
            self.trees = roots.iter().filter_map(tree_at).collect();
            let (seen, gate) = self.scan_with_space(&store, &roots, &before.trees)?;
            _gate = gate;
            notes.extend(seen);
            for tree in self.trees.iter().filter(|tree| tree.place.is_mounted() && tree.skip_reason.is_none()) {
                store.projects.note(tree, &store.blobs);
            }
            self.trees.clone()
        };
        if let Some(guard) = &before.guard {
            if let Some(folder) = guard.closed_by_call(&self.guarded) {
                return Err(io::Error::other(format!("the call made the folder {} unreadable", folder.display())));
            }
            let was_seen =
                |tree: &Tree| before.trees.iter().any(|known| known.place == tree.place && known.skip_reason.is_none());
            let is_lost = now.iter().any(|tree| tree.skip_reason.is_some() && was_seen(tree));
            if is_lost || before.unchecked.is_none() && self.guarded.is_partial {
                return Err(io::Error::other("the call left too many files to check"));
            }
        }
        notes.sort();
        notes.dedup();
        let (mut differences, mut guarded) = (Vec::new(), Vec::new());
        for tree in &before.trees {
            if let Some(now) = now.iter().find(|now| now.place == tree.place && now.path == tree.path) {
                let root = roots.iter().find(|root| root.place == tree.place);
                let is_missing = |below: &[u8]| root.is_some_and(|root| matches!(root.stamp_of(below), Ok(None)));
                let tree = &before.with_decisions(tree, now, is_missing);
                if Arc::ptr_eq(tree, now) {
                    continue;
                }
                let mut found = before.differences(tree, now);
                if let (Some(sign), Some(root)) = (sign, roots.iter().find(|root| root.place == tree.place)) {
                    for difference in &mut found {
                        difference.change.late = sign.is_before(root, difference);
                    }
                }
                if let Some(guard) = &before.guard {
                    let is_guarded =
                        |found: &mut Difference| guard.covers(tree, &found.below, &self.names, &self.guarded);
                    // A running call is checked later; what a check accepts is not a change of this call.
                    let is_of_another = |found: &Difference| {
                        let path = tree.path.join(OsStr::from_bytes(&found.below));
                        let is_checked_later =
                            || before.earlier.iter().any(|call| call.checks(&path, &GuardedPaths::default()));
                        before.was_scanned(&found.below, now)
                            && (is_checked_later() || self.is_acceptable(&roots, &found.change))
                    };
                    let due = found.extract_if(.., is_guarded).filter(|found| !is_of_another(found));
                    guarded.extend(due.map(|found| found.change));
                }
                differences.extend(found);
            }
        }
        let mut unstored: BTreeMap<SkipReason, Vec<&str>> = BTreeMap::new();
        for difference in &differences {
            if let Some(reason) = difference.unstored {
                unstored.entry(reason).or_default().push(&difference.change.path);
            }
        }
        notes.extend(unstored.into_iter().map(|(reason, paths)| self.config.note(reason, &paths)));
        let others =
            before.checked.iter().chain(&before.external).map(|(path, state)| (path.clone(), state.clone())).collect();
        let mut files = from_external(differences.into_iter().map(|difference| difference.change).collect(), &others);
        // The old content of an unsaved file is its unsaved text.
        files.retain_mut(|change| {
            let unsaved = before.unsaved.get(&change.path).zip(change.before.as_mut());
            let Some(((hash, size), state)) = unsaved else { return true };
            (state.hash, state.size) = (blobs::text(hash), *size);
            change.before != change.after
        });
        notes.extend(base::limit_changes(&mut files, self.config.max_changes));
        let (deleted, counted) = before.ignored.deletions(&roots, &before.trees);
        files.extend(deleted);
        notes.extend(counted);
        let guarded = from_external(guarded, &before.external);
        record::add_to_manifest(&self.folder, &record::contents_of(&[&files[..], &guarded].concat()))?;
        Ok((Changes { files, notes, ..Changes::default() }, guarded))
    }

    /// Records that the blobs in changes of other sessions are needed.
    pub(super) fn adopt(&self, changes: Vec<FileChange>) -> io::Result<Vec<FileChange>> {
        let _gate = self.store.blobs.gate();
        let adopt = |change: FileChange| {
            let mut contents = record::contents_of(std::slice::from_ref(&change)).into_iter();
            let is_kept = contents.all(|(hash, size)| self.store.blobs.has(&hash, size));
            if is_kept { change } else { FileChange::new(change.path, change.change) }
        };
        let adopted: Vec<FileChange> = changes.into_iter().map(adopt).collect();
        record::add_to_manifest(&self.folder, &record::contents_of(&adopted))?;
        Ok(adopted)
    }

    /// Reverts changes, or returns a preview.
    pub(super) fn undo(
        &mut self,
        workspace: &Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> io::Result<FilesReverted> {
        let roots = Root::all(workspace)?;
        let _gate = self.store.blobs.gate();
        Ok(restore::undo(workspace, &roots, &self.store.blobs, changes, preview))
    }

    fn marker(&self, call: &CallId) -> PathBuf {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let name: String = call.as_str().chars().filter(|letter| plain(*letter)).take(100).collect();
        self.folder.join("calls").join(name).with_extension(LOOK)
    }

    fn heartbeat_file(&self) -> PathBuf {
        self.folder.join("alive")
    }

    /// Removes matching scans before calls. A leftover is harmless, because the result of its call is in the journal.
    fn forget_markers(&self, goes: impl Fn(&Path) -> bool) {
        let Ok(markers) = fs::read_dir(self.folder.join("calls")) else { return };
        for marker in markers.flatten().filter(|marker| goes(&marker.path())) {
            let _ = fs::remove_file(marker.path());
        }
    }
}
