//! Folders that are closed for a moment: somebody changes or removes all of their files, and no turn begins in them meanwhile.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{folder::AddedFolder, session::Mount};
use tokio::sync::watch;

/// Folders that are closed now.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClosedFolders(Arc<watch::Sender<Vec<PathBuf>>>);

/// Keeps folders closed while it is there.
#[derive(Debug)]
pub(crate) struct FolderClosure {
    all: ClosedFolders,
    folders: Vec<PathBuf>,
}

impl ClosedFolders {
    pub(crate) fn close(&self, folders: Vec<PathBuf>) -> FolderClosure {
        self.0.send_modify(|closed| closed.extend(folders.iter().cloned()));
        FolderClosure { all: self.clone(), folders }
    }

    /// True where a session could change files of one of them.
    pub(crate) fn concern(&self, project: Option<&Mount>, added: &[AddedFolder]) -> bool {
        let closed = self.0.borrow().clone();
        closed.iter().any(|folder| reaches(folder, project, added))
    }
}

impl Drop for FolderClosure {
    fn drop(&mut self) {
        self.all.0.send_modify(|all| {
            for folder in &self.folders {
                // Somebody else may have closed the same one.
                if let Some(at) = all.iter().position(|closed| closed == folder) {
                    all.swap_remove(at);
                }
            }
        });
    }
}

/// True where a session with these folders could change files of one.
pub(crate) fn reaches(folder: &Path, project: Option<&Mount>, added: &[AddedFolder]) -> bool {
    let is_in = |path: &Path| path.starts_with(folder) || folder.starts_with(path);
    let writable = project.filter(|mount| mount.writable).map(|mount| mount.path.as_path()).into_iter();
    let added = added.iter().filter(|added| added.writable).map(|added| added.path.as_path());
    // It may be named through a link.
    writable.chain(added).any(|path| is_in(path) || path.canonicalize().is_ok_and(|real| is_in(&real)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_closed_as_long_as_somebody_keeps_it_so() {
        let closed = ClosedFolders::default();
        let mount = |path: &str, writable| Mount { path: path.into(), writable };
        let concern = |path: &str, writable| closed.concern(Some(&mount(path, writable)), &[]);
        assert!(!concern("/w/one", true));
        let (first, second) = (closed.close(vec!["/w/one".into(), "/app".into()]), closed.close(vec!["/app".into()]));
        for (path, writable, expected) in [
            ("/w/one", true, true),
            ("/w/one/sub", true, true),
            ("/w", true, true),
            ("/w/one", false, false),
            ("/w/other", true, false),
        ] {
            assert_eq!(concern(path, writable), expected, "{path}");
        }
        drop(first);
        assert!(!concern("/w/one", true) && concern("/app", true));
        drop(second);
        assert!(!concern("/app", true));
        let added = AddedFolder { at: "/folders/app".into(), path: "/app".into(), writable: true };
        assert!(reaches(Path::new("/app"), None, &[added]));
    }
}
