//! Drafts: temporary files that replace others once they are complete.
//!
//! A kill can leave a draft in a user's folder. A record next to the workspaces therefore names the folder before the
//! draft is created, and the next start removes leftover drafts. Draft names are random, so no other file has them.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, unlinkat};

use super::{exact, failure::if_there};

const START: &str = ".agentd-";
const END: &str = ".tmp";

/// Name of a draft; the draft's record exists until this value is dropped.
#[derive(Debug)]
pub(super) struct Draft {
    name: String,
    record: PathBuf,
}

impl Draft {
    /// Creates the record of a draft in an open folder. `session` is the path of the session's own tree.
    pub(super) fn new(session: &Path, folder: impl AsFd) -> Self {
        let name = format!("{START}{}{END}", uuid::Uuid::new_v4().simple());
        let record = session.with_file_name(&name);
        // Without a record, a draft survives a kill. The write continues anyway.
        if let Ok(path) = fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())) {
            let _ = fs::write(&record, path.as_os_str().as_bytes());
        }
        Self { name, record }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.record);
    }
}

/// Removes the drafts left by previous runs. The record of a draft that cannot be removed is retained.
pub fn sweep(base: &Path) -> io::Result<()> {
    for record in if_there(fs::read_dir(base))?.into_iter().flatten() {
        let record = record?;
        let name = record.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(START)?.strip_suffix(END));
        if !id.is_some_and(|id| id.len() == 32 && id.bytes().all(|letter| letter.is_ascii_hexdigit())) {
            continue;
        }
        let folder = fs::read(record.path())?;
        let removed = exact::open_folder(Path::new(OsStr::from_bytes(&folder)))
            .and_then(|folder| Ok(unlinkat(folder, &name, AtFlags::empty())?));
        match if_there(removed) {
            Ok(_) => fs::remove_file(record.path())?,
            Err(error) => {
                let folder = String::from_utf8_lossy(&folder);
                tracing::warn!(%error, %folder, "could not remove a draft of the previous run");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn sweep_removes_only_recorded_drafts_and_follows_no_links() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (base, project) = (root.join("workspace"), root.join("project"));
        fs::create_dir_all(&base).unwrap();
        fs::create_dir_all(&project).unwrap();
        symlink(&project, root.join("link")).unwrap();
        let draft = |folder: &Path| {
            let opened = fs::File::open(folder).unwrap();
            let draft = Draft::new(&base.join("1"), &opened);
            fs::write(folder.join(draft.name()), "half").unwrap();
            // Simulates a kill.
            std::mem::ManuallyDrop::new(draft).name.clone()
        };
        let record = |name: &str, folder: &Path| {
            fs::write(base.join(name), folder.as_os_str().as_bytes()).unwrap();
        };
        let [left, of_user] = ["a", "b"].map(|letter| format!("{START}{}{END}", letter.repeat(32)));
        let recorded = draft(&project);
        for name in [&left, &of_user, "notes.txt"] {
            fs::write(project.join(name), "the user's").unwrap();
        }
        record(&left, &root.join("link"));
        record("notes.txt", &project);
        record(&format!("{START}..{END}"), &project);
        fs::create_dir(project.join(format!("{START}{}{END}", "c".repeat(32)))).unwrap();
        record(&format!("{START}{}{END}", "c".repeat(32)), &project);
        sweep(&base).unwrap();
        assert!(!project.join(&recorded).exists() && !base.join(&recorded).exists());
        for name in [&left, &of_user, "notes.txt"] {
            assert!(project.join(name).exists(), "{name}");
        }
        let whole = Draft::new(&base.join("1"), fs::File::open(&project).unwrap());
        let path = base.join(whole.name());
        assert_eq!(fs::read(&path).unwrap(), project.as_os_str().as_bytes());
        drop(whole);
        assert!(!path.exists());
    }
}
