//! `languages.yaml`: the language servers and their limits.
//!
//! This module also contains `web.yaml`: the hosts that tools may access, limits for responses, and the search engine.

use std::{collections::BTreeMap, str::FromStr as _};

use agentd_lsp::{LanguageConfig, LanguageLimits, ServerConfig};
use agentd_web::{
    AllowedHost, WebConfig,
    search::{Dialect, JsonFields, SearchConfig},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorLocation, Sources,
    groups::{group, replace},
    layers::{Origin, Origins, Subject},
    yaml::{self, BoundedInt, Limit, Reader, Span, address},
};

/// Prefix of keys that apply to all servers.
const GLOBAL: &str = "languages.global";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LanguagesFile {
    global: Option<GlobalFile>,
    servers: Option<BTreeMap<String, Spanned<Option<ServerFile>>>>,
}

group! {
    /// Settings for all servers.
    pub(in crate::config) GlobalSettings, GlobalFile {
        /// Idle time after which a server stops.
        idle_stop: Limit<Span>,
        /// Time limit for starting a server.
        start_timeout: Span,
        /// Time limit for an answer.
        request_timeout: Span,
        /// Time that a step waits for diagnostics.
        wait: Span,
        /// Time that a step waits for diagnostics from a server that has just started.
        cold_wait: Span,
        /// Memory limit of each process, in MiB.
        memory_mib: Limit<u64>,
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerFile {
    enabled: Option<bool>,
    command: Option<Spanned<String>>,
    args: Option<Vec<Spanned<String>>>,
    env: Option<BTreeMap<String, Spanned<String>>>,
    languages: Option<BTreeMap<String, Vec<String>>>,
    root_markers: Option<Vec<String>>,
}

/// Merged layers of one server.
struct Server {
    enabled: bool,
    config: ServerConfig,
    /// Location of the server's last definition.
    location: ErrorLocation,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<LanguageConfig, ConfigError> {
    let variables = sources.env.texts();
    let mut limits = GlobalFile::default();
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    for file in sources.files_of(Subject::Languages) {
        let LanguagesFile { global, servers: named } = yaml::parse(file, &variables)?;
        limits.overlay(global, GLOBAL, &file.origin, origins);
        for (name, overrides) in named.into_iter().flatten() {
            let location = yaml::locate(file, overrides.defined);
            check_name(&name, &location)?;
            let server = servers.entry(name.clone()).or_insert_with(|| Server::new(&name, location.clone()));
            server.location = location;
            server.overlay(
                overrides.value.unwrap_or_default(),
                &Reader { file, sources, variables: &variables },
                origins,
            )?;
        }
    }
    let complete = servers.into_values().filter(|server| server.enabled).map(Server::complete);
    Ok(LanguageConfig { servers: complete.collect::<Result<_, _>>()?, limits: limits.complete(GLOBAL)?.into() })
}

impl From<GlobalSettings> for LanguageLimits {
    fn from(global: GlobalSettings) -> Self {
        Self {
            idle_stop: global.idle_stop.0.map(|span| span.0),
            start_timeout: global.start_timeout.0,
            request_timeout: global.request_timeout.0,
            wait: global.wait.0,
            cold_wait: global.cold_wait.0,
            memory_bytes: global.memory_mib.0.map(|number| number.saturating_mul(1024 * 1024)),
        }
    }
}

/// Parses the server's command: a name, or a path, which is made absolute.
fn command(reader: &Reader<'_>, value: &Spanned<String>) -> Result<String, ConfigError> {
    let text = reader.text(value)?;
    if text.trim().is_empty() {
        return Err(reader.refuse(value, "`command` is empty"));
    }
    let path = if text.contains('/') { reader.path(&text) } else { text.clone().into() };
    Ok(path.to_str().map_or(text, str::to_owned))
}

impl Server {
    fn new(name: &str, location: ErrorLocation) -> Self {
        let config = ServerConfig {
            name: name.to_owned(),
            command: String::new(),
            args: Vec::new(),
            environment: BTreeMap::new(),
            languages: BTreeMap::new(),
            root_markers: Vec::new(),
        };
        Self { enabled: true, config, location }
    }

    fn overlay(
        &mut self,
        overrides: ServerFile,
        reader: &Reader<'_>,
        origins: &mut Origins,
    ) -> Result<(), ConfigError> {
        let name = self.config.name.clone();
        let mut note = |key: &str| origins.set(format!("languages.servers.{name}.{key}"), &reader.file.origin);
        let command = overrides.command.map(|value| command(reader, &value)).transpose()?;
        let args = overrides.args.map(|args| reader.texts(&args)).transpose()?;
        let variables = |env: BTreeMap<String, Spanned<String>>| {
            let texts = env.into_iter().map(|(name, value)| Ok((name, reader.text(&value)?)));
            texts.collect::<Result<BTreeMap<_, _>, ConfigError>>()
        };
        let environment = overrides.env.map(variables).transpose()?;
        let extension = |text: &str| text.trim().trim_start_matches('.').to_lowercase();
        let languages = overrides.languages.map(|languages| {
            let pairs = languages.iter().flat_map(|(language, extensions)| {
                extensions.iter().map(move |text| (extension(text), language.clone()))
            });
            pairs.collect()
        });
        replace(&mut self.enabled, overrides.enabled, "enabled", &mut note);
        replace(&mut self.config.command, command, "command", &mut note);
        replace(&mut self.config.args, args, "args", &mut note);
        replace(&mut self.config.environment, environment, "env", &mut note);
        replace(&mut self.config.languages, languages, "languages", &mut note);
        replace(&mut self.config.root_markers, overrides.root_markers, "root_markers", &mut note);
        Ok(())
    }

    fn complete(self) -> Result<ServerConfig, ConfigError> {
        let Self { config, location, .. } = self;
        let name = &config.name;
        if config.command.is_empty() {
            let error = ConfigError::new(location, format!("the language server `{name}` has no `command`"));
            return Err(error.with_hint("set `command` to its program"));
        }
        if config.languages.is_empty() {
            let error = ConfigError::new(location, format!("the language server `{name}` has no `languages`"));
            return Err(error.with_hint("for example, languages: {python: [py]}"));
        }
        Ok(config)
    }
}

/// Checks a server name, which is shown to users and models and is part of configuration keys.
fn check_name(name: &str, location: &ErrorLocation) -> Result<(), ConfigError> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.len() <= 40 && name.chars().all(is_allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(ConfigError::new(location.clone(), format!("invalid language server name `{shown}`"))
        .with_hint("use at most 40 ASCII letters, digits, `-` and `_`"))
}

/// Hint for a URL that contains the search engine's API key.
const KEY_HINT: &str = "put the key into the variable named by api_key_env";

/// Search engine that answers web searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Provider {
    #[default]
    None,
    Searxng,
    Brave,
    Tavily,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WebFile {
    fetch: Option<FetchFile>,
    search: Option<SearchFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FetchFile {
    timeout: Option<Span>,
    max_bytes: Option<BoundedInt<1024, 104_857_600>>,
    max_redirects: Option<BoundedInt<0, 20>>,
    contact: Option<Spanned<String>>,
    allow: Option<Vec<Spanned<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SearchFile {
    provider: Option<Provider>,
    base_url: Option<Spanned<String>>,
    api_key_env: Option<Spanned<String>>,
    results: Option<Spanned<String>>,
    title: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    snippet: Option<Spanned<String>>,
    key_header: Option<Spanned<String>>,
}

/// Merged layers of the search settings. Strings are stored by key.
#[derive(Debug, Default)]
struct Search {
    provider: Provider,
    texts: BTreeMap<&'static str, String>,
}

pub(super) fn web(sources: &Sources, origins: &mut Origins) -> Result<WebConfig, ConfigError> {
    let variables = sources.env.texts();
    let (mut web, mut search) = (WebConfig::default(), Search::default());
    for file in sources.files_of(Subject::Web) {
        let WebFile { fetch, search: overrides } = yaml::parse(file, &variables)?;
        let reader = Reader { file, sources, variables: &variables };
        fetch.unwrap_or_default().overlay(&reader, &mut web, origins)?;
        search.overlay(overrides.unwrap_or_default(), &reader, origins)?;
    }
    web.search = search.complete(sources, origins)?;
    Ok(web)
}

impl FetchFile {
    fn overlay(self, reader: &Reader<'_>, web: &mut WebConfig, origins: &mut Origins) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.fetch.{key}"), &reader.file.origin);
        replace(&mut web.timeout, self.timeout.map(|timeout| timeout.0), "timeout", &mut set);
        replace(&mut web.max_bytes, self.max_bytes.map(BoundedInt::size), "max_bytes", &mut set);
        replace(&mut web.max_redirects, self.max_redirects.map(BoundedInt::size), "max_redirects", &mut set);
        if let Some(contact) = &self.contact {
            let text = reader.text(contact)?;
            if !text.chars().all(|letter| letter.is_ascii_graphic() && !"()\"\\".contains(letter)) {
                return Err(reader.refuse(contact, "a contact must be a URL or email address without spaces"));
            }
            web.contact = Some(text).filter(|text| !text.is_empty());
            set("contact");
        }
        if let Some(list) = self.allow {
            let read = |text: &Spanned<String>| {
                AllowedHost::from_str(&reader.text(text)?).map_err(|error| reader.refuse(text, error.to_string()))
            };
            web.allow = list.iter().map(read).collect::<Result<_, _>>()?;
            set("allow");
        }
        Ok(())
    }
}

impl Search {
    fn overlay(
        &mut self,
        overrides: SearchFile,
        reader: &Reader<'_>,
        origins: &mut Origins,
    ) -> Result<(), ConfigError> {
        let mut set = |key: &str| origins.set(format!("web.search.{key}"), &reader.file.origin);
        replace(&mut self.provider, overrides.provider, "provider", &mut set);
        let SearchFile { base_url, api_key_env, results, title, url, snippet, key_header, .. } = overrides;
        let server = [("base_url", base_url), ("api_key_env", api_key_env)];
        let fields = [("results", results), ("title", title), ("url", url), ("snippet", snippet)];
        for (key, text) in server.into_iter().chain(fields).chain([("key_header", key_header)]) {
            let Some(text) = text else { continue };
            self.texts.insert(key, reader.text(&text)?);
            set(key);
        }
        Ok(())
    }

    fn complete(mut self, sources: &Sources, origins: &Origins) -> Result<Option<SearchConfig>, ConfigError> {
        let mut text = |key: &str| self.texts.remove(key).unwrap_or_default();
        let invalid = |key: &str, reason: String| {
            let key = format!("web.search.{key}");
            ConfigError::new(origins.location(&key), format!("{key}: {reason}"))
        };
        let dialect = match self.provider {
            Provider::None => return Ok(None),
            Provider::Searxng => Dialect::Searxng,
            Provider::Brave => Dialect::Brave,
            Provider::Tavily => Dialect::Tavily,
            Provider::Json => Dialect::Json(JsonFields {
                results: text("results"),
                title: text("title"),
                url: text("url"),
                snippet: text("snippet"),
                key_header: Some(text("key_header")).filter(|name| !name.is_empty()),
            }),
        };
        let (base_url, api_key_env) = (text("base_url"), text("api_key_env"));
        let base_url = match (base_url.as_str(), dialect.default_base_url()) {
            ("", Some(usual)) => usual,
            ("", None) => {
                let reason = format!("{dialect} has no default address");
                return Err(
                    invalid("base_url", reason).with_hint("set it in web.yaml, for example http://localhost:8888")
                );
            }
            (named, _) => named,
        };
        let base_url =
            address(base_url, "http://localhost:8888", KEY_HINT).map_err(|reason| invalid("base_url", reason))?;
        let is_name_char = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        // Users sometimes write the key itself here, so the value must not appear in a message.
        if api_key_env.len() > 64 || !api_key_env.chars().all(is_name_char) {
            let error = invalid("api_key_env", "not the name of an environment variable".to_owned());
            return Err(error.with_hint("put the key itself into the daemon's environment, not into a file"));
        }
        if api_key_env.is_empty() && dialect.needs_key() {
            let error = invalid("api_key_env", format!("{dialect} requires a key"));
            return Err(error.with_hint("set it to the name of the environment variable that contains the key"));
        }
        let api_key = sources.env.text(&api_key_env).map(|key| SecretString::from(key.trim()));
        let key_variable = Some(api_key_env).filter(|name| !name.is_empty());
        Ok(Some(SearchConfig { dialect, base_url, api_key, key_variable }))
    }
}
