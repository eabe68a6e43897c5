//! Inputs of the process: the environment, which is captured once and passed on as a value, and the command line. This
//! module also checks ownership: the daemon never relies on a file or folder that another user can write.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

use agentd_core::route::Routes;
use agentd_proto::start_variables::StartVariables;
use clap::Parser;
use uuid::Uuid;

/// Path of this binary, which is valid even if its file has been replaced. The daemon starts the binary again to read
/// documents, to guard MCP servers and to confine commands.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Variables that the process was started with. An empty variable is treated as not set, because setting it to an empty
/// value is the common way to disable it for one command.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Captures the environment of this process. Called once, by `main`.
    pub fn capture() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Returns the value of a variable as text, or `None` if the variable is not set or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.os(name).and_then(OsStr::to_str)
    }

    /// Returns the value of a variable as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.os(name).map(PathBuf::from)
    }

    /// Returns all variables that are valid UTF-8, for `${NAME}` in configuration files.
    pub fn texts(&self) -> HashMap<String, String> {
        self.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns all variables, for programs that run as the user.
    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        self.0.clone()
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// Merges two environments. Variables of `self` take precedence.
    pub fn and(&self, other: &Self) -> Self {
        let own = self.0.iter().filter(|(_, value)| !value.is_empty());
        other.0.iter().chain(own).collect()
    }

    /// Returns the variables in a space-separated list of names that are set and valid UTF-8.
    pub fn only(&self, names: &str) -> BTreeMap<String, String> {
        let pair = |name: &str| Some((name.to_owned(), self.text(name)?.to_owned()));
        names.split_ascii_whitespace().filter_map(pair).collect()
    }

    /// Returns the proxy routes for the daemon's network requests.
    pub fn routes(&self) -> Routes {
        Routes::read(|name| self.text(name))
    }

    /// Returns the values of variables whose names mark them as secrets. These values are redacted in logs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        const SECRET_WORDS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
        let is_secret = |name: &str| name.to_ascii_uppercase().split('_').any(|word| SECRET_WORDS.contains(&word));
        self.pairs().filter(move |(name, _)| is_secret(name)).map(|(_, value)| value)
    }

    /// Returns the variables for models and keys in the form for clients: names and salted digests, without values.
    pub fn start_variables(&self) -> StartVariables {
        let salt = [Uuid::new_v4(), Uuid::new_v4()].iter().flat_map(|random| *random.as_bytes()).collect();
        StartVariables::new(salt, self.pairs())
    }

    fn os(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Shows only names, because values may be secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The agentd daemon.
///
/// Runs in the foreground, listens on a local socket and stores all sessions in its data folder. `agentctl` starts it
/// on demand; systemd can start it as a user service.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "agentd", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Check the configuration, report problems and exit
    #[arg(long)]
    pub check_config: bool,

    /// Print the manual page and exit
    #[arg(long, hide = true)]
    pub man: bool,

    /// Folder with agentd.yaml, models.yaml, tools.yaml and prompts/ [default: $AGENTD_CONFIG_DIR, or
    /// agentd in the XDG configuration folder]
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,

    /// Folder with the journal and the workspaces [default: $AGENTD_DATA_DIR, or agentd in the XDG data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Socket to listen on [default: $AGENTD_SOCKET, or agentd/agentd.sock in the XDG runtime folder]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Log to this file instead of standard error
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// Log level: error, warn, info, debug, trace, or a list such as info,agentd_models=debug
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  agentd                                  run with the built-in model, or with the models of models.yaml
  MODEL_BASIC_BASE_URL=http://127.0.0.1:8080/v1 agentd
                                          run with a model server on this machine
  agentd --check-config                   check the configuration after an edit
  agentd --data-dir /tmp/a --socket /tmp/a/agentd.sock
                                          run a second daemon
  kill -HUP $(cat ~/.local/share/agentd/agentd.lock)
                                          reload the configuration

Exit codes: 0 stopped on request, 1 could not start or run, 2 usage or configuration.";

/// Mode bit that lets other users write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// User and group that agentd runs as.
#[derive(Debug, Clone, Copy)]
struct Identity {
    user: u32,
    group: u32,
}

/// Describes which other users can write a file or folder that agentd relies on. The text continues a sentence that
/// starts with the path. Returns `None` if the path is safe.
pub(crate) fn objection(found: &Metadata) -> Option<String> {
    let identity = Identity { user: nix::unistd::geteuid().as_raw(), group: nix::unistd::getegid().as_raw() };
    ownership_problem(identity, found.uid(), found.gid(), found.mode())
}

/// Checks owner and mode. Root is accepted, because the administrator can write the file in any case. The process's own
/// group may also write: that group is usually private to the user, and many systems create files that way.
fn ownership_problem(identity: Identity, user: u32, group: u32, mode: u32) -> Option<String> {
    if user != identity.user && user != 0 {
        return Some(format!("it is owned by user {user}, but agentd runs as user {}", identity.user));
    }
    if mode & OTHERS_WRITE != 0 {
        return Some(format!("it is writable by all users (mode {:04o})", mode & 0o7777));
    }
    if mode & GROUP_WRITE != 0 && group != identity.group {
        return Some(format!("it is writable by group {group} (mode {:04o})", mode & 0o7777));
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn empty_variable_counts_as_unset() {
        let env = Environment::from_iter([("A", ""), ("B", "b")]);
        assert_eq!((env.text("A"), env.text("B"), env.text("C")), (None, Some("b"), None));
    }

    #[test]
    fn secrets_are_recognised_by_whole_words_of_names() {
        let env =
            Environment::from_iter([("X_API_KEY", "k"), ("GITHUB_TOKEN", "t"), ("KEYBOARD", "us"), ("HOME", "/h")]);
        assert_eq!(env.secrets().collect::<Vec<_>>(), ["t", "k"]);
        assert!(!format!("{env:?}").contains("us"));
    }

    #[test]
    fn command_line_definition_is_valid() {
        super::Args::command().debug_assert();
    }

    #[test]
    fn files_writable_by_others_are_rejected() {
        let check = |user, group, mode, expected: Option<&str>| {
            let problem = ownership_problem(Identity { user: 1000, group: 1000 }, user, group, mode);
            assert_eq!(problem.is_some(), expected.is_some(), "{problem:?}");
            assert!(problem.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check(1000, 1000, 0o600, None);
        check(1000, 1000, 0o664, None);
        check(0, 0, 0o644, None);
        check(1001, 1001, 0o600, Some("owned by user 1001"));
        check(1000, 1000, 0o666, Some("all users"));
        check(0, 0, 0o777, Some("all users"));
        check(1000, 100, 0o664, Some("group 100"));
        check(0, 100, 0o1775, Some("group 100"));
    }
}
