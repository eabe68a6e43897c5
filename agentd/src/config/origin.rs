//! Origin of each value of the configuration, and errors with their place, message and suggested correction.

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
pub struct Origins {
    keys: BTreeMap<String, Origin>,
    /// Keys without effect, in a sentence each.
    notes: Vec<String>,
}

impl Origins {
    /// A layer sets a value.
    pub(super) fn set(&mut self, key: impl Into<String>, origin: &Origin) {
        self.keys.insert(key.into(), origin.clone());
    }

    /// A layer takes a value of a lower one away.
    pub(super) fn clear(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// Notes a key without effect.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Keys without effect, in a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The place to name in an error about the value of a key.
    pub(super) fn place(&self, key: &str) -> ErrorPlace {
        match self.get(key) {
            None | Some(Origin::BuiltIn) => ErrorPlace::Setting(key.to_owned()),
            Some(Origin::Flag(name)) => ErrorPlace::Flag((*name).to_owned()),
            Some(Origin::Variable(name)) => ErrorPlace::Variable((*name).to_owned()),
            Some(file) => ErrorPlace::File(file.path(), None),
        }
    }

    /// Origin of the value of a key.
    pub fn get(&self, key: &str) -> Option<&Origin> {
        self.keys.get(key)
    }

    /// Returns whether any key that starts so has a value.
    pub(super) fn any_below(&self, prefix: &str) -> bool {
        self.keys.range(prefix.to_owned()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// All keys that have a value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.keys.iter().map(|(key, origin)| (key.as_str(), origin))
    }
}

/// Something in the configuration that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigError {
    place: ErrorPlace,
    message: String,
    hint: Option<String>,
}

/// Place of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorPlace {
    /// In a file; line and column count from 1, and are absent where the whole file is meant.
    File(PathBuf, Option<(u64, u64)>),
    /// In an environment variable.
    Variable(String),
    /// On the command line.
    Flag(String),
    /// In what several layers add up to.
    Setting(String),
}

impl ConfigError {
    /// Creates an error at a place.
    pub fn new(place: ErrorPlace, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The right spelling or value, where that can be said.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ErrorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, Some((line, column))) => write!(f, "{}:{line}:{column}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "option {name}"),
            Self::Setting(key) => write!(f, "{key}"),
        }
    }
}

/// The candidate that was most likely meant, if any is close enough to be worth a guess.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = word.chars().count().div_ceil(3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_key_is_named_only_when_it_is_near() {
        let keys = ["temperature", "base_url", "id", "idle"];
        let check = |word, expected| assert_eq!(nearest(word, keys), expected, "{word}");
        check("tempreture", Some("temperature"));
        check("Temperature", Some("temperature"));
        check("baseurl", Some("base_url"));
        check("idel", Some("idle"));
        check("colour", None);
        check("", None);
    }
}
