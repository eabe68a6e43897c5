//! Where the socket is.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::SocketError;

/// What decides where the socket is. The values come from the environment, which only the programs read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPlace {
    /// The value of `AGENTD_SOCKET`. Empty counts as absent.
    pub explicit: Option<OsString>,
    /// The value of `XDG_RUNTIME_DIR`. Empty or relative counts as absent, as its specification says.
    pub runtime_dir: Option<OsString>,
    /// The user's id, which keeps users apart below `/tmp`.
    pub uid: u32,
}

impl SocketPlace {
    /// The place for the user of this process.
    #[must_use]
    pub fn of_this_user(explicit: Option<OsString>, runtime_dir: Option<OsString>) -> Self {
        Self { explicit, runtime_dir, uid: nix::unistd::geteuid().as_raw() }
    }
}

/// The socket's path: `AGENTD_SOCKET`, else `$XDG_RUNTIME_DIR/agentd/agentd.sock`, else `/tmp/agentd-UID/agentd.sock`.
/// `TMPDIR` plays no part, because the daemon and its clients may have different ones.
///
/// # Errors
/// When `AGENTD_SOCKET` is no absolute path, or the path is too long for a socket.
pub fn socket_path(place: &SocketPlace) -> Result<PathBuf, SocketError> {
    let given = |value: &Option<OsString>| value.as_ref().filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = given(&place.explicit) {
        return if path.is_absolute() { check_length(path) } else { Err(SocketError::NotAbsolute { path }) };
    }
    let folder = match given(&place.runtime_dir).filter(|path| path.is_absolute()) {
        Some(runtime_dir) => runtime_dir.join("agentd"),
        None => Path::new("/tmp").join(format!("agentd-{}", place.uid)),
    };
    check_length(folder.join("agentd.sock"))
}

/// The kernel keeps a socket's path in 108 bytes, one of them the end mark.
const MAX_PATH_BYTES: usize = 107;

pub(super) fn check_length(path: PathBuf) -> Result<PathBuf, SocketError> {
    let length = path.as_os_str().len();
    if length > MAX_PATH_BYTES { Err(SocketError::TooLong { path, length, limit: MAX_PATH_BYTES }) } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(explicit: &str, runtime_dir: &str, expected: Result<&str, &str>) {
        let place = SocketPlace { explicit: Some(explicit.into()), runtime_dir: Some(runtime_dir.into()), uid: 1000 };
        let found = socket_path(&place).map_err(|error| error.to_string());
        match expected {
            Ok(path) => assert_eq!(found, Ok(PathBuf::from(path))),
            Err(part) => assert!(found.as_ref().is_err_and(|text| text.contains(part)), "{found:?} lacks {part:?}"),
        }
    }

    #[test]
    fn the_strongest_value_wins() {
        check("/a/b.sock", "/run/user/1000", Ok("/a/b.sock"));
        check("", "/run/user/1000", Ok("/run/user/1000/agentd/agentd.sock"));
        check("", "", Ok("/tmp/agentd-1000/agentd.sock"));
        check("", "relative", Ok("/tmp/agentd-1000/agentd.sock"));
        check("relative.sock", "/run/user/1000", Err("absolute"));
        check(&format!("/{}", "a".repeat(106)), "", Ok(&format!("/{}", "a".repeat(106))));
        check(&format!("/{}", "a".repeat(107)), "", Err("108 bytes"));
        check("", &format!("/{}", "r".repeat(90)), Err("limit is 107"));
    }

    #[test]
    fn absent_is_as_empty() {
        let place = SocketPlace { explicit: None, runtime_dir: None, uid: 7 };
        assert_eq!(socket_path(&place).unwrap(), PathBuf::from("/tmp/agentd-7/agentd.sock"));
    }
}
