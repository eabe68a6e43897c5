//! `languages.yaml`: the language servers, and their limits.

use std::collections::BTreeMap;

use agentd_lsp::{LanguageConfig, LanguageLimits, ServerConfig};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, ErrorPlace, Sources,
    groups::group,
    layers::Subject,
    origin::{Origin, Origins},
    value::{Limit, Span},
    yaml::{self, Reader},
};

/// Prefix of the keys of all servers.
const GLOBAL: &str = "languages.global";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LanguagesFile {
    global: Option<GlobalFile>,
    servers: Option<BTreeMap<String, Spanned<Option<ServerFile>>>>,
}

group! {
    /// Limits of all servers.
    pub(in crate::config) GlobalSettings, GlobalFile {
        /// Idle time after which one stops.
        idle_stop: Limit<Span>,
        /// Time limit of its start.
        start_timeout: Span,
        /// Time limit of an answer.
        request_timeout: Span,
        /// Time that a step waits for findings.
        wait: Span,
        /// The same for a server that has just started.
        cold_wait: Span,
        /// Memory of each process, in MiB.
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

/// Sum of the layers for one server.
struct Server {
    enabled: bool,
    config: ServerConfig,
    /// Place that named it last.
    place: ErrorPlace,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<LanguageConfig, ConfigError> {
    let variables = sources.env.texts();
    let mut limits = GlobalFile::default();
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    for file in sources.files_about(Subject::Languages) {
        let LanguagesFile { global, servers: named } = yaml::parse(file, &variables, origins)?;
        limits.overlay(global, GLOBAL, &file.origin, origins);
        for (name, over) in named.into_iter().flatten() {
            let place = yaml::place(file, over.defined);
            check_name(&name, &place)?;
            let server = servers.entry(name.clone()).or_insert_with(|| Server::new(&name, place.clone()));
            server.place = place;
            server.overlay(
                over.value.unwrap_or_default(),
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

/// A program: a name, or a path, which becomes an absolute one.
fn command(reader: &Reader<'_>, value: &Spanned<String>) -> Result<String, ConfigError> {
    let text = reader.text(value)?;
    if text.trim().is_empty() {
        return Err(reader.refuse(value, "`command` is empty"));
    }
    let path = if text.contains('/') { reader.path(&text) } else { text.clone().into() };
    Ok(path.to_str().map_or(text, str::to_owned))
}

impl Server {
    fn new(name: &str, place: ErrorPlace) -> Self {
        let config = ServerConfig {
            name: name.to_owned(),
            command: String::new(),
            args: Vec::new(),
            environment: BTreeMap::new(),
            languages: BTreeMap::new(),
            root_markers: Vec::new(),
        };
        Self { enabled: true, config, place }
    }

    fn overlay(&mut self, over: ServerFile, reader: &Reader<'_>, origins: &mut Origins) -> Result<(), ConfigError> {
        let name = self.config.name.clone();
        let mut note = |key: &str| origins.set(format!("languages.servers.{name}.{key}"), &reader.file.origin);
        if let Some(enabled) = over.enabled {
            self.enabled = enabled;
            note("enabled");
        }
        if let Some(value) = over.command {
            self.config.command = command(reader, &value)?;
            note("command");
        }
        if let Some(args) = over.args {
            self.config.args = reader.texts(&args)?;
            note("args");
        }
        if let Some(env) = over.env {
            let texts = env.iter().map(|(name, value)| Ok((name.clone(), reader.text(value)?)));
            self.config.environment = texts.collect::<Result<_, ConfigError>>()?;
            note("env");
        }
        if let Some(languages) = over.languages {
            let extension = |text: &str| text.trim().trim_start_matches('.').to_lowercase();
            let pairs = languages.iter().flat_map(|(language, extensions)| {
                extensions.iter().map(move |text| (extension(text), language.clone()))
            });
            self.config.languages = pairs.collect();
            note("languages");
        }
        if let Some(markers) = over.root_markers {
            self.config.root_markers = markers;
            note("root_markers");
        }
        Ok(())
    }

    fn complete(self) -> Result<ServerConfig, ConfigError> {
        let Self { config, place, .. } = self;
        let name = &config.name;
        if config.command.is_empty() {
            let error = ConfigError::new(place, format!("the language server `{name}` has no `command`"));
            return Err(error.with_hint("name its program"));
        }
        if config.languages.is_empty() {
            let error = ConfigError::new(place, format!("the language server `{name}` has no `languages`"));
            return Err(error.with_hint("such as languages: {python: [py]}"));
        }
        Ok(config)
    }
}

/// A name is shown to people and models, and stands in the keys of the configuration.
fn check_name(name: &str, place: &ErrorPlace) -> Result<(), ConfigError> {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.len() <= 40 && name.chars().all(is_fit) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(ConfigError::new(place.clone(), format!("`{shown}` cannot be the name of a language server"))
        .with_hint("a name has letters of ASCII, digits, `-` and `_`, at most 40"))
}
