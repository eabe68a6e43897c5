//! The file of the variables that the service is started with: keys of this shell, where somebody asks for that.

use std::{collections::BTreeMap, env, fs, io, path::PathBuf};

use super::super::own_file;
use crate::{daemon, failure::Failure};

/// Ends of the names of variables that the configuration of models reads.
const ENDS: [&str; 2] = ["_API_KEY", "_BASE_URL"];

/// Beginning of the names of variables that name a model.
const MODEL: &str = "MODEL_";

/// The file.
///
/// # Errors
/// When there is no home.
pub(super) fn path() -> Result<PathBuf, Failure> {
    Ok(daemon::config_dir()?.join("environment"))
}

/// Puts the keys and addresses of this shell into the file, which is its owner's alone, and returns their names. All else in it
/// stays.
///
/// # Errors
/// When the file cannot be read or written.
pub(super) fn write_keys() -> Result<Vec<String>, Failure> {
    let texts = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let wanted: BTreeMap<String, String> =
        texts.filter(|(name, value)| is_wanted(name) && !value.trim().is_empty()).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let path = path()?;
    let failed = |what: &str, error: io::Error| Failure::usage(format!("could not {what} {}: {error}", path.display()));
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", error)),
    };
    own_file::replace_private(&path, &with(&before, &wanted)).map_err(|error| failed("write", error))?;
    Ok(wanted.into_keys().collect())
}

fn is_wanted(name: &str) -> bool {
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name && (name.starts_with(MODEL) || ENDS.iter().any(|end| name.ends_with(end)))
}

/// The text of the file with these variables: each once, behind the lines that stay.
fn with(before: &str, wanted: &BTreeMap<String, String>) -> String {
    let name_of = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let stays = |line: &&str| name_of(line).is_none_or(|name| !wanted.contains_key(&name));
    let mut text: String = before.lines().filter(stays).flat_map(|line| [line, "\n"]).collect();
    for (name, value) in wanted {
        text.push_str(&format!("{name}={}\n", quoted(value)));
    }
    text
}

/// A value in the quotes of systemd's environment files.
fn quoted(value: &str) -> String {
    let escaped: String = value
        .chars()
        .flat_map(|letter| [Some('\\').filter(|_| "\"\\`$".contains(letter)), Some(letter)])
        .flatten()
        .collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_stay_and_each_name_stands_once() {
        let wanted = BTreeMap::from([
            ("A_API_KEY".to_owned(), "k\"e$y".to_owned()),
            ("MODEL_BASIC_ID".to_owned(), "m".to_owned()),
        ]);
        let before = "# mine\nA_API_KEY=old\nOTHER=1\n";
        let text = with(before, &wanted);
        assert_eq!(text, "# mine\nOTHER=1\nA_API_KEY=\"k\\\"e\\$y\"\nMODEL_BASIC_ID=\"m\"\n");
        assert_eq!(with(&text, &wanted), text);
    }

    #[test]
    fn only_keys_addresses_and_models_are_taken() {
        for (name, expected) in [
            ("OPENAI_API_KEY", true),
            ("X_BASE_URL", true),
            ("MODEL_CODE_ID", true),
            ("HOME", false),
            ("BAD-_API_KEY", false),
        ] {
            assert_eq!(is_wanted(name), expected, "{name}");
        }
    }
}
