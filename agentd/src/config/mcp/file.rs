//! The keys of `mcp_servers.yaml` as written in the file.
//!
//! This module also adds the servers of plugins, which have lower precedence than the servers of all files. An entry in
//! `mcp_servers.yaml` can enable or disable a plugin's server, select its tools and their effects, and add variables
//! and headers. An entry that sets a command or a URL defines another server, which replaces the plugin's.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use agentd_core::tool::Effect;
use agentd_extensions::plugins::InstalledPlugin;
use agentd_mcp::config::{Sampling, ToolGrants};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::json;
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorLocation, Origin, Origins, SourceFile, Sources, Subject,
    groups::group,
    mcp::{Server, check_name, mark_unset_variables},
    yaml::{self, Limit, Reader, Span},
};

/// Content of one file.
#[derive(Debug, Default)]
pub(super) struct McpFile {
    pub(super) global: Option<GlobalFile>,
    pub(super) servers: BTreeMap<String, Entry>,
    /// Servers whose entry is invalid, with the error.
    pub(super) invalid: BTreeMap<String, ConfigError>,
}

/// Settings of one server, with their location.
type Entry = Spanned<Option<ServerFile>>;

/// The file with typed entries, or with ignored entries to check only the other keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeFile<E> {
    global: Option<GlobalFile>,
    servers: Option<BTreeMap<String, E>>,
}

impl McpFile {
    /// Parses a file. An invalid entry does not affect the others. Invalid YAML or invalid global settings are an
    /// error.
    pub(super) fn read(file: &SourceFile, variables: &HashMap<String, String>) -> Result<Self, ConfigError> {
        match yaml::parse(file, variables) {
            Ok(WholeFile { global, servers }) => {
                Ok(Self { global, servers: servers.unwrap_or_default(), invalid: BTreeMap::new() })
            }
            Err(error) => Self::read_each_entry(file, variables).ok_or(error),
        }
    }

    /// Parses the entries one by one. Returns `None` if the error is not in an entry.
    fn read_each_entry(file: &SourceFile, variables: &HashMap<String, String>) -> Option<Self> {
        let WholeFile::<IgnoredAny> { global, servers } = yaml::parse(file, variables).ok()?;
        let mut read = Self { global, ..Self::default() };
        for name in servers.unwrap_or_default().into_keys() {
            match yaml::parse_seed(file, variables, EntrySeed { name: &name, is_root: true }) {
                Ok(Some(entry)) => drop(read.servers.insert(name, entry)),
                Ok(None) => {}
                Err(error) => drop(read.invalid.insert(name, error)),
            }
        }
        (!read.invalid.is_empty()).then_some(read)
    }
}

/// Seed that parses one entry of the file and skips all others.
#[derive(Clone, Copy)]
struct EntrySeed<'a> {
    name: &'a str,
    is_root: bool,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Option<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = Option<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if self.is_root && key == "servers" {
                found = map.next_value_seed(Self { is_root: false, ..self })?;
            } else if !self.is_root && key == self.name {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

group! {
    /// Settings for all servers.
    pub(in crate::config) GlobalSettings, GlobalFile {
        /// True if a server is only started when a call needs it.
        lazy_startup: bool,
        /// Time limit for starting a server.
        start_timeout: Span,
        /// Maximum time that a call waits for a message from the server.
        call_timeout: Span,
        /// Time limit for a call.
        call_limit: Span,
        /// Idle time after which a server stops.
        idle_stop: Limit<Span>,
        /// Maximum number of tools offered in every turn.
        offered_tools: usize,
        /// Time that a turn waits for servers that have not been reached before.
        listing_wait: Span,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerFile {
    pub(super) enabled: Option<bool>,
    pub(super) command: Option<Spanned<String>>,
    pub(super) args: Option<Vec<Spanned<String>>>,
    pub(super) env: Option<BTreeMap<String, Spanned<String>>>,
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(alias = "type")]
    pub(super) connection_mode: Option<Mode>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) headers: Option<BTreeMap<String, Spanned<String>>>,
    pub(super) sampling: Option<Sampling>,
    pub(super) always_available: Option<bool>,
    pub(super) effect: Option<ToolEffect>,
    pub(super) grants: Option<GrantsFile>,
    pub(super) oauth: Option<OAuthFile>,
    pub(super) lazy_startup: Option<bool>,
    pub(super) start_timeout: Option<Span>,
    pub(super) call_timeout: Option<Span>,
    pub(super) call_limit: Option<Span>,
    pub(super) idle_stop: Option<Limit<Span>>,
    pub(super) tools: Option<BTreeMap<String, Option<ToolFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolFile {
    pub(super) enabled: Option<bool>,
    pub(super) always_available: Option<bool>,
    pub(super) alias: Option<String>,
    pub(super) description: Option<String>,
    pub(super) effect: Option<ToolEffect>,
}

/// OAuth client that the user registered for agentd, for servers with a login.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OAuthFile {
    pub(super) client_id: Option<Spanned<String>>,
    pub(super) client_secret: Option<Spanned<String>>,
    pub(super) issuer: Option<Spanned<String>>,
}

/// Transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    Stdio,
    Sse,
    #[serde(alias = "streamable_http", alias = "streamable-http")]
    Http,
}

/// Effect of a tool's calls, as configured by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolEffect {
    Read,
    Write,
    Execute,
}

impl From<ToolEffect> for Effect {
    fn from(effect: ToolEffect) -> Self {
        match effect {
            ToolEffect::Read => Self::Read,
            ToolEffect::Write => Self::Write,
            ToolEffect::Execute => Self::Execute,
        }
    }
}

/// Tools that run without approval: a list of names, or `"*"`.
#[derive(Debug)]
pub(super) struct GrantsFile(pub(super) ToolGrants);

impl<'de> Deserialize<'de> for GrantsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GrantsVisitor)
    }
}

struct GrantsVisitor;

impl<'de> Visitor<'de> for GrantsVisitor {
    type Value = GrantsFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tools that run without asking, or \"*\" for all tools of this server")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<GrantsFile, E> {
        match text {
            "*" => Ok(GrantsFile(ToolGrants::All)),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<GrantsFile, E> {
        Ok(GrantsFile(ToolGrants::None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<GrantsFile, A::Error> {
        let tools = BTreeSet::<String>::deserialize(SeqAccessDeserializer::new(list))?;
        let grants = match () {
            () if tools.is_empty() => ToolGrants::None,
            () if tools.contains("*") => ToolGrants::All,
            () => ToolGrants::Some(tools),
        };
        Ok(GrantsFile(grants))
    }
}

/// Adds the servers of plugins, and returns the plugin for each server.
pub(super) fn add_plugin_servers(
    sources: &Sources,
    values: &HashMap<String, String>,
    servers: &mut BTreeMap<String, Server>,
    broken: &mut BTreeMap<String, ConfigError>,
    origins: &mut Origins,
) -> BTreeMap<String, String> {
    let mut server_plugins = BTreeMap::new();
    for plugin in sources.plugins.iter() {
        let origin = Origin::Plugin(plugin.report.name.clone(), plugin.report.folder.join("mcp.json"));
        for (name, entry) in &plugin.servers {
            let is_user_defined =
                servers.get(name).is_some_and(|server| server.command.is_some() || server.url.is_some());
            if is_user_defined || server_plugins.contains_key(name) {
                continue;
            }
            server_plugins.insert(name.clone(), plugin.report.name.clone());
            origins.set(format!("mcp_servers.{name}"), &origin);
            let text = json!({"servers": {name: entry}}).to_string();
            let file = SourceFile { subject: Subject::Mcp, origin: origin.clone(), text };
            match read(sources, values, plugin, &file, name) {
                Ok(server) => {
                    let overrides = servers.remove(name).unwrap_or_default();
                    servers.insert(name.clone(), overrides.merged_over(server));
                }
                Err(error) => drop(broken.insert(name.clone(), error)),
            }
        }
    }
    server_plugins
}

fn read(
    sources: &Sources,
    values: &HashMap<String, String>,
    plugin: &InstalledPlugin,
    file: &SourceFile,
    name: &str,
) -> Result<Server, ConfigError> {
    let plugin_name = &plugin.report.name;
    let location = ErrorLocation::Setting(format!("plugin {plugin_name}"));
    check_name(name, &location)?;
    if !plugin.is_used() {
        let message = "its files differ from those you approved, so its servers are disabled";
        return Err(
            ConfigError::new(location, message).with_hint(format!("`agentctl plugin show {plugin_name}` lists them"))
        );
    }
    let (file, variables) = &mark_unset_variables(file, values);
    let McpFile { servers, invalid, .. } = McpFile::read(file, variables)?;
    if let Some((_, error)) = invalid.into_iter().next() {
        return Err(error);
    }
    let mut server = Server { location: Some(location), plugin: Some(plugin_name.clone()), ..Server::default() };
    let reader = Reader { file, sources, variables };
    for entry in servers.into_values() {
        reader.server(entry.value.unwrap_or_default(), &mut server)?;
    }
    Ok(server)
}

impl Server {
    /// Merges the user's settings with those of a plugin's server. The user's settings take precedence.
    fn merged_over(self, plugin_server: Self) -> Self {
        let (mut env, mut headers) = (plugin_server.env, plugin_server.headers);
        env.extend(self.env);
        headers.extend(self.headers);
        Self {
            command: plugin_server.command,
            args: plugin_server.args,
            url: plugin_server.url,
            mode: plugin_server.mode,
            command_folder: plugin_server.command_folder,
            cwd: self.cwd.or(plugin_server.cwd),
            location: plugin_server.location,
            plugin: plugin_server.plugin,
            env,
            headers,
            ..self
        }
    }
}
