//! The folder of a play. It goes with the play.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use agentd_core::ids::SessionId;

/// Folder of one play.
pub(super) struct PlayFolder(PathBuf);

impl PlayFolder {
    /// Makes one below `base`, for its owner alone.
    pub(super) fn create(base: &Path) -> io::Result<Self> {
        let path = base.join(SessionId::generate().to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PlayFolder {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        // Tools may have left much in it.
        let remove = move || {
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!("the folder of a replay stays until the next start: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Removes all folders of plays.
pub(super) fn sweep(base: &Path) {
    match fs::remove_dir_all(base) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("what replays left in {} cannot be removed: {error}", base.display());
        }
        _ => {}
    }
}
