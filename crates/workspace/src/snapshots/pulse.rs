//! A sign of life that is given while a call runs, so that after a crash later changes can be recognised.
//!
//! Processes of calls end with the daemon. So what was changed after its last sign is nobody's but somebody else's: a
//! person's, most likely, who had work to do before the daemon came back. The sign is the time of a file, and is
//! compared with times of files: both are given by the kernel, by one clock, which no program can set for a single
//! file. It is not written to the disk at once: where the machine itself broke, an older sign only makes more doubtful.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use super::{
    root::{Kind, Root, Stamp},
    tree::Difference,
};

/// Interval of the signs. What a call changes between the last one and a crash cannot be told from what is changed
/// afterwards.
const APART: Duration = Duration::from_millis(50);

/// Maximum error in seconds of times on file systems that know only seconds, or every second one.
const COARSE: i64 = 2;

/// Gives signs of life until it is dropped.
pub(super) struct Heartbeat {
    file: Arc<File>,
    /// The thread ends when this is gone.
    _ends: mpsc::SyncSender<()>,
}

impl Heartbeat {
    /// Gives the first sign, and others from now on.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let file = Arc::new(file);
        beat(&file)?;
        let (ends, ended) = mpsc::sync_channel(0);
        let beating = Arc::clone(&file);
        thread::Builder::new().name("undo-pulse".to_owned()).spawn(move || {
            // A sign that cannot be given is missing: then more is doubtful, and nothing is wrong.
            while ended.recv_timeout(APART) == Err(mpsc::RecvTimeoutError::Timeout) && beat(&beating).is_ok() {}
        })?;
        Ok(Self { file, _ends: ends })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let _ = beat(&self.file);
    }
}

fn beat(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

/// The last sign of life; none where none is known.
pub(super) struct LastSign(Option<(i64, i64)>);

impl LastSign {
    pub(super) fn read(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|metadata| (metadata.ctime(), metadata.ctime_nsec())))
    }

    /// Returns whether a path may have come to be what it is after the last sign. Not asked of what is gone: bringing
    /// it back destroys nobody's work.
    pub(super) fn is_before(&self, root: &Root, difference: &Difference) -> bool {
        let Some(now) = &difference.now else { return false };
        let own = if now.kind == Kind::Folder { None } else { Some(now.changed) };
        let own = own.map_or_else(|| root.changed(&difference.below), Ok);
        if !own.is_ok_and(|changed| self.is_after(changed)) {
            return true;
        }
        // What is another file than before may have come with a folder that was moved, as it is.
        let is_same = |was: &Stamp| (was.kind, was.device, was.inode) == (now.kind, now.device, now.inode);
        if now.kind != Kind::Folder && difference.was.as_ref().is_some_and(is_same) {
            return false;
        }
        let slashes = difference.below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut folders = slashes.map(|(at, _)| &difference.below[..at]);
        folders.any(|folder| !root.changed(folder).is_ok_and(|changed| self.is_after(changed)))
    }

    /// Returns whether the last sign was certainly given after this time.
    fn is_after(&self, (seconds, nanos): (i64, i64)) -> bool {
        let latest = if nanos == 0 { (seconds.saturating_add(COARSE), 0) } else { (seconds, nanos) };
        self.0.is_some_and(|sign| latest < sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_doubt_something_was_changed_later() {
        let sign = LastSign(Some((100, 50)));
        assert!(sign.is_after((100, 49)));
        assert!(!sign.is_after((100, 50)), "within one tick of the clock nothing is certain");
        assert!(!sign.is_after((101, 1)));
        assert!(!sign.is_after((99, 0)), "whole seconds may be rounded");
        assert!(sign.is_after((98, 0)));
        assert!(!LastSign(None).is_after((1, 1)), "without a sign nothing is certain");
    }

    #[test]
    fn signs_are_given_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alive");
        assert!(LastSign::read(&path).0.is_none());
        let pulse = Heartbeat::start(&path).unwrap();
        let first = LastSign::read(&path).0.unwrap();
        while LastSign::read(&path).0.unwrap() == first {
            thread::yield_now();
        }
        drop(pulse);
    }
}
