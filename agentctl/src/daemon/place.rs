//! The place of the daemon: at the socket that a person named, else where the lock file of the data folder points, else at the
//! usual place, if what answers there works on that folder. So a client finds the same daemon with and without a desktop's
//! environment, and never that of another data folder. And the place of the built-in model's weights: a file that may be missing.

use std::{
    env,
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf, absolute},
};

use agentd_proto::{
    client::{Client, ClientError, ClientErrorKind},
    lock_file::{self, LOCK_FILE, LockHolder},
    packaged,
    socket::{self, SocketPlace},
};

use super::{Daemon, data_dir};
use crate::{failure::Failure, flags::Global};

/// The places to look at.
#[derive(Debug, Clone)]
pub(crate) struct DaemonPlace {
    /// The socket that a person named.
    named: Option<PathBuf>,
    /// The socket of a daemon that nobody told otherwise.
    usual: PathBuf,
    /// The place where it may be instead.
    others: Vec<PathBuf>,
    /// The data folder; none where nothing says which, and a socket does.
    data: Option<PathBuf>,
}

/// The things found there.
pub(crate) enum Sight {
    /// The daemon, and the socket at which it answered.
    Reached(Client, PathBuf),
    /// A process that holds the data folder and does not answer, with its socket where it has told it.
    Silent(LockHolder, Option<ClientError>),
    /// No daemon.
    Nobody,
    /// Something that cannot be used.
    Unusable(ClientError),
}

/// Which daemons will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Those that speak as we do.
    Ours,
    /// All: it is only to be stopped.
    Any,
}

impl DaemonPlace {
    /// The places to look at for these arguments and this environment.
    ///
    /// # Errors
    /// When a path cannot be one of a socket, or nothing says which data folder is meant.
    pub(crate) fn of(global: &Global) -> Result<Self, Failure> {
        let named = match &global.socket {
            // On the command line a relative path has a clear meaning; in the environment it has none.
            Some(path) => absolute(path).ok().map(PathBuf::into_os_string),
            None => env::var_os("AGENTD_SOCKET"),
        };
        Self::new(named, env::var_os("XDG_RUNTIME_DIR"), data_dir())
    }

    fn new(
        named: Option<OsString>,
        runtime_dir: Option<OsString>,
        data: Result<PathBuf, Failure>,
    ) -> Result<Self, Failure> {
        let known = data.as_ref().cloned().unwrap_or_default();
        let place = SocketPlace::of_this_user(named, runtime_dir, known);
        let usual =
            socket::socket_path(&place).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        let named = place.named();
        let needs_data =
            named.is_none() && place.runtime_dir.as_ref().is_none_or(|folder| !Path::new(folder).is_absolute());
        let data = if needs_data { Some(data?) } else { data.ok() };
        let others = if named.is_some() { Vec::new() } else { socket::other_paths(&place) };
        Ok(Self { named, usual, others, data })
    }

    /// The socket that a person named.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// The socket at which the daemon is, or would be.
    pub(crate) fn socket(&self) -> PathBuf {
        self.holder().and_then(|holder| holder.socket).unwrap_or_else(|| self.usual.clone())
    }

    /// The process that holds the data folder, unless another socket than its own was named.
    pub(crate) fn holder(&self) -> Option<LockHolder> {
        self.file_holder().or_else(|| self.folder_holder())
    }

    /// The process that the lock file leads to.
    fn file_holder(&self) -> Option<LockHolder> {
        // A lock file that cannot be read tells as little as one that is not there.
        let holder = lock_file::holder(&self.data.as_ref()?.join(LOCK_FILE)).ok().flatten()?;
        let is_meant = match (&self.named, &holder.socket) {
            (None, _) => true,
            (Some(named), Some(socket)) => named == socket,
            (Some(_), None) => false,
        };
        is_meant.then_some(holder)
    }

    /// The process that holds a folder whose lock file was removed, until it has made the file again.
    fn folder_holder(&self) -> Option<LockHolder> {
        if self.named.is_some() {
            return None;
        }
        lock_file::folder_holder(self.data.as_ref()?)
    }

    /// Looks once.
    pub(crate) async fn look(&self, versions: Versions) -> Sight {
        if let Some(holder) = self.file_holder() {
            let Some(socket) = holder.socket.clone() else { return Sight::Silent(holder, None) };
            return match Self::connect_to(&socket, versions).await {
                Ok(client) => Sight::Reached(client, socket),
                Err(error) if error.kind == ClientErrorKind::OtherVersion => Sight::Unusable(error),
                Err(error) => Sight::Silent(holder, Some(error)),
            };
        }
        for socket in std::iter::once(&self.usual).chain(&self.others) {
            match Client::connect_any_version(socket).await {
                Ok(client) if !self.is_meant(&client) => {}
                Ok(client) => {
                    return match fitting(client, socket, versions) {
                        Ok(client) => Sight::Reached(client, socket.clone()),
                        Err(error) => Sight::Unusable(error),
                    };
                }
                Err(error) if error.kind == ClientErrorKind::NotRunning => {}
                Err(error) => return Sight::Unusable(error),
            }
        }
        self.folder_holder().map_or(Sight::Nobody, |holder| Sight::Silent(holder, None))
    }

    /// Connects to the daemon, if it is there.
    ///
    /// # Errors
    /// When it is not, or cannot be used.
    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        match self.look(Versions::Ours).await {
            Sight::Reached(client, _) => Ok(client),
            Sight::Unusable(error) | Sight::Silent(_, Some(error)) => Err(error),
            Sight::Silent(_, None) | Sight::Nobody => {
                Err(ClientError::new(ClientErrorKind::NotRunning, "no daemon is running"))
            }
        }
    }

    async fn connect_to(socket: &Path, versions: Versions) -> Result<Client, ClientError> {
        fitting(Client::connect_any_version(socket).await?, socket, versions)
    }

    /// True where a daemon works on the folder that is meant. A named socket is meant, whatever its folder is; and older
    /// daemons do not tell.
    fn is_meant(&self, client: &Client) -> bool {
        let theirs = &client.hello().data_dir;
        match &self.data {
            Some(ours) if self.named.is_none() && !theirs.as_os_str().is_empty() => is_same_folder(ours, theirs),
            _ => true,
        }
    }
}

fn fitting(client: Client, socket: &Path, versions: Versions) -> Result<Client, ClientError> {
    match versions {
        Versions::Ours => client.of_our_version(socket),
        Versions::Any => Ok(client),
    }
}

/// True where two paths lead to one folder.
pub(crate) fn is_same_folder(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    one == other || inode(one).is_some_and(|found| Some(found) == inode(other))
}

/// Why a daemon that runs is of no use, and what helps.
pub(crate) fn silent(holder: &LockHolder, error: Option<&ClientError>) -> Failure {
    let who = holder.pid.map_or("in another container".to_owned(), |pid| format!("pid {pid}"));
    let what = match (&holder.socket, error.map(|error| error.kind)) {
        (None, _) => "cannot be reached yet".to_owned(),
        (Some(socket), Some(ClientErrorKind::NotRunning)) => format!("has lost its socket {}", socket.display()),
        (Some(socket), _) => format!("does not answer at {}", socket.display()),
    };
    let hint = match holder.pid {
        Some(_) => "try again in a moment; `agentctl stop` ends it, and turns can be continued after the next start",
        None => "stop it where it runs, or set AGENTD_DATA_DIR to another folder",
    };
    Failure::unreachable(format!("the daemon ({who}) holds the data folder and {what}")).hint(hint)
}

/// The folders below that of the models in which a file is looked for.
const DEEPEST: u8 = 3;

/// The file of the built-in model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    /// It is there.
    File(PathBuf),
    /// It is not, at this path or below it.
    Missing(PathBuf),
}

impl Weights {
    /// Looks for the file that the daemon would load: the one that its configuration names, the one in its data folder,
    /// or one that came with the programs.
    pub(crate) async fn find(daemon: &Daemon) -> Self {
        let named = named(daemon).await;
        let is_named = named.is_some();
        let path = match named {
            Some(path) if path.is_file() => return Self::File(path),
            Some(path) => path,
            None => {
                let theirs = &daemon.client.hello().data_dir;
                let ours = || super::data_dir().unwrap_or_default();
                if theirs.as_os_str().is_empty() { ours() } else { theirs.clone() }.join("models")
            }
        };
        let packaged = || if is_named { None } else { file_below(&packaged::models()?, DEEPEST) };
        match file_below(&path, DEEPEST).or_else(packaged) {
            Some(file) => Self::File(file),
            None => Self::Missing(path),
        }
    }
}

/// The file that the configuration names. A daemon that does not say is an older one.
async fn named(daemon: &Daemon) -> Option<PathBuf> {
    let view = daemon.client.config().await.ok()?;
    let value = |key: &str| {
        let origin = view.origins.iter().find(|origin| origin.key == key);
        origin.and_then(|origin| origin.value.as_ref()?.as_str().map(str::to_owned))
    };
    let named = value("models.base.gguf").or_else(|| value("embedded.weights").filter(|path| path != "auto"))?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match (named.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Some(home.join(rest)),
        // A relative one belongs to the folder of its file.
        _ if Path::new(&named).is_relative() => Some(super::config_dir().ok()?.join(named)),
        _ => Some(named.into()),
    }
}

/// A GGUF file in this folder or below.
fn file_below(folder: &Path, depth: u8) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            return file_below(&path, depth - 1);
        }
        (path.extension()? == "gguf").then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(named: &str, runtime_dir: &str, data: Result<&str, Failure>) -> Result<DaemonPlace, Failure> {
        DaemonPlace::new(Some(named.into()), Some(runtime_dir.into()), data.map(PathBuf::from))
    }

    #[test]
    fn a_named_socket_is_the_only_place() {
        let found = place("/tmp/s.sock", "/run/user/1", Ok("/data")).unwrap();
        assert_eq!(
            (found.named(), found.socket().as_path()),
            (Some(Path::new("/tmp/s.sock")), Path::new("/tmp/s.sock"))
        );
        assert!(found.others.is_empty());
        assert!(place("relative", "", Ok("/data")).is_err());
    }

    #[test]
    fn the_data_folder_must_be_known_where_it_names_the_socket() {
        let homeless = || Err(Failure::usage("HOME is not set"));
        assert!(place("", "", homeless()).unwrap_err().message.contains("HOME"));
        assert_eq!(place("", "/run/user/1", homeless()).unwrap().socket(), Path::new("/run/user/1/agentd/agentd.sock"));
        assert_eq!(place("/tmp/s.sock", "", homeless()).unwrap().socket(), Path::new("/tmp/s.sock"));
    }

    #[test]
    fn one_folder_has_many_paths() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::os::unix::fs::symlink("data", &link).unwrap();
        assert!(is_same_folder(&folder.path().join("data"), &link));
        assert!(!is_same_folder(folder.path(), &link));
        assert!(!is_same_folder(&folder.path().join("none"), &folder.path().join("other")));
    }
}

#[cfg(test)]
mod weights_tests {
    use std::fs;

    use super::*;

    #[test]
    fn weights_are_found_below_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), None);
        let file = folder.path().join("smol/model.gguf");
        fs::create_dir(folder.path().join("smol")).unwrap();
        fs::write(folder.path().join("smol/notes.txt"), "").unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), None);
        fs::write(&file, "").unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), Some(file));
    }
}
