//! Locks on the files of sessions: any number add or read some, or one removes. So old files can be examined and
//! removed without interference. They are held while a blocking thread works, and never longer.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

/// Number of locks above which unused ones are dropped.
const SWEEP_AT: usize = 64;

/// One lock for each session in use, by the name of its folder.
#[derive(Debug, Clone, Default)]
pub struct SessionLocks(Arc<Mutex<HashMap<OsString, Weak<RwLock<()>>>>>);

impl SessionLocks {
    /// Work that brings or reads files of the session: none are removed meanwhile.
    pub fn shared<T, W>(&self, folder: OsString, work: W) -> impl FnOnce(&Path) -> T + Send + use<T, W>
    where
        W: FnOnce(&Path) -> T + Send,
    {
        let lock = self.of(folder);
        move |base: &Path| {
            let _held = lock.read().unwrap_or_else(PoisonError::into_inner);
            work(base)
        }
    }

    /// Work that removes files of the session: no other work uses them meanwhile.
    pub fn alone<T, W>(&self, folder: OsString, work: W) -> impl FnOnce(&Path) -> T + Send + use<T, W>
    where
        W: FnOnce(&Path) -> T + Send,
    {
        let lock = self.of(folder);
        move |base: &Path| {
            let _held = lock.write().unwrap_or_else(PoisonError::into_inner);
            work(base)
        }
    }

    fn of(&self, folder: OsString) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
