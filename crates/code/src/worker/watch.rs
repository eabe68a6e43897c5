//! Changes in a folder, as the kernel tells them.
//!
//! Each folder that belongs to the index is watched by itself, since what git ignores (`target`, `node_modules`) has many
//! more. What is told before a question is asked is read before it is answered: no question meets an index from before a
//! change that was made before it.

use std::collections::HashSet;

/// Changes that were heard of and are not in the index yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Set if the whole folder has to be looked at: folders came or went, rules of git changed, words were lost.
    pub(super) all: bool,
    /// Files, as paths below the root.
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

    /// Bytes of words that are read at once.
    const BUFFER: usize = 64 * 1024;

    /// Watch on the folders of an index.
    #[derive(Debug)]
    pub(in crate::worker) struct FolderWatch {
        queue: OwnedFd,
        /// Watched folders, as paths below the root, by the numbers of their watches.
        folders: HashMap<i32, String>,
    }

    impl FolderWatch {
        /// A watch on nothing.
        pub(in crate::worker) fn new() -> io::Result<Self> {
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            Ok(Self { queue, folders: HashMap::new() })
        }

        /// The stream of words, to wait for.
        pub(in crate::worker) fn stream(&self) -> BorrowedFd<'_> {
            self.queue.as_fd()
        }

        /// Watches these folders and no others. Returns whether some were not watched before.
        ///
        /// # Errors
        /// When there are more watches than this person may have.
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
                // Also those that were watched before: another folder may be there now. The number goes with the folder itself.
                match inotify::add_watch(&self.queue, root.join(folder), flags) {
                    Ok(number) => {
                        is_new |= self.folders.get(&number) != Some(folder);
                        watched.insert(number, folder.clone());
                    }
                    Err(error @ (Errno::NOSPC | Errno::NOMEM)) => return Err(error.into()),
                    // Gone since it was listed, or not for us: the next look will tell.
                    Err(_) => {}
                }
            }
            for number in self.folders.keys().filter(|number| !watched.contains_key(number)) {
                // The folder may be gone, and its watch with it.
                let _ = inotify::remove_watch(&self.queue, *number);
            }
            self.folders = watched;
            Ok(is_new)
        }

        /// Takes what was told since.
        pub(in crate::worker) fn collect(&mut self, changes: &mut Changes) {
            let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
            let mut words = inotify::Reader::new(&self.queue, &mut buffer);
            loop {
                let word = match words.next() {
                    Ok(word) => word,
                    Err(Errno::INTR) => continue,
                    // Nothing more, or nothing that can be read.
                    Err(Errno::AGAIN) => return,
                    Err(_) => {
                        changes.all = true;
                        return;
                    }
                };
                let events = word.events();
                if events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT | ReadFlags::ISDIR) {
                    changes.all = true;
                }
                if events.contains(ReadFlags::IGNORED) {
                    self.folders.remove(&word.wd());
                    continue;
                }
                let Some(folder) = self.folders.get(&word.wd()) else { continue };
                // A name that is no text belongs to no file of the index.
                let Some(name) = word.file_name().and_then(|name| name.to_str().ok()) else { continue };
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

    /// Watch that there is not: the folder is looked at before each answer.
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
