//! The socket on which the daemon answers: passed by a supervisor, or bound here.

use std::{
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

use agentd_core::error::ErrorKind;
use agentd_proto::socket::{self, Incoming, SocketError, SocketFile};

use crate::{failure::Failure, lock::Lock};

/// The socket that listens, and its name where the name is ours to take away.
pub struct Listener {
    /// The connections.
    pub incoming: Incoming,
    /// None where a supervisor made the socket.
    pub name: Option<SocketName>,
}

/// The name of a socket of our own.
pub struct SocketName {
    file: SocketFile,
    /// Held until the name is gone.
    _lock: Option<Lock>,
}

impl Listener {
    /// Takes over the socket that was passed, or binds `path`.
    ///
    /// # Errors
    /// The path cannot be a socket, or somebody else has it.
    pub async fn open(path: &Path, inherited: Option<OwnedFd>) -> Result<Self, Failure> {
        if let Some(fd) = inherited {
            let incoming = socket::adopt(fd).map_err(failure)?;
            return Ok(Self { incoming, name: None });
        }
        let lock = lock_beside(path)?;
        let (incoming, file) = socket::bind(path).await.map_err(failure)?;
        Ok(Self { incoming, name: Some(SocketName { file, _lock: lock }) })
    }
}

impl SocketName {
    /// Takes the name away, unless a successor has it by now.
    pub fn remove(self) {
        if let Err(error) = self.file.remove() {
            tracing::warn!(%error, "could not remove the socket");
        }
    }
}

/// Two daemons with folders of their own can be given one socket. Both would find it dead and take it away, the second
/// one that of the first. In a folder that is not there yet, or is not ours alone, nothing is written: binding makes
/// the one, so that the race needs two first starts, and refuses the other.
fn lock_beside(path: &Path) -> Result<Option<Lock>, Failure> {
    let owner = nix::unistd::geteuid().as_raw();
    let ours = |folder: &Path| {
        folder.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == owner && meta.mode() & 0o022 == 0)
    };
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if ours(folder) => {
            let mut name = name.to_owned();
            name.push(".lock");
            Lock::take(&folder.join(name)).map(Some)
        }
        _ => Ok(None),
    }
}

/// A path that cannot be a socket is a wrong configuration; all else is bad luck.
pub(crate) fn failure(error: SocketError) -> Failure {
    let make = if error.kind() == ErrorKind::Configuration { Failure::usage } else { Failure::broken };
    make(error.to_string()).with_hint(error.hint())
}
