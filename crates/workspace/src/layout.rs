//! The folders of one session on the disk, made where they are missing.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agentd_core::ids::SessionId;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions};

use crate::{exact, jail, place::AREAS};

const METADATA: &str = ".metadata.json";

/// Makes a session's folders where they are missing, and returns its root.
pub fn make(base: &Path, session: SessionId) -> io::Result<PathBuf> {
    let root = make_shared(base)?.join(session.to_string());
    match fs::DirBuilder::new().mode(0o700).create(&root) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    exact::let_in(&root)?;
    let folder = jail::own_root(&root)?;
    for area in AREAS {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        match folder.create_dir_with(area, &private) {
            Ok(()) => {}
            // What is no folder any more is told by whoever opens it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => drop(exact::let_in(&root.join(area))),
            Err(error) => return Err(error),
        }
    }
    write_metadata(&folder, session)?;
    Ok(root)
}

/// Creates a folder of all sessions, and returns its real path, because commands print it and the jail recognises it.
/// Its parent is not created: if that is gone, it was moved, and anything put in its place would be lost.
pub fn make_shared(path: &Path) -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => path.canonicalize(),
    }
}

fn write_metadata(folder: &Dir, session: SessionId) -> io::Result<()> {
    let mut metadata = serde_json::json!({ "session_id": session });
    // The id is made when the session is, and says when.
    if let Some((seconds, nanos)) = session.as_uuid().get_timestamp().map(|timestamp| timestamp.to_unix()) {
        let born = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        if let Ok(born) = jiff::Timestamp::try_from(born) {
            metadata["created_at"] = born.to_string().into();
        }
    }
    match folder.open_with(METADATA, OpenOptions::new().write(true).create_new(true)) {
        Ok(mut file) => file.write_all(format!("{metadata:#}\n").as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
