//! Watches a folder with inotify.
//!
//! Only folders that belong to the index are watched, because git-ignored folders (`target`, `node_modules`) have many
//! more subfolders. Pending events are read before each answer, so an answer always reflects earlier changes.

use std::collections::HashSet;

/// Changes that have not been applied to the index.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// True if the whole folder must be scanned, because folders were added or removed, ignore rules changed, or events
    /// were lost.
    pub(super) all: bool,
    /// Changed files as paths relative to the root.
    pub(super) files: HashSet<String>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.files.is_empty()
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::FolderWatch;
#[cfg(not(target_os = "linux"))]
pub(super) use missing::FolderWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::HashMap,
        io,
        mem::MaybeUninit,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
        path::Path,
    };

    use rustix::{
        fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
        io::Errno,
    };

    use super::Changes;

    /// Size of the event buffer in bytes.
    const BUFFER: usize = 64 * 1024;

    /// Watches on the indexed folders.
    #[derive(Debug)]
    pub(in crate::worker) struct FolderWatch {
        queue: OwnedFd,
        /// Watched folders as paths relative to the root, by watch descriptor.
        folders: HashMap<i32, String>,
    }

    impl FolderWatch {
        /// Creates an instance without watches.
        pub(in crate::worker) fn new() -> io::Result<Self> {
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            Ok(Self { queue, folders: HashMap::new() })
        }

        /// Returns the event stream, for polling.
        pub(in crate::worker) fn stream(&self) -> BorrowedFd<'_> {
            self.queue.as_fd()
        }

        /// Watches exactly these folders. Returns true if some of them are new.
        ///
        /// # Errors
        /// Fails if the user's watch limit is exceeded.
        pub(in crate::worker) fn follow(&mut self, root: &Path, folders: &[String]) -> io::Result<bool> {
            let mut watched = HashMap::with_capacity(folders.len());
            let mut is_new = false;
            for folder in folders {
                let flags = WatchFlags::MODIFY
                    | WatchFlags::CLOSE_WRITE
                    | WatchFlags::CREATE
                    | WatchFlags::DELETE
                    | WatchFlags::MOVE
                    | WatchFlags::ONLYDIR
                    | WatchFlags::DONT_FOLLOW;
                // Watched folders are added again, because the path may now lead to another folder. A watch descriptor
                // belongs to the folder itself.
                match inotify::add_watch(&self.queue, root.join(folder), flags) {
                    Ok(number) => {
                        is_new |= self.folders.get(&number) != Some(folder);
                        watched.insert(number, folder.clone());
                    }
                    Err(error @ (Errno::NOSPC | Errno::NOMEM)) => return Err(error.into()),
                    // The folder disappeared or is inaccessible, which the next scan detects.
                    Err(_) => {}
                }
            }
            for number in self.folders.keys().filter(|number| !watched.contains_key(number)) {
                // Fails if the folder was removed, in which case the watch was removed as well.
                let _ = inotify::remove_watch(&self.queue, *number);
            }
            self.folders = watched;
            Ok(is_new)
        }

        /// Reads the pending events into `changes`.
        pub(in crate::worker) fn collect(&mut self, changes: &mut Changes) {
            let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
            let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
            loop {
                let raw_event = match reader.next() {
                    Ok(raw_event) => raw_event,
                    Err(Errno::INTR) => continue,
                    // No more events are pending.
                    Err(Errno::AGAIN) => return,
                    Err(_) => {
                        changes.all = true;
                        return;
                    }
                };
                let events = raw_event.events();
                if events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT | ReadFlags::ISDIR) {
                    changes.all = true;
                }
                if events.contains(ReadFlags::IGNORED) {
                    self.folders.remove(&raw_event.wd());
                    continue;
                }
                let Some(folder) = self.folders.get(&raw_event.wd()) else { continue };
                // Names that are not UTF-8 are never indexed.
                let Some(name) = raw_event.file_name().and_then(|name| name.to_str().ok()) else { continue };
                if matches!(name, ".gitignore" | ".ignore") {
                    changes.all = true;
                }
                let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                changes.files.insert(path);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod missing {
    use std::{io, os::fd::BorrowedFd, path::Path};

    use super::Changes;

    /// Placeholder for systems without inotify, where the folder is scanned before each answer.
    #[derive(Debug)]
    pub(in crate::worker) struct FolderWatch(std::convert::Infallible);

    impl FolderWatch {
        pub(in crate::worker) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::worker) fn stream(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }

        pub(in crate::worker) fn follow(&mut self, _: &Path, _: &[String]) -> io::Result<bool> {
            match self.0 {}
        }

        pub(in crate::worker) fn collect(&mut self, _: &mut Changes) {
            match self.0 {}
        }
    }
}
