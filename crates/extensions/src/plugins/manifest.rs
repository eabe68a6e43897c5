//! Parses `plugin.json`: a plugin's name, and the paths of its parts. No side effects.
//!
//! Plugins come from many systems. Unknown fields are reported and ignored. Parts that agentd does not support are
//! reported and never used. Paths that lead out of the plugin are rejected.

use agentd_core::{guide::is_skill_name, project::ProjectProblem};
use agentd_workspace::text::first_chars;
use serde_json::{Map, Value};

use super::folder::PluginFolder;
use crate::files::{agreed_folder::ProblemList as _, front::shown};

/// Locations of the manifest. The first one found is used.
const MANIFESTS: [&str; 6] = [
    "plugin.json",
    ".plugin/plugin.json",
    ".claude-plugin/plugin.json",
    ".codex-plugin/plugin.json",
    ".cursor-plugin/plugin.json",
    ".github/plugin/plugin.json",
];

/// Files that list several plugins in one folder.
pub(super) const MARKETPLACES: [&str; 2] = [".claude-plugin/marketplace.json", "marketplace.json"];

/// Fields that agentd ignores.
const IGNORED_FIELDS: &str = "$schema author category compatibility dependencies displayName engines extensions icon id interface keywords \
    logo mcp repository strict tags title";

/// Fields of unsupported parts, and their usual locations in other systems.
const UNSUPPORTED: [(&str, &[&str]); 9] = [
    ("hooks", &["hooks", "hooks.json"]),
    ("lspServers", &[".lsp.json"]),
    ("monitors", &["monitors"]),
    ("outputStyles", &["output-styles"]),
    ("rules", &["rules"]),
    ("settings", &["settings.json"]),
    ("themes", &["themes"]),
    ("userConfig", &[]),
    ("channels", &[]),
];

/// Maximum number of characters stored per string.
const MAX_TEXT: usize = 500;
/// Maximum number of paths in one field.
const MAX_PATHS: usize = 200;

/// Source of an MCP server description.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerSource {
    /// File in the plugin.
    File(String),
    /// Field in the manifest.
    Inline(Map<String, Value>),
}

/// Parsed manifest of a plugin.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) license: String,
    pub(super) homepage: String,
    /// Folders of skills, and folders that contain such folders.
    pub(super) skills: Vec<String>,
    /// Folders and files of agents.
    pub(super) agents: Vec<String>,
    /// Folders and files of commands.
    pub(super) commands: Vec<String>,
    pub(super) servers: Vec<ServerSource>,
    /// Parts that agentd does not support.
    pub(super) unsupported: Vec<String>,
    pub(super) problems: Vec<ProjectProblem>,
}

impl Manifest {
    /// Parses the manifest. `fallback` is the plugin's name if there is no manifest.
    ///
    /// # Errors
    /// Returns the reason why the folder is not a plugin.
    pub(super) fn of(folder: &PluginFolder, fallback: &str) -> Result<Self, String> {
        let found = MANIFESTS.iter().find_map(|path| Some((*path, folder.text(path)?)));
        let mut manifest = Self::default();
        let (file, fields) = match found {
            Some((path, text)) => {
                let text = text.map_err(|reason| format!("{path}: {reason}"))?;
                let fields =
                    serde_json::from_str::<Value>(text).map_err(|error| format!("{path}: invalid JSON: {error}"))?;
                let Value::Object(fields) = fields else { return Err(format!("{path}: not a JSON object")) };
                (path, fields)
            }
            None => {
                manifest
                    .problems
                    .note("", format!("there is no plugin.json, so the plugin has the name of its folder: {fallback}"));
                ("", Map::new())
            }
        };
        manifest.name = match fields.get("name") {
            Some(Value::String(name)) => name.trim().to_owned(),
            Some(_) => return Err(format!("{file}: `name` must be a string")),
            None => fallback.to_owned(),
        };
        if !is_skill_name(&manifest.name) {
            return Err(format!(
                "{} is not a valid plugin name; use letters, digits, `-`, `_` and `.`, at most 64",
                shown(&manifest.name)
            ));
        }
        for (key, value) in &fields {
            manifest.field(file, key, value)?;
        }
        manifest.add_default_locations(folder, &fields);
        Ok(manifest)
    }

    fn field(&mut self, file: &str, key: &str, value: &Value) -> Result<(), String> {
        let text = || value.as_str().map(line);
        match key {
            "name" => {}
            "version" => self.version = text().unwrap_or_else(|| line(&value.to_string())),
            "description" => self.description = text().unwrap_or_default(),
            "license" => self.license = text().unwrap_or_default(),
            "homepage" => self.homepage = text().unwrap_or_default(),
            "skills" => self.skills = self.paths(file, key, value)?,
            "agents" => self.agents = self.paths(file, key, value)?,
            "commands" => self.commands = self.paths(file, key, value)?,
            "mcpServers" => self.servers = self.server_sources(file, value)?,
            key if UNSUPPORTED.iter().any(|(field, _)| *field == key) => self.unsupported.push(key.to_owned()),
            key if IGNORED_FIELDS.split(' ').any(|field| field == key) => {}
            other => self.problems.note(file, format!("unknown key {}; it is ignored", shown(other))),
        }
        Ok(())
    }

    /// Returns the paths in a field, relative to the plugin's folder.
    fn paths(&mut self, file: &str, key: &str, value: &Value) -> Result<Vec<String>, String> {
        let listed = match value {
            Value::String(path) => vec![path.as_str()],
            Value::Array(paths) if paths.len() <= MAX_PATHS => paths.iter().filter_map(Value::as_str).collect(),
            _ => {
                self.problems
                    .note(file, format!("`{key}` is neither a path nor a list of at most {MAX_PATHS} paths; ignored"));
                return Ok(Vec::new());
            }
        };
        listed.into_iter().map(|path| inner_path(path).map_err(|reason| format!("{file}: `{key}`: {reason}"))).collect()
    }

    fn server_sources(&mut self, file: &str, value: &Value) -> Result<Vec<ServerSource>, String> {
        if let Value::Object(servers) = value {
            return Ok(vec![ServerSource::Inline(servers.clone())]);
        }
        let inline = value.as_array().into_iter().flatten().filter_map(Value::as_object);
        let inline: Vec<_> = inline.map(|servers| ServerSource::Inline(servers.clone())).collect();
        let files = self.paths(file, "mcpServers", value)?.into_iter().map(ServerSource::File);
        Ok(files.chain(inline).collect())
    }

    /// Adds the default locations of parts.
    fn add_default_locations(&mut self, folder: &PluginFolder, fields: &Map<String, Value>) {
        for (paths, usual, always) in [
            (&mut self.skills, "skills", true),
            (&mut self.agents, "agents", false),
            (&mut self.commands, "commands", false),
        ] {
            let is_named = fields.contains_key(usual) && !always;
            if !is_named && folder.has_folder(usual) && !paths.iter().any(|path| path == usual) {
                paths.insert(0, usual.to_owned());
            }
        }
        for usual in ["mcp.json", ".mcp.json"] {
            let source = ServerSource::File(usual.to_owned());
            if folder.has(usual) && !self.servers.contains(&source) {
                self.servers.push(source);
            }
        }
        for (key, locations) in UNSUPPORTED {
            let exists = locations.iter().any(|location| folder.has(location) || folder.has_folder(location));
            if exists && !self.unsupported.iter().any(|other| other == key) {
                self.unsupported.push(key.to_owned());
            }
        }
    }
}

/// Converts a path in the manifest to a path relative to the plugin's folder, without a leading `./` or a trailing
/// `/`.
///
/// # Errors
/// Fails if the path leads outside.
pub(super) fn inner_path(path: &str) -> Result<String, String> {
    let outside = || format!("{} leads out of the plugin", shown(path));
    let rest =
        ["${PLUGIN_ROOT}/", "${CLAUDE_PLUGIN_ROOT}/"].iter().find_map(|root| path.strip_prefix(root)).unwrap_or(path);
    if rest.starts_with(['/', '~']) || rest.contains(['\\', '\0']) {
        return Err(outside());
    }
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") { Err(outside()) } else { Ok(parts.join("/")) }
}

/// Formats text from the plugin as one line, without control characters.
fn line(text: &str) -> String {
    let single_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = single_line.chars().filter(|letter| !letter.is_control()).collect();
    first_chars(&plain, MAX_TEXT).0.to_owned()
}
