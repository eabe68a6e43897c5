//! The calling end.

use std::{io, path::Path};

use interprocess::local_socket::{GenericFilePath, ToFsName as _, tokio::Stream, traits::tokio::Stream as _};
use nix::unistd::geteuid;

use super::{Io, SocketError, path::check_length};

/// Connects to the daemon at this path.
///
/// # Errors
/// [`SocketError::NobodyThere`] where no daemon listens; other kinds where something there cannot be used.
pub async fn connect(path: &Path) -> Result<Io, SocketError> {
    let path = check_length(path.to_owned())?;
    let stream = raw_connect(&path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SocketError::NobodyThere { path: path.clone() },
        // The kernel says the same of a socket that nobody listens to and of a file that is no socket at all.
        io::ErrorKind::ConnectionRefused if is_no_socket(&path) => SocketError::NotASocket { path: path.clone() },
        io::ErrorKind::ConnectionRefused => SocketError::NobodyThere { path: path.clone() },
        _ => SocketError::io("connect to", &path)(error),
    })?;
    match Io::identify(stream).map_err(SocketError::io("find out who listens at", &path))? {
        Some(io) if io.peer().uid == geteuid().as_raw() => Ok(io),
        _ => Err(SocketError::Foreign { path }),
    }
}

pub(super) async fn raw_connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path.to_fs_name::<GenericFilePath>()?).await
}

fn is_no_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}
