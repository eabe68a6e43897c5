//! What can be wrong with a socket.

use std::{
    io,
    path::{Path, PathBuf},
};

use agentd_core::error::ErrorKind;

/// A socket that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// `AGENTD_SOCKET` depends on the current folder, which the daemon and its clients do not share.
    #[error("the socket path {} is not absolute", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// The kernel takes no path of that length.
    #[error("the socket path {} has {length} bytes; the limit is {limit}", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The longest that is possible, in bytes.
        limit: usize,
    },
    /// Others could put a socket of theirs in the place of ours.
    #[error("the socket's folder {} is not safe: {problem}", folder.display())]
    UnsafeFolder {
        /// The folder.
        folder: PathBuf,
        /// The problem.
        problem: &'static str,
    },
    /// A daemon listens there.
    #[error("a daemon is already listening at {}", path.display())]
    Live {
        /// The path.
        path: PathBuf,
    },
    /// There is something that is no socket.
    #[error("{} is there and is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Nobody listens there.
    #[error("no daemon is listening at {}", path.display())]
    NobodyThere {
        /// The path.
        path: PathBuf,
    },
    /// Another user listens there, who could read all that we say.
    #[error("the socket {} belongs to another user", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl SocketError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Live { .. } => ErrorKind::Conflict,
            Self::NobodyThere { .. } => ErrorKind::Unreachable,
            Self::NotAbsolute { .. } | Self::TooLong { .. } | Self::UnsafeFolder { .. } | Self::NotASocket { .. } => {
                ErrorKind::Configuration
            }
            Self::Foreign { .. } | Self::Io { .. } => ErrorKind::Rejected,
        }
    }

    /// Hint on what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotAbsolute { .. } => "set AGENTD_SOCKET to a path that begins with /",
            Self::TooLong { .. } => "set AGENTD_SOCKET to a shorter path, such as one below /tmp",
            Self::UnsafeFolder { .. } => {
                "set AGENTD_SOCKET to a path in a folder of your own that no other user can write to (chmod 700)"
            }
            Self::Live { .. } => "use the daemon that runs, or stop it with `agentctl stop`",
            Self::NotASocket { .. } => "move it away, or set AGENTD_SOCKET to another path",
            Self::NobodyThere { .. } => "start it with `agentctl start`",
            Self::Foreign { .. } => "set AGENTD_SOCKET to a path of your own",
            Self::Io { .. } => "see that the folder is there, is yours and can be written, or set AGENTD_SOCKET",
        }
    }
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Io { source, .. } => source,
            SocketError::NobodyThere { .. } => Self::new(io::ErrorKind::ConnectionRefused, error),
            other => Self::other(other),
        }
    }
}
