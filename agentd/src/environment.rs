//! The environment of the process, read once and handed on as a value.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use agentd_core::route::Routes;
use agentd_proto::start_variables::StartVariables;
use uuid::Uuid;

/// Path of this program, whose own file may be replaced meanwhile. It starts itself again to read documents, to guard MCP
/// servers and to confine commands.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// The variables that the process was started with. An empty variable counts as one that is not set, as shells have
/// no other way to take a variable back for one command.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Captures the environment of this process. Called once, by `main`.
    #[must_use]
    pub fn capture() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable as text. One that is not UTF-8 is not set.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.os(name).and_then(OsStr::to_str)
    }

    /// The value of a variable as a path.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.os(name).map(PathBuf::from)
    }

    /// Every variable that is text, for the `${NAME}` of configuration files.
    #[must_use]
    pub fn texts(&self) -> HashMap<String, String> {
        self.0
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .collect()
    }

    /// The same with the other's variables, as far as they are not set here.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all = other.0.clone();
        all.extend(
            self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.clone(), value.clone())),
        );
        Self(all)
    }

    /// Routes of what agentd asks over the network.
    #[must_use]
    pub fn routes(&self) -> Routes {
        Routes::read(|name| self.text(name))
    }

    /// The values of variables whose names say that they are secret, so that they can be kept out of logs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        const MARKS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
        self.0.iter().filter_map(|(name, value)| {
            let name = name.to_str()?.to_ascii_uppercase();
            MARKS.iter().any(|mark| name.split('_').any(|word| word == *mark)).then_some(value.to_str()?)
        })
    }

    /// The variables of models and keys, as clients are told of them: by name, with no value.
    #[must_use]
    pub fn told(&self) -> StartVariables {
        let salt = [Uuid::new_v4(), Uuid::new_v4()].iter().flat_map(|random| *random.as_bytes()).collect();
        let texts = self.0.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        StartVariables::new(salt, texts)
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

/// Names only: what a variable holds may be a secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_not_set() {
        let env = Environment::from_iter([("A", ""), ("B", "b")]);
        assert_eq!((env.text("A"), env.text("B"), env.text("C")), (None, Some("b"), None));
    }

    #[test]
    fn secrets_are_known_by_whole_words_of_their_names() {
        let env =
            Environment::from_iter([("X_API_KEY", "k"), ("GITHUB_TOKEN", "t"), ("KEYBOARD", "us"), ("HOME", "/h")]);
        assert_eq!(env.secrets().collect::<Vec<_>>(), ["t", "k"]);
        assert!(!format!("{env:?}").contains("us"));
    }
}
