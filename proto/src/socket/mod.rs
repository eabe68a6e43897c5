//! The local socket: its path, binding or adopting it, access control, and connecting.
//!
//! - [`socket_path`]: the rule for the socket's path, a pure function of environment values; [`other_paths`]:
//!   alternatives if that path is unavailable.
//! - [`bind`](bind()), [`adopt`]: the listening end; [`IncomingConnections`] drops connections of other users.
//! - [`connect`](connect()): the calling end, which checks that the listener belongs to the same user.
//! - [`Io`]: one connection, with the traits that both ends of tonic need.

pub use stream::{IncomingConnections, Io, PeerInfo, connect};
pub use stream::{SocketFile, adopt, bind, is_live};

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use agentd_core::error::ErrorKind;

mod stream;

/// Error for an unusable socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// `AGENTD_SOCKET` is relative to the current directory, which the daemon and its clients do not share.
    #[error("the socket path {} is not absolute", .0.display())]
    NotAbsolute(PathBuf),
    /// The path exceeds the kernel's length limit.
    #[error("the socket path {} has {} bytes; the limit is {}", .0.display(), .0.as_os_str().len(), MAX_PATH_BYTES)]
    TooLong(PathBuf),
    /// Other users could replace the socket. Contains the folder and the reason.
    #[error("the socket's folder {} is not safe: {}", .0.display(), .1)]
    UnsafeFolder(PathBuf, &'static str),
    /// A daemon is listening at this path.
    #[error("a daemon is already listening at {}", .0.display())]
    Live(PathBuf),
    /// The file at this path is not a socket.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// No daemon listens at this path.
    #[error("no daemon is listening at {}", .0.display())]
    NotListening(PathBuf),
    /// The socket belongs to another user, who could read all communication.
    #[error("the socket {} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// A system call failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// Action that was attempted.
        action: &'static str,
        /// Path on which the action was attempted.
        path: PathBuf,
        /// Error from the system.
        #[source]
        source: io::Error,
    },
}

impl SocketError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Live { .. } => ErrorKind::Conflict,
            Self::NotListening { .. } => ErrorKind::Unreachable,
            Self::NotAbsolute { .. } | Self::TooLong { .. } | Self::UnsafeFolder { .. } | Self::NotASocket { .. } => {
                ErrorKind::Configuration
            }
            Self::Foreign { .. } | Self::Io { .. } => ErrorKind::Rejected,
        }
    }

    /// Returns a hint on how to fix the failure.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotAbsolute { .. } => "set AGENTD_SOCKET to a path that begins with /",
            Self::TooLong { .. } => "set AGENTD_SOCKET to a shorter path, such as one below /tmp",
            Self::UnsafeFolder { .. } => {
                "set AGENTD_SOCKET to a path in a folder of your own that only you can write to (chmod 700)"
            }
            Self::Live { .. } => "use the running daemon, or stop it with `agentctl stop`",
            Self::NotASocket { .. } => "move it away, or set AGENTD_SOCKET to another path",
            Self::NotListening { .. } => "start it with `agentctl start`",
            Self::Foreign { .. } => "set AGENTD_SOCKET to a path of your own",
            Self::Io { .. } => "check that the folder exists, belongs to you and is writable, or set AGENTD_SOCKET",
        }
    }
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Io { source, .. } => source,
            SocketError::NotListening { .. } => Self::new(io::ErrorKind::ConnectionRefused, error),
            other => Self::other(other),
        }
    }
}

/// Settings that determine the socket's path. The values come from the environment, which is read by the programs only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketSettings {
    /// Value of `AGENTD_SOCKET`. An empty value counts as absent.
    pub explicit: Option<OsString>,
    /// Value of `XDG_RUNTIME_DIR`. An empty or relative value counts as absent, as required by the XDG specification.
    pub runtime_dir: Option<OsString>,
    /// User ID, part of the path in `/tmp` to separate users.
    pub uid: u32,
    /// Data folder, used to distinguish the daemons of one user.
    pub data_dir: PathBuf,
}

impl SocketSettings {
    /// Creates the settings for the user of this process.
    pub fn of_this_user(explicit: Option<OsString>, runtime_dir: Option<OsString>, data_dir: PathBuf) -> Self {
        Self { explicit, runtime_dir, uid: nix::unistd::geteuid().as_raw(), data_dir }
    }

    /// Returns the value of `AGENTD_SOCKET`, if it is set.
    pub fn named(&self) -> Option<PathBuf> {
        non_empty_path(&self.explicit)
    }
}

/// Returns the socket's path: `AGENTD_SOCKET`, else `$XDG_RUNTIME_DIR/agentd/agentd.sock`, else a name derived from the
/// data folder in `/tmp/agentd-UID`. `TMPDIR` is not used, because the daemon and its clients may have different
/// values.
///
/// # Errors
/// Fails if `AGENTD_SOCKET` is not an absolute path, or the path is too long for a socket.
pub fn socket_path(settings: &SocketSettings) -> Result<PathBuf, SocketError> {
    match (settings.named(), non_empty_path(&settings.runtime_dir).filter(|path| path.is_absolute())) {
        (Some(path), _) if path.is_absolute() => check_length(path),
        (Some(path), _) => Err(SocketError::NotAbsolute(path)),
        (None, Some(runtime_dir)) => check_length(runtime_dir.join("agentd").join("agentd.sock")),
        (None, None) => check_length(own_path(settings)),
    }
}

/// Returns alternatives for a daemon that cannot use [`socket_path`], in order of preference: in `/tmp/agentd-UID`,
/// then in the data folder. Clients find the socket through the [lock file](crate::lock_file).
pub fn other_paths(settings: &SocketSettings) -> Vec<PathBuf> {
    let first = socket_path(settings).ok();
    [own_path(settings), settings.data_dir.join("agentd.sock")]
        .into_iter()
        .filter(|path| path.is_absolute() && Some(path) != first.as_ref())
        .filter_map(|path| check_length(path).ok())
        .collect()
}

fn non_empty_path(value: &Option<OsString>) -> Option<PathBuf> {
    value.as_ref().filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns a path in `/tmp` derived from the data folder, different for each data folder.
fn own_path(settings: &SocketSettings) -> PathBuf {
    // FNV-1a is short, and its result is the same in every version of the programs.
    let digest = settings
        .data_dir
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    Path::new("/tmp").join(format!("agentd-{}", settings.uid)).join(format!("{digest:016x}.sock"))
}

/// The kernel stores a socket's path in 108 bytes, including the terminator.
const MAX_PATH_BYTES: usize = 107;

pub(super) fn check_length(path: PathBuf) -> Result<PathBuf, SocketError> {
    if path.as_os_str().len() > MAX_PATH_BYTES { Err(SocketError::TooLong(path)) } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(explicit: &str, runtime_dir: &str, data_dir: &str) -> SocketSettings {
        SocketSettings {
            explicit: Some(explicit.into()),
            runtime_dir: Some(runtime_dir.into()),
            uid: 1000,
            data_dir: data_dir.into(),
        }
    }

    fn check(explicit: &str, runtime_dir: &str, expected: Result<&str, &str>) {
        let found = socket_path(&settings(explicit, runtime_dir, "/data")).map_err(|error| error.to_string());
        match expected {
            Ok(path) => assert_eq!(found, Ok(PathBuf::from(path))),
            Err(part) => assert!(found.as_ref().is_err_and(|text| text.contains(part)), "{found:?} lacks {part:?}"),
        }
    }

    #[test]
    fn socket_path_follows_precedence() {
        check("/a/b.sock", "/run/user/1000", Ok("/a/b.sock"));
        check("", "/run/user/1000", Ok("/run/user/1000/agentd/agentd.sock"));
        check("", "", Ok("/tmp/agentd-1000/2e61291ce2d9239e.sock"));
        check("", "relative", Ok("/tmp/agentd-1000/2e61291ce2d9239e.sock"));
        check("relative.sock", "/run/user/1000", Err("absolute"));
        check(&format!("/{}", "a".repeat(106)), "", Ok(&format!("/{}", "a".repeat(106))));
        check(&format!("/{}", "a".repeat(107)), "", Err("108 bytes"));
        check("", &format!("/{}", "r".repeat(90)), Err("limit is 107"));
    }

    #[test]
    fn each_data_folder_has_its_own_fallback_socket() {
        let of = |data: &str| socket_path(&settings("", "", data)).unwrap();
        assert_ne!(of("/home/a/data"), of("/home/b/data"));
        assert_eq!(of("/home/a/data"), of("/home/a/data"));
        let absent = SocketSettings { explicit: None, runtime_dir: None, ..settings("", "", "/home/a/data") };
        assert_eq!(socket_path(&absent).unwrap(), of("/home/a/data"));
    }

    #[test]
    fn alternative_socket_paths_are_listed() {
        let of = |runtime_dir: &str, data: &str| other_paths(&settings("", runtime_dir, data));
        let own = socket_path(&settings("", "", "/data")).unwrap();
        assert_eq!(of("/run/user/1000", "/data"), [own, "/data/agentd.sock".into()]);
        assert_eq!(of("", "/data"), [PathBuf::from("/data/agentd.sock")]);
        assert!(of("", &format!("/{}", "d".repeat(100))).is_empty(), "a path over the length limit is left out");
    }
}
