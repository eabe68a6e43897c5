//! `mcp_secrets.env`: variables that stand in a file, for `mcp_servers.yaml` alone.

use std::collections::HashMap;

use super::super::{ConfigError, ErrorPlace, Sources, layers::Subject};

/// The variables of the daemon's environment, and those of the files that it lacks, the highest layer's first.
///
/// # Errors
/// A line that is no variable. It is not quoted: a secret may stand in it.
pub(super) fn variables(sources: &Sources) -> Result<HashMap<String, String>, ConfigError> {
    let mut variables = HashMap::new();
    for file in sources.files_about(Subject::McpSecrets) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let is_name = |name: &str| {
                name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                    && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            };
            match line.split_once('=') {
                Some((name, value)) if is_name(name) => variables.insert(name.to_owned(), value.to_owned()),
                _ => {
                    let place = ErrorPlace::File(file.origin.path(), Some((number, 1)));
                    return Err(ConfigError::new(place, "this is not a variable").with_hint("write NAME=value"));
                }
            };
        }
    }
    variables.extend(sources.env.texts().into_iter().filter(|(_, value)| !value.is_empty()));
    Ok(variables)
}
