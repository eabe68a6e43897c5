//! Locating the daemon, the built-in model's weights, and model settings in this shell.
//!
//! The client tries the socket named by the user, then the socket in the data folder's lock file, then the default
//! sockets. A daemon at a default socket must use that data folder. A client thus finds the same daemon with and
//! without a desktop environment, and never the daemon of another data folder. A daemon of another machine is only
//! searched if the user names that machine.
//!
//! Model variables of this shell are compared with those that the daemon was started with. Variables without effect are
//! reported. Keys of known providers are reported with the lines that would enable them. Values are compared by digest
//! and never shown.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf, absolute},
};

use agentd_proto::{
    client::{Client, ClientError, ClientErrorKind},
    lock_file::{self, LOCK_FILE, LockHolder},
    packaged,
    socket::{self, SocketSettings},
    start_variables::{StartVariables, VariableMatch},
};
use serde::Serialize;

use super::{
    Daemon, data_dir,
    ssh::{Dial, REDIAL, SshHost, named_host},
    variables,
};
use crate::{failure::Failure, flags::Global};

/// Sockets and data folder to search.
#[derive(Debug, Clone)]
pub(crate) struct DaemonLocation {
    /// Another machine, named by the user. Its own client searches there.
    host: Option<SshHost>,
    /// Socket named by the user.
    named: Option<PathBuf>,
    /// Socket used by default.
    default: PathBuf,
    /// Other sockets that the daemon may listen on.
    others: Vec<PathBuf>,
    /// Data folder; `None` if it is unknown but a socket is known.
    data: Option<PathBuf>,
}

/// Result of one search.
pub(crate) enum SearchResult {
    /// A daemon, and the socket at which it responded.
    Reached(Client, PathBuf),
    /// A process that holds the data folder but does not respond, with the connection error if its socket is known.
    Silent(LockHolder, Option<ClientError>),
    /// No daemon is running.
    NotRunning,
    /// The process at the socket cannot be used.
    Unusable(ClientError),
}

impl DaemonLocation {
    /// Returns the locations for these arguments and this environment.
    ///
    /// # Errors
    /// Fails if the named host or a path is invalid, or the data folder is unknown.
    pub(crate) fn of(global: &Global) -> Result<Self, Failure> {
        let Some(address) = named_host(global) else { return Self::on_this_machine(global) };
        if global.socket.is_some() {
            return Err(Failure::usage("--host and --socket cannot be used together")
                .hint("a socket is one of this machine; the host finds its own"));
        }
        let host = SshHost::parse(&address)?;
        let default = PathBuf::from(&host.address);
        Ok(Self { host: Some(host), named: None, default, others: Vec::new(), data: None })
    }

    /// Like [`Self::of`], for the daemon of this machine.
    ///
    /// # Errors
    /// Fails if a path is invalid for a socket, or the data folder is unknown.
    pub(crate) fn on_this_machine(global: &Global) -> Result<Self, Failure> {
        let named = match &global.socket {
            // A relative path is only allowed on the command line, not in the environment.
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
        let data_dir = data.as_ref().cloned().unwrap_or_default();
        let settings = SocketSettings::of_this_user(named, runtime_dir, data_dir);
        let default =
            socket::socket_path(&settings).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        let named = settings.named();
        let needs_data =
            named.is_none() && settings.runtime_dir.as_ref().is_none_or(|folder| !Path::new(folder).is_absolute());
        let data = if needs_data { Some(data?) } else { data.ok() };
        let others = if named.is_some() { Vec::new() } else { socket::other_paths(&settings) };
        Ok(Self { host: None, named, default, others, data })
    }

    /// Returns the socket named by the user.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// Returns the address of the daemon's machine, if the user named another one.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(|host| host.address.as_str())
    }

    /// Returns the flags with which another command finds the same daemon.
    pub(crate) fn global(&self) -> Global {
        Global { socket: self.named.clone(), host: self.host().map(str::to_owned), json: false }
    }

    /// Returns the socket of the running daemon, or the socket that a new one would use. For a daemon of another
    /// machine, returns the machine's address.
    pub(crate) fn socket(&self) -> PathBuf {
        self.holder().and_then(|holder| holder.socket).unwrap_or_else(|| self.default.clone())
    }

    /// Returns the process that holds the data folder, unless the user named a different socket.
    pub(crate) fn holder(&self) -> Option<LockHolder> {
        self.file_holder().or_else(|| self.folder_holder())
    }

    /// Returns the process that the lock file refers to.
    fn file_holder(&self) -> Option<LockHolder> {
        // An unreadable lock file is treated like a missing one.
        let holder = lock_file::holder(&self.data.as_ref()?.join(LOCK_FILE)).ok().flatten()?;
        let is_expected = self.named.as_ref().is_none_or(|named| holder.socket.as_ref() == Some(named));
        is_expected.then_some(holder)
    }

    /// Returns the process that holds a folder whose lock file was removed. The process recreates the file later.
    fn folder_holder(&self) -> Option<LockHolder> {
        lock_file::folder_holder(self.data.as_ref().filter(|_| self.named.is_none())?)
    }

    /// Searches once. `check_version` checks the version of the daemon found.
    pub(crate) async fn search(&self, check_version: fn(Client, &Path) -> Result<Client, ClientError>) -> SearchResult {
        if let Some(host) = &self.host {
            let reached = host.connect(Dial { starts: false, asks: true }).await;
            return match reached.and_then(|client| check_version(client, &self.default)) {
                Ok(client) => SearchResult::Reached(client, self.default.clone()),
                Err(error) if error.kind == ClientErrorKind::NotRunning => SearchResult::NotRunning,
                Err(error) => SearchResult::Unusable(error),
            };
        }
        if let Some(holder) = self.file_holder() {
            let Some(socket) = holder.socket.clone() else { return SearchResult::Silent(holder, None) };
            let reached = Client::connect_any_version(&socket).await;
            return match reached.and_then(|client| check_version(client, &socket)) {
                Ok(client) => SearchResult::Reached(client, socket),
                Err(error) if error.kind == ClientErrorKind::OtherVersion => SearchResult::Unusable(error),
                Err(error) => SearchResult::Silent(holder, Some(error)),
            };
        }
        for socket in std::iter::once(&self.default).chain(&self.others) {
            match Client::connect_any_version(socket).await {
                Ok(client) if !self.is_expected(&client) => {}
                Ok(client) => {
                    return match check_version(client, socket) {
                        Ok(client) => SearchResult::Reached(client, socket.clone()),
                        Err(error) => SearchResult::Unusable(error),
                    };
                }
                Err(error) if error.kind == ClientErrorKind::NotRunning => {}
                Err(error) => return SearchResult::Unusable(error),
            }
        }
        self.folder_holder().map_or(SearchResult::NotRunning, |holder| SearchResult::Silent(holder, None))
    }

    /// Connects to the daemon of another machine. Returns `None` if the user did not name one.
    pub(crate) async fn connect_host(&self, dial: Dial) -> Option<Result<Client, ClientError>> {
        let connected = self.host.as_ref()?.connect(dial).await;
        Some(connected.and_then(|client| client.of_our_version(&self.default)))
    }

    /// Connects to the daemon again, without questions at the terminal.
    ///
    /// # Errors
    /// Fails if the daemon is not running, or cannot be used.
    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        if let Some(connected) = self.connect_host(REDIAL).await {
            return connected;
        }
        match self.search(Client::of_our_version).await {
            SearchResult::Reached(client, _) => Ok(client),
            SearchResult::Unusable(error) | SearchResult::Silent(_, Some(error)) => Err(error),
            SearchResult::Silent(_, None) | SearchResult::NotRunning => {
                Err(ClientError::new(ClientErrorKind::NotRunning, "no daemon is running"))
            }
        }
    }

    /// Returns true if the daemon uses the expected data folder. A named socket is accepted with any folder. Older
    /// daemons do not report their folder and are accepted as well.
    fn is_expected(&self, client: &Client) -> bool {
        let daemon_folder = &client.hello().data_dir;
        match &self.data {
            Some(client_folder) if self.named.is_none() && !daemon_folder.as_os_str().is_empty() => {
                is_same_folder(client_folder, daemon_folder)
            }
            _ => true,
        }
    }
}

/// Returns true if two paths refer to the same folder.
pub(crate) fn is_same_folder(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    one == other || inode(one).is_some_and(|found| Some(found) == inode(other))
}

/// Returns the failure for a daemon that runs but cannot be reached, with a hint.
pub(crate) fn silent_error(holder: &LockHolder, error: Option<&ClientError>) -> Failure {
    let process = holder.pid.map_or("in another container".to_owned(), |pid| format!("pid {pid}"));
    let problem = match (&holder.socket, error.map(|error| error.kind)) {
        (None, _) => "cannot be reached yet".to_owned(),
        (Some(socket), Some(ClientErrorKind::NotRunning)) => format!("has lost its socket {}", socket.display()),
        (Some(socket), _) => format!("does not answer at {}", socket.display()),
    };
    let hint = match holder.pid {
        Some(_) => "try again in a moment; `agentctl stop` stops it, and turns can be resumed after the next start",
        None => "stop it where it runs, or set AGENTD_DATA_DIR to another folder",
    };
    Failure::unreachable(format!("the daemon ({process}) has locked the data folder and {problem}")).hint(hint)
}

/// Maximum depth of the search for a file under the models folder.
const MAX_DEPTH: u8 = 3;

/// File of the built-in model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    /// The file exists at this path.
    File(PathBuf),
    /// No file exists at this path or under it.
    Missing(PathBuf),
}

impl Weights {
    /// Finds the file that the daemon would load: the one in its configuration, in its data folder, or installed with
    /// the programs. On another machine, which a client cannot search, the file is assumed to exist.
    pub(crate) async fn find(daemon: &Daemon) -> Self {
        if daemon.client.host().is_some() {
            return Self::File(daemon.client.hello().data_dir.join("models"));
        }
        let named = named(daemon).await;
        let is_named = named.is_some();
        let path = match named {
            Some(path) if path.is_file() => return Self::File(path),
            Some(path) => path,
            None => {
                let daemon_folder = &daemon.client.hello().data_dir;
                let client_folder = || super::data_dir().unwrap_or_default();
                if daemon_folder.as_os_str().is_empty() { client_folder() } else { daemon_folder.clone() }
                    .join("models")
            }
        };
        let packaged = || if is_named { None } else { file_below(&packaged::models()?, MAX_DEPTH) };
        match file_below(&path, MAX_DEPTH).or_else(packaged) {
            Some(file) => Self::File(file),
            None => Self::Missing(path),
        }
    }
}

/// Returns the file named in the configuration. Returns `None` for older daemons, which do not report it.
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
        // A relative path is relative to the configuration folder.
        _ if Path::new(&named).is_relative() => Some(super::config_dir().ok()?.join(named)),
        _ => Some(named.into()),
    }
}

/// Finds a GGUF file in this folder or its subfolders.
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

/// Slot names in variables. The first one is the default slot.
const SLOT_NAMES: [&str; 5] = ["BASIC", "REASONING", "MULTIMODAL", "CODE", "CHAT"];

/// Common aliases of slot names.
const SLOT_ALIASES: [(&str, &str); 4] =
    [("BASE", "BASIC"), ("DEFAULT", "BASIC"), ("VISION", "MULTIMODAL"), ("REASON", "REASONING")];

/// Suffixes of the variables, and their common aliases.
const SUFFIXES: [(&str, &[&str]); 5] = [
    ("BASE_URL", &["BASE_URL", "URL", "API_BASE", "API_URL", "ENDPOINT"]),
    ("API_KEY", &["API_KEY", "KEY", "TOKEN"]),
    ("CONTEXT_WINDOW", &["CONTEXT_WINDOW", "CONTEXT", "CONTEXT_LENGTH", "CONTEXT_SIZE", "WINDOW"]),
    ("WIRE", &["WIRE", "API"]),
    ("ID", &["ID", "MODEL", "NAME", "MODEL_ID", "MODEL_NAME"]),
];

/// Suffixes that are too short for fuzzy matching.
const SHORT_SUFFIXES: [&str; 2] = ["ID", "WIRE"];

/// Maximum edit distance of a misspelt name.
const MAX_EDITS: usize = 2;

/// Prefixes of well-known key variables, and the providers' base URLs.
const PROVIDERS: [(&str, &str); 11] = [
    ("OPENROUTER", "https://openrouter.ai/api/v1"),
    ("GEMINI", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("DEEPSEEK", "https://api.deepseek.com/v1"),
    ("MISTRAL", "https://api.mistral.ai/v1"),
    ("GROQ", "https://api.groq.com/openai/v1"),
    ("XAI", "https://api.x.ai/v1"),
    ("MOONSHOT", "https://api.moonshot.ai/v1"),
    ("ZAI", "https://api.z.ai/api/paas/v4"),
    ("DASHSCOPE", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    ("CEREBRAS", "https://api.cerebras.ai/v1"),
    ("TOGETHER", "https://api.together.xyz/v1"),
];

/// Keys that are sufficient without naming a model.
const SUFFICIENT_KEYS: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// A setting in this shell's environment that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShellNote {
    /// Names of the variables involved.
    #[serde(rename = "variables")]
    pub(crate) names: Vec<String>,
    /// Description of the problem, in one sentence.
    pub(crate) message: String,
    /// Hint on how to fix it.
    pub(crate) hint: String,
}

impl ShellNote {
    fn new(names: &[&str], message: String, hint: String) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), message, hint }
    }

    /// Returns the message and the hint on one line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.message, self.hint)
    }
}

impl Daemon {
    /// Returns the variables of this shell that have no effect, the most important first. Unused provider keys are only
    /// reported if the built-in model is in use. For a daemon of another machine, no variable is expected to have one.
    pub(crate) fn shell_notes(&self, has_builtin: bool) -> Vec<ShellNote> {
        if self.client.host().is_some() {
            return Vec::new();
        }
        let shell = variables().filter(|(_, value)| !value.trim().is_empty()).collect();
        self.client.hello().started_with.as_ref().map_or_else(Vec::new, |known| notes(&shell, known, has_builtin))
    }
}

fn notes(shell: &BTreeMap<String, String>, known: &StartVariables, has_builtin: bool) -> Vec<ShellNote> {
    let mut notes = differing_variables(shell, known);
    notes.extend(misspelt_variables(shell, has_builtin));
    if notes.is_empty() && has_builtin {
        notes = keys(shell);
    }
    notes
}

/// Returns variables that the daemon was started without, or with other values.
fn differing_variables(shell: &BTreeMap<String, String>, known: &StartVariables) -> Vec<ShellNote> {
    let names: Vec<String> = known_names().collect();
    let of = |wanted: VariableMatch| -> Vec<&str> {
        let is = |name: &&str| shell.get(*name).is_some_and(|value| known.compare(name, value) == wanted);
        names.iter().map(String::as_str).filter(is).collect()
    };
    let note = |wanted: VariableMatch, relation: &str| {
        let names = of(wanted);
        let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        let message = format!("{} {is} set here, but the daemon was started {relation} {it}", join_names(&names));
        let note = ShellNote::new(&names, message, "agentctl stop, then start again".to_owned());
        (!names.is_empty()).then_some(note)
    };
    [note(VariableMatch::Missing, "without"), note(VariableMatch::Other, "with another value of")]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns names that resemble a variable that has an effect.
fn misspelt_variables(shell: &BTreeMap<String, String>, has_builtin: bool) -> Vec<ShellNote> {
    let known: Vec<String> = known_names().collect();
    let unknown = shell.keys().filter(|name| !known.contains(name));
    let meant = unknown.filter_map(|name| Some((name, intended_variable(name, has_builtin)?)));
    meant
        .filter(|(_, meant)| !shell.contains_key(meant))
        .map(|(name, meant)| {
            let message = format!("unknown variable {name}; did you mean {meant}?");
            ShellNote::new(&[name], message, format!("export {meant}=\"${name}\"; agentctl stop"))
        })
        .collect()
}

/// Returns the variable that a name was probably meant to be.
fn intended_variable(name: &str, has_builtin: bool) -> Option<String> {
    // A short name may belong to another program.
    let written = normalize_name(name);
    if !(written.starts_with("MOD") && written.len() > "MODEL".len() + MAX_EDITS) {
        return None;
    }
    let slots = SLOT_NAMES.iter().map(|slot| (*slot, *slot)).chain(SLOT_ALIASES);
    let mut nearest: Option<(usize, String)> = None;
    let mut consider = |form: String, edits: usize, meant: String| {
        let distance = strsim::damerau_levenshtein(&written, &normalize_name(&form));
        if distance <= edits && nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
            nearest = Some((distance, meant));
        }
    };
    for (end, forms) in SUFFIXES {
        for (slot, meant) in slots.clone() {
            for form in forms.iter().filter(|form| !(slot == "BASE" && **form == "URL")) {
                // `MODEL_BASE_DIR` belongs to another program, so aliases and short suffixes must match exactly.
                let edits = if *form == end && !SHORT_SUFFIXES.contains(&end) { MAX_EDITS } else { 0 };
                consider(format!("MODEL_{slot}_{form}"), edits, format!("MODEL_{meant}_{end}"));
            }
        }
        // Many programs use `MODEL_ID` and `MODEL_NAME` without a slot.
        if has_builtin && !SHORT_SUFFIXES.contains(&end) {
            consider(format!("MODEL_{end}"), 1, format!("MODEL_{}_{end}", SLOT_NAMES[0]));
        }
    }
    nearest.map(|(_, meant)| meant)
}

/// Returns keys of providers that are not used.
fn keys(shell: &BTreeMap<String, String>) -> Vec<ShellNote> {
    // The daemon uses these keys after its next start.
    if let Some(key) = SUFFICIENT_KEYS.into_iter().find(|key| shell.contains_key(*key)) {
        let message = format!("found {key}, which the daemon was started without");
        return vec![ShellNote::new(&[key], message, "agentctl stop, then start again".to_owned())];
    }
    let found = PROVIDERS.into_iter().filter(|(provider, _)| shell.contains_key(&format!("{provider}_API_KEY")));
    let note = |(provider, address): (&str, &str)| {
        let (key, own) = (format!("{provider}_API_KEY"), format!("{provider}_BASE_URL"));
        let address = if shell.contains_key(&own) { format!("${own}") } else { address.to_owned() };
        let message = format!("found {key}, which agentd does not use automatically");
        let use_it = format!("export MODEL_BASIC_BASE_URL={address} MODEL_BASIC_API_KEY=${key} MODEL_BASIC_ID=…");
        ShellNote::new(&[&key], message, format!("{use_it}; agentctl stop"))
    };
    found.map(note).collect()
}

fn known_names() -> impl Iterator<Item = String> {
    SLOT_NAMES.into_iter().flat_map(|slot| SUFFIXES.map(|(end, _)| format!("MODEL_{slot}_{end}")))
}

/// Normalizes a name: upper case, without underscores.
fn normalize_name(name: &str) -> String {
    name.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_uppercase()).collect()
}

fn join_names(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(named: &str, runtime_dir: &str, data: Result<&str, Failure>) -> Result<DaemonLocation, Failure> {
        DaemonLocation::new(Some(named.into()), Some(runtime_dir.into()), data.map(PathBuf::from))
    }

    #[test]
    fn unknown_data_folder_is_an_error_if_it_names_the_socket() {
        let homeless = || Err(Failure::usage("HOME is not set"));
        assert!(location("", "", homeless()).unwrap_err().message.contains("HOME"));
        assert_eq!(
            location("", "/run/user/1", homeless()).unwrap().socket(),
            Path::new("/run/user/1/agentd/agentd.sock")
        );
        assert_eq!(location("/tmp/s.sock", "", homeless()).unwrap().socket(), Path::new("/tmp/s.sock"));
    }

    #[test]
    fn paths_of_one_folder_are_equal() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::os::unix::fs::symlink("data", &link).unwrap();
        assert!(is_same_folder(&folder.path().join("data"), &link));
        assert!(!is_same_folder(folder.path(), &link));
        assert!(!is_same_folder(&folder.path().join("none"), &folder.path().join("other")));
    }

    #[test]
    fn misspelt_variable_names_are_recognised() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(intended_variable(name, true).as_deref(), expected, "{name}")
        };
        check("MODEL_BASIC_BASEURL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_BASIC_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_BASE_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_API_KEY", Some("MODEL_BASIC_API_KEY"));
        check("MODEL_BASIC_MODEL", Some("MODEL_BASIC_ID"));
        check("MODEL_BASIC_KEY", Some("MODEL_BASIC_API_KEY"));
        check("MODELS_BASIC_BASE_URL", Some("MODEL_BASIC_BASE_URL"));
        check("MODEL_VISION_BASE_URL", Some("MODEL_MULTIMODAL_BASE_URL"));
        check("MODEL_CHAT_BSAE_URL", Some("MODEL_CHAT_BASE_URL"));
        let others =
            "MODEL MODEL_NAME MODEL_ID MODEL_PATH MODEL_DIR MODEL_BASE_DIR MODEL_CODE MODE OPENAI_BASE_URL HOME";
        others.split(' ').for_each(|other| check(other, None));
        assert_eq!(
            intended_variable("MODEL_BASE_URL", false),
            None,
            "with another model, the variable may belong to another program"
        );
        let shell = ["MODEL_BASIC_BASE_URL", "MODEL_BASIC_BASEURL"].map(|name| (name.to_owned(), "x".to_owned()));
        assert!(misspelt_variables(&shell.into(), true).is_empty(), "the correct variable is also set");
    }
}
