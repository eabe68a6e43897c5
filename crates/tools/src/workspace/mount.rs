//! The folder that a session sees as its project, checked.

use std::{
    io,
    path::{Path, PathBuf},
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    session::Mount,
};

/// The folder by its real path. One that holds something of the daemon's own, or lies in it, is refused.
pub(super) fn check_mount(private: &[PathBuf], mount: Mount) -> Result<Mount, WorkspaceError> {
    let shown = mount.path.display();
    let path = mount.path.canonicalize().map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::InvalidInput };
        WorkspaceError::new(kind, format!("the project folder {shown} cannot be opened"))
            .with_hint("name a folder that exists and can be read")
            .with_source(error)
    })?;
    if !path.is_dir() {
        return Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("the project {shown} is not a folder"))
            .with_hint("name the folder, and add single files as uploads"));
    }
    let is_private = |private: &PathBuf| {
        let private = resolved(private);
        private.starts_with(&path) || path.starts_with(&private)
    };
    if let Some(private) = private.iter().find(|private| is_private(private)) {
        let message = format!("the project folder {shown} holds {}, which is the daemon's own", private.display());
        return Err(WorkspaceError::new(ErrorKind::InvalidInput, message)
            .with_hint("choose a folder that holds neither the daemon's data nor its configuration"));
    }
    Ok(Mount { path, writable: mount.writable })
}

/// The real path of what may not be there yet.
fn resolved(path: &Path) -> PathBuf {
    let missing = |path: &Path| Some((path.parent()?.to_path_buf(), path.file_name()?.to_owned()));
    match (path.canonicalize(), missing(path)) {
        (Ok(real), _) => real,
        (Err(_), Some((parent, name))) => resolved(&parent).join(name),
        (Err(_), None) => path.to_path_buf(),
    }
}
