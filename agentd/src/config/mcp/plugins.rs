//! Servers of plugins: below those of all files, and reached as the plugin says, not otherwise.
//!
//! Settings of such a server in `mcp_servers.yaml` that do not say how it is reached hold for it: whether it is
//! enabled, which tools it has and what they do, further variables and headers. An entry of theirs that says how it is reached
//! is another server, and the plugin's is not used.

use std::collections::{BTreeMap, HashMap};

use agentd_extensions::plugins::InstalledPlugin;
use serde_json::json;

use super::{ConfigError, McpFile, Origins, Reader, Server, Sources, check_name, with_marks};
use crate::config::{
    ErrorPlace, Origin,
    layers::{SourceFile, Subject},
};

/// Adds them, and returns the plugin of each.
pub(super) fn add(
    sources: &Sources,
    known: &HashMap<String, String>,
    servers: &mut BTreeMap<String, Server>,
    broken: &mut BTreeMap<String, ConfigError>,
    origins: &mut Origins,
) -> BTreeMap<String, String> {
    let mut of_plugins = BTreeMap::new();
    for plugin in sources.plugins.iter() {
        let file = file(plugin);
        for (name, entry) in &plugin.servers {
            let of_person = servers.get(name).is_some_and(Server::is_reached);
            if of_person || of_plugins.contains_key(name) {
                continue;
            }
            of_plugins.insert(name.clone(), plugin.report.name.clone());
            origins.set(format!("mcp_servers.{name}"), &file.origin);
            let file = SourceFile { text: json!({"servers": {name: entry}}).to_string(), ..file.clone() };
            match read(sources, known, plugin, &file, name, origins) {
                Ok(server) => {
                    let over = servers.remove(name).unwrap_or_default();
                    servers.insert(name.clone(), over.above(server));
                }
                Err(error) => drop(broken.insert(name.clone(), error)),
            }
        }
    }
    of_plugins
}

/// The place of a plugin's servers, for people.
fn file(plugin: &InstalledPlugin) -> SourceFile {
    let path = plugin.report.folder.join("mcp.json");
    SourceFile { subject: Subject::Mcp, origin: Origin::Plugin(plugin.report.name.clone(), path), text: String::new() }
}

fn read(
    sources: &Sources,
    known: &HashMap<String, String>,
    plugin: &InstalledPlugin,
    file: &SourceFile,
    name: &str,
    origins: &mut Origins,
) -> Result<Server, ConfigError> {
    let plugin_name = &plugin.report.name;
    let place = ErrorPlace::Setting(format!("plugin {plugin_name}"));
    check_name(name, &place)?;
    if !plugin.is_used() {
        let message = "its files are not those that you agreed to, so none of its servers starts";
        return Err(
            ConfigError::new(place, message).with_hint(format!("agentctl plugin show {plugin_name} tells which"))
        );
    }
    let (file, variables) = &with_marks(file, known);
    let McpFile { servers, unread, .. } = McpFile::read(file, variables, origins)?;
    if let Some((_, error)) = unread.into_iter().next() {
        return Err(error);
    }
    let mut server = Server { place: Some(place), plugin: Some(plugin_name.clone()), ..Server::default() };
    let reader = Reader { file, sources, variables };
    for entry in servers.into_values() {
        reader.server(entry.value.unwrap_or_default(), &mut server)?;
    }
    Ok(server)
}

impl Server {
    /// Returns whether it says how it is reached.
    fn is_reached(&self) -> bool {
        self.command.is_some() || self.url.is_some()
    }

    /// The person's settings above a plugin's server.
    fn above(self, of_plugin: Self) -> Self {
        let (mut env, mut headers) = (of_plugin.env, of_plugin.headers);
        env.extend(self.env);
        headers.extend(self.headers);
        Self {
            command: of_plugin.command,
            args: of_plugin.args,
            url: of_plugin.url,
            mode: of_plugin.mode,
            home: of_plugin.home,
            cwd: self.cwd.or(of_plugin.cwd),
            place: of_plugin.place,
            plugin: of_plugin.plugin,
            env,
            headers,
            ..self
        }
    }
}
