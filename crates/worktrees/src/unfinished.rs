//! Operations that a stop of the daemon cut off: finished, or cleared, before the next one begins.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agentd_core::error::WorkspaceError;
use agentd_sandbox::repository;

use crate::{
    Inner,
    changes::FILES_AT_ONCE,
    output::{self, FileChange},
    place::GitPlace,
    record::{Stage, WorktreeRecord, storage},
};

impl Inner {
    /// Finishes or clears all of them in a repository. What cannot be is logged, and tried again later.
    pub(super) async fn finish_all(&self, common: &Path) -> Result<(), WorkspaceError> {
        let all = self.records.all()?;
        for record in all.into_iter().filter(|record| record.repository.common == common) {
            let finished = match &record.stage {
                Stage::Ready => continue,
                Stage::Making => self.clear(&record.name).await,
                Stage::Committing { at } => {
                    self.remove_stale(own_locks(&record), *at);
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

    /// Takes the main tree on to where it was going. Files that are there already are told to the index first, so that git
    /// takes them for what they are; files that were cut off are made whole.
    async fn finish_applying(
        &self,
        record: &WorktreeRecord,
        from: &str,
        to: &str,
        at: i64,
    ) -> Result<(), WorkspaceError> {
        let ready = || self.records.change(&record.name, |record| record.stage = Stage::Ready);
        let repository = &record.repository;
        if !repository.is_whole() {
            return ready();
        }
        let main = self.git.own_programs(GitPlace::main(repository)).await?;
        let head = self.git.run(&main, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?.line();
        self.remove_stale(main_locks(record), at);
        if head != from {
            // It has arrived, or a person has gone elsewhere since.
            return ready();
        }
        let writing = self.writing_main(&main, repository);
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--end-of-options", from, to];
        let changes = output::changes(&self.git.succeeds(&main, &args, "compare files").await?)?;
        let (mut there, mut again) = (Vec::new(), Vec::new());
        for (change, object) in self.on_disk(record, &main, changes).await? {
            let path = repository.top.join(&change.path);
            match progress(&change, object.as_deref()) {
                Some(FileProgress::Wanted) => there.push(change.path.into_os_string()),
                Some(FileProgress::Other) => {}
                Some(FileProgress::CutOff) => again.push(change.path.into_os_string()),
                None if self.is_beginning(&main, &path, &change.wanted.object).await? => {
                    if change.had.is_none() {
                        // Its beginning is what git had written.
                        let _ = fs::remove_file(path);
                    } else {
                        again.push(change.path.into_os_string());
                    }
                }
                None => {}
            }
        }
        self.on_files(&writing, &["update-index", "--add", "--remove", "--"], &there).await?;
        self.on_files(&writing, &["checkout-index", "--force", "--"], &again).await?;
        if let Err(error) = self.go_forward(record, &main, to).await {
            tracing::warn!("a merge of the worktree {} was cut off, and has to be done again: {error}", record.name);
        }
        ready()
    }

    /// The object that each file of a comparison would be, as it lies in the main tree; none where there is no file.
    async fn on_disk(
        &self,
        record: &WorktreeRecord,
        main: &GitPlace,
        changes: Vec<FileChange>,
    ) -> Result<Vec<(FileChange, Option<String>)>, WorkspaceError> {
        let (mut found, mut files) = (Vec::new(), Vec::new());
        for change in changes {
            let path = record.repository.top.join(&change.path);
            match fs::symlink_metadata(&path) {
                _ if change.had.is_repository() || change.wanted.is_repository() => {}
                Ok(kind) if kind.is_file() => files.push(change),
                Ok(kind) if kind.is_symlink() => {
                    // Git keeps the path that it leads to as if that were a file.
                    let leads_to = fs::read_link(&path).map_err(|error| storage("read a link", error))?;
                    let copy = self.git.scratch_file(&format!("{}.link", record.name))?;
                    fs::write(&copy, leads_to.as_os_str().as_bytes()).map_err(|error| storage("copy a link", error))?;
                    let args =
                        [OsStr::new("hash-object"), OsStr::new("--no-filters"), OsStr::new("--"), copy.as_os_str()];
                    let object = self.git.succeeds(main, &args, "read a link").await?.line();
                    let _ = fs::remove_file(copy);
                    found.push((change, Some(object)));
                }
                Ok(_) => {}
                Err(_) => found.push((change, None)),
            }
        }
        for some in files.chunks(FILES_AT_ONCE) {
            // As it would be committed: with the ends of lines that the repository wants.
            let mut args: Vec<&OsStr> = ["hash-object", "--"].map(OsStr::new).into();
            args.extend(some.iter().map(|change| change.path.as_os_str()));
            let objects = self.git.succeeds(main, &args, "read the files of a merge").await?.line();
            let objects = objects.lines().map(|object| Some(object.to_owned()));
            found.extend(some.iter().cloned().zip(objects));
        }
        Ok(found)
    }

    /// True if a file is the beginning of an object. What is longer than what is read of a call is taken for a person's.
    async fn is_beginning(&self, main: &GitPlace, path: &Path, object: &str) -> Result<bool, WorkspaceError> {
        let wanted = self.git.run(main, &["cat-file", "blob", object]).await?;
        let is_file =
            fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= wanted.bytes.len() as u64);
        let content = if is_file { fs::read(path).ok() } else { None };
        Ok(wanted.code == 0 && content.is_some_and(|content| wanted.bytes.starts_with(&content)))
    }

    /// Runs git on so many files.
    async fn on_files(&self, place: &GitPlace, start: &[&str], files: &[OsString]) -> Result<(), WorkspaceError> {
        for some in files.chunks(FILES_AT_ONCE) {
            let args: Vec<OsString> = start.iter().map(OsString::from).chain(some.iter().cloned()).collect();
            self.git.succeeds(place, &args, "finish a merge").await?;
        }
        Ok(())
    }

    /// Removes the locks that git has left which ended with an earlier life of the daemon: those made between the start of the
    /// operation and that of this life. Others are somebody else's.
    fn remove_stale(&self, locks: Vec<PathBuf>, at: i64) {
        const SLACK: Duration = Duration::from_secs(2);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at).unwrap_or_default());
        if start > self.began {
            return;
        }
        for lock in locks {
            let made = fs::symlink_metadata(&lock).and_then(|found| found.modified());
            if made.is_ok_and(|made| made + SLACK >= start && made <= self.began) {
                let _ = fs::remove_file(lock);
            }
        }
    }
}

/// State of a file in the middle of its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileProgress {
    /// It is as it is to be.
    Wanted,
    /// It was begun: nothing is lost with it.
    CutOff,
    /// It is as it was.
    Other,
}

/// Progress of a file by its object; none where its content has to tell.
fn progress(change: &FileChange, object: Option<&str>) -> Option<FileProgress> {
    let FileChange { had, wanted, .. } = change;
    match object {
        None if wanted.is_none() => Some(FileProgress::Wanted),
        // Git removes a file before it writes the new one.
        None if !had.is_none() => Some(FileProgress::CutOff),
        None => Some(FileProgress::Other),
        Some(object) if !wanted.is_none() && object == wanted.object => Some(FileProgress::Wanted),
        Some(object) if !had.is_none() && object == had.object => Some(FileProgress::Other),
        Some(_) if wanted.is_none() => Some(FileProgress::Other),
        Some(_) => None,
    }
}

/// Locks that an operation on the worktree itself leaves where it is cut off.
fn own_locks(record: &WorktreeRecord) -> Vec<PathBuf> {
    let of_branch = record.repository.common.join(record.reference() + ".lock");
    let of_folder = record.admin.iter().flat_map(|admin| LOCKS.map(|lock| admin.join(lock)));
    of_folder.chain([of_branch]).collect()
}

/// Locks that a merge into the main tree leaves where it is cut off.
fn main_locks(record: &WorktreeRecord) -> Vec<PathBuf> {
    let repository = &record.repository;
    let mut locks: Vec<PathBuf> = LOCKS.map(|lock| repository.git_dir.join(lock)).into();
    locks.push(repository.common.join("packed-refs.lock"));
    // A session may have written it, where the main tree is another worktree.
    let head = repository::pointer(&repository.git_dir.join("HEAD"));
    let is_plain = |branch: &&str| !branch.starts_with('/') && !branch.contains("//") && !branch.contains("..");
    if let Some(branch) = head.as_deref().and_then(|head| head.strip_prefix("ref: refs/heads/")).filter(is_plain) {
        locks.push(repository.common.join("refs/heads").join(format!("{branch}.lock")));
    }
    locks
}

/// Locks in the folder of a tree.
const LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_on_its_way_is_known_by_its_object() {
        let check = |had: &str, wanted: &str, object: Option<&str>, expected: Option<FileProgress>| {
            let mode = |object: &str| if object.is_empty() { "000000" } else { "100644" };
            let raw = format!(":{} {} {had} {wanted} M\0a\0", mode(had), mode(wanted));
            let output = output::GitOutput { code: 0, bytes: raw.into_bytes(), is_cut: false, said: String::new() };
            let change = output::changes(&output).unwrap().remove(0);
            assert_eq!(progress(&change, object), expected, "{had:?} {wanted:?} {object:?}");
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
