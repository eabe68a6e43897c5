//! One YAML file into one typed layer, with errors that name the line and the nearest valid key.

use std::{collections::HashMap, path::PathBuf};

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_saphyr::{Error, Location, Options, Spanned, options};

use super::{
    ConfigError, ErrorPlace, Sources, layers::SourceFile, nearest, origin::Origins, removed, removed::REMOVED,
};

/// Reads a file. An empty one sets nothing.
pub(super) fn parse<T: DeserializeOwned>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
    origins: &mut Origins,
) -> Result<T, ConfigError> {
    read(file, variables, origins, |text, options| serde_saphyr::from_str_with_options(text, options))
}

/// Reads the text of a file. Keys that were removed are noted, and left out.
fn read<T>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
    origins: &mut Origins,
    deserialize: impl Fn(&str, Options) -> Result<T, Error>,
) -> Result<T, ConfigError> {
    let mut text = file.text.clone();
    loop {
        // No snippets: the line in question may hold a key.
        let options = options! { with_snippet: false }.with_properties(variables.clone());
        let source = if is_blank(&text) { "{}" } else { text.as_str() };
        let error = match deserialize(source, options) {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        match removed::blank(file.subject, &mut text, &error, REMOVED) {
            Some((key, at)) => {
                origins.note(format!("{}: `{}` {}, and is passed over", place(file, at), key.key, key.reason));
            }
            None => return Err(describe(file, &error)),
        }
    }
}

/// Reads a file as values without a schema, in which only `true` and `false` are neither words nor numbers. None where it says
/// nothing, or cannot be read.
pub(super) fn tree(file: &SourceFile, variables: &HashMap<String, String>) -> Option<serde_json::Value> {
    if is_blank(&file.text) {
        return None;
    }
    let options = options! { with_snippet: false, strict_booleans: true }.with_properties(variables.clone());
    serde_saphyr::from_str_with_options(&file.text, options).ok()
}

/// Reads what the seed takes of a file.
pub(super) fn parse_seed<S: for<'de> DeserializeSeed<'de, Value = T> + Copy, T>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
    origins: &mut Origins,
    seed: S,
) -> Result<T, ConfigError> {
    read(file, variables, origins, |text, options| {
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            seed.deserialize(deserializer)
        })
    })
}

/// Reads what one file says over what those below it said.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) sources: &'a Sources,
    pub(super) variables: &'a HashMap<String, String>,
}

impl Reader<'_> {
    pub(super) fn text(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        text(self.file, value, self.variables)
    }

    pub(super) fn texts(&self, values: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
        values.iter().map(|value| self.text(value)).collect()
    }

    /// A path. A relative one belongs to the file's folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.sources.path_in(self.file, path)
    }

    pub(super) fn refuse<T>(&self, value: &Spanned<T>, why: impl Into<String>) -> ConfigError {
        ConfigError::new(place(self.file, value.defined), why)
    }
}

/// The text of a value, with variables between quotes expanded: the parser expands plain text only, but `"${KEY}"` is
/// expected to mean the same as `${KEY}`.
pub(super) fn text(
    file: &SourceFile,
    value: &Spanned<String>,
    variables: &HashMap<String, String>,
) -> Result<String, ConfigError> {
    if !is_quoted(file, value.defined) || !value.value.contains('$') {
        return Ok(value.value.clone());
    }
    expand(&value.value, variables).map_err(|message| ConfigError::new(place(file, value.defined), message))
}

/// Place of a value.
pub(super) fn place(file: &SourceFile, location: Location) -> ErrorPlace {
    let known = location.line() > 0;
    ErrorPlace::File(file.origin.path(), known.then(|| (location.line(), location.column())))
}

/// A file of comments only is a document without content, which the parser would refuse.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn is_quoted(file: &SourceFile, location: Location) -> bool {
    let start = location.span().byte_offset().and_then(|offset| usize::try_from(offset).ok());
    start.and_then(|start| file.text.as_bytes().get(start)).is_some_and(|byte| matches!(byte, b'"' | b'\''))
}

/// `${NAME}`, `${NAME:-default}` and `$${NAME}`, the last for a text that shall stay as it is.
pub(super) fn expand(text: &str, variables: &HashMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}').map(|end| at + end) else {
            return Err("a `${` is not closed by `}`".to_owned());
        };
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str(&rest[at..=end]);
        } else {
            out.push_str(&rest[..at]);
            let (name, default) = match rest[at + 2..end].split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (&rest[at + 2..end], None),
            };
            let value = variables.get(name).filter(|value| default.is_none() || !value.is_empty());
            out.push_str(value.map(String::as_str).or(default).ok_or_else(|| unset(name))?);
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn unset(name: &str) -> String {
    format!("the environment variable {name} is not set; write ${{{name}:-}} where it may be missing")
}

fn describe(file: &SourceFile, error: &Error) -> ConfigError {
    let error = error.without_snippet();
    let place = error.location().map_or_else(|| ErrorPlace::File(file.origin.path(), None), |at| place(file, at));
    match error {
        Error::SerdeUnknownField { field, expected, .. } => unknown(place, "key", field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => unknown(place, "value", variant, expected),
        Error::UnresolvedProperty { name, .. } => ConfigError::new(place, unset(name)),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            ConfigError::new(place, format!("the key `{key}` stands here twice"))
        }
        other => ConfigError::new(place, without_location(&other.to_string())),
    }
}

fn unknown(place: ErrorPlace, what: &str, word: &str, expected: &[&'static str]) -> ConfigError {
    let shown: String = word.chars().take(80).collect();
    let listed = format!("valid here: {}", expected.join(", "));
    match nearest(word, expected.iter().copied()) {
        Some(meant) => ConfigError::new(place, format!("unknown {what} `{shown}`, did you mean `{meant}`?")),
        None => ConfigError::new(place, format!("unknown {what} `{shown}`")),
    }
    .with_hint(listed)
}

/// The parser says line and column at the end of its messages; ours come first.
fn without_location(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).trim_end_matches([',', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_variables_expand_like_plain_ones() {
        let variables = HashMap::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = expand(text, &variables);
            match expected {
                Ok(value) => assert_eq!(found.as_deref(), Ok(value), "{text}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{text}"),
            }
        };
        check("${A}", Ok("1"));
        check("x${A}y${A}", Ok("x1y1"));
        check("${B:-two}", Ok("two"));
        check("${EMPTY:-two}", Ok("two"));
        check("${EMPTY}", Ok(""));
        check("$A and $", Ok("$A and $"));
        check("$${A}", Ok("${A}"));
        check("${B}", Err("variable B is not set"));
        check("${A", Err("not closed"));
    }
}
