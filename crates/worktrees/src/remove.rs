//! Removes worktrees: the folder, git's data about it, its branch, and finally the record, so that an interrupted
//! removal can be continued. Operations interrupted by a stop of the daemon are finished or discarded before the next
//! operation starts.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agentd_sandbox::repository;
use agentd_workspace::remove::folder_at;

use crate::{
    Inner,
    changes::{FILES_AT_ONCE, Objects},
    create::index_name,
    git::{self, FileChange},
    merge::now,
    record::{GitPlace, Result, Stage, WorktreeRecord, conflict, storage},
};

impl Inner {
    pub(super) async fn remove(&self, name: &str, force: bool) -> Result<()> {
        let record = self.records.get(name)?;
        let children = self.children(&record)?;
        if !children.is_empty() {
            let children = children.join(", ");
            let message =
                format!("other worktrees were created from the worktree {name} and merge into it: {children}");
            return Err(conflict(message, "apply or remove those first"));
        }
        if !force && !self.can_be_removed(&record).await? {
            let message = format!("the worktree {name} has unmerged changes");
            let hint = format!(
                "`agentctl worktree diff {name}` shows them, `agentctl worktree apply {name}` merges them, and --force \
                 removes them for good"
            );
            return Err(conflict(message, hint));
        }
        self.remove_completely(record).await
    }

    /// Removes a worktree if no changes would be lost. Returns true if the worktree was removed.
    pub(super) async fn remove_if_merged(&self, name: &str) -> Result<bool> {
        let Some(record) = self.records.find(name)? else { return Ok(true) };
        if !self.children(&record)?.is_empty() || !self.can_be_removed(&record).await? {
            return Ok(false);
        }
        self.remove_completely(record).await.map(|()| true)
    }

    /// Returns the names of the worktrees whose main worktree is this one.
    fn children(&self, record: &WorktreeRecord) -> Result<Vec<String>> {
        let top = self.records.real_base()?.join(&record.name);
        let is_child = |other: &WorktreeRecord| other.name != record.name && other.repository.top == top;
        Ok(self.records.all()?.into_iter().filter(is_child).map(|other| other.name).collect())
    }

    /// Returns true if no changes are lost by removing a worktree.
    async fn can_be_removed(&self, record: &WorktreeRecord) -> Result<bool> {
        let record = self.ready(&record.name)?;
        let found = async {
            let state = self.state_of(&record, Objects::Temporary).await?;
            self.is_merged(&record, &state).await
        };
        let found = found.await;
        self.drop_objects(&record.name);
        found
    }

    async fn remove_completely(&self, mut record: WorktreeRecord) -> Result<()> {
        let branches = GitPlace::branches(&record.repository);
        let mut tip = None;
        if record.repository.common.is_dir() {
            tip = self.git.commit(&branches, &record.reference()).await?;
        }
        record.stage = Stage::Removing { tip, at: now() };
        self.records.store(&record)?;
        self.finish_removal(&record).await
    }

    /// Removes the remaining parts of a worktree.
    pub(super) async fn finish_removal(&self, record: &WorktreeRecord) -> Result<()> {
        let Stage::Removing { tip, .. } = &record.stage else { return Ok(()) };
        self.remove_files(record)?;
        // Only the branch's own lock is removed, because the user may be working in the main worktree.
        let _ = fs::remove_file(record.repository.common.join(record.reference() + ".lock"));
        if let Some(tip) = tip
            && record.repository.common.is_dir()
        {
            self.remove_branch(record, tip).await;
        }
        self.records.forget(&record.name)
    }

    /// Removes an incomplete worktree, which was never shown to users.
    pub(super) async fn clear(&self, name: &str) -> Result<()> {
        let Some(mut record) = self.records.find(name)? else { return Ok(()) };
        record.stage = Stage::Removing { tip: Some(record.base.clone()), at: record.at.as_second() };
        self.records.store(&record)?;
        self.finish_removal(&record).await
    }

    fn remove_files(&self, record: &WorktreeRecord) -> Result<()> {
        let (base, common) = (self.records.real_base()?, &record.repository.common);
        let top = base.join(&record.name);
        let failed = |error| storage(&format!("remove the worktree {}", record.name), error);
        // Determined before the folder that it refers to is removed.
        let admin = record.admin.clone().or_else(|| repository::admin_for(&top, common));
        folder_at(&base, record.name.as_ref()).map_err(failed)?;
        let all = common.join("worktrees");
        if let Some(admin) = admin.filter(|admin| admin.parent() == Some(all.as_path())) {
            folder_at(&all, admin.file_name().unwrap_or_default()).map_err(failed)?;
            // Removed if empty, as git does.
            let _ = fs::remove_dir(&all);
        }
        if let Ok(index) = self.git.scratch_file(&index_name(&record.name)) {
            let _ = fs::remove_file(index);
        }
        if let Ok(merge) = self.git.merge_folder(&record.name) {
            let _ = fs::remove_dir(merge);
        }
        Ok(())
    }

    /// Removes the branch, unless it points to another commit by now.
    async fn remove_branch(&self, record: &WorktreeRecord, tip: &str) {
        let removed = async {
            let place = self.git.override_programs(GitPlace::branches(&record.repository)).await?;
            let place = place.writing(&[&record.repository.common]);
            self.git.run(&place, &["update-ref", "--no-deref", "-d", &record.reference(), tip]).await
        };
        let removed: Result<_> = removed.await;
        match removed {
            Ok(output) if output.code == 0 => {}
            Ok(output) => tracing::warn!("could not remove the branch {}: {}", record.branch(), output.last_lines()),
            Err(error) => tracing::warn!("could not remove the branch {}: {error}", record.branch()),
        }
    }
}

impl Inner {
    /// Finishes or discards all interrupted operations in a repository. Failures are logged, and the operations are
    /// retried later.
    pub(super) async fn finish_all(&self, common: &Path) -> Result<()> {
        let all = self.records.all()?;
        for record in all.into_iter().filter(|record| record.repository.common == common) {
            let finished = match &record.stage {
                Stage::Ready => continue,
                Stage::Making => self.clear(&record.name).await,
                Stage::Committing { at } => {
                    // Locks left by an interrupted operation on the worktree itself.
                    let of_branch = common.join(record.reference() + ".lock");
                    let of_folder = record.admin.iter().flat_map(|admin| LOCKS.map(|lock| admin.join(lock)));
                    self.remove_stale(of_folder.chain([of_branch]).collect(), *at);
                    self.records.change(&record.name, |record| record.stage = Stage::Ready)
                }
                Stage::Removing { at, .. } => {
                    self.remove_stale(vec![common.join("packed-refs.lock")], *at);
                    self.finish_removal(&record).await
                }
                Stage::Applying { from, to, at } => self.finish_applying(&record, from, to, *at).await,
            };
            if let Err(error) = finished {
                tracing::warn!("an operation on the worktree {} could not be finished: {error}", record.name);
            }
        }
        Ok(())
    }

    /// Continues moving the main worktree to its target commit. Files that are complete are added to the index first,
    /// so that git recognises them. Partial files are checked out again.
    async fn finish_applying(&self, record: &WorktreeRecord, from: &str, to: &str, at: i64) -> Result<()> {
        let ready = || self.records.change(&record.name, |record| record.stage = Stage::Ready);
        let repository = &record.repository;
        if !repository.tree_exists() {
            return ready();
        }
        let main = self.git.override_programs(GitPlace::main(repository)).await?;
        let head = self.git.commit(&main, "HEAD").await?;
        self.remove_stale(main_locks(record), at);
        if head.as_deref() != Some(from) {
            // The target was reached, or the user has moved to another commit since then.
            return ready();
        }
        let writing = self.writable_main(&main, repository);
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--end-of-options", from, to];
        let changes = git::changes(&self.git.succeeds(&main, &args, "compare files").await?)?;
        let (mut complete, mut incomplete) = (Vec::new(), Vec::new());
        for (change, object) in self.objects_on_disk(record, &main, changes).await? {
            let path = repository.top.join(&change.path);
            match progress(&change, object.as_deref()) {
                Some(FileProgress::Wanted) => complete.push(change.path.into_os_string()),
                Some(FileProgress::Other) => {}
                Some(FileProgress::CutOff) => incomplete.push(change.path.into_os_string()),
                None if self.is_beginning(&main, &path, &change.wanted.object).await? => {
                    if change.initial.is_none() {
                        // The file was only partially written by git.
                        let _ = fs::remove_file(path);
                    } else {
                        incomplete.push(change.path.into_os_string());
                    }
                }
                None => {}
            }
        }
        self.run_on_files(&writing, &["update-index", "--add", "--remove", "--"], &complete).await?;
        self.run_on_files(&writing, &["checkout-index", "--force", "--"], &incomplete).await?;
        if let Err(error) = self.fast_forward(record, &main, to).await {
            tracing::warn!("a merge of the worktree {} was interrupted and must be repeated: {error}", record.name);
        }
        ready()
    }

    /// Returns the object ID of each changed file in the main worktree, `None` for a file that does not exist.
    async fn objects_on_disk(
        &self,
        record: &WorktreeRecord,
        main: &GitPlace,
        changes: Vec<FileChange>,
    ) -> Result<Vec<(FileChange, Option<String>)>> {
        let (mut found, mut files) = (Vec::new(), Vec::new());
        for change in changes {
            let path = record.repository.top.join(&change.path);
            match fs::symlink_metadata(&path) {
                _ if change.initial.is_repository() || change.wanted.is_repository() => {}
                Ok(kind) if kind.is_file() => files.push(change),
                Ok(kind) if kind.is_symlink() => {
                    // Git stores the target of a link like the content of a file.
                    let leads_to = fs::read_link(&path).map_err(|error| storage("read a link", error))?;
                    let copy = self.git.scratch_file(&format!("{}.link", record.name))?;
                    fs::write(&copy, leads_to.as_os_str().as_bytes()).map_err(|error| storage("copy a link", error))?;
                    let args = ["hash-object", "--no-filters", "--"].map(OsStr::new);
                    let args = [&args[..], &[copy.as_os_str()]].concat();
                    let object = self.git.succeeds(main, &args, "read a link").await?.line();
                    let _ = fs::remove_file(copy);
                    found.push((change, Some(object)));
                }
                Ok(_) => {}
                Err(_) => found.push((change, None)),
            }
        }
        for some in files.chunks(FILES_AT_ONCE) {
            // Hashed as git would commit the file, with normalised line ends.
            let mut args: Vec<&OsStr> = ["hash-object", "--"].map(OsStr::new).into();
            args.extend(some.iter().map(|change| change.path.as_os_str()));
            let objects = self.git.succeeds(main, &args, "read the files of a merge").await?.line();
            let objects = objects.lines().map(|object| Some(object.to_owned()));
            found.extend(some.iter().cloned().zip(objects));
        }
        Ok(found)
    }

    /// Returns true if a file is a prefix of an object. A file longer than the output limit is assumed to be the
    /// user's.
    async fn is_beginning(&self, main: &GitPlace, path: &Path, object: &str) -> Result<bool> {
        let wanted = self.git.run(main, &["cat-file", "blob", object]).await?;
        let is_file =
            fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= wanted.bytes.len() as u64);
        let content = if is_file { fs::read(path).ok() } else { None };
        Ok(wanted.code == 0 && content.is_some_and(|content| wanted.bytes.starts_with(&content)))
    }

    /// Runs git on files, in batches.
    async fn run_on_files(&self, place: &GitPlace, start: &[&str], files: &[OsString]) -> Result<()> {
        for some in files.chunks(FILES_AT_ONCE) {
            let args: Vec<OsString> = start.iter().map(OsString::from).chain(some.iter().cloned()).collect();
            self.git.succeeds(place, &args, "finish a merge").await?;
        }
        Ok(())
    }

    /// Removes locks that git left when a previous run ended: locks created between the start of the operation and the
    /// start of this process. Other locks belong to other processes.
    fn remove_stale(&self, locks: Vec<PathBuf>, at: i64) {
        const SLACK: Duration = Duration::from_secs(2);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at).unwrap_or_default());
        if start > self.began {
            return;
        }
        for lock in locks {
            let created = fs::symlink_metadata(&lock).and_then(|found| found.modified());
            if created.is_ok_and(|created| created + SLACK >= start && created <= self.began) {
                let _ = fs::remove_file(lock);
            }
        }
    }
}

/// State of a file in an interrupted fast-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileProgress {
    /// The file is in its target state.
    Wanted,
    /// Git began to write the file. Overwriting the file loses no changes of the user.
    CutOff,
    /// The file is in its initial state, or was changed by the user.
    Other,
}

/// Returns the state of a file according to its object, or `None` if its content must be checked.
fn progress(change: &FileChange, object: Option<&str>) -> Option<FileProgress> {
    let FileChange { initial, wanted, .. } = change;
    match object {
        None if wanted.is_none() => Some(FileProgress::Wanted),
        // Git removes a file before it writes the new content.
        None if !initial.is_none() => Some(FileProgress::CutOff),
        None => Some(FileProgress::Other),
        Some(object) if !wanted.is_none() && object == wanted.object => Some(FileProgress::Wanted),
        Some(object) if !initial.is_none() && object == initial.object => Some(FileProgress::Other),
        Some(_) if wanted.is_none() => Some(FileProgress::Other),
        Some(_) => None,
    }
}

/// Returns the locks left by an interrupted merge into the main worktree.
fn main_locks(record: &WorktreeRecord) -> Vec<PathBuf> {
    let repository = &record.repository;
    let mut locks: Vec<PathBuf> = LOCKS.map(|lock| repository.git_dir.join(lock)).into();
    locks.push(repository.common.join("packed-refs.lock"));
    // If the main worktree is the worktree of another session, that session may have written `HEAD`.
    let head = repository::pointer(&repository.git_dir.join("HEAD"));
    let is_plain = |branch: &&str| !branch.starts_with('/') && !branch.contains("//") && !branch.contains("..");
    if let Some(branch) = head.as_deref().and_then(|head| head.strip_prefix("ref: refs/heads/")).filter(is_plain) {
        locks.push(repository.common.join("refs/heads").join(format!("{branch}.lock")));
    }
    locks
}

/// Locks in the administrative folder of a tree.
const LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_progress_is_derived_from_the_object_id() {
        let check = |initial: &str, wanted: &str, object: Option<&str>, expected: Option<FileProgress>| {
            let mode = |object: &str| if object.is_empty() { "000000" } else { "100644" };
            let raw = format!(":{} {} {initial} {wanted} M\0a\0", mode(initial), mode(wanted));
            let output = git::GitOutput { code: 0, bytes: raw.into_bytes(), is_cut: false, stderr: String::new() };
            let change = git::changes(&output).unwrap().remove(0);
            assert_eq!(progress(&change, object), expected, "{initial:?} {wanted:?} {object:?}");
        };
        check("old", "new", Some("new"), Some(FileProgress::Wanted));
        check("old", "new", Some("old"), Some(FileProgress::Other));
        check("old", "new", Some("part"), None);
        check("", "new", Some("part"), None);
        check("", "new", None, Some(FileProgress::Other));
        check("old", "new", None, Some(FileProgress::CutOff));
        check("old", "", None, Some(FileProgress::Wanted));
        check("old", "", Some("old"), Some(FileProgress::Other));
        check("old", "", Some("mine"), Some(FileProgress::Other));
    }
}
