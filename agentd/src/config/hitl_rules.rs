//! `hitl_rules.yaml`: what may run, and when a person is asked.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use agentd_audit::chain::sha256;
use agentd_policy::{Policy, RuleError, RuleFile, Rules};

use super::{
    ConfigError, ErrorPlace, Sources, ToolNames,
    layers::{SourceFile, Subject},
    origin::{Origin, Origins},
    yaml,
};

/// Prefix of this file's keys among all keys.
const PREFIX: &str = "hitl_rules";

/// The rules of all layers.
#[derive(Debug, Clone)]
pub struct RuleSettings {
    /// All files, laid over each other.
    pub file: RuleFile,
    /// The same, ready for use.
    pub policy: Arc<Policy>,
    /// Sources of the rules, weakest first: `built-in` and the paths of files.
    pub sources: Vec<String>,
    /// The SHA-256 of all those texts, concatenated.
    pub sha256: String,
}

pub(super) fn resolve(
    sources: &Sources,
    tools: &ToolNames,
    origins: &mut Origins,
) -> Result<RuleSettings, ConfigError> {
    let mut rules = RuleFile::default();
    let (mut names, mut texts) = (Vec::new(), String::new());
    for file in sources.files_about(Subject::HitlRules) {
        lay(file, sources, tools, &mut rules, origins)?;
        names.push(file.origin.to_string());
        texts.push_str(&file.text);
    }
    let compiled = Rules::compile(&rules).map_err(|error| describe(sources, origins, &error))?;
    let policy = Arc::new(Policy::new(compiled));
    Ok(RuleSettings { file: rules, policy, sources: names, sha256: sha256(texts.as_bytes()) })
}

/// The rules of one file alone, for who wants to try it before it is used.
///
/// # Errors
/// The first thing in it that makes no sense, with its place.
pub fn over(sources: &Sources, text: String, path: PathBuf) -> Result<RuleSettings, ConfigError> {
    let mut tried = sources.clone();
    tried.files.retain(|file| !(file.subject == Subject::HitlRules && matches!(file.origin, Origin::User(_))));
    tried.files.push(SourceFile { subject: Subject::HitlRules, origin: Origin::User(path), text });
    let names = ToolNames::besides(&super::mcp::resolve(&tried, &mut Origins::default())?.0);
    resolve(&tried, &names, &mut Origins::default())
}

fn lay(
    file: &SourceFile,
    sources: &Sources,
    names: &ToolNames,
    rules: &mut RuleFile,
    origins: &mut Origins,
) -> Result<(), ConfigError> {
    let mut over: RuleFile = yaml::parse(file, &sources.env.texts(), origins)?;
    if let Some(tools) = over.tools.take() {
        let mut named = BTreeMap::new();
        for (name, section) in tools {
            let ours = names.ours(&name).to_owned();
            if named.insert(ours.clone(), section).is_some() {
                // One of them would be lost, and nobody would notice.
                let twice = format!("`{name}` and another name in `tools` both mean {ours}");
                let place = ErrorPlace::File(file.origin.path(), find(&file.text, &name));
                return Err(ConfigError::new(place, twice).with_hint(format!("put all rules under `{ours}`")));
            }
        }
        over.tools = Some(named);
    }
    rules.overlay(over, &mut |key| origins.set(format!("{PREFIX}.{key}"), &file.origin));
    Ok(())
}

/// Locates the value: in the highest layer that set it, in the first line that holds it.
fn describe(sources: &Sources, origins: &Origins, error: &RuleError) -> ConfigError {
    let message = format!("{}: {}", error.key, error.message);
    let hint = if error.key.ends_with(".deny") {
        "each entry is a program, perhaps with words that follow it: `git push`, `mkfs*`"
    } else {
        "patterns are regular expressions without look-around; in double quotes, write each backslash twice"
    };
    // A list of global patterns is one value of its level among others.
    let keys = [format!("{PREFIX}.{}", error.key), format!("{PREFIX}.{}.patterns", error.key)];
    let Some(origin) = keys.iter().find_map(|key| origins.get(key)) else {
        return ConfigError::new(ErrorPlace::Setting(error.key.clone()), error.message.clone()).with_hint(hint);
    };
    let file = sources.files_about(Subject::HitlRules).find(|file| file.origin == *origin);
    let place = file.and_then(|file| find(&file.text, &error.value));
    ConfigError::new(ErrorPlace::File(origin.path(), place), message).with_hint(hint)
}

/// The line and column of a value, as it is written plainly or between quotes.
fn find(text: &str, value: &str) -> Option<(u64, u64)> {
    let written = [value.to_owned(), value.replace('\\', "\\\\"), value.replace('\'', "''")];
    let at = |(number, line): (usize, &str)| {
        let column = written.iter().filter(|value| !value.is_empty()).find_map(|value| line.find(value.as_str()))?;
        Some((number as u64 + 1, column as u64 + 1))
    };
    text.lines().enumerate().find_map(at)
}
