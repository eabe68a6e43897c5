//! `mcp_servers.yaml`: the MCP servers, their connection settings, and the tools that are offered to models. The `file`
//! module defines the keys and adds the servers of plugins, with lower precedence than the servers of all files.

mod file;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use agentd_mcp::{
    McpConfig, ServerConfig,
    config::{ConfigText, HttpWire, OAuthClient, Sampling, ServerAddress, ToolDefaults, ToolGrants, ToolSetting},
    variables,
};
use secrecy::SecretString;
use serde_saphyr::Spanned;

use self::file::{GlobalFile, GlobalSettings, McpFile, Mode, OAuthFile, ServerFile, ToolFile};
use crate::config::{
    ConfigError, ErrorLocation, Sources,
    dotenv::{self, SecretFinder},
    groups::overlay_fields,
    layers::{Origin, Origins, SourceFile, Subject},
    yaml::{self, Limit, Reader, Span, address},
};

/// Prefix of keys that apply to all servers.
const GLOBAL: &str = "mcp_servers.global";

/// Maximum length of a server name, which is part of the names of the server's tools.
const MAX_NAME_LENGTH: usize = 40;

/// Merged layers of one server.
#[derive(Debug, Default)]
struct Server {
    enabled: Option<bool>,
    command: Option<String>,
    args: Vec<ConfigText>,
    env: BTreeMap<String, SecretString>,
    cwd: Option<PathBuf>,
    /// Folder of the file that set the command.
    command_folder: PathBuf,
    mode: Option<Mode>,
    url: Option<ConfigText>,
    headers: BTreeMap<String, SecretString>,
    sampling: Option<Sampling>,
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    issuer: Option<String>,
    lazy_startup: Option<bool>,
    start_timeout: Option<Span>,
    call_timeout: Option<Span>,
    call_limit: Option<Span>,
    idle_stop: Option<Limit<Span>>,
    defaults: ToolDefaults,
    grants: Option<ToolGrants>,
    tools: BTreeMap<String, ToolSetting>,
    /// Location of the server's last definition.
    location: Option<ErrorLocation>,
    /// Plugin that provides the server.
    plugin: Option<String>,
}

/// Resolves the servers, and records which plugins provide them.
pub(super) fn resolve(
    sources: &Sources,
    origins: &mut Origins,
) -> Result<(McpConfig, BTreeMap<String, String>), ConfigError> {
    let (mut config, broken, plugins) = read(sources, origins)?;
    // Users see each error together with its location.
    config.broken = broken.into_iter().map(|(name, error)| (name, error.to_string())).collect();
    Ok((config, plugins))
}

/// Errors of broken servers, by server name.
type BrokenServers = BTreeMap<String, ConfigError>;

/// Parses the layers. Returns the working servers, the broken servers, and the plugins that provide servers.
fn read(
    sources: &Sources,
    origins: &mut Origins,
) -> Result<(McpConfig, BrokenServers, BTreeMap<String, String>), ConfigError> {
    let mut global = GlobalFile::default();
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    let mut broken = BTreeMap::new();
    let variables = dotenv::mcp_secrets(sources)?;
    for file in sources.files_of(Subject::Mcp) {
        let (file, variables) = &mark_unset_variables(file, &variables);
        let McpFile { global: overrides, servers: named, invalid } = McpFile::read(file, variables)?;
        let reader = Reader { file, sources, variables };
        global.overlay(overrides, GLOBAL, &file.origin, origins);
        for (name, error) in invalid {
            servers.entry(name.clone()).or_default();
            broken.insert(name, error);
        }
        for (name, overrides) in named {
            let location = yaml::locate(file, overrides.defined);
            origins.set(format!("mcp_servers.{name}"), &file.origin);
            let server = servers.entry(name.clone()).or_default();
            server.location = Some(location.clone());
            let read =
                check_name(&name, &location).and_then(|()| reader.server(overrides.value.unwrap_or_default(), server));
            if let Err(error) = read {
                broken.insert(name, error);
            }
        }
    }
    let plugins = file::add_plugin_servers(sources, &variables, &mut servers, &mut broken, origins);
    let global = global.complete(GLOBAL)?;
    let mut complete = BTreeMap::new();
    for (name, server) in servers {
        match server.complete(&name, &global) {
            _ if broken.contains_key(&name) => {}
            Ok(server) => drop(complete.insert(name, server)),
            Err(error) => drop(broken.insert(name, error)),
        }
    }
    let (offered_tools, listing_wait) = (global.offered_tools, global.listing_wait.0);
    Ok((McpConfig { servers: complete, broken: BTreeMap::new(), offered_tools, listing_wait }, broken, plugins))
}

/// Replaces each unset variable in the file with a mark, because clients may lend the value. Variables with a default
/// are marked in the text, because each occurrence has its own default. The daemon's own values of folder variables are
/// ignored.
fn mark_unset_variables(file: &SourceFile, values: &HashMap<String, String>) -> (SourceFile, HashMap<String, String>) {
    let mut variables = values.clone();
    variables.retain(|name, _| !variables::is_place(name));
    let mut marks = HashMap::new();
    let mut pieces = file.text.split("${");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (reference, rest) = piece.split_once('}').unwrap_or_default();
        let (name, default) = variables::parts(reference);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_free = !name.is_empty() && name.chars().all(is_name) && !variables.contains_key(name);
        if is_free && default.is_some() && !text.ends_with('$') && !reference.contains('\n') {
            let home = values.get("HOME").map_or("~", String::as_str);
            text += &variables::mark(&reference.replacen(":-~/", &format!(":-{home}/"), 1));
            text += rest;
            continue;
        }
        if is_free {
            marks.insert(name.to_owned(), variables::mark(name));
        }
        text += "${";
        text += piece;
    }
    variables.extend(marks);
    (SourceFile { text, ..file.clone() }, variables)
}

/// Checks `text` as the new content of the user's file.
///
/// # Errors
/// Returns the first invalid entry, with its location.
pub fn check_user_file(sources: &Sources, text: String, path: PathBuf) -> Result<(), ConfigError> {
    let mut candidate = sources.clone();
    candidate.files.retain(|file| !(file.subject == Subject::Mcp && matches!(file.origin, Origin::User(_))));
    candidate.files.push(SourceFile { subject: Subject::Mcp, origin: Origin::User(path), text });
    let before = read(sources, &mut Origins::default()).map(|(_, broken, _)| broken).unwrap_or_default();
    let (_, broken, _) = read(&candidate, &mut Origins::default())?;
    // A server that was already broken does not prevent the change.
    broken.into_iter().find(|(name, _)| !before.contains_key(name)).map_or(Ok(()), |(_, error)| Err(error))
}

/// Checks a server name, which is part of the names of the server's tools and of commands that users type.
fn check_name(name: &str, location: &ErrorLocation) -> Result<(), ConfigError> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let starts_alphanumeric = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if starts_alphanumeric && name.len() <= MAX_NAME_LENGTH && name.chars().all(is_allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(ConfigError::new(location.clone(), format!("invalid MCP server name `{shown}`")).with_hint(format!(
        "start with a letter or digit; use at most {MAX_NAME_LENGTH} ASCII letters, digits, `-`, `_` and `.`"
    )))
}

impl Reader<'_> {
    fn server(&self, overrides: ServerFile, server: &mut Server) -> Result<(), ConfigError> {
        if let Some(command) = &overrides.command {
            server.command = Some(self.text(command)?);
            server.command_folder = self.file.folder();
        }
        if let Some(args) = &overrides.args {
            server.args = self.secrets().in_args(self.texts(args)?);
        }
        if let Some(cwd) = &overrides.cwd {
            let text = self.text(cwd)?;
            let is_variable = variables::written(&text).starts_with("${");
            server.cwd = Some(if is_variable { PathBuf::from(text) } else { self.path(&text) });
        }
        if let Some(url) = &overrides.url {
            let text = self.text(url)?;
            self.check_url(url, &text)?;
            server.url = Some(self.secrets().in_url(text));
        }
        for (name, value) in overrides.env.iter().flatten() {
            if name.is_empty() || name.contains(['=', '\0']) || value.value.contains('\0') {
                return Err(self.refuse(value, "invalid environment variable"));
            }
            server.env.insert(name.clone(), self.text(value)?.into());
        }
        for (name, value) in overrides.headers.iter().flatten() {
            let text = self.text(value)?;
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
            let is_valid = !name.is_empty() && name.chars().all(is_token) && !text.contains(['\n', '\r', '\0']);
            if !is_valid {
                return Err(self.refuse(value, "invalid header"));
            }
            server.headers.insert(name.clone(), text.into());
        }
        let OAuthFile { client_id, client_secret, issuer } = overrides.oauth.unwrap_or_default();
        if let Some(id) = &client_id {
            server.client_id = Some(self.credential(id)?);
        }
        if let Some(secret) = &client_secret {
            server.client_secret = Some(self.credential(secret)?.into());
        }
        if let Some(issuer) = &issuer {
            let text = self.text(issuer)?;
            self.check_url(issuer, &text)?;
            server.issuer = Some(text);
        }
        server.mode = overrides.connection_mode.or(server.mode);
        server.defaults.always_available = overrides.always_available.or(server.defaults.always_available);
        server.defaults.effect = overrides.effect.map(Into::into).or(server.defaults.effect);
        server.grants = overrides.grants.map(|grants| grants.0).or(server.grants.take());
        let note = |_| {};
        overlay_fields!(server, overrides, note; enabled, sampling, lazy_startup, start_timeout);
        overlay_fields!(server, overrides, note; call_timeout, call_limit, idle_stop);
        for (name, overrides) in overrides.tools.into_iter().flatten() {
            overlay(server.tools.entry(name).or_default(), overrides.unwrap_or_default());
        }
        Ok(())
    }

    /// Reads a credential that is sent to a server unchanged.
    fn credential(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        let text = self.text(value)?;
        let is_valid = !text.trim().is_empty() && !text.contains(char::is_control);
        if is_valid { Ok(text) } else { Err(self.refuse(value, "invalid client credential")) }
    }

    fn secrets(&self) -> SecretFinder<'_> {
        SecretFinder::new(&self.file.text, self.variables)
    }

    fn check_url(&self, value: &Spanned<String>, text: &str) -> Result<(), ConfigError> {
        // A URL with a mark can only be checked after a client has lent the value.
        if variables::has_mark(text) {
            return Ok(());
        }
        let checked = address(text, "https://example.org/mcp", "put the key into `headers`");
        checked.map(drop).map_err(|reason| self.refuse(value, reason))
    }
}

fn overlay(tool: &mut ToolSetting, overrides: ToolFile) {
    let note = |_| {};
    overlay_fields!(tool, overrides, note; enabled, always_available, alias, description);
    tool.alias = tool.alias.take().filter(|alias| !alias.is_empty());
    tool.effect = overrides.effect.map(Into::into).or(tool.effect);
}

impl Server {
    fn complete(self, name: &str, global: &GlobalSettings) -> Result<ServerConfig, ConfigError> {
        let invalid = |problem: &str, hint: &str| {
            let location =
                self.location.clone().unwrap_or_else(|| ErrorLocation::Setting(format!("mcp_servers.{name}")));
            ConfigError::new(location, format!("the MCP server `{name}` {problem}")).with_hint(hint)
        };
        let mode = self.mode.unwrap_or(if self.url.is_some() { Mode::Http } else { Mode::Stdio });
        let client = match (self.client_id.clone(), &self.client_secret, &self.issuer) {
            (Some(_), Some(_), None) => {
                return Err(invalid(
                    "has a `client_secret` but no `issuer`",
                    "set `issuer: https://…` in `oauth` to the server where agentd is registered: the secret is sent only there",
                ));
            }
            (Some(id), secret, issuer) => Some(OAuthClient { id, secret: secret.clone(), issuer: issuer.clone() }),
            (None, None, None) => None,
            (None, secret, _) => {
                let key = if secret.is_some() { "client_secret" } else { "issuer" };
                return Err(invalid(&format!("has a `{key}` but no `client_id`"), "set both in `oauth`"));
            }
        };
        if client.is_some() && mode == Mode::Stdio {
            return Err(invalid("is a local program, which needs no login", "use `oauth` only with a `url:`"));
        }
        if client.is_some() && mode == Mode::Sse {
            return Err(invalid(
                "has `oauth`, but `connection_mode: sse` does not support login",
                "remove `connection_mode` if the server supports streamable HTTP, or put a key into `headers`",
            ));
        }
        let address = match (mode, &self.command, &self.url) {
            (Mode::Stdio, Some(command), _) if !command.trim().is_empty() => ServerAddress::Stdio {
                command: command.clone(),
                args: self.args.clone(),
                env: self.env.clone(),
                // Relative paths are relative to the folder of the file that set the command.
                cwd: self.cwd.clone().unwrap_or_else(|| self.command_folder.clone()),
            },
            (Mode::Stdio, ..) => {
                return Err(invalid(
                    "has no command",
                    "set `command: npx` with its `args`, or `url:` for a remote server",
                ));
            }
            (Mode::Http | Mode::Sse, _, Some(url)) => ServerAddress::Http {
                url: url.clone(),
                headers: self.headers.clone(),
                wire: if mode == Mode::Sse { HttpWire::Sse } else { HttpWire::Streamable },
                client,
            },
            (Mode::Http | Mode::Sse, _, None) => {
                return Err(invalid(
                    "has no address",
                    "set `url: https://…`, or `connection_mode: stdio` with a command",
                ));
            }
        };
        Ok(ServerConfig {
            enabled: self.enabled.unwrap_or(true),
            address,
            tools: self.tools.clone(),
            defaults: self.defaults,
            grants: self.grants.clone().unwrap_or_default(),
            sampling: self.sampling.unwrap_or_default(),
            eager: !self.lazy_startup.unwrap_or(global.lazy_startup),
            start_timeout: self.start_timeout.unwrap_or(global.start_timeout).0,
            call_timeout: self.call_timeout.unwrap_or(global.call_timeout).0,
            call_limit: self.call_limit.unwrap_or(global.call_limit).0,
            idle_stop: self.idle_stop.unwrap_or(global.idle_stop).0.map(|span| span.0),
            plugin: self.plugin.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
