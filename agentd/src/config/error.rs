//! Errors of a configuration: place, message, and suggested correction.

use std::{fmt, path::PathBuf};

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
    #[must_use]
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
    #[must_use]
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
#[must_use]
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
