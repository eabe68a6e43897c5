//! Origin of each value of the configuration.

use std::{collections::BTreeMap, fmt, path::PathBuf};

/// Origin of a value. A later one overrides an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It came with agentd.
    BuiltIn,
    /// A file of the machine's administrator.
    System(PathBuf),
    /// A file of the person.
    User(PathBuf),
    /// A plugin of the person, and the file in it.
    Plugin(String, PathBuf),
    /// A variable of the daemon's environment.
    Variable(&'static str),
    /// An option of the command line.
    Flag(&'static str),
}

impl Origin {
    /// The name under which errors speak of it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::System(path) | Self::User(path) | Self::Plugin(_, path) => path.clone(),
            Self::BuiltIn => PathBuf::from("(built-in)"),
            Self::Variable(name) | Self::Flag(name) => PathBuf::from(name),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::System(path) | Self::User(path) => path.display().fmt(f),
            Self::Plugin(name, _) => write!(f, "plugin {name}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Origin of each value, by its key, such as `turns.max_steps` or `models.base.id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// A layer sets a value.
    pub(super) fn set(&mut self, key: impl Into<String>, origin: &Origin) {
        self.0.insert(key.into(), origin.clone());
    }

    /// A layer takes a value of a lower one away.
    pub(super) fn clear(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Origin of the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Origin> {
        self.0.get(key)
    }

    /// Returns whether any key that starts so has a value.
    pub(super) fn any_below(&self, prefix: &str) -> bool {
        self.0.range(prefix.to_owned()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// All keys that have a value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(key, origin)| (key.as_str(), origin))
    }
}
