//! A client's environment variables that are passed to its tools. A client may only pass allowed variables. The
//! environment also contains the client's working directory as reported by a shell (`PWD`), which is passed to tools
//! separately.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::{Deserialize, Serialize};

/// Variables that every client may pass: program paths, locale, time zone and trace context.
const ALWAYS_ALLOWED: [&str; 6] = ["PATH", "LANG", "LANGUAGE", "LC_*", "TRACEPARENT", "TZ"];

/// Variables that no client may pass, even if the configuration lists them, because they load or run code, or lead to
/// the user's keys and programs. `HOME` and variables derived from it belong to the session.
const NEVER_ALLOWED: &str = "AGENTD_* BASHOPTS BASH_* DBUS_* DYLD_* ENV GLIBC_TUNABLES GPG_AGENT_INFO HOME IFS LD_* \
    MEMORIES NODE_OPTIONS PERL5OPT PROJECT PROMPT_COMMAND PS4 PWD PYTHONSTARTUP RUBYOPT SHELL SHELLOPTS SHLVL SSH_* \
    SUDO_* TMPDIR WAYLAND_* WORKSPACE XAUTHORITY _";

/// Parts of variable names that indicate a secret value.
const SECRET_PARTS: [&str; 9] =
    ["AUTH", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "TOKEN"];

/// Variable with the client's working directory.
const FOLDER: &str = "PWD";

/// Maximum number of stored variables.
const MAX_VARIABLES: usize = 128;
/// Maximum size of a value, in bytes.
const MAX_VALUE: usize = 32 * 1024;
/// Maximum length of the working directory, in bytes.
const MAX_FOLDER: usize = 4096;

/// Environment variables of a client. [`Self::allowed`] filters them; stored environments are not filtered again.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientEnvironment(BTreeMap<String, String>);

impl ClientEnvironment {
    /// Creates an unfiltered set of the variables that a client sent.
    pub fn unchecked(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// Returns the allowed variables: those that are always allowed, and those listed in `added` from the
    /// configuration. A name in `added` may end with `*` to match a prefix.
    #[must_use]
    pub fn allowed(self, added: &[String]) -> Self {
        let fits = |name: &str, value: &str| {
            if name == FOLDER {
                return value.starts_with('/') && value.len() <= MAX_FOLDER && !value.contains('\0');
            }
            let named = ALWAYS_ALLOWED.iter().any(|pattern| matches(pattern, name))
                || added.iter().any(|pattern| matches(pattern, name));
            named && !is_forbidden(name) && value.len() <= MAX_VALUE && !value.contains('\0')
        };
        Self(self.0.into_iter().filter(|(name, value)| fits(name, value)).take(MAX_VARIABLES).collect())
    }

    /// Returns the names of variables that a client is requested to send. Some end with `*`.
    pub fn wanted(added: &[String]) -> Vec<String> {
        let always = ALWAYS_ALLOWED.iter().chain(&[FOLDER]).map(ToString::to_string);
        always.chain(added.iter().filter(|name| !is_forbidden(name)).cloned()).collect()
    }

    /// Adds the client's working directory if the daemon requested it.
    #[must_use]
    pub fn in_folder(mut self, wanted: &[String], folder: &Path) -> Self {
        if let Some(folder) = folder.to_str().filter(|_| wanted.iter().any(|name| name == FOLDER)) {
            self.0.insert(FOLDER.to_owned(), folder.to_owned());
        }
        self
    }

    /// Returns the client's working directory, if it was sent.
    pub fn folder(&self) -> Option<&Path> {
        self.0.get(FOLDER).map(Path::new)
    }

    /// Returns true if a client should send this variable when `wanted` was requested.
    pub fn is_wanted(wanted: &[String], name: &str) -> bool {
        wanted.iter().any(|pattern| matches(pattern, name)) && !is_forbidden(name)
    }

    /// Returns true if there are no variables, because the client sent none or none of them are allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the variables, sorted by name. Excludes the working directory.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sent().filter(|(name, _)| *name != FOLDER)
    }

    /// Iterates over the variables and the working directory, for sending.
    pub fn sent(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Shows only the variables' names, because the values are private.
impl fmt::Debug for ClientEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

fn is_forbidden(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '*';
    let mut parts = upper.split('_');
    upper.is_empty()
        || upper.starts_with(|c: char| c.is_ascii_digit())
        || upper.len() > 128
        || !upper.chars().all(is_name)
        || NEVER_ALLOWED.split_ascii_whitespace().any(|pattern| matches(pattern, &upper))
        || parts.any(|part| SECRET_PARTS.contains(&part) || part.ends_with("KEY") || part.ends_with("TOKEN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_variables_pass() {
        let added = ["RUSTUP_HOME", "NIX_*", "GITHUB_TOKEN", "LD_PRELOAD", "MY_*", "*"].map(str::to_owned);
        #[track_caller]
        fn check(name: &str, added: &[String], passes: bool) {
            let sent = ClientEnvironment::unchecked([(name.to_owned(), "value".to_owned())]);
            assert_eq!(!sent.allowed(added).is_empty(), passes, "{name} with {added:?}");
        }
        for name in ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TRACEPARENT", "TZ"] {
            check(name, &[], true);
        }
        for name in ["RUSTUP_HOME", "NIX_PATH", "MY_COLOUR"] {
            check(name, &[], false);
            check(name, &added, true);
        }
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "ld_preload",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "PROMPT_COMMAND",
            "BASH_FUNC_ls%%",
            "BASH_FUNC_x",
            "IFS",
            "PS4",
            "SHELLOPTS",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "MY_PASSWORD",
            "MY_APIKEY",
            "NPM_AUTHTOKEN",
            "HOME",
            "TMPDIR",
            "WORKSPACE",
            "AGENTD_COMMAND",
            "",
            "A=B",
            "A B",
            "1A",
            "PATH\n",
        ] {
            check(name, &[], false);
            check(name, &added, false);
        }
        let nul = ClientEnvironment::unchecked([("PATH".to_owned(), "/bin\0".to_owned())]);
        assert!(nul.allowed(&[]).is_empty());
        let overlong_value = ClientEnvironment::unchecked([("PATH".to_owned(), "x".repeat(MAX_VALUE + 1))]);
        assert!(overlong_value.allowed(&[]).is_empty());
        let many_variables =
            ClientEnvironment::unchecked((0..1000).map(|number| (format!("LC_{number}"), String::new())));
        assert_eq!(many_variables.allowed(&[]).iter().count(), MAX_VARIABLES);
    }

    #[test]
    fn client_is_asked_only_for_allowed_variables() {
        let wanted = ClientEnvironment::wanted(&["NIX_*".to_owned(), "GITHUB_TOKEN".to_owned()]);
        assert_eq!(wanted, ["PATH", "LANG", "LANGUAGE", "LC_*", "TRACEPARENT", "TZ", "PWD", "NIX_*"]);
        assert!(ClientEnvironment::is_wanted(&wanted, "NIX_PATH"));
        assert!(!ClientEnvironment::is_wanted(&wanted, "NIX_TOKEN") && !ClientEnvironment::is_wanted(&wanted, "HOME"));
    }

    #[test]
    fn client_folder_is_sent_separately_from_variables() {
        let sent = |folder: &str| {
            let wanted = ClientEnvironment::wanted(&[]);
            ClientEnvironment::default().in_folder(&wanted, Path::new(folder)).allowed(&[])
        };
        let sent_folder = sent("/home/me/shop");
        assert_eq!((sent_folder.folder(), sent_folder.iter().count()), (Some(Path::new("/home/me/shop")), 0));
        for invalid_folder in ["", "shop", "~/shop", "/a\0b", &format!("/{}", "x".repeat(MAX_FOLDER))] {
            assert_eq!(sent(invalid_folder).folder(), None, "{invalid_folder:?}");
        }
        let unrequested = ClientEnvironment::default().in_folder(&["PATH".to_owned()], Path::new("/home"));
        assert!(unrequested.is_empty(), "the folder is only sent if the daemon requests it");
    }

    #[test]
    fn debug_output_hides_values() {
        let environment = ClientEnvironment::unchecked([("PATH".to_owned(), "/private".to_owned())]);
        assert_eq!(format!("{environment:?}"), r#"{"PATH"}"#);
    }
}
