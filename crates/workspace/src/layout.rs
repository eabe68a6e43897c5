//! Creates a session's folders on disk, and locks its files. The locks are shared for adding and reading, exclusive for
//! removing, and held only while a blocking thread works.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::{Duration, SystemTime},
};

use agentd_core::{ids::SessionId, mutex::lock};
use cap_std::fs::OpenOptions;

use crate::{exact, jail, path::AREAS, private};

const METADATA: &str = ".metadata.json";

/// Creates the missing folders of a session, and returns its root.
pub fn make(base: &Path, session: SessionId) -> io::Result<PathBuf> {
    let root = make_shared(base)?.join(session.to_string());
    match fs::DirBuilder::new().mode(0o700).create(&root) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    exact::restore_access(&root)?;
    let folder = jail::own_root(&root)?;
    for area in AREAS {
        match private::folder_in(&folder, area) {
            Ok(()) => {}
            // If the path is not a folder, opening it fails later with a proper error.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => drop(exact::restore_access(&root.join(area))),
            Err(error) => return Err(error),
        }
    }
    let mut metadata = serde_json::json!({ "session_id": session });
    // The session ID is a time-based UUID from the session's creation.
    if let Some((seconds, nanos)) = session.as_uuid().get_timestamp().map(|timestamp| timestamp.to_unix())
        && let Ok(born) = jiff::Timestamp::try_from(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos))
    {
        metadata["created_at"] = born.to_string().into();
    }
    match folder.open_with(METADATA, OpenOptions::new().write(true).create_new(true)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?.write_all(format!("{metadata:#}\n").as_bytes())?,
    }
    Ok(root)
}

/// Creates a folder shared by all sessions and returns its real path, because commands print that path and the jail
/// recognises it. Does not create the parent: a missing parent was probably moved, and files written to a new one would
/// be lost.
pub fn make_shared(path: &Path) -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => path.canonicalize(),
    }
}

/// Number of locks above which unused locks are dropped.
const SWEEP_AT: usize = 64;

/// Locks of sessions in use, by folder name.
#[derive(Debug, Clone, Default)]
pub struct SessionLocks(Arc<Mutex<HashMap<OsString, Weak<RwLock<()>>>>>);

impl SessionLocks {
    /// Wraps work on a session's files so that it runs while the session's lock is held. With `exclusive` the lock is
    /// exclusive, as removals require.
    pub fn with_lock<T, W>(
        &self,
        folder: OsString,
        exclusive: bool,
        work: W,
    ) -> impl FnOnce(&Path) -> T + Send + use<T, W>
    where
        W: FnOnce(&Path) -> T + Send,
    {
        let lock = self.of(folder);
        move |base: &Path| {
            let _exclusive = exclusive.then(|| lock.write().unwrap_or_else(PoisonError::into_inner));
            let _shared = (!exclusive).then(|| lock.read().unwrap_or_else(PoisonError::into_inner));
            work(base)
        }
    }

    fn of(&self, folder: OsString) -> Arc<RwLock<()>> {
        let mut locks = lock(&self.0);
        if let Some(lock) = locks.get(&folder).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= SWEEP_AT {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        locks.insert(folder, Arc::downgrade(&lock));
        lock
    }
}
