//! Files and folders as the disk has them, waited for or not.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::{Duration, SystemTime},
};

use agentd_workspace::exact;
use nix::unistd::geteuid;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, makedev, openat, statx};

/// Age below which a change is not settled: a file that was changed less than this before it was looked at may be
/// changed again without its time's telling.
const SETTLED: Duration = Duration::from_secs(2);

/// Patience of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// None: only what the system has cached is returned, so that it may be used where waiting is not allowed.
    AtOnce,
    /// As much as the disk takes.
    Patient,
}

/// Failure of a quick look: this needs a patient one.
#[derive(Debug)]
pub struct NotAtHand;

/// Properties that change when a file or a folder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The same for the same file, whatever its name.
    pub(crate) identity: (u64, u64),
    /// Bytes.
    pub(crate) size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    kind: FileType,
    owner: u32,
    /// Set if what was read at that time is what is there as long as the stamp is the same.
    pub(crate) settled: bool,
}

impl Stamp {
    fn of(opened: impl AsFd, pace: Pace) -> io::Result<Self> {
        let sync = if pace == Pace::AtOnce { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
        let found = statx(opened, "", AtFlags::EMPTY_PATH | sync, StatxFlags::BASIC_STATS)?;
        let modified = (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec);
        let since = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(modified.0).unwrap_or_default(), modified.1);
        Ok(Self {
            identity: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            size: found.stx_size,
            modified,
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            owner: found.stx_uid,
            settled: SystemTime::now().duration_since(since).is_ok_and(|age| age > SETTLED),
        })
    }

    /// Returns whether it is a plain file of this user.
    fn check_file(&self) -> io::Result<()> {
        if self.kind != FileType::RegularFile {
            return Err(io::Error::other("it is no plain file"));
        }
        if self.owner != geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        Ok(())
    }
}

/// Opens a plain file of this user without waiting for anybody, as opening a pipe would. `follow` says whether links on
/// the way are followed.
pub(crate) fn open(path: &Path, follow: bool) -> io::Result<(File, Stamp)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = if follow { openat(CWD, path, flags, Mode::empty())? } else { exact::open(path, flags)? };
    let stamp = Stamp::of(&opened, Pace::Patient)?;
    stamp.check_file()?;
    Ok((File::from(opened), stamp))
}

/// The stamp of what a path names; none where nothing is there.
pub(crate) fn stamp(path: &Path, follow: bool, pace: Pace) -> Result<Option<Stamp>, NotAtHand> {
    let opened = match pace {
        Pace::AtOnce => at_hand(path, follow),
        Pace::Patient => openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from),
    };
    match opened.and_then(|opened| Stamp::of(opened, pace)) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(_) => Err(NotAtHand),
    }
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Names a file if every folder on the way is cached by the system. No disk or remote machine is asked, and nothing is
/// opened.
#[cfg(target_os = "linux")]
fn at_hand(path: &Path, follow: bool) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let links = if follow { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED | links)?)
}

#[cfg(not(target_os = "linux"))]
fn at_hand(_: &Path, _: bool) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A path as people write it, in one line.
pub(crate) fn shown(path: &Path, home: Option<&Path>) -> String {
    let shown = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    agentd_core::path::shown(&shown).into_owned()
}
