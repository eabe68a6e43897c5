//! Secrets inside a longer text of `mcp_servers.yaml`: in an argument, in an address.

use std::collections::HashMap;

use agentd_mcp::config::ConfigText;

/// Minimum length of a secret in bytes. A shorter one would be found in common words, and keeps nothing secret either.
const SHORTEST: usize = 6;
/// Mask of a secret that was written out.
const HIDDEN: &str = "[…]";
/// Variables that hold none.
const HARMLESS: [&str; 12] =
    ["HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
const HARMLESS_BEGIN: [&str; 2] = ["LC_", "XDG_"];
/// Words that say that what follows them is one.
const MARKS: [&str; 6] = ["APIKEY", "AUTHORIZATION", "KEY", "PASSWORD", "SECRET", "TOKEN"];

/// Finds them.
pub(super) struct InText<'a> {
    /// The variables that the file names, the longest values first, so that none is half covered.
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> InText<'a> {
    /// In what a file says.
    pub(super) fn new(file: &str, variables: &'a HashMap<String, String>) -> Self {
        let is_named = |name: &str| file.contains(&format!("${{{name}}}")) || file.contains(&format!("${{{name}:-"));
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut named: Vec<_> = pairs.filter(|(name, value)| value.len() >= SHORTEST && is_named(name)).collect();
        named.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then_with(|| one.cmp(other)));
        Self { named }
    }

    /// In arguments, where one may say what the next one is.
    pub(super) fn of_args(&self, args: Vec<String>) -> Vec<ConfigText> {
        let mut before = String::new();
        let mut written = Vec::with_capacity(args.len());
        for arg in args {
            let mut text = self.of_text(&arg);
            if let Some(secret) = written_out(&arg, &before) {
                text.shown = text.shown.replace(secret, HIDDEN);
                text.secrets.push(secret.to_owned());
            }
            before = arg;
            written.push(text);
        }
        written
    }

    /// In an address: the part after its question mark is never shown.
    pub(super) fn of_url(&self, url: String) -> ConfigText {
        let mut text = self.of_text(&url);
        let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let values = query.split(['&', '#']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        text.shown = text.shown.split(['?', '#']).next().unwrap_or_default().to_owned();
        text.secrets.extend(values.filter(|value| value.len() >= SHORTEST).map(str::to_owned));
        text
    }

    fn of_text(&self, text: &str) -> ConfigText {
        let mut written = ConfigText::from(text);
        for (name, value) in &self.named {
            if written.shown.contains(value) {
                written.shown = written.shown.replace(value, &format!("${{{name}}}"));
                let is_harmless = HARMLESS.contains(name) || HARMLESS_BEGIN.iter().any(|begin| name.starts_with(begin));
                if !is_harmless {
                    written.secrets.push((*value).to_owned());
                }
            }
        }
        written
    }
}

/// The secret written out in an argument, found by the text before it: `--api-key=…`, `--token …`, `Bearer …`.
fn written_out<'a>(arg: &'a str, before: &str) -> Option<&'a str> {
    let found = match (arg.split_once("Bearer "), arg.split_once('=')) {
        (Some((_, token)), _) => Some(token),
        (None, Some((name, value))) if is_secret(name) => Some(value),
        _ if before.starts_with('-') && !before.contains('=') && is_secret(before) && !arg.starts_with('-') => {
            Some(arg)
        }
        _ => None,
    };
    found.map(str::trim).filter(|secret| secret.len() >= SHORTEST && !secret.starts_with(['/', '~', '.']))
}

/// Returns whether a variable of this name is one.
fn is_secret(name: &str) -> bool {
    name.split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| MARKS.contains(&word.to_ascii_uppercase().as_str()))
}
