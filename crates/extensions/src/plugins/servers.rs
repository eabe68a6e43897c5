//! MCP servers in a plugin, from `mcp.json`, `.mcp.json` and the manifest. No side effects.
//!
//! Only the settings for starting or reaching a server are used. Only the user decides which of the server's tools
//! run without asking, and how these tools are rated.

use std::collections::BTreeMap;

use agentd_core::{plugin::PluginServer, project::ProjectProblem};
use serde_json::{Map, Value, json};

use super::{
    folder::PluginFolder,
    manifest::{ServerSource, inner_path},
};
use crate::files::{agreed_folder::ProblemList as _, front::shown};

/// Maximum number of servers per plugin.
const MAX_SERVERS: usize = 50;
/// Maximum number of arguments, variables and headers per server, in total.
const MAX_PARTS: usize = 100;
/// Maximum length of one string, in bytes.
const MAX_TEXT: usize = 8 << 10;

/// Variables for the plugin's folder, and for the folder that its servers may write to.
const ROOT: &str = "${PLUGIN_ROOT}";
const DATA: &str = "${PLUGIN_DATA}";

/// Variables from other systems, and their equivalents here.
const TRANSLATED: [(&str, &str); 8] = [
    ("${CLAUDE_PLUGIN_ROOT}", ROOT),
    ("${CLAUDE_PLUGIN_DATA}", DATA),
    ("${CLAUDE_PROJECT_DIR}", "${PROJECT}"),
    ("${workspaceFolder}", "${PROJECT}"),
    ("${workspaceRoot}", "${PROJECT}"),
    ("${userHome}", "${HOME}"),
    ("${pathSeparator}", "/"),
    ("${env:", "${"),
];

/// Variables without an equivalent here.
const UNSUPPORTED: [&str; 6] = ["${input:", "${config:", "${command:", "${file", "${workspaceFolder", "${user_config."];

/// Keys of a server that are used or safely ignored.
const KNOWN_KEYS: &str = "$schema args command cwd description env headers name serverUrl title transport type url";

/// Prefixes of variables that decide what loaders, shells, interpreters and package managers run.
const STEERING: &str = "BASH_ BUN_ CARGO CORECLR_ DENO_ DOTNET_ DYLD_ ELECTRON_ GCONV_ GEM_ GIT_ GLIBC_ GOFLAGS GOTOOLCHAIN \
    IFS LD_ LUA_ NODE_ NPM_ OPENSSL_ PERL PHP PIP_ PNPM_ PYTHON RUBY RUSTC UV_ YARN_";
/// Suffixes of variables that decide what runs.
const STEERING_ENDS: &str = "COMMAND EDITOR INDEX_URL OPTIONS OPTS PATH PROXY REGISTRY SHELL";
/// Variables with a prefix in `STEERING` that are harmless.
const HARMLESS: &str = "NODE_ENV PYTHONIOENCODING PYTHONUNBUFFERED PYTHONUTF8";

/// Server entry. Its strings still contain `${PLUGIN_ROOT}` and `${PLUGIN_DATA}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    sse: bool,
}

/// Servers parsed so far, and problems with other servers.
#[derive(Debug, Default)]
pub(super) struct FoundServers {
    pub(super) servers: Vec<ServerEntry>,
    pub(super) problems: Vec<ProjectProblem>,
}

impl FoundServers {
    /// Collects all servers in a plugin.
    pub(super) fn of(folder: &PluginFolder, sources: &[ServerSource]) -> Self {
        let mut found = Self::default();
        for source in sources {
            match source {
                ServerSource::Inline(servers) => found.all("plugin.json", servers, folder),
                ServerSource::File(path) => found.file(path, folder),
            }
        }
        found.servers.sort_by(|left, right| left.name.cmp(&right.name));
        found
    }

    fn file(&mut self, path: &str, folder: &PluginFolder) {
        let text = match folder.text(path) {
            Some(Ok(text)) => text,
            Some(Err(reason)) => return self.problems.refuse(path, reason),
            None => return self.problems.refuse(path, "the manifest lists it, but it does not exist"),
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(file)) => {
                let servers = file.get("mcpServers").or_else(|| file.get("servers")).and_then(Value::as_object);
                self.all(path, servers.unwrap_or(&file), folder);
            }
            Ok(_) => self.problems.refuse(path, "it is not a JSON object"),
            Err(error) => self.problems.refuse(path, format!("invalid JSON: {error}")),
        }
    }

    fn all(&mut self, file: &str, servers: &Map<String, Value>, folder: &PluginFolder) {
        for (name, server) in servers.iter().filter(|(name, _)| !name.starts_with('$')) {
            let read = match server {
                Value::Object(server) => self.server(file, name, server, folder),
                _ => Err("it is not an object".to_owned()),
            };
            match read {
                Ok(entry) if self.servers.iter().any(|other| other.name == entry.name) => {
                    self.problems.refuse(file, format!("another server of this plugin has the name {}", entry.name));
                }
                Ok(_) if self.servers.len() >= MAX_SERVERS => {
                    return self.problems.refuse(file, format!("a plugin can have at most {MAX_SERVERS} servers"));
                }
                Ok(entry) => self.servers.push(entry),
                Err(reason) => self.problems.refuse(file, format!("the server {} is skipped: {reason}", shown(name))),
            }
        }
    }

    fn server(
        &mut self,
        file: &str,
        name: &str,
        server: &Map<String, Value>,
        folder: &PluginFolder,
    ) -> Result<ServerEntry, String> {
        if server.get("disabled").and_then(Value::as_bool) == Some(true) {
            return Err("it is disabled there".to_owned());
        }
        let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
        let pairs = |key: &str| -> BTreeMap<String, String> {
            let pairs = server.get(key).and_then(Value::as_object).into_iter().flatten();
            pairs.map(|(name, value)| (name.clone(), plain(value))).collect()
        };
        let kind = text("type").or_else(|| text("transport")).unwrap_or_default();
        let mut entry = ServerEntry {
            name: valid_name(name),
            command: text("command").filter(|command| !command.trim().is_empty()),
            args: server.get("args").and_then(Value::as_array).into_iter().flatten().map(plain).collect(),
            env: pairs("env"),
            cwd: text("cwd"),
            url: text("url").or_else(|| text("serverUrl")),
            headers: pairs("headers"),
            sse: kind == "sse",
        };
        match (&entry.command, &entry.url) {
            (None, None) => return Err("it has neither a command nor an address".to_owned()),
            (Some(_), Some(_)) => return Err("it has both a command and an address; use one of them".to_owned()),
            _ => {}
        }
        entry.translate(folder)?;
        if entry.name != name {
            self.problems.note(file, format!("the server {} is renamed to {}", shown(name), entry.name));
        }
        for key in server.keys().filter(|key| KNOWN_KEYS.split_ascii_whitespace().all(|known| known != key.as_str())) {
            self.problems.note(file, format!("{}: unknown key {}; it is ignored", entry.name, shown(key)));
        }
        Ok(entry)
    }
}

impl ServerEntry {
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let (args, env, headers) = (self.args.iter_mut(), self.env.values_mut(), self.headers.values_mut());
        let single = [&mut self.command, &mut self.cwd, &mut self.url].into_iter().flatten();
        single.chain(args).chain(env).chain(headers)
    }

    /// Translates variables, and makes the plugin's paths relative to `${PLUGIN_ROOT}`.
    fn translate(&mut self, folder: &PluginFolder) -> Result<(), String> {
        if self.args.len() + self.env.len() + self.headers.len() > MAX_PARTS {
            return Err(format!("it has more than {MAX_PARTS} arguments, variables and headers"));
        }
        let is_odd = |letter: char| letter.is_control() || ('\u{f0000}'..='\u{10ffff}').contains(&letter);
        if self.env.keys().chain(self.headers.keys()).any(|name| name.is_empty() || name.contains(is_odd)) {
            return Err("a name in it is not plain text".to_owned());
        }
        for text in self.texts() {
            if text.len() > MAX_TEXT || text.contains(is_odd) {
                return Err("a string in it is too long, or contains control characters".to_owned());
            }
            for (theirs, ours) in TRANSLATED {
                *text = text.replace(theirs, ours);
            }
            if let Some(unknown) = UNSUPPORTED.iter().find(|unknown| text.contains(*unknown)) {
                return Err(format!("`{unknown}…}}` is not supported"));
            }
            let below_root = text.split(ROOT).skip(1);
            if below_root.clone().any(|rest| rest.split('/').any(|part| part == "..")) {
                return Err(format!("{} leads out of the plugin", shown(text)));
            }
        }
        let command = self.command.as_mut().filter(|command| command.contains('/'));
        for path in command.into_iter().chain(&mut self.cwd).filter(|path| !path.starts_with(['/', '$', '~'])) {
            *path = format!("{ROOT}/{}", inner_path(path)?);
        }
        for arg in self.args.iter_mut().filter(|arg| arg.starts_with("./")) {
            if let Ok(path) = inner_path(arg)
                && (folder.has(&path) || folder.has_folder(&path))
            {
                *arg = format!("{ROOT}/{path}");
            }
        }
        Ok(())
    }

    /// Returns the entry as in `mcp_servers.yaml`, for a plugin in folder `root` that may write to folder `data`.
    pub(super) fn config_entry(&self, root: &str, data: &str) -> Value {
        let mut entry = self.clone();
        let is_program = entry.command.is_some();
        if is_program {
            for (name, value) in [("PLUGIN_ROOT", ROOT), ("CLAUDE_PLUGIN_ROOT", ROOT), ("PLUGIN_DATA", DATA)] {
                entry.env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
            // Otherwise Python would write files into the plugin's folder, and the folder would no longer match the
            // agreed hash.
            entry.env.entry("PYTHONDONTWRITEBYTECODE".to_owned()).or_insert_with(|| "1".to_owned());
            entry.cwd.get_or_insert_with(|| DATA.to_owned());
        }
        for text in entry.texts() {
            *text = text.replace(ROOT, root).replace(DATA, data);
        }
        let Self { command, args, env, cwd, url, headers, sse, .. } = entry;
        if is_program {
            json!({"command": command, "args": args, "env": env, "cwd": cwd, "connection_mode": "stdio"})
        } else {
            let mode = if sse { "sse" } else { "http" };
            json!({"url": url, "headers": headers, "connection_mode": mode})
        }
    }

    /// Returns a description for the user.
    pub(super) fn summary(&self) -> PluginServer {
        let command: Vec<String> = self.command.iter().chain(&self.args).cloned().collect();
        let set = || self.env.iter().chain(&self.headers);
        let steering = self.env.iter().filter(|(name, value)| may_decide_what_runs(name, value));
        let cwd = self.cwd.clone().unwrap_or_else(|| DATA.to_owned());
        let mut reads: Vec<String> = self.clone().texts().flat_map(|text| variables(text)).collect();
        reads.sort();
        reads.dedup();
        PluginServer {
            name: self.name.clone(),
            command: if self.url.is_some() { Vec::new() } else { command },
            url: self.url.clone().unwrap_or_default(),
            sets: set().map(|(name, _)| name.clone()).collect(),
            reads,
            values: set().map(|(name, value)| format!("{name}={value}")).collect(),
            steering: steering.map(|(name, _)| name.clone()).collect(),
            cwd: if self.url.is_some() { String::new() } else { cwd },
        }
    }
}

/// Returns the variables used in a string, except those for the plugin's folders.
fn variables(text: &str) -> Vec<String> {
    let named = text.split("${").skip(1).filter_map(|rest| {
        let name = rest.split_once('}')?.0;
        Some(name.split(":-").next().unwrap_or(name).to_owned())
    });
    named.filter(|name| name != "PLUGIN_ROOT" && name != "PLUGIN_DATA").collect()
}

/// Returns true if a variable may decide which program or code runs, either by its name or because its value is a
/// path.
fn may_decide_what_runs(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let any = |names: &str, fits: &dyn Fn(&str) -> bool| names.split_ascii_whitespace().any(fits);
    let is_address = value.starts_with("https://") || value.starts_with("http://");
    any(STEERING, &|start| name.starts_with(start)) && !any(HARMLESS, &|harmless| name == harmless)
        || any(STEERING_ENDS, &|end| name.ends_with(end))
        || !is_address && ["/", "\\", "~", ROOT, DATA].iter().any(|sign| value.contains(sign))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts a name to one that is valid in the configuration.
fn valid_name(name: &str) -> String {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let fit: String = name.chars().map(|letter| if is_fit(letter) { letter } else { '-' }).take(40).collect();
    let fit = fit.trim_start_matches(['-', '_', '.']);
    if fit.is_empty() { "server".to_owned() } else { fit.to_owned() }
}
