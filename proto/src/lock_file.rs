//! The lock file of a data folder, which identifies its holder and the holder's socket.
//!
//! The daemon holds two locks on the open file. One (flock) excludes other daemons. The other (a record lock)
//! identifies the holder: the kernel reports the owner of the lock to any process, without acquiring the lock, and
//! releases it when the holder exits. The content of the file is therefore never trusted for a process that has exited,
//! or for a later process with the same ID.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
};

/// File name in the data folder.
pub const LOCK_FILE: &str = "agentd.lock";

/// Maximum size of a record that is read, in bytes.
const MAX_RECORD: u64 = 8 * 1024;

/// Prefix of the line with the socket.
const SOCKET: &[u8] = b"socket ";

/// Content that the holder writes into the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRecord {
    /// Process ID in the holder's PID namespace.
    pub pid: u32,
    /// Path of the holder's socket, once the holder is listening.
    pub socket: Option<PathBuf>,
}

impl LockRecord {
    /// Formats the content of the file: the process ID and the socket, each on a line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\n", self.pid).into_bytes();
        let socket = self.socket.as_deref().map(|path| path.as_os_str().as_bytes());
        // A path with a line break could not be distinguished from two lines.
        if let Some(path) = socket.filter(|path| !path.contains(&b'\n')) {
            bytes.extend_from_slice(SOCKET);
            bytes.extend_from_slice(path);
            bytes.push(b'\n');
        }
        bytes
    }

    /// Parses the content. Incomplete lines are ignored, and lines of newer versions are skipped.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let whole = &bytes[..=bytes.iter().rposition(|byte| *byte == b'\n')?];
        let mut lines = whole.split(|byte| *byte == b'\n');
        let pid = std::str::from_utf8(lines.next()?).ok()?.trim().parse().ok()?;
        let socket =
            lines.find_map(|line| line.strip_prefix(SOCKET)).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Some(Self { pid, socket })
    }

    /// Reads the record from a file. Returns `None` if the record is invalid.
    pub fn read(file: &File) -> Option<Self> {
        let mut bytes = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes)
    }
}

/// Process that holds the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// Process ID as reported by the kernel. `None` if the process is not visible to this process, for example from
    /// within a container.
    pub pid: Option<u32>,
    /// Path of the holder's socket. `None` while the holder starts.
    pub socket: Option<PathBuf>,
}

/// Makes the kernel report this process as the holder, until this process closes any handle on the file.
///
/// # Errors
/// Fails if another process holds the file, or the file system does not support such locks.
pub fn hold(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETLK(&whole_file())).map(drop).map_err(io::Error::from)
}

/// Returns the process that currently holds a lock file, or `None` if the file is not locked.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub fn holder(path: &Path) -> io::Result<Option<LockHolder>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let mut lock = whole_file();
    fcntl(&file, FcntlArg::F_GETLK(&mut lock))?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let pid = u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0);
    Ok(Some(LockHolder { pid, socket: LockRecord::read(&file).and_then(|record| record.socket) }))
}

/// Returns the process that has locked the data folder itself. The daemon locks the folder in addition to the file, so
/// that the daemon can be found even if the file was removed. Returns `None` if there is no such process, or if the
/// system has no `/proc/locks`, which is specific to Linux.
pub fn folder_holder(folder: &Path) -> Option<LockHolder> {
    let wanted = identity(folder)?;
    let is_daemon = |pid: &u32| is_agentd(*pid) && has_open(*pid, wanted);
    let read = |_| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().filter_map(|line| lock_pid(line, wanted.1)).find(is_daemon)
    };
    let pid = (0..LOCK_READS).find_map(read)?;
    Some(LockHolder { pid: Some(pid), socket: None })
}

/// Number of reads of `/proc/locks`. A long list is read in parts, and an entry is missed if an earlier one disappears
/// meanwhile.
const LOCK_READS: usize = 3;

/// Parses a line of `/proc/locks`, and returns the process of a whole-file lock with this inode number. The device in
/// the line is ignored, because some file systems (btrfs) report another device there than in `stat`.
fn lock_pid(line: &str, inode: u64) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
    let of_inode = file.rsplit(':').next()?.parse() == Ok(inode);
    pid.parse().ok().filter(|_| kind == "FLOCK" && of_inode)
}

/// Returns true for a process that runs the daemon's program. Other programs may also lock a folder while they copy it.
fn is_agentd(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"agentd"))
}

/// Returns true if the process has the file open. The inode number alone could belong to another file, and the process
/// ID to a later process.
fn has_open(pid: u32, wanted: (u64, u64)) -> bool {
    let Ok(mut open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.any(|file| file.is_ok_and(|file| identity(&file.path()) == Some(wanted)))
}

/// Returns the device and inode number of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn whole_file() -> libc::flock {
    // The lock type and `SEEK_SET` are small numbers, but their types have different widths on different systems.
    let (kind, from) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type: kind, l_whence: from, l_start: 0, l_len: 0, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_records_parse() {
        #[track_caller]
        fn check(bytes: &[u8], pid: Option<u32>, socket: Option<&str>) {
            let found = LockRecord::parse(bytes);
            assert_eq!(found.as_ref().map(|record| record.pid), pid);
            assert_eq!(found.and_then(|record| record.socket), socket.map(PathBuf::from));
        }
        check(b"12\nsocket /run/a b.sock\n", Some(12), Some("/run/a b.sock"));
        check(b"12\n", Some(12), None);
        check(b"12\nsocket /run/a.so", Some(12), None);
        check(b"12\nnewer words\nsocket /a\n", Some(12), Some("/a"));
        check(b"12", None, None);
        check(b"", None, None);
        check(b"\xff\n", None, None);
        check(b"12\nsocket /short\nold rest of a longer record", Some(12), Some("/short"));
        for socket in [None, Some(PathBuf::from("/run/x.sock"))] {
            let record = LockRecord { pid: 7, socket };
            assert_eq!(LockRecord::parse(&record.to_bytes()), Some(record));
        }
        let multiline = LockRecord { pid: 7, socket: Some("/run/a\nb".into()) };
        assert_eq!(LockRecord::parse(&multiline.to_bytes()), Some(LockRecord { pid: 7, socket: None }));
    }

    #[test]
    fn locked_folder_reports_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(folder_holder(folder.path()), None);
        let open = File::open(folder.path()).unwrap();
        assert_eq!(folder_holder(folder.path()), None, "the folder is open but not locked");
        open.try_lock().unwrap();
        let own_holder = LockHolder { pid: Some(std::process::id()), socket: None };
        assert_eq!(folder_holder(folder.path()), cfg!(target_os = "linux").then_some(own_holder));
        drop(open);
        assert_eq!(folder_holder(folder.path()), None);
        assert_eq!(folder_holder(&folder.path().join("none")), None);
    }

    #[test]
    fn other_and_waiting_locks_are_skipped() {
        let check = |line: &str, found: Option<u32>| assert_eq!(lock_pid(line, 42), found, "{line}");
        check("1: FLOCK  ADVISORY  WRITE 77 08:02:42 0 EOF", Some(77));
        check("1: FLOCK  ADVISORY  WRITE 77 08:02:421 0 EOF", None);
        check("1: -> FLOCK  ADVISORY  WRITE 78 08:02:42 0 EOF", None);
        check("2: POSIX  ADVISORY  WRITE 77 08:02:42 0 EOF", None);
        check("3: FLOCK  ADVISORY  WRITE -1 08:02:42 0 EOF", None);
        check("", None);
    }

    #[test]
    fn unlocked_file_has_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        assert_eq!(holder(&path).unwrap(), None);
        std::fs::write(&path, LockRecord { pid: 1, socket: Some("/run/a.sock".into()) }.to_bytes()).unwrap();
        assert_eq!(holder(&path).unwrap(), None, "a stale record has no holder");
        assert_eq!(holder(&path.join("below")).unwrap(), None);
    }
}
