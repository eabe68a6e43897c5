//! Files that others run or obey: where they are, by whatever name, and how a change of one is taken back.
//!
//! A guarded link says where its file is, and a file `.git` where its repository is; what lies there is guarded like the
//! name that leads to it, and so is every link on the way. Guards of a call are on the disk before it starts, so that the
//! next start of the daemon checks what a crash kept this one from checking.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guarded::{self, GitEntry, GuardedNames},
    policy::Confinement,
    ports::{Changes, ToolContext, Workspace},
    tool::{FileChange, FileChangeKind, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, reversed},
};
use rustix::fs::{AtFlags, unlinkat};
use serde::{Deserialize, Serialize};

use super::{
    super::path::PathPlace,
    before::Before,
    git_config::runs_no_more,
    pulse::LastSign,
    restore,
    root::{Kind, Root, is_missing, small_in},
    scan::{ScanResult, scan, scan_more},
    session::SessionRecord,
    spot::{SafePath, split},
    tree::Tree,
};

const TOO_MANY: &str = "it has too many folders that git ignores";
/// Links that are followed on one way, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// Bytes of a file `.git` or of a configuration of git that are read.
const MAX_POINTER: u64 = 64 * 1024;
/// Looks after a call, as long as each finds more to take back: behind a folder that could not be opened there may be another.
const ROUNDS: usize = 4;
/// Guarded paths that are closed before a command. Of more, the rest is only checked when it ends.
const MAX_CLOSED: usize = 2000;

/// Guard of one call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CallGuard {
    /// True if what the call leaves behind is not checked: the names alone are stored, for the look after a crash.
    #[serde(default)]
    only_names: bool,
    /// True if only repositories of git are guarded.
    of_git: bool,
    /// Names that a person added.
    names: Vec<String>,
    /// Where guarded links and files led before the call.
    leads: Vec<Lead>,
    /// Folders that could not be opened before the call.
    #[serde(default)]
    unopened: Vec<PathBuf>,
    /// The way back to what was set aside, where the call has ended.
    pub(super) set_aside: Vec<FileChange>,
}

/// A path that is guarded because a guarded name leads there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lead {
    path: PathBuf,
    /// True if it is a repository of git.
    is_git: bool,
    /// True if git itself runs or obeys it.
    by_git: bool,
}

/// Guarded files of the folders of the person, as they were last seen.
#[derive(Debug, Default)]
pub(super) struct GuardedPaths {
    leads: Vec<Lead>,
    /// The topmost ones, by their real paths.
    closed: Vec<PathBuf>,
    /// True if there may be more.
    pub(super) is_partial: bool,
    /// Folders that could not be opened.
    unopened: Vec<PathBuf>,
}

impl CallGuard {
    pub(super) fn of(call: &ToolContext) -> Self {
        Self {
            only_names: !call.confinement.is_checked(),
            of_git: call.confinement == Confinement::GuardedGit,
            names: call.guarded.added().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Returns true if a look after a crash needs it.
    pub(super) fn is_needed(&self) -> bool {
        !self.only_names || !self.names.is_empty()
    }

    /// Returns true if the call is to be checked. One that was, and of which a person may have kept something since, is not.
    pub(super) fn is_due(&self) -> bool {
        !self.only_names && self.set_aside.is_empty()
    }

    /// The same with what was guarded before the call.
    pub(super) fn with(self, guarded: &GuardedPaths) -> Self {
        Self { leads: guarded.leads.clone(), unopened: guarded.unopened.clone(), ..self }
    }

    /// The same when the call has ended.
    pub(super) fn ended(self, set_aside: Vec<FileChange>) -> Self {
        Self { set_aside, ..self }
    }

    pub(super) fn names(&self) -> GuardedNames {
        GuardedNames::with(&self.names).unwrap_or_default()
    }

    /// Returns true if others run or obey what is at this path below the root of a tree.
    pub(super) fn covers(&self, tree: &Tree, below: &[u8], names: &GuardedNames, now: &GuardedPaths) -> bool {
        if !tree.place.is_mounted() {
            return false;
        }
        let by_name =
            if self.of_git { below.split(|byte| *byte == b'/').any(guarded::is_git) } else { names.plants(below) };
        // An added folder can be a repository, or a part of one.
        let is_of_repository = || {
            let mut parts = tree.path.components();
            let is_part = parts.any(|part| guarded::is_git(part.as_os_str().as_bytes()));
            let is_whole = ["HEAD", "objects", "refs"].iter().all(|name| tree.entries.contains_key(name.as_bytes()));
            (is_part || is_whole) && decides(&parts.as_path().join(OsStr::from_bytes(below)))
        };
        // All of an added folder in a hidden place is guarded.
        let is_hidden = || !self.of_git && matches!(tree.place, PathPlace::Folder(_)) && is_hidden(&tree.path);
        by_name || is_hidden() || is_of_repository() || {
            let path = tree.path.join(OsStr::from_bytes(below));
            self.leads.iter().chain(&now.leads).any(|lead| lead.covers(&path, self.of_git))
        }
    }

    /// A folder that cannot be opened any more: what is in it could be anything.
    pub(super) fn closed_by_call<'a>(&self, now: &'a GuardedPaths) -> Option<&'a Path> {
        now.unopened.iter().find(|path| !self.unopened.contains(path)).map(PathBuf::as_path)
    }

    /// Writes it down beside the look before the call.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let draft = file.with_extension("guard-draft");
        let mut written = fs::File::create(&draft)?;
        io::Write::write_all(&mut written, &serde_json::to_vec(self)?)?;
        written.sync_data()?;
        fs::rename(draft, file)
    }

    /// Reads it. Of a call without one nothing is checked.
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        match fs::read(file) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { only_names: true, ..Self::default() }),
            Err(error) => Err(error),
        }
    }
}

impl Lead {
    fn covers(&self, path: &Path, of_git: bool) -> bool {
        match path.strip_prefix(&self.path) {
            Err(_) => false,
            Ok(_) if !self.is_git => self.by_git || !of_git,
            Ok(below) => decides(below),
        }
    }
}

/// Returns true if a path below a repository decides what git runs.
fn decides(below: &Path) -> bool {
    let count = below.components().count();
    for (at, part) in below.components().enumerate() {
        match guarded::git_entry(part.as_os_str().as_bytes(), at + 1 < count) {
            GitEntry::Guarded => return true,
            GitEntry::Repositories => {}
            GitEntry::Store => return guarded::git_entry(part.as_os_str().as_bytes(), true) == GitEntry::Guarded,
        }
    }
    false
}

/// Returns true if a part of the path begins with a dot.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_bytes().starts_with(b"."))
}

impl GuardedPaths {
    /// Takes in what was seen of one tree, after looking at what its guarded names lead to.
    pub(super) fn take_in(
        &mut self,
        root: &Root,
        seen: &mut ScanResult,
        max_files: usize,
        names: &GuardedNames,
    ) -> io::Result<()> {
        self.is_partial |= seen.is_partial;
        let absolute = |below: &[u8]| root.path.join(OsStr::from_bytes(below));
        self.closed.extend(seen.guarded.iter().map(|below| absolute(below)));
        self.unopened.extend(seen.unopened.iter().map(|below| absolute(below)));
        let mut due = Vec::new();
        for below in std::mem::take(&mut seen.bare) {
            due.push(Lead { path: absolute(&below), is_git: true, by_git: true });
        }
        let mut followed = 0;
        loop {
            while let Some(below) = seen.leads.get(followed).cloned() {
                followed += 1;
                due.extend(leads_of(root, &below));
            }
            let Some(lead) = due.pop() else { break };
            if self.leads.contains(&lead) {
                continue;
            }
            if let Ok(below) = lead.path.strip_prefix(&root.path).map(|below| below.as_os_str().as_bytes().to_vec())
                && !below.is_empty()
            {
                scan_more(root, seen, &below, lead.is_git, (max_files, names))?;
            }
            self.leads.push(lead);
        }
        Ok(())
    }

    /// Paths that a command cannot change, and why there may be more that it could.
    pub(super) fn found(&self) -> (Vec<PathBuf>, Option<String>) {
        (self.closed(), self.is_partial.then(|| format!("what it leaves behind cannot be checked: {TOO_MANY}")))
    }

    /// Paths that a command cannot change, topmost first; of links what they lead to.
    fn closed(&self) -> Vec<PathBuf> {
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
        let leads = self.leads.iter().map(|lead| &lead.path);
        let mut closed: Vec<PathBuf> = self.closed.iter().chain(leads).filter(is_there).cloned().collect();
        closed.sort();
        closed.dedup_by(|below, above| below.starts_with(above));
        closed.sort_by_key(|path| path.components().count());
        closed.truncate(MAX_CLOSED);
        closed
    }
}

/// Paths in the tree to which a guarded link, a file `.git` or a configuration of git leads, with the links on the way.
fn leads_of(root: &Root, below: &[u8]) -> Vec<Lead> {
    let own = root.path.join(OsStr::from_bytes(below));
    let is_git = guarded::is_git(split(below).1);
    let by_git = below.split(|byte| *byte == b'/').any(guarded::is_git);
    let starts = if root.link(below).is_ok() { vec![own.clone()] } else { pointers(root, below, is_git) };
    let mut leads = Vec::new();
    for start in starts {
        let mut ways = Vec::new();
        let end = follow(&start, &mut { MAX_LINKS }, &mut ways);
        leads.extend(ways.into_iter().map(|path| Lead { path, is_git: false, by_git }));
        leads.push(Lead { path: end, is_git, by_git });
    }
    // What holds the name itself would be all of the folder.
    leads.retain(|lead| lead.path.starts_with(&root.path) && !own.starts_with(&lead.path));
    leads
}

/// The folder that a file `.git` names, or those of hooks and files that a configuration of git does.
fn pointers(root: &Root, below: &[u8], is_git: bool) -> Vec<PathBuf> {
    let (folder, name) = split(below);
    let content = root.folder(folder).ok().and_then(|folder| small_in(&folder, name, MAX_POINTER));
    let content = content.unwrap_or_default();
    let parent = root.path.join(OsStr::from_bytes(folder));
    if is_git {
        let target = content.strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii).filter(|target| !target.is_empty());
        return target.map(|target| parent.join(OsStr::from_bytes(target))).into_iter().collect();
    }
    let text = String::from_utf8_lossy(&content);
    let values = text.lines().filter_map(|line| line.split_once('=')).filter_map(|(key, value)| {
        let value = value.trim().trim_matches('"');
        match key.trim().rsplit([' ', '\t', ']']).next().unwrap_or_default().to_ascii_lowercase().as_str() {
            // Hooks are looked for from the folder of the files, other configurations from this one.
            "hookspath" => Some(parent.parent()?.join(value)),
            "path" => Some(parent.join(value)),
            _ => None,
        }
    });
    values.collect()
}

/// The end of a way that may lead through links, which are noted. What is not there ends it where it would be.
fn follow(path: &Path, left: &mut usize, links: &mut Vec<PathBuf>) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::Normal(name) => {
                let next = real.join(name);
                match fs::read_link(&next) {
                    Ok(target) if *left > 0 => {
                        *left -= 1;
                        let onward = real.join(target);
                        links.push(next);
                        real = follow(&onward, left, links);
                    }
                    _ => real = next,
                }
            }
            other => real.push(other),
        }
    }
    real
}

impl SessionRecord {
    /// Changes since the look before a call, after those of guarded files are taken back.
    pub(super) fn changes_checked(
        &mut self,
        before: &Before,
        workspace: &Workspace,
        sign: Option<&LastSign>,
    ) -> io::Result<Changes> {
        let (changes, guarded) = self.changes_since(before, workspace, sign)?;
        self.set_aside(changes, guarded, before, workspace)
    }

    /// Takes changes of guarded files back, and looks again whether there are more.
    fn set_aside(
        &mut self,
        mut changes: Changes,
        mut due: Vec<FileChange>,
        before: &Before,
        workspace: &Workspace,
    ) -> io::Result<Changes> {
        let roots = Root::of_commands(Root::all(workspace)?);
        changes.files.extend(due.extract_if(.., |change| self.may_stay(&roots, change)));
        for _ in 0..ROUNDS {
            due.retain(|change| !self.may_stay(&roots, change) && !has_failed(&changes.set_aside, change));
            if due.iter().all(is_open_folder) {
                changes.files.append(&mut due);
                break;
            }
            // What may be somebody else's is taken back, too: nobody looked at it.
            due.iter_mut().for_each(|change| change.late = false);
            let (recorded, blind): (Vec<_>, Vec<_>) = due.into_iter().partition(FileChange::is_recorded);
            let back = {
                let _gate = self.store.blobs.gate();
                restore::undo(workspace, &roots, &self.store.blobs, recorded, false)
            };
            changes.set_aside.files.extend(back.files);
            changes.set_aside.changes.extend(back.changes);
            changes.set_aside.files.extend(blind.into_iter().map(|change| take_back_blind(&roots, change)));
            due = self.changes_since(before, workspace, None)?.1;
        }
        due.retain(|change| {
            !is_open_folder(change) && !self.may_stay(&roots, change) && !has_failed(&changes.set_aside, change)
        });
        let again = |change| taken_back(change, UndoOutcome::Failed, "it was written again".to_owned());
        changes.set_aside.files.extend(due.into_iter().map(again));
        Ok(changes)
    }

    /// Removes new guarded files without keeping them, where nothing can be kept any more: a full disk must not let one stay.
    pub(super) fn remove_planted(&self, before: &Before, workspace: &Workspace) -> io::Result<()> {
        // Where not all was seen before, not all that is here is new.
        let Some(guard) = before.guard.as_ref().filter(|_| before.unchecked.is_none()) else { return Ok(()) };
        // The call itself may have made the tree too large.
        let (max_files, mut removed) = (self.config.max_files.saturating_mul(10), Ok(()));
        for root in Root::of_commands(Root::all(workspace)?) {
            let is_known = |tree: &&Arc<Tree>| tree.place == root.place && tree.unseen.is_none();
            let Some(tree) = before.trees.iter().find(is_known) else { continue };
            let (mut seen, mut now) = (scan(&root, tree, max_files, &self.names)?, GuardedPaths::default());
            now.take_in(&root, &mut seen, max_files, &self.names)?;
            for (below, stamp) in seen.entries {
                let is_new = stamp.kind != Kind::Folder && !tree.entries.contains_key(&below);
                let is_kept = before.kept.contains_key(&root.path.join(OsStr::from_bytes(&below)));
                if is_new && !is_kept && guard.covers(tree, &below, &self.names, &now) {
                    removed = removed.and(remove(&root, &SafePath { place: root.place, below }));
                }
            }
        }
        removed
    }

    /// Returns true for a change of a guarded file by which nothing more is run.
    fn may_stay(&self, roots: &[Root], change: &FileChange) -> bool {
        self.is_harmless(change) || self.is_gone_with_its_folder(roots, change)
    }

    /// Returns true for what is gone with the folder around its guarded name: nothing is obeyed there any more, and undo brings it back.
    fn is_gone_with_its_folder(&self, roots: &[Root], change: &FileChange) -> bool {
        let Some(spot) = SafePath::read(&change.path).filter(|_| change.change == FileChangeKind::Deleted) else {
            return false;
        };
        let Some(end) = self.names.topmost(&spot.below) else { return false };
        let around = split(&spot.below[..end]).0;
        let root = roots.iter().find(|root| root.place == spot.place);
        !around.is_empty() && root.is_some_and(|root| matches!(root.look(around), Ok(None)))
    }

    /// Returns true for what git writes by itself where nothing more is run by it: a new repository, a branch that follows
    /// another.
    fn is_harmless(&self, change: &FileChange) -> bool {
        let Some(name) = change.path.rsplit_once("/.git/").map(|(_, name)| name) else { return false };
        let is_new = change.change == FileChangeKind::Created;
        let content = |state: &Option<FileState>| {
            let state = state.as_ref().filter(|state| state.kind == FileKind::File)?;
            self.store.blobs.read(&state.hash).ok().flatten()
        };
        match name {
            "info/exclude" => is_new && content(&change.after).is_some(),
            "config" => content(&change.after).is_some_and(|after| match content(&change.before) {
                Some(before) => runs_no_more(Some(&before), &after),
                None => is_new && runs_no_more(None, &after),
            }),
            _ => false,
        }
    }
}

/// Returns true for a new folder that can be looked into. Without a file in it, it does nothing.
fn is_open_folder(change: &FileChange) -> bool {
    let is_open = |state: &FileState| state.kind == FileKind::Folder && state.mode & 0o500 == 0o500;
    change.change == FileChangeKind::Created && change.after.as_ref().is_some_and(is_open)
}

/// Returns true if the file of a change could not be taken back before.
fn has_failed(reverted: &FilesReverted, change: &FileChange) -> bool {
    let is_failure = |outcome| matches!(outcome, UndoOutcome::Conflict | UndoOutcome::Failed);
    reverted.files.iter().any(|file| file.path == change.path && is_failure(file.outcome))
}

/// Removes a new file of which no content could be kept: guarded, it does not stay. A change of another kind cannot be taken back.
fn take_back_blind(roots: &[Root], change: FileChange) -> UndoneFile {
    let spot = SafePath::read(&change.path);
    let root = spot.as_ref().and_then(|spot| roots.iter().find(|root| root.place == spot.place));
    let removed = match (change.change, spot.as_ref().zip(root)) {
        (FileChangeKind::Created, Some((spot, root))) => remove(root, spot),
        _ => Err(io::Error::other("what it held before is not kept")),
    };
    match removed {
        Ok(()) => taken_back(change, UndoOutcome::Done, "it was too large to be kept, and is gone".to_owned()),
        Err(error) => taken_back(change, UndoOutcome::Failed, error.to_string()),
    }
}

fn taken_back(change: FileChange, outcome: UndoOutcome, reason: String) -> UndoneFile {
    let back = reversed(&change).change;
    UndoneFile { path: change.path, change: back, outcome, reason: Some(reason), diff: None }
}

fn remove(root: &Root, spot: &SafePath) -> io::Result<()> {
    let (folder, name) = split(&spot.below);
    match unlinkat(root.folder(folder)?, OsStr::from_bytes(name), AtFlags::empty()).map_err(io::Error::from) {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed,
    }
}
