//! The listening end: binding a socket of our own, or adopting one that was passed to us.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use interprocess::{
    local_socket::{GenericFilePath, ListenerOptions, ToFsName as _},
    os::unix::{local_socket::ListenerOptionsExt as _, uds_local_socket::tokio::Listener as UnixListener},
};
use nix::{
    fcntl::{OFlag, open},
    sys::{
        socket::{UnixAddr, getsockname},
        stat::Mode,
    },
    unistd::geteuid,
};

use super::{Incoming, SocketError, io::raw_connect, path::check_length};

/// The name that we gave to our socket, to be taken away at the end.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Our socket's inode, held open: an inode number is given away again as soon as nobody holds it, and then a
    /// successor's socket would look like ours.
    inode: File,
}

impl SocketFile {
    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the name away, unless it belongs to another socket by now: that of a successor.
    ///
    /// # Errors
    /// When the file is ours and cannot be removed.
    pub fn remove(self) -> Result<(), SocketError> {
        if self.is_there() { remove_file(&self.path) } else { Ok(()) }
    }

    /// The name of a socket that somebody else made, held for [`SocketFile::is_there`].
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub fn look(path: &Path) -> Result<Self, SocketError> {
        // A socket cannot be opened, but a handle on its place can.
        let handle = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let inode =
            open(path, handle, Mode::empty()).map_err(|errno| SocketError::io("look at", path)(errno.into()))?;
        Ok(Self { inode: inode.into(), path: path.to_owned() })
    }

    /// Returns whether the name still leads to the socket.
    pub fn is_there(&self) -> bool {
        match (self.inode.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(found)) => (found.dev(), found.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }
}

/// Binds the socket, with mode 0600, in a folder that is made with mode 0700 where it is missing. The caller holds the
/// daemon's lock, so that no two daemons are here at once.
///
/// # Errors
/// [`SocketError::Live`] where somebody listens already, [`SocketError::NotASocket`] where a file is in the way,
/// [`SocketError::UnsafeFolder`] where others could interfere, and what the system refuses.
pub async fn bind(path: &Path) -> Result<(Incoming, SocketFile), SocketError> {
    let path = check_length(path.to_owned())?;
    prepare_folder(path.parent().unwrap_or(Path::new("/")))?;
    remove_dead(&path).await?;
    let name = path.as_path().to_fs_name::<GenericFilePath>().map_err(SocketError::io("bind", &path))?;
    // The library would unlink the path when it drops the listener, whoever owns it by then. SocketFile looks first.
    let listener = ListenerOptions::new()
        .name(name)
        .mode(0o600)
        .reclaim_name(false)
        .create_tokio()
        .map_err(SocketError::io("bind", &path))?;
    Ok((Incoming::new(listener), SocketFile::look(&path)?))
}

/// Returns whether a process listens there.
pub async fn is_live(path: &Path) -> bool {
    raw_connect(path).await.is_ok()
}

/// Takes over a listening socket that a supervisor made, with its path where it has one. Its name, mode and end are the
/// supervisor's business.
///
/// # Errors
/// When the descriptor is no listening local socket.
pub fn adopt(fd: OwnedFd) -> Result<(Incoming, Option<PathBuf>), SocketError> {
    let path = getsockname::<UnixAddr>(fd.as_raw_fd()).ok().and_then(|address| address.path().map(Path::to_owned));
    let refused = SocketError::io("adopt", Path::new("the inherited socket"));
    UnixListener::try_from(fd).map(|listener| (Incoming::new(listener.into()), path)).map_err(refused)
}

/// Makes the folder where it is missing and makes sure that nobody else can put things there. Others may be able to
/// look into a folder that the person chose: the socket's own mode keeps them out.
fn prepare_folder(folder: &Path) -> Result<(), SocketError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(SocketError::io("make the folder", folder))?;
    let look = SocketError::io("look at the folder", folder);
    let (link, found) =
        fs::symlink_metadata(folder).and_then(|link| Ok((link, fs::metadata(folder)?))).map_err(look)?;
    let us = geteuid().as_raw();
    let problem = if found.uid() != us {
        Some("it belongs to another user")
    } else if ![us, 0].contains(&link.uid()) {
        Some("the link to it belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        Some("other users can write to it")
    } else {
        None
    };
    match problem {
        Some(problem) => Err(SocketError::UnsafeFolder { folder: folder.to_owned(), problem }),
        None => Ok(()),
    }
}

/// Takes away the socket of a daemon that is no more. Only a refused connection proves that.
async fn remove_dead(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::io("look at", path)(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match raw_connect(path).await {
        Ok(_) => Err(SocketError::Live { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A daemon whose queue is full is alive.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::Live { path: path.to_owned() }),
        Err(error) => Err(SocketError::io("find out who listens at", path)(error)),
    }
}

fn remove_file(path: &Path) -> Result<(), SocketError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SocketError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
