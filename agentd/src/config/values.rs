//! The values of the configuration for display: each key with the value of the highest layer, and `•••` in place of
//! every secret.
//!
//! The values are parsed a second time on request, as plain YAML: the typed settings contain neither the keys nor the
//! original notation of secrets. Secrets are detected in three ways: by the key name, by the typed settings that store
//! secrets, and by their form.

use std::{collections::HashMap, fmt, sync::Arc};

use agentd_audit::redact;
use agentd_proto::client::ConfigOrigin;
use serde_json::{Map, Value};

use crate::config::{
    Sources,
    dotenv::SecretFinder,
    layers::{Origin, Origins, SourceFile, Subject},
    yaml,
};

const MASK: &str = "•••";

/// Suffixes of secret names, in lower case without punctuation.
const SECRET_SUFFIXES: &str = "key token secret password passwd passphrase credential authorization cookie auth \
    bearer pwd dsn";

/// Maps whose values are all secrets.
const SECRET_MAPS: [&str; 2] = ["env", "headers"];

/// Layers of a configuration, stored so that their values can be displayed.
#[derive(Clone)]
pub struct ConfigValues(pub(super) Arc<Sources>);

/// Omits the file contents, which contain secrets.
impl fmt::Debug for ConfigValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigValues")
    }
}

impl ConfigValues {
    /// Returns the value of each key that has an origin, in the same order, or `None` if the value cannot be
    /// determined. `secrets` are the secrets in the typed settings, and `clean` redacts known secrets in a text.
    pub fn render(&self, origins: &Origins, secrets: &[&str], clean: &dyn Fn(&str) -> String) -> Vec<ConfigOrigin> {
        let trees: Vec<Option<Value>> = self.0.files.iter().map(|file| self.tree(file)).collect();
        let patterns = redact::Patterns::default();
        let clean = |text: &str| patterns.clean(&clean(text)).replace(redact::MASK, MASK);
        let mask = Mask { secrets, clean: &clean };
        let value = |key: &str, origin: &Origin| {
            // A server name is not matched against the secret suffixes, because it does not describe the values under
            // it.
            let name = if is_server(key) { "" } else { key.rsplit('.').next().unwrap_or_default() };
            mask.mask(name, self.value(&trees, key, origin)?).into()
        };
        let view = |(key, origin): (&String, &Origin)| ConfigOrigin {
            key: key.clone(),
            origin: origin.to_string(),
            value: value(key, origin),
        };
        origins.keys.iter().map(view).collect()
    }

    /// Returns the value as written in the layer `origin`.
    fn value(&self, trees: &[Option<Value>], key: &str, origin: &Origin) -> Option<Value> {
        let Sources { files, plugins, env, log_level } = &*self.0;
        match origin {
            Origin::Variable(name) => return env.text(name).map(|text| text.trim().into()),
            Origin::Flag(_) => return log_level.as_deref().map(Into::into),
            Origin::Plugin(..) => {
                let name = key.strip_prefix("mcp_servers.")?;
                let mut servers = plugins.iter().flat_map(|plugin| &plugin.servers);
                return servers.find(|(server, _)| server == name).map(|(_, entry)| entry.clone());
            }
            Origin::BuiltIn | Origin::System(_) | Origin::User(_) => {}
        }
        let (subject, paths) = paths(key);
        let layers = files.iter().zip(trees).filter(|(file, _)| file.subject == subject);
        if is_server(key) {
            // A server is merged from all layers.
            let entries = layers.filter_map(|(_, tree)| find(tree.as_ref()?, &paths[0]).cloned());
            return entries.reduce(merged);
        }
        let (file, tree) = layers.rev().find(|(file, _)| file.origin == *origin)?;
        if paths.is_empty() {
            return Some(file.text.trim().into());
        }
        paths.iter().find_map(|path| find(tree.as_ref()?, path)).cloned()
    }

    /// Parses a file as a tree of values, with variables expanded. Returns `None` if the file is empty or not YAML.
    fn tree(&self, file: &SourceFile) -> Option<Value> {
        if !file.subject.file_name().ends_with(".yaml") {
            return None;
        }
        let mut variables = self.0.env.texts();
        name_unset(&file.text, &mut variables);
        let mut tree = yaml::tree(file, &variables)?;
        expand(&mut tree, &variables);
        Some(tree)
    }
}

fn is_server(key: &str) -> bool {
    key.starts_with("mcp_servers.") && !key.starts_with("mcp_servers.global.")
}

/// Returns the file of a key, and the key's possible paths in that file. There are no paths if the file is a single
/// text.
fn paths(key: &str) -> (Subject, Vec<String>) {
    let (group, rest) = key.split_once('.').unwrap_or((key, ""));
    let section_paths = || vec![format!("core.{rest}"), format!("optional.{rest}")];
    match group {
        "models" => {
            let (slot, field) = rest.split_once('.').unwrap_or((rest, ""));
            let others = [format!("{rest}_file"), format!("{rest}_command"), format!("{slot}.timeouts.{field}")];
            (Subject::Models, [rest.to_owned()].into_iter().chain(others).collect())
        }
        "tools" if rest.contains('.') => (Subject::Tools, section_paths()),
        "skills" if rest.contains('.') => (Subject::Skills, section_paths()),
        "agents" => (Subject::Agents, vec![key.to_owned(), format!("{key}_file")]),
        "web" => (Subject::Web, vec![rest.to_owned()]),
        "languages" => (Subject::Languages, vec![rest.to_owned()]),
        "mcp_servers" if rest.starts_with("global.") => (Subject::Mcp, vec![rest.to_owned()]),
        "mcp_servers" => (Subject::Mcp, vec![format!("servers.{rest}")]),
        "hitl_rules" => (Subject::HitlRules, vec![rest.to_owned()]),
        "prompts" => match rest {
            "subagent" => (Subject::SubagentPrompt, Vec::new()),
            "compact" => (Subject::CompactPrompt, Vec::new()),
            _ => (Subject::SystemPrompt, Vec::new()),
        },
        _ => (Subject::Daemon, vec![key.to_owned()]),
    }
}

/// Returns the value at a path. Names may contain dots.
fn find<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    let fields = tree.as_object()?;
    if let Some(value) = fields.get(path) {
        return Some(value).filter(|value| !value.is_null());
    }
    fields.iter().find_map(|(name, value)| find(value, path.strip_prefix(name)?.strip_prefix('.')?))
}

/// Merges a layer with the layer below it, key by key.
fn merged(lower: Value, overrides: Value) -> Value {
    match (lower, overrides) {
        (Value::Object(mut lower), Value::Object(overrides)) => {
            for (name, value) in overrides {
                let below = lower.remove(&name).unwrap_or_default();
                lower.insert(name, merged(below, value));
            }
            Value::Object(lower)
        }
        (lower, Value::Null) => lower,
        (_, overrides) => overrides,
    }
}

/// Defines each unset variable in the file as a reference to itself, `${NAME}`.
fn name_unset(text: &str, variables: &mut HashMap<String, String>) {
    for rest in text.split("${").skip(1) {
        let name: String = rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        if !name.is_empty() && rest[name.len()..].starts_with('}') && !variables.contains_key(&name) {
            variables.insert(name.clone(), format!("${{{name}}}"));
        }
    }
}

/// Expands variables in quoted strings, which the parser leaves unchanged.
fn expand(tree: &mut Value, variables: &HashMap<String, String>) {
    match tree {
        Value::String(text) if text.contains("${") => {
            if let Ok(expanded) = yaml::expand(text, variables) {
                *text = expanded;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, variables)),
        Value::Object(fields) => fields.values_mut().for_each(|value| expand(value, variables)),
        _ => {}
    }
}

struct Mask<'a> {
    secrets: &'a [&'a str],
    clean: &'a dyn Fn(&str) -> String,
}

impl Mask<'_> {
    /// Masks `value` if `name` is the name of a secret.
    fn mask(&self, name: &str, value: Value) -> Value {
        if is_secret(name) || are_secrets(name, &value) {
            return masked(value);
        }
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) if name == "args" => {
                let plain = |item| if let Value::String(text) = item { text } else { item.to_string() };
                let shown = SecretFinder::new("", &HashMap::new()).in_args(items.into_iter().map(plain).collect());
                shown.into_iter().map(|arg| Value::from(self.text(&arg.shown))).collect()
            }
            Value::Array(items) => items.into_iter().map(|item| self.mask("", item)).collect(),
            Value::Object(fields) if SECRET_MAPS.contains(&name) => {
                fields.into_iter().map(|(name, value)| (name, masked(value))).collect::<Map<_, _>>().into()
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| {
                    let value = self.mask(&name, value);
                    (name, value)
                });
                fields.collect::<Map<_, _>>().into()
            }
            Value::Number(number) if self.secrets.contains(&number.to_string().as_str()) => MASK.into(),
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        if self.secrets.contains(&text) {
            return MASK.to_owned();
        }
        (self.clean)(&without_credentials(text))
    }
}

/// Masks a whole value, except for values that cannot be secret.
fn masked(value: Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value,
        Value::String(text) if text.is_empty() => text.into(),
        _ => MASK.into(),
    }
}

/// Returns true if a value with this name is a secret. The keyword must be at the end of the name: `token_budget`,
/// `api_key_env` and `max_tokens` are not secrets.
fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_SUFFIXES.split_ascii_whitespace().any(|suffix| name.ends_with(suffix))
}

/// Returns true if a value with this name contains several secrets. A number, such as `max_tokens`, is not secret.
fn are_secrets(name: &str, value: &Value) -> bool {
    !value.is_number() && name.strip_suffix('s').is_some_and(is_secret)
}

/// Masks the credentials before `@` and the query values in all URLs in a text.
fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + "://".len());
        out.push_str(before);
        let end = address.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')).unwrap_or(address.len());
        let (address, tail) = address.split_at(end);
        // A password may contain an `@`, so the last `@` is used as its end.
        let host_and_path = match address.rsplit_once('@') {
            Some((_, host_and_path)) => {
                out.push_str(&format!("{MASK}@"));
                host_and_path
            }
            None => address,
        };
        let (host_and_path, fragment) =
            host_and_path.split_once('#').map_or((host_and_path, None), |(before, rest)| (before, Some(rest)));
        match host_and_path.split_once('?') {
            Some((path, query)) => out.push_str(&format!("{path}?{}", query_without_values(query))),
            None => out.push_str(host_and_path),
        }
        if let Some(fragment) = fragment {
            out.push_str(&format!("#{}", if fragment.contains('=') { MASK } else { fragment }));
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Masks the values of a query, except for placeholders that a search replaces, such as `{query}`.
fn query_without_values(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((_, value)) if value.starts_with('{') && value.ends_with('}') => pair.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::config::{resolve, tests::sources};

    /// Renders the values with these files above the built-in files.
    fn render_values(files: &[(Subject, &str)], env: &[(&str, &str)]) -> BTreeMap<String, Value> {
        let sources = Sources { log_level: Some("debug".to_owned()), ..sources(files, env) };
        let config = resolve(&sources).unwrap();
        let secrets: Vec<&str> = config.secrets().chain(sources.env.secrets()).collect();
        let shown = config.values.render(&config.origins, &secrets, &str::to_owned);
        let missing: Vec<_> = shown.iter().filter(|key| key.value.is_none()).collect();
        assert!(missing.is_empty(), "these keys have no value: {missing:?}");
        shown.into_iter().map(|ConfigOrigin { key, value, .. }| (key, value.unwrap())).collect()
    }

    #[test]
    fn shown_values_contain_no_secret() {
        let values = render_values(
            &[
                (
                    Subject::Models,
                    "base:\n  base_url: https://me:hunter2@models.example/v1\n  api_key: abc\n  headers: {X-Org: org-s3cret}\n  \
                     body: {user_token: body-s3cret, seed: 7}\ncode: {base_url: http://c/v1, api_key: \"${CODE_KEY}\"}\n",
                ),
                (
                    Subject::Mcp,
                    "servers:\n  files:\n    command: x\n    args: [--api-key, arg-s3cret, --token=tok-s3cret, -v]\n    \
                     env: {DEBUG: env-s3cret}\n  far:\n    url: https://far.example/mcp?key=url-s3cret\n    \
                     headers: {Authorization: \"Bearer ${FAR_KEY}\"}\n  lent:\n    command: y\n    args: [\"${NOT_SET}\"]\n",
                ),
                (Subject::Daemon, "environment: {pass: [\"${LEAKED_TOKEN}\"]}\n"),
            ],
            &[
                ("CODE_KEY", "code-s3cret"),
                ("FAR_KEY", "far-s3cret"),
                ("LEAKED_TOKEN", "leaked-s3cret"),
                ("MODEL_CHAT_API_KEY", "chat-s3cret"),
            ],
        );
        let all = serde_json::to_string(&values).unwrap();
        assert!(!all.contains("s3cret") && !all.contains("hunter2") && !all.contains("abc\""), "{all}");
        let check = |key: &str, value: Value| assert_eq!(values.get(key), Some(&value), "{key}");
        check("models.base.base_url", json!("https://•••@models.example/v1"));
        check("models.base.api_key", json!("•••"));
        check("models.base.headers", json!({"X-Org": "•••"}));
        check("models.base.body", json!({"user_token": "•••", "seed": 7}));
        check("models.code.api_key", json!("•••"));
        check("models.chat.api_key", json!("•••"));
        check("environment.pass", json!(["•••"]));
        check("mcp_servers.lent", json!({"command": "y", "args": ["${NOT_SET}"]}));
        assert_eq!(values["mcp_servers.far"]["url"], "https://far.example/mcp?key=•••");
        assert_eq!(values["mcp_servers.far"]["headers"], json!({"Authorization": "•••"}));
        assert_eq!(values["mcp_servers.files"]["env"], json!({"DEBUG": "•••"}));
        assert_eq!(values["mcp_servers.files"]["args"][3], "-v");
    }

    #[test]
    fn server_layers_merge() {
        let file = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let lower = file(r#"{"command": "x", "env": {"A": 1}, "args": ["a", "b"]}"#);
        let overrides = file(r#"{"enabled": false, "env": {"B": 2}, "args": ["c"], "cwd": null}"#);
        let expected = json!({"command": "x", "env": {"A": 1, "B": 2}, "args": ["c"], "enabled": false, "cwd": null});
        assert_eq!(merged(lower, overrides), expected);
    }

    #[test]
    fn only_whole_secret_names_are_secret() {
        for name in ["api_key", "client_secret", "Authorization", "X-Subscription-Token", "PASSWORD"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["api_key_env", "api_key_file", "key_header", "token_budget", "max_tokens", "keyword", ""] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn credentials_in_urls_are_masked() {
        let check = |text: &str, expected: &str| assert_eq!(without_credentials(text), expected);
        check("http://localhost:8080/v1", "http://localhost:8080/v1");
        check("https://tok@h/x", "https://•••@h/x");
        check("see https://me:p@ss@h?x=1 and ftp://h/@x", "see https://•••@h?x=••• and ftp://•••@x");
        check("db://u:pa/ss#w@h/x", "db://•••@h/x");
        check("https://h/x#top and https://h/x#token=abc", "https://h/x#top and https://h/x#•••");
        check("https://s/?q={query}&n={count}&key=k", "https://s/?q={query}&n={count}&key=•••");
        check("no address", "no address");
    }
}
