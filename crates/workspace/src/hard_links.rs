//! Protects files outside a writable project that also have names in the project: hard links, as created by package
//! managers and `git clone`. A command that writes to such a file in place, or changes its mode, would change the file
//! outside, and undo does not cover that change. Each such file is therefore replaced by a copy before a command with
//! write access runs.
//!
//! The link count shows whether all names of a file are in the project. No property of a folder reveals hard links, so
//! every file is checked each time. No file is exempt because of its mode or folder: a command runs as the owner of the
//! files, and can change the mode of files that git and package managers made read-only.
//!
//! A link that another process creates while a command runs is only noticed before the next command.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fs::{File, FileTimes},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::Mutex,
};

use agentd_core::mutex::lock;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, XattrFlags, fchmod, fgetxattr, flistxattr, flistxattr_query, fsetxattr,
    fstat, ioctl_ficlone, linkat, openat, renameat, statat, unlinkat,
};

use crate::{drafts::Draft, exact, failure::Failure, text};

/// Maximum number of files copied for one command, and maximum total size of their copies, in bytes, if the file system
/// cannot share blocks between files.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 1 << 30;
/// Maximum number of folders named in an error.
const MAX_NAMED: usize = 3;
/// Maximum number of attempts to copy a file that other programs are changing.
const MAX_ATTEMPTS: usize = 3;
/// Buffer size for the names of extended attributes, and for one value: the Linux limit for each.
const XATTR_BYTES: usize = 64 * 1024;

/// Treatment of files with hard links outside a writable project, before a command that may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HardLinks {
    /// Replaces the files by copies. Rejects the command if there are too many files or the files are too large.
    #[default]
    Split,
    /// Rejects the command. Nothing runs.
    Refuse,
    /// Does not replace the files. The command may change files outside the project.
    Allow,
}

/// Serialises checks: two concurrent checks would both copy the same files.
static CHECKS: Mutex<()> = Mutex::new(());

/// Ensures that a command cannot change a file outside a user's folder through a hard link in the folder. May take a
/// while. `shown` is the folder's path for tools, `session` the path of the session's own tree.
///
/// # Errors
/// Fails if a file cannot be protected, with a hint for the user.
pub fn isolate(project: &Path, shown: &str, session: &Path, treatment: HardLinks) -> Result<(), Failure> {
    if treatment == HardLinks::Allow {
        return Ok(());
    }
    let _guard = lock(&CHECKS);
    let top = exact::open_folder(project).map_err(|error| Failure::io(&format!("open {shown}"), &error))?;
    let external_links = find_links(&top, shown)?;
    if external_links.is_empty() {
        return Ok(());
    }
    if treatment == HardLinks::Refuse || external_links.len() > MAX_FILES {
        return Err(links_failure(&external_links, shown, treatment));
    }
    let may_copy = bytes(&external_links) <= MAX_BYTES;
    for file in &external_links {
        match detach(&top, file, session, may_copy) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(links_failure(&external_links, shown, treatment));
            }
            Err(error) => {
                let name = text_of(file.names.first().map_or(b"", Vec::as_slice));
                return Err(Failure::tool(format!(
                    "the command never ran: {name} in {shown} has a hard link outside {shown} that the command could change, \
                     and {name} could not be replaced by a copy: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// File with several names, and its names in the project.
#[derive(Debug)]
struct LinkedFile {
    device: u64,
    inode: u64,
    links: u64,
    size: u64,
    names: Vec<Vec<u8>>,
}

impl LinkedFile {
    fn is_same_file(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == identity(stat)
    }
}

#[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between platforms")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Finds files in a folder that have names outside it and that a command could change, sorted by name.
fn find_links(top: &OwnedFd, shown: &str) -> Result<Vec<LinkedFile>, Failure> {
    let mut found: HashMap<(u64, u64), LinkedFile> = HashMap::new();
    let mut folders = vec![Vec::new()];
    while let Some(path) = folders.pop() {
        let listed = open_folder(top, &path).and_then(|folder| list(&folder, &path, &mut folders, &mut found));
        match listed {
            Ok(()) => {}
            // The folder may have been removed or replaced in the meantime.
            Err(error) if exact::is_missing(&error) => {}
            // If the daemon cannot open another user's folder, a command cannot either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_own(top, &path) => {}
            Err(error) => {
                return Err(Failure::tool(format!(
                    "the command never ran: the folder {} of {shown} cannot be checked for hard links to files \
                     outside: {error}. Ask the user to make the folder readable (chmod u+rwx) or to remove it",
                    text_of(&path)
                )));
            }
        }
    }
    let mut external_links: Vec<LinkedFile> =
        found.into_values().filter(|file| (file.names.len() as u64) < file.links).collect();
    for file in &mut external_links {
        file.names.sort();
    }
    external_links.sort_by(|left, right| left.names.cmp(&right.names));
    Ok(external_links)
}

/// Adds the entries of one folder.
#[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between platforms")]
fn list(
    folder: &OwnedFd,
    path: &[u8],
    folders: &mut Vec<Vec<u8>>,
    found: &mut HashMap<(u64, u64), LinkedFile>,
) -> io::Result<()> {
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let below = || if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() };
        match entry.file_type() {
            _ if matches!(name, b"." | b"..") => continue,
            FileType::Directory => {
                folders.push(below());
                continue;
            }
            FileType::RegularFile | FileType::Unknown => {}
            _ => continue,
        }
        let Ok(stat) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => folders.push(below()),
            FileType::RegularFile if stat.st_nlink > 1 && is_writable_by_command(&stat) => {
                let (device, inode) = identity(&stat);
                let (links, size) = (stat.st_nlink as u64, stat.st_size as u64);
                let linked = || LinkedFile { device, inode, links, size, names: Vec::new() };
                found.entry((device, inode)).or_insert_with(linked).names.push(below());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if a command, which runs as the daemon's user, could write to a file or change its mode. Access lists
/// are visible in the group bits.
fn is_writable_by_command(stat: &Stat) -> bool {
    is_mine(stat) || Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH)
}

fn is_mine(stat: &Stat) -> bool {
    let user = nix::unistd::geteuid();
    user.is_root() || stat.st_uid == user.as_raw()
}

fn is_own(top: &OwnedFd, path: &[u8]) -> bool {
    exact::open_below(top, below(path), OFlags::PATH | OFlags::DIRECTORY)
        .and_then(|folder| Ok(fstat(folder)?))
        .is_ok_and(|stat| is_mine(&stat))
}

/// Replaces all names of a file in a project by hard links to one copy.
fn detach(top: &OwnedFd, file: &LinkedFile, session: &Path, may_copy: bool) -> io::Result<()> {
    let Some((first, others)) = file.names.split_first() else { return Ok(()) };
    let (folder, name) = exact::split(first);
    let name = OsStr::from_bytes(name);
    let folder = open_folder(top, folder)?;
    let draft = Draft::new(session, &folder);
    let result = copy(&folder, name, draft.name(), file, may_copy).and_then(|()| {
        for other in others {
            let (other_folder, name) = exact::split(other);
            let other_folder = open_folder(top, other_folder)?;
            let second = Draft::new(session, &other_folder);
            linkat(&folder, draft.name(), &other_folder, second.name(), AtFlags::empty())?;
            rename_draft(&other_folder, second.name(), OsStr::from_bytes(name), file)?;
        }
        rename_draft(&folder, draft.name(), name, file)
    });
    if result.is_err() {
        // The draft may never have been created.
        let _ = unlinkat(&folder, draft.name(), AtFlags::empty());
    }
    result
}

/// Renames a draft over a name of the file. If the name belongs to a different file by now, only removes the draft.
fn rename_draft(folder: &OwnedFd, draft: &str, name: &OsStr, file: &LinkedFile) -> io::Result<()> {
    let is_still_same_file = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| file.is_same_file(&stat));
    let renamed = if is_still_same_file {
        renameat(folder, draft, folder, name)
    } else {
        unlinkat(folder, draft, AtFlags::empty())
    };
    if renamed.is_err() {
        let _ = unlinkat(folder, draft, AtFlags::empty());
    }
    Ok(renamed?)
}

/// Copies a file with its mode, times and, where possible, extended attributes. The copy is not synced, because the
/// content remains available under the other names.
fn copy(folder: &OwnedFd, name: &OsStr, draft: &str, file: &LinkedFile, may_copy: bool) -> io::Result<()> {
    let reading = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let writing = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let times = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    for _ in 0..MAX_ATTEMPTS {
        let mut from = File::from(openat(folder, name, reading, Mode::empty())?);
        let (before, read) = (fstat(&from)?, from.metadata()?);
        if !file.is_same_file(&before) {
            break;
        }
        let mut to = File::from(openat(folder, draft, writing, Mode::RUSR | Mode::WUSR)?);
        // Shares the content copy-on-write if the file system supports it.
        if ioctl_ficlone(&to, &from).is_err() {
            if !may_copy {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            io::copy(&mut from, &mut to)?;
        }
        copy_attributes(from.as_fd(), to.as_fd());
        // The copy belongs to the daemon's user, so it must not have the set-user-ID bit of another owner's program.
        let mode_mask = if is_mine(&before) { 0o7777 } else { 0o0777 };
        fchmod(&to, Mode::from_raw_mode(before.st_mode & mode_mask))?;
        to.set_times(FileTimes::new().set_accessed(read.accessed()?).set_modified(read.modified()?))?;
        if times(&before) == times(&fstat(&from)?) {
            return Ok(());
        }
    }
    Err(io::Error::other("another program is changing it; try again"))
}

/// Copies the attributes that the user may set; the other attributes belong to the system.
fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    // Most files have no attributes.
    if !flistxattr_query(from).is_ok_and(|length| length > 0) {
        return;
    }
    let mut names = vec![0; XATTR_BYTES];
    let mut value = vec![0; XATTR_BYTES];
    let Ok(length) = flistxattr(from, &mut names[..]) else { return };
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = fgetxattr(from, name, &mut value[..]) {
            let _ = fsetxattr(to, name, value.get(..length).unwrap_or_default(), XattrFlags::empty());
        }
    }
}

fn open_folder(top: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    exact::open_below(top, below(path), OFlags::RDONLY | OFlags::DIRECTORY)
}

fn below(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
}

fn bytes(files: &[LinkedFile]) -> u64 {
    files.iter().map(|file| file.size).fold(0, u64::saturating_add)
}

fn text_of(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Creates an error with the affected files and a hint for the user.
fn links_failure(files: &[LinkedFile], shown: &str, treatment: HardLinks) -> Failure {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for name in files.iter().filter_map(|file| file.names.first()) {
        let start: Vec<&[u8]> = exact::split(name).0.split(|byte| *byte == b'/').take(2).collect();
        *folders.entry(format!("{shown}/{}", text_of(&start.join(&b'/')))).or_default() += 1;
    }
    let mut folders: Vec<(String, usize)> = folders.into_iter().collect();
    folders.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = if folders.len() > MAX_NAMED { ", and other folders" } else { "" };
    let named: Vec<String> = folders.iter().take(MAX_NAMED).map(|(name, count)| format!("{name} ({count})")).collect();
    let limit = match treatment {
        HardLinks::Split => {
            format!(", more than can be replaced by copies ({MAX_FILES} files, {})", text::size(MAX_BYTES))
        }
        HardLinks::Refuse | HardLinks::Allow => String::new(),
    };
    Failure::tool(format!(
        "the command never ran: it could change {} of {} outside of {shown}, which are hard-linked in it{limit}: \
         {}{more}. Do not retry: ask the user to make copies of them (pnpm: \
         package-import-method=copy; uv: --link-mode=copy; git clone --no-hardlinks), or to set sandbox.hard_links in \
         agentd.yaml",
        text::count(files.len(), "file"),
        text::size(bytes(files)),
        named.join(", "),
    ))
}
