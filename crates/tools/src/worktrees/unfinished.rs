//! Operations that a stop of the daemon cut off: finished, or cleared, before the next one begins.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use agentd_core::error::WorkspaceError;

use super::{
    Inner,
    git::GitPlace,
    record::{Stage, WorktreeRecord},
};

impl Inner {
    /// Finishes or clears all of them. What cannot be is logged, and tried again later.
    pub(super) async fn finish_all(&self) -> Result<(), WorkspaceError> {
        for record in self.records.all()? {
            let finished = match &record.stage {
                Stage::Ready => continue,
                Stage::Making => self.clear(&record.name).await,
                Stage::Committing { at } => {
                    remove_stale_locks(&record, *at);
                    self.records.change(&record.name, |record| record.stage = Stage::Ready)
                }
                Stage::Removing { .. } => self.finish_removal(&record).await,
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
        if !repository.git_dir.is_dir() {
            return ready();
        }
        let main = self.git.own_programs(GitPlace::main(repository)).await?;
        let head = self.git.run(&main, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?.line();
        remove_stale_locks(record, at);
        if head != from {
            // It has arrived, or a person has gone elsewhere since.
            return ready();
        }
        let writing = self.writing_main(&main, repository);
        let mut cut_off = Vec::new();
        for file in self.between(&main, from, to).await? {
            let (had, wanted) = (self.blob(&main, from, &file).await?, self.blob(&main, to, &file).await?);
            match found(&repository.top.join(&file), had.as_deref(), wanted.as_deref()) {
                FileProgress::Wanted => {
                    let args = ["update-index", "--add", "--remove", "--", &file];
                    self.git.succeeds(&writing, &args, "finish a merge").await?;
                }
                FileProgress::CutOff => cut_off.push((file, had.is_none())),
                FileProgress::Other => {}
            }
        }
        for (file, is_new) in &cut_off {
            if *is_new {
                // Its beginning is what git had written.
                let _ = fs::remove_file(repository.top.join(file));
                continue;
            }
            let args = ["checkout-index", "--force", "--", file];
            self.git.succeeds(&writing, &args, "finish a merge").await?;
        }
        if let Err(error) = self.go_forward(record, &main, to).await {
            tracing::warn!("a merge of the worktree {} was cut off, and has to be done again: {error}", record.name);
        }
        ready()
    }

    /// A file of a commit; none where it has none.
    async fn blob(&self, main: &GitPlace, commit: &str, file: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        let shown = self.git.run(main, &["cat-file", "blob", &format!("{commit}:{file}")]).await?;
        Ok((shown.code == 0 && !shown.is_cut).then(|| shown.text.into_bytes()))
    }
}

/// State of a file in the middle of its way.
#[derive(Debug, PartialEq, Eq)]
enum FileProgress {
    /// It is as it is to be.
    Wanted,
    /// It was begun: nothing is lost with it.
    CutOff,
    /// It is as it was, or somebody has changed it.
    Other,
}

fn found(path: &Path, had: Option<&[u8]>, wanted: Option<&[u8]>) -> FileProgress {
    let content = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => fs::read(path).ok(),
        Ok(_) => return FileProgress::Other,
        Err(_) => None,
    };
    match (content, wanted) {
        (None, None) => FileProgress::Wanted,
        (None, Some(_)) if had.is_some() => FileProgress::CutOff,
        (Some(content), Some(wanted)) if content == wanted => FileProgress::Wanted,
        (Some(content), _) if had == Some(content.as_slice()) => FileProgress::Other,
        (Some(content), Some(wanted)) if wanted.starts_with(&content) => FileProgress::CutOff,
        _ => FileProgress::Other,
    }
}

/// Removes the locks that git has left which was cut off: those that are as old as that. Others are somebody else's.
pub(super) fn remove_stale_locks(record: &WorktreeRecord, at: i64) {
    const SLACK: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_secs(600);
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at).unwrap_or_default());
    let repository = &record.repository;
    let mut locks =
        vec![repository.common.join("packed-refs.lock"), repository.common.join(record.reference() + ".lock")];
    for folder in [Some(&repository.git_dir), record.admin.as_ref()].into_iter().flatten() {
        locks.extend(["index.lock", "HEAD.lock", "ORIG_HEAD.lock"].map(|lock| folder.join(lock)));
    }
    // The branch of the main tree.
    if let Ok(head) = fs::read_to_string(repository.git_dir.join("HEAD"))
        && let Some(branch) = head.trim().strip_prefix("ref: refs/heads/").filter(|branch| !branch.contains(".."))
    {
        locks.push(repository.common.join("refs/heads").join(format!("{branch}.lock")));
    }
    for lock in locks {
        let made = fs::symlink_metadata(&lock).and_then(|found| found.modified());
        if made.is_ok_and(|made| made + SLACK >= began && made <= began + LONGEST) {
            let _ = fs::remove_file(lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_on_its_way_is_known_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let check = |content: Option<&str>, had: Option<&str>, wanted: Option<&str>, expected: FileProgress| {
            let _ = fs::remove_file(&path);
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            let state = found(&path, had.map(str::as_bytes), wanted.map(str::as_bytes));
            assert_eq!(state, expected, "{content:?} {had:?} {wanted:?}");
        };
        check(Some("new"), Some("old"), Some("new"), FileProgress::Wanted);
        check(Some("old"), Some("old"), Some("new"), FileProgress::Other);
        check(Some("ne"), Some("old"), Some("new"), FileProgress::CutOff);
        check(Some(""), None, Some("new"), FileProgress::CutOff);
        check(None, Some("old"), Some("new"), FileProgress::CutOff);
        check(None, Some("old"), None, FileProgress::Wanted);
        check(Some("mine"), Some("old"), Some("new"), FileProgress::Other);
        check(Some("old"), Some("old"), None, FileProgress::Other);
    }
}
