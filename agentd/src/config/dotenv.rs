//! `.env` files, which set variables for the other files of a configuration folder, and `mcp_secrets.env`, whose
//! variables only apply to `mcp_servers.yaml`. The daemon's own environment takes precedence over both.
//!
//! A `.env` file has one `NAME=value` per line, with optional `export`, quotes and trailing comment. Errors never quote
//! a value.
//!
//! This module also finds secrets inside longer strings of `mcp_servers.yaml`, such as arguments and URLs.

use std::collections::{BTreeMap, HashMap};

use agentd_mcp::config::ConfigText;

use crate::{
    config::{ConfigError, ErrorLocation, SourceFile, Sources, Subject},
    environment::Environment,
};

/// Returns the variables of all `.env` files, except for those that the environment sets. Higher layers take
/// precedence.
///
/// # Errors
/// Fails if a line is not a variable definition.
pub fn variables(files: &[SourceFile], env: &Environment) -> Result<Environment, ConfigError> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for file in files.iter().filter(|file| file.subject == Subject::Dotenv) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let lookup = |name: &str| env.text(name).map(str::to_owned).or_else(|| found.get(name).cloned());
            let (name, value) = match read(line, &lookup) {
                Ok(None) => continue,
                Ok(Some(variable)) => variable,
                Err(message) => {
                    let location = ErrorLocation::File(file.origin.path(), Some((number, 1)));
                    return Err(
                        ConfigError::new(location, message).with_hint("write NAME=value, or NAME=\"the value\"")
                    );
                }
            };
            found.insert(name, value);
        }
    }
    found.retain(|name, _| env.text(name).is_none());
    Ok(found.into_iter().collect())
}

/// Returns the daemon's environment, plus the variables of `mcp_secrets.env` files that the environment does not set.
/// Higher layers take precedence.
///
/// # Errors
/// Fails if a line is not a variable definition. The error does not quote the line, which may contain a secret.
pub(super) fn mcp_secrets(sources: &Sources) -> Result<HashMap<String, String>, ConfigError> {
    let mut variables = HashMap::new();
    for file in sources.files_of(Subject::McpSecrets) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            match line.split_once('=') {
                Some((name, value)) if is_name(name) => variables.insert(name.to_owned(), value.to_owned()),
                _ => {
                    let location = ErrorLocation::File(file.origin.path(), Some((number, 1)));
                    return Err(ConfigError::new(location, "not a variable assignment").with_hint("write NAME=value"));
                }
            };
        }
    }
    variables.extend(sources.env.texts().into_iter().filter(|(_, value)| !value.is_empty()));
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the variable that a line defines, or `None` for a blank line or a comment.
fn read(line: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim().trim_start_matches('\u{feff}');
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("not a variable assignment")?;
    let (name, value) = (name.trim_end(), value.trim_start());
    if !is_name(name) {
        return Err("variable names may contain only letters, digits and underscores");
    }
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (text, rest) = quoted(&value[1..], quote).ok_or("missing closing quote")?;
            let rest = rest.trim_start();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err("unexpected text after the closing quote");
            }
            if quote == '"' { expand(&text, lookup) } else { text }
        }
        _ => {
            let end = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
            let value = if value.starts_with('#') { "" } else { &value[..end] };
            expand(value.trim_end(), lookup)
        }
    };
    if value.contains('\0') {
        return Err("the value contains a NUL character");
    }
    Ok(Some((name.to_owned(), value)))
}

/// Returns the text before the closing quote, and the remaining line.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Some((value, &text[at + letter.len_utf8()..])),
            '\\' if quote == '"' => match letters.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                escaped @ ('"' | '\\' | '$') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            _ => value.push(letter),
        }
    }
    None
}

/// Replaces `${NAME}` and `${NAME:-default}` with the values of variables.
fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once("${") {
        let Some((named, after)) = tail.split_once('}') else { break };
        let (name, default) = named.split_once(":-").unwrap_or((named, ""));
        out.push_str(before);
        out.push_str(&lookup(name).unwrap_or_else(|| default.to_owned()));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Minimum length of a secret in bytes. Shorter values would also match in common words.
const MIN_SECRET_BYTES: usize = 6;
/// Mask of a secret that is written literally.
const MASK: &str = "[…]";
/// Variables that never contain secrets.
const NON_SECRET_VARIABLES: [&str; 12] =
    ["HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
const NON_SECRET_PREFIXES: [&str; 2] = ["LC_", "XDG_"];
/// Words in a variable name that mark the value as a secret.
const SECRET_WORDS: [&str; 6] = ["APIKEY", "AUTHORIZATION", "KEY", "PASSWORD", "SECRET", "TOKEN"];

/// Finds secrets in the strings of a file.
pub(super) struct SecretFinder<'a> {
    /// Variables that the file references, longest values first, so that no value is only partially redacted.
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> SecretFinder<'a> {
    /// Creates a finder for the variables that `file` references.
    pub(super) fn new(file: &str, variables: &'a HashMap<String, String>) -> Self {
        let is_named = |name: &str| file.contains(&format!("${{{name}}}")) || file.contains(&format!("${{{name}:-"));
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut named: Vec<_> =
            pairs.filter(|(name, value)| value.len() >= MIN_SECRET_BYTES && is_named(name)).collect();
        named.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then_with(|| one.cmp(other)));
        Self { named }
    }

    /// Finds secrets in arguments. An option may mark the following argument as a secret.
    pub(super) fn in_args(&self, args: Vec<String>) -> Vec<ConfigText> {
        let mut before = String::new();
        let mut texts = Vec::with_capacity(args.len());
        for arg in args {
            let mut text = self.in_text(&arg);
            if let Some(secret) = literal_secret(&arg, &before) {
                text.shown = text.shown.replace(secret, MASK);
                text.secrets.push(secret.to_owned());
            }
            before = arg;
            texts.push(text);
        }
        texts
    }

    /// Finds secrets in a URL. The query and the fragment are never shown.
    pub(super) fn in_url(&self, url: String) -> ConfigText {
        let mut text = self.in_text(&url);
        let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let values = query.split(['&', '#']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        text.shown = text.shown.split(['?', '#']).next().unwrap_or_default().to_owned();
        text.secrets.extend(values.filter(|value| value.len() >= MIN_SECRET_BYTES).map(str::to_owned));
        text
    }

    fn in_text(&self, text: &str) -> ConfigText {
        let mut masked = ConfigText::from(text);
        for (name, value) in &self.named {
            if masked.shown.contains(value) {
                masked.shown = masked.shown.replace(value, &format!("${{{name}}}"));
                let is_harmless = NON_SECRET_VARIABLES.contains(name)
                    || NON_SECRET_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
                if !is_harmless {
                    masked.secrets.push((*value).to_owned());
                }
            }
        }
        masked
    }
}

/// Returns the literal secret in an argument, identified by the text before it: `--api-key=…`, `--token …`, `Bearer …`.
fn literal_secret<'a>(arg: &'a str, before: &str) -> Option<&'a str> {
    let found = match (arg.split_once("Bearer "), arg.split_once('=')) {
        (Some((_, token)), _) => Some(token),
        (None, Some((name, value))) if is_secret(name) => Some(value),
        _ if before.starts_with('-') && !before.contains('=') && is_secret(before) && !arg.starts_with('-') => {
            Some(arg)
        }
        _ => None,
    };
    found.map(str::trim).filter(|secret| secret.len() >= MIN_SECRET_BYTES && !secret.starts_with(['/', '~', '.']))
}

/// Returns true if a variable with this name contains a secret.
fn is_secret(name: &str) -> bool {
    name.split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| SECRET_WORDS.contains(&word.to_ascii_uppercase().as_str()))
}

impl Sources {
    /// Returns the same sources, with the variables of `.env` files in the environment.
    ///
    /// # Errors
    /// Fails if a line of a `.env` file is not a variable definition.
    pub fn with_dotenv(&self) -> Result<Self, ConfigError> {
        let added = variables(&self.files, &self.env)?;
        Ok(Self { env: self.env.and(&added), ..self.clone() })
    }

    /// Describes where a variable has its value from: the last `.env` file that sets it, or the daemon's environment.
    pub(super) fn place_of_variable(&self, name: &str) -> String {
        let sets = |file: &&SourceFile| {
            let alone = variables(std::slice::from_ref(*file), &Environment::default());
            alone.is_ok_and(|found| found.text(name).is_some() && found.text(name) == self.env.text(name))
        };
        match self.files.iter().rev().find(sets) {
            Some(file) => format!("`{name}` in {}", file.origin.path().display()),
            None => format!("`{name}` of the daemon's environment"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::Origin;

    fn parse_texts(texts: &[&str], env: &[(&str, &str)]) -> Result<Vec<(String, String)>, ConfigError> {
        let file = |text: &&str| {
            let origin = Origin::User(PathBuf::from("/home/me/.config/agentd/.env"));
            SourceFile { subject: Subject::Dotenv, origin, text: (*text).to_owned() }
        };
        let files: Vec<SourceFile> = texts.iter().map(file).collect();
        let found = variables(&files, &env.iter().copied().collect())?.texts();
        Ok(found.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }

    #[test]
    fn dotenv_lines_parse_in_common_forms() {
        let check = |line: &str, expected: Option<(&str, &str)>| {
            let found = parse_texts(&[line], &[("HOST", "here")]).unwrap();
            let found = found.first().map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(found, expected, "{line}");
        };
        check("A=1", Some(("A", "1")));
        check("  export A = x y  ", Some(("A", "x y")));
        check("MAX_MESSAGE_HISTORY=40  # Default 40, range 10-100", Some(("MAX_MESSAGE_HISTORY", "40")));
        check("A=sk-a#b", Some(("A", "sk-a#b")));
        check("A=\"x # y\" # z", Some(("A", "x # y")));
        check("A='${HOST}'", Some(("A", "${HOST}")));
        check("A=http://${HOST}:${PORT:-1}/v1", Some(("A", "http://here:1/v1")));
        check(r#"A="a\"b\n""#, Some(("A", "a\"b\n")));
        check("A=", Some(("A", "")));
        check("A= # nothing", Some(("A", "")));
        check("# A=1", None);
        check("", None);
        check("HOST=there", None);
    }

    #[test]
    fn higher_layers_and_process_variables_take_precedence() {
        let found = parse_texts(&["A=1\nB=1\nC=1\n", "B=2\nD=${A}${B}\n"], &[("C", "3"), ("A", "")]).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("A", "1"), ("B", "2"), ("D", "12")], "an empty variable counts as unset");
    }

    #[test]
    fn invalid_dotenv_line_is_rejected_without_quoting_it() {
        for line in ["s3cret", "s3cret key=1", "A=\"s3cret", "A=\"x\" s3cret", "1A=s3cret", "A=\"s3cret\0\""] {
            let error = parse_texts(&["B=1", &format!("# one\n{line}")], &[]).unwrap_err().to_string();
            assert!(error.contains(".env:2") && !error.contains("s3cret"), "{error}");
        }
    }
}
