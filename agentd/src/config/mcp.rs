//! `mcp_servers.yaml`: the MCP servers, how they are reached, and what of them models are offered.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use agentd_core::tool::Effect;
use agentd_mcp::{
    McpConfig, ServerConfig,
    config::{HttpWire, Reached, Sampling, ToolSetting, Written},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, Place, Sources,
    in_text::InText,
    layers::{SourceFile, Subject},
    origin::{Origin, Origins},
    value::{Limit, Span},
    yaml,
};

/// The longest name of a server: it stands in the names of its tools.
const LONGEST_NAME: usize = 40;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct McpFile {
    global: Option<GlobalFile>,
    servers: Option<BTreeMap<String, Spanned<Option<ServerFile>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GlobalFile {
    lazy_startup: Option<bool>,
    start_timeout: Option<Span>,
    call_timeout: Option<Span>,
    call_limit: Option<Span>,
    idle_stop: Option<Limit<Span>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerFile {
    enabled: Option<bool>,
    command: Option<Spanned<String>>,
    args: Option<Vec<Spanned<String>>>,
    env: Option<BTreeMap<String, Spanned<String>>>,
    cwd: Option<Spanned<String>>,
    #[serde(alias = "type")]
    connection_mode: Option<Mode>,
    url: Option<Spanned<String>>,
    headers: Option<BTreeMap<String, Spanned<String>>>,
    sampling: Option<MayAsk>,
    lazy_startup: Option<bool>,
    start_timeout: Option<Span>,
    call_timeout: Option<Span>,
    call_limit: Option<Span>,
    idle_stop: Option<Limit<Span>>,
    tools: Option<BTreeMap<String, Option<ToolFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolFile {
    enabled: Option<bool>,
    always_available: Option<bool>,
    alias: Option<String>,
    description: Option<String>,
    effect: Option<Does>,
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Stdio,
    Sse,
    #[serde(alias = "streamable_http", alias = "streamable-http")]
    Http,
}

/// Whether a server may ask a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MayAsk {
    Never,
    Ask,
}

/// What a person says that calls of a tool can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Does {
    Read,
    Write,
    Execute,
}

/// What the layers add up to for one server.
#[derive(Debug, Default)]
struct Server {
    enabled: Option<bool>,
    command: Option<String>,
    args: Vec<Written>,
    env: BTreeMap<String, SecretString>,
    cwd: Option<PathBuf>,
    /// The folder of the file that named the command.
    home: PathBuf,
    mode: Option<Mode>,
    url: Option<Written>,
    headers: BTreeMap<String, SecretString>,
    sampling: Option<MayAsk>,
    times: Times,
    tools: BTreeMap<String, ToolSetting>,
    /// Where it was named last.
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    lazy: Option<bool>,
    start: Option<Duration>,
    call: Option<Duration>,
    all: Option<Duration>,
    idle: Option<Option<Duration>>,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<McpConfig, ConfigError> {
    let variables = sources.env.texts();
    let mut global = Times::default();
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    for file in sources.files_about(Subject::Mcp) {
        let McpFile { global: over, servers: named } = yaml::parse(file, &variables)?;
        let reader = Reader { file, sources, variables: &variables };
        if let Some(over) = over {
            reader.global(over, &mut global, origins);
        }
        for (name, over) in named.into_iter().flatten() {
            let place = yaml::place(file, over.defined);
            check_name(&name, &place)?;
            origins.set(format!("mcp_servers.{name}"), &file.origin);
            let server = servers.entry(name).or_default();
            server.place = Some(place);
            reader.server(over.value.unwrap_or_default(), server)?;
        }
    }
    let complete = |(name, server): (String, Server)| Ok((name.clone(), server.complete(&name, global)?));
    Ok(McpConfig { servers: servers.into_iter().map(complete).collect::<Result<_, ConfigError>>()? })
}

/// Looks whether the person's file could have this text.
///
/// # Errors
/// The first thing in it that makes no sense, with its place.
pub fn over(sources: &Sources, text: String, path: PathBuf) -> Result<(), ConfigError> {
    let mut tried = sources.clone();
    tried.files.retain(|file| !(file.subject == Subject::Mcp && matches!(file.origin, Origin::User(_))));
    tried.files.push(SourceFile { subject: Subject::Mcp, origin: Origin::User(path), text });
    resolve(&tried, &mut Origins::default()).map(drop)
}

/// A name of a server is a part of the names of its tools, and of commands that a person types.
fn check_name(name: &str, place: &Place) -> Result<(), ConfigError> {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let starts_well = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if starts_well && name.len() <= LONGEST_NAME && name.chars().all(is_fit) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(ConfigError::new(place.clone(), format!("`{shown}` cannot be the name of an MCP server")).with_hint(format!(
        "a name begins with a letter or a digit and has letters of ASCII, digits, `-`, `_` and `.`, at most {LONGEST_NAME}"
    )))
}

/// Reads what one file says over what those below it said.
struct Reader<'a> {
    file: &'a SourceFile,
    sources: &'a Sources,
    variables: &'a HashMap<String, String>,
}

impl Reader<'_> {
    fn global(&self, over: GlobalFile, global: &mut Times, origins: &mut Origins) {
        let GlobalFile { lazy_startup, start_timeout, call_timeout, call_limit, idle_stop } = over;
        for (key, is_set) in [
            ("lazy_startup", lazy_startup.is_some()),
            ("start_timeout", start_timeout.is_some()),
            ("call_timeout", call_timeout.is_some()),
            ("call_limit", call_limit.is_some()),
            ("idle_stop", idle_stop.is_some()),
        ] {
            if is_set {
                origins.set(format!("mcp_servers.global.{key}"), &self.file.origin);
            }
        }
        global.overlay(lazy_startup, start_timeout, call_timeout, call_limit, idle_stop);
    }

    fn server(&self, over: ServerFile, server: &mut Server) -> Result<(), ConfigError> {
        if let Some(command) = &over.command {
            server.command = Some(self.text(command)?);
            server.home = self.file.folder();
        }
        if let Some(args) = &over.args {
            let texts = args.iter().map(|arg| self.text(arg)).collect::<Result<Vec<_>, _>>()?;
            server.args = self.secrets().of_args(texts);
        }
        if let Some(cwd) = &over.cwd {
            server.cwd = Some(self.sources.path_in(self.file, &self.text(cwd)?));
        }
        if let Some(url) = &over.url {
            let text = self.text(url)?;
            check_url(&text).map_err(|why| self.refuse(url, why))?;
            server.url = Some(self.secrets().of_url(text));
        }
        for (name, value) in over.env.iter().flatten() {
            if name.is_empty() || name.contains(['=', '\0']) || value.value.contains('\0') {
                return Err(self.refuse(value, "this cannot be a variable of the environment"));
            }
            server.env.insert(name.clone(), self.text(value)?.into());
        }
        for (name, value) in over.headers.iter().flatten() {
            let text = self.text(value)?;
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
            let fits = !name.is_empty() && name.chars().all(is_token) && !text.contains(['\n', '\r', '\0']);
            if !fits {
                return Err(self.refuse(value, "this cannot be a header"));
            }
            server.headers.insert(name.clone(), text.into());
        }
        server.enabled = over.enabled.or(server.enabled);
        server.mode = over.connection_mode.or(server.mode);
        server.sampling = over.sampling.or(server.sampling);
        server.times.overlay(over.lazy_startup, over.start_timeout, over.call_timeout, over.call_limit, over.idle_stop);
        for (name, over) in over.tools.into_iter().flatten() {
            overlay(server.tools.entry(name).or_default(), over.unwrap_or_default());
        }
        Ok(())
    }

    fn text(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        yaml::text(self.file, value, self.variables)
    }

    fn secrets(&self) -> InText<'_> {
        InText::new(&self.file.text, self.variables)
    }

    fn refuse(&self, value: &Spanned<String>, why: &str) -> ConfigError {
        ConfigError::new(yaml::place(self.file, value.defined), why)
    }
}

fn overlay(tool: &mut ToolSetting, over: ToolFile) {
    let ToolFile { enabled, always_available, alias, description, effect } = over;
    tool.enabled = enabled.or(tool.enabled);
    tool.always_available = always_available.or(tool.always_available);
    tool.alias = alias.or(tool.alias.take()).filter(|alias| !alias.is_empty());
    tool.description = description.or(tool.description.take());
    let effect = effect.map(|does| match does {
        Does::Read => Effect::Read,
        Does::Write => Effect::Write,
        Does::Execute => Effect::Execute,
    });
    tool.effect = effect.or(tool.effect);
}

impl Times {
    fn overlay(
        &mut self,
        lazy: Option<bool>,
        start: Option<Span>,
        call: Option<Span>,
        all: Option<Span>,
        idle: Option<Limit<Span>>,
    ) {
        self.lazy = lazy.or(self.lazy);
        self.start = start.map(|span| span.0).or(self.start);
        self.call = call.map(|span| span.0).or(self.call);
        self.all = all.map(|span| span.0).or(self.all);
        self.idle = idle.map(|limit| limit.0.map(|span| span.0)).or(self.idle);
    }
}

impl Server {
    fn complete(self, name: &str, global: Times) -> Result<ServerConfig, ConfigError> {
        let wrong = |why: &str, hint: &str| {
            let place = self.place.clone().unwrap_or_else(|| Place::Setting(format!("mcp_servers.{name}")));
            ConfigError::new(place, format!("the MCP server `{name}` {why}")).with_hint(hint)
        };
        let mode = self.mode.unwrap_or(if self.url.is_some() { Mode::Http } else { Mode::Stdio });
        let reached = match (mode, &self.command, &self.url) {
            (Mode::Stdio, Some(command), _) if !command.trim().is_empty() => Reached::Stdio {
                command: command.clone(),
                args: self.args.clone(),
                env: self.env.clone(),
                // Relative paths in it belong to the file that says them.
                cwd: self.cwd.clone().unwrap_or_else(|| self.home.clone()),
            },
            (Mode::Stdio, ..) => {
                return Err(wrong(
                    "has no command",
                    "say `command: npx` with its `args`, or `url:` for one behind an address",
                ));
            }
            (Mode::Http | Mode::Sse, _, Some(url)) => Reached::Http {
                url: url.clone(),
                headers: self.headers.clone(),
                wire: if mode == Mode::Sse { HttpWire::Sse } else { HttpWire::Streamable },
            },
            (Mode::Http | Mode::Sse, _, None) => {
                return Err(wrong(
                    "has no address",
                    "say `url: https://…`, or `connection_mode: stdio` with a command",
                ));
            }
        };
        let missing =
            |key: &str| ConfigError::new(Place::Setting(format!("mcp_servers.global.{key}")), "no layer sets this key");
        let times = &self.times;
        Ok(ServerConfig {
            enabled: self.enabled.unwrap_or(true),
            reached,
            tools: self.tools.clone(),
            sampling: match self.sampling {
                None | Some(MayAsk::Never) => Sampling::Never,
                Some(MayAsk::Ask) => Sampling::Ask,
            },
            eager: !times.lazy.or(global.lazy).ok_or_else(|| missing("lazy_startup"))?,
            start_timeout: times.start.or(global.start).ok_or_else(|| missing("start_timeout"))?,
            call_timeout: times.call.or(global.call).ok_or_else(|| missing("call_timeout"))?,
            call_limit: times.all.or(global.all).ok_or_else(|| missing("call_limit"))?,
            idle_stop: times.idle.or(global.idle).ok_or_else(|| missing("idle_stop"))?,
        })
    }
}

/// What is wrong is said without the address: it may hold a password.
fn check_url(text: &str) -> Result<(), &'static str> {
    match url::Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("it begins with http:// or https://"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("it holds a name or a password before the @; a key stands in `headers`")
        }
        Ok(_) => Ok(()),
        Err(_) => Err("it is not an address such as https://example.org/mcp"),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::config::{Flags, layers};

    fn read(texts: &[&str]) -> Result<McpConfig, ConfigError> {
        let mut files = layers::built_in();
        files.extend(texts.iter().map(|text| SourceFile {
            subject: Subject::Mcp,
            origin: Origin::User("/conf/mcp_servers.yaml".into()),
            text: (*text).to_owned(),
        }));
        let env = [("HOME", "/home/me"), ("TOKEN", "hunter2"), ("LONG", "sup3rsecret")].into_iter().collect();
        resolve(&Sources { files, env, flags: Flags::default() }, &mut Origins::default())
    }

    #[test]
    fn the_usual_form_is_read_as_it_is() {
        let config = read(&[r#"
global:
  lazy_startup: true
servers:
  filesystem:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/allowed"]
    enabled: true
    env:
      DEBUG: "true"
      PORT: 3000
      KEY: "${TOKEN}"
    connection_mode: "stdio"
    tools:
      read_file:
        enabled: true
        always_available: false
        alias: "fs_read"
        description: "Read file contents from allowed directory"
      write_file:
        enabled: false
  remote: {connection_mode: sse, url: "https://example.org/sse", sampling: ask, headers: {Authorization: "Bearer ${TOKEN}"}}
  bare: {url: "http://localhost:1/mcp", idle_stop: never, call_timeout: 5s}
"#])
        .unwrap();
        let files = &config.servers["filesystem"];
        let Reached::Stdio { command, args, env, cwd } = &files.reached else { panic!("{files:?}") };
        assert_eq!((command.as_str(), args.len(), cwd.to_str()), ("npx", 3, Some("/conf")));
        assert_eq!(files.place(), "npx -y @modelcontextprotocol/server-filesystem /path/to/allowed");
        assert_eq!((env["PORT"].expose_secret(), env["KEY"].expose_secret()), ("3000", "hunter2"));
        assert_eq!(files.tool("read_file").alias.as_deref(), Some("fs_read"));
        assert_eq!(files.tool("write_file").enabled, Some(false));
        assert!(!files.eager && files.enabled && files.idle_stop.is_some());
        let Reached::Http { wire: HttpWire::Sse, headers, .. } = &config.servers["remote"].reached else { panic!() };
        assert_eq!(headers["Authorization"].expose_secret(), "Bearer hunter2");
        assert_eq!((config.servers["remote"].sampling, files.sampling), (Sampling::Ask, Sampling::Never));
        let bare = &config.servers["bare"];
        assert!(matches!(bare.reached, Reached::Http { wire: HttpWire::Streamable, .. }));
        assert_eq!((bare.idle_stop, bare.call_timeout), (None, Duration::from_secs(5)));
        assert!(config.secrets().any(|secret| secret == "hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn a_layer_changes_only_what_it_names() {
        let config = read(&[
            "servers: {a: {command: x, args: [1], tools: {t: {alias: one, enabled: true}}}}",
            "servers: {a: {enabled: false, cwd: '~/there', tools: {t: {description: d, effect: read}}}}",
        ])
        .unwrap();
        let server = &config.servers["a"];
        let Reached::Stdio { args, cwd, .. } = &server.reached else { panic!("{server:?}") };
        assert_eq!(
            (server.enabled, args.as_slice(), cwd.to_str()),
            (false, &[Written::from("1")][..], Some("/home/me/there"))
        );
        let tool = server.tool("t");
        assert_eq!((tool.alias.as_deref(), tool.enabled, tool.effect), (Some("one"), Some(true), Some(Effect::Read)));
    }

    #[test]
    fn what_a_variable_puts_into_a_text_is_shown_by_its_name() {
        let config = read(&[r#"
servers:
  a: {command: x, args: ["--key=${LONG}", "${HOME}/x", --password, written-out, "--header", "A: Bearer abc.defghi"]}
  b: {url: "http://x/${LONG}/y?key=also-written&a=b"}
  c:
    command: x
    args:
      - plain ${LONG}
"#])
        .unwrap();
        let place = |name: &str| config.servers[name].place();
        let shown = "x --key=${LONG} ${HOME}/x --password […] --header A: Bearer […]";
        assert_eq!((place("a").as_str(), place("b").as_str()), (shown, "http://x/${LONG}/y"));
        assert_eq!(place("c"), "x plain ${LONG}");
        let Reached::Stdio { args, .. } = &config.servers["a"].reached else { panic!() };
        assert_eq!(args[0].value, "--key=sup3rsecret");
        let secrets: Vec<&str> = config.secrets().collect();
        for secret in ["sup3rsecret", "written-out", "abc.defghi", "also-written"] {
            assert!(secrets.contains(&secret), "{secret}: {secrets:?}");
            assert!(!format!("{config:?}").contains(secret), "{secret}");
        }
        assert!(!secrets.iter().any(|secret| secret.contains("/home/me")), "{secrets:?}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, parts) in [
            ("servers: {a: {comand: x}}", ["mcp_servers.yaml:1:15", "did you mean `command`?"]),
            ("servers: {a: {command: x, tools: {t: {enable: true}}}}", ["1:39", "did you mean `enabled`?"]),
            ("servers: {a: {}}", ["1:14", "has no command"]),
            ("servers: {a: {connection_mode: sse}}", ["1:14", "has no address"]),
            ("servers: {a: {connection_mode: htpp, url: 'http://x'}}", ["1:32", "did you mean `http`?"]),
            ("servers: {a: {url: 'ftp://x'}}", ["1:20", "begins with http"]),
            ("servers: {a: {url: 'https://me:hunter2@x/'}}", ["1:20", "password before the @"]),
            ("servers: {a: {command: x, sampling: always}}", ["1:37", "unknown value `always`"]),
            ("servers: {'a b': {command: x}}", ["1:18", "cannot be the name"]),
            ("servers: {a: {command: x, call_timeout: soon}}", ["1:41", "is not a time"]),
            ("servers: {a: {command: x, env: {K: '${NOT_SET}'}}}", ["1:36", "NOT_SET is not set"]),
        ] {
            let error = read(&[text]).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
