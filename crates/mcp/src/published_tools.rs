//! Derives the tools offered to models from the configuration and the catalogues of all servers: the tool names, and
//! the selection that fits into every turn. Pure.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use agentd_core::{
    catalogue::{ForeignTool, ServerCard},
    tool::{Effect, ToolSpec},
};
use serde_json::json;

use crate::{
    catalogue::Catalogue,
    config::{McpConfig, ServerConfig, ToolGrants},
    schema,
};

/// All tools that models can be offered.
#[derive(Debug, Default)]
pub struct PublishedTools {
    /// Tools, sorted by name.
    pub specs: Arc<[ToolSpec]>,
    /// Tools that are always offered because of the configuration.
    pub always: BTreeSet<String>,
    /// Tools that are always offered because they fit the limits.
    pub offered: BTreeSet<String>,
    /// Origin of each tool.
    pub foreign: HashMap<String, Arc<ForeignTool>>,
    /// Servers, sorted by name.
    pub servers: Vec<ServerCard>,
    /// Call target for each tool name.
    pub routes: HashMap<String, Route>,
    /// Notes by server: deviations from the configuration, or from the server's definitions.
    pub notes: Vec<(String, String)>,
}

/// Call target for a tool name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Name of the server.
    pub server: String,
    /// Operation of the server.
    pub target: ToolTarget,
    /// [Fingerprint](ServerConfig::fingerprint) of the server.
    pub fingerprint: String,
}

impl Route {
    /// Returns the text that identifies the route.
    pub fn identity(&self) -> String {
        format!("{}/{:?}/{}", self.server, self.target, self.fingerprint)
    }
}

/// Operation of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolTarget {
    /// Calls the tool with this name.
    Tool(String),
    /// Lists the resources of the server.
    ListResources,
    /// Reads a resource of the server.
    ReadResource,
    /// Lists the prompts of the server.
    ListPrompts,
    /// Gets a prompt of the server.
    GetPrompt,
}

/// Derives the tools for models. `reserved` are names in use elsewhere.
pub fn publish<C: Borrow<Catalogue>>(
    config: &McpConfig,
    catalogues: &BTreeMap<String, C>,
    reserved: &dyn Fn(&str) -> bool,
) -> PublishedTools {
    let claimed = claimed_twice(config);
    let (specs, published) = (BTreeMap::new(), PublishedTools::default());
    let prefixes = config.servers.keys().chain(config.broken.keys()).map(|server| prefix(server)).collect();
    let (fingerprint, open, needs_project) = (String::new(), BTreeMap::new(), false);
    let mut publisher = Publisher { prefixes, reserved, claimed, fingerprint, needs_project, specs, open, published };
    for (name, server) in config.enabled() {
        (publisher.fingerprint, publisher.needs_project) = (server.fingerprint(), server.needs_project());
        let known: Option<&Catalogue> = catalogues.get(name).map(Borrow::borrow);
        let known = known.filter(|known| known.fingerprint == publisher.fingerprint);
        publisher.server(name, server, known);
        publisher.published.servers.push(ServerCard {
            name: name.to_owned(),
            about: known.map(|known| schema::line(&known.about)).unwrap_or_default(),
            is_broken: false,
            prefix: prefix(name),
            is_unlisted: known.is_none(),
            needs_project: publisher.needs_project,
            always_available: server.defaults.always_available == Some(true),
        });
    }
    let Publisher { specs, open, mut published, .. } = publisher;
    let broken =
        config.broken.keys().map(|name| ServerCard { name: name.clone(), is_broken: true, ..Default::default() });
    published.servers.extend(broken);
    published.servers.sort_by(|one, other| one.name.cmp(&other.name));
    let sizes: Vec<(String, usize)> = open.iter().map(|(server, offer)| (server.clone(), offer.tools.len())).collect();
    published.offered = within_limits(open, config.offered_tools);
    for (server, tools) in sizes {
        let is_offered = |name: &String| published.foreign.get(name).is_some_and(|foreign| foreign.server == server);
        if !published.offered.iter().any(is_offered) {
            let note = format!(
                "its {tools} tools are not in every request, to save context: @{server} loads them, and models find \
                 them with find_tool; `always_available: true` always offers them"
            );
            published.notes.push((server, note));
        }
    }
    published.specs = specs.into_values().collect();
    published
}

/// Returns the prefix of a server's tool names.
fn prefix(server: &str) -> String {
    schema::all_of(server).trim_end_matches('*').to_owned()
}

/// Returns the aliases claimed by several tools. None of these tools gets the alias, so that its meaning does not
/// depend on which of them are available.
fn claimed_twice(config: &McpConfig) -> BTreeSet<&str> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for (_, server) in config.enabled() {
        let enabled = server.tools.values().filter(|tool| tool.enabled != Some(false));
        for alias in enabled.filter_map(|tool| tool.alias.as_deref()) {
            if !once.insert(alias) {
                twice.insert(alias);
            }
        }
    }
    twice
}

struct Publisher<'a> {
    /// Prefixes of the tool names of all servers.
    prefixes: Vec<String>,
    reserved: &'a dyn Fn(&str) -> bool,
    claimed: BTreeSet<&'a str>,
    /// Fingerprint of the current server.
    fingerprint: String,
    needs_project: bool,
    specs: BTreeMap<String, ToolSpec>,
    /// Tools whose availability is not configured, by server.
    open: BTreeMap<String, OpenTools>,
    published: PublishedTools,
}

impl Publisher<'_> {
    fn server(&mut self, name: &str, server: &ServerConfig, known: Option<&Catalogue>) {
        if self.needs_project {
            self.note(name, "its entry names the project, so only sessions with one get its tools".to_owned());
        }
        let Some(known) = known else {
            // The server was never started. Tools in the configuration are offered anyway, and calling one starts it.
            for tool in server.tools.keys() {
                self.offer(name, server, (tool, ToolTarget::Tool(tool.clone())), "", schema::open());
            }
            return;
        };
        for tool in &known.tools {
            let target = ToolTarget::Tool(tool.name.clone());
            self.offer(name, server, (&tool.name, target), &tool.description, schema::parameters(&tool.schema));
        }
        let exists = |tool: &str| known.tools.iter().any(|known| known.name == tool) || known.has_operation(tool);
        for tool in server.tools.keys().filter(|tool| !exists(tool)) {
            self.note(name, format!("the configuration names a tool `{tool}` that the server does not have"));
        }
        known.odd.iter().for_each(|problem| self.note(name, problem.clone()));
        if known.cut_off {
            self.note(name, format!("too many tools: only its first {} are used", known.tools.len()));
        }
        let no_arguments = json!({"type": "object", "properties": {}, "required": []});
        let uri = json!({"type": "string", "description": "Resource URI, or a filled-in template."});
        let uri = json!({"type": "object", "properties": {"uri": uri}, "required": ["uri"]});
        let prompt = json!({"type": "object", "properties": {
            "name": {"type": "string", "description": "Prompt name."},
            "arguments": {"type": "object", "description": "Prompt arguments."},
        }, "required": ["name"]});
        for (operation, target, about, parameters) in [
            ("list_resources", ToolTarget::ListResources, "List this server's resources.", no_arguments.clone()),
            ("read_resource", ToolTarget::ReadResource, "Read one of this server's resources.", uri),
            ("list_prompts", ToolTarget::ListPrompts, "List this server's prompts.", no_arguments),
            ("get_prompt", ToolTarget::GetPrompt, "Get one of this server's prompts.", prompt),
        ] {
            if known.has_operation(operation) {
                self.offer(name, server, (operation, target), about, parameters);
            }
        }
        // A grant for an unknown tool may be a typing error.
        let ToolGrants::Some(granted) = &server.grants else { return };
        for tool in granted.iter().map(|tool| shown(tool)) {
            if !self.published.foreign.values().any(|foreign| foreign.server == name && foreign.tool == tool) {
                self.note(name, format!("`grants` names a tool `{tool}` that the server does not have"));
            }
        }
    }

    /// Adds a tool of the server, or one of its resource and prompt operations.
    fn offer(
        &mut self,
        server: &str,
        config: &ServerConfig,
        (tool, target): (&str, ToolTarget),
        about: &str,
        parameters: serde_json::Value,
    ) {
        let setting = config.tool(tool);
        if setting.enabled == Some(false) {
            return;
        }
        let is_tool = matches!(target, ToolTarget::Tool(_));
        let (alias, description) = (setting.alias.as_deref(), setting.description.as_deref());
        let name = self.name(server, tool, alias.filter(|_| is_tool));
        if (self.reserved)(&name) || self.specs.contains_key(&name) {
            let note = match is_tool {
                true => format!("`{name}` is taken; `{}` is skipped", shown(tool)),
                false => format!("`{name}` is already a tool; this server's {tool} is skipped"),
            };
            return self.note(server, note);
        }
        let spec = ToolSpec {
            name: name.clone(),
            description: schema::description(server, description.filter(|_| is_tool).unwrap_or(about)),
            parameters,
            // The server's claim that a tool is harmless is not trusted.
            effect: setting.effect.unwrap_or(Effect::Execute),
        };
        match setting.always_available {
            Some(true) => drop(self.published.always.insert(name.clone())),
            Some(false) => {}
            None => self.open.entry(server.to_owned()).or_default().add(&spec),
        }
        let foreign = ForeignTool {
            server: server.to_owned(),
            tool: shown(tool),
            rule: schema::name(server, tool),
            server_rule: schema::all_of(server),
            entry: self.fingerprint.clone(),
            granted: config.grants.contains(tool),
            needs_project: self.needs_project,
        };
        self.published.foreign.insert(name.clone(), Arc::new(foreign));
        let route = Route { server: server.to_owned(), target, fingerprint: self.fingerprint.clone() };
        self.published.routes.insert(name.clone(), route);
        self.specs.insert(name, spec);
    }

    /// Returns the alias of the tool if it is usable, otherwise a name derived from the server and tool names. Neither
    /// depends on other servers or their tools.
    fn name(&mut self, server: &str, tool: &str, alias: Option<&str>) -> String {
        let own = schema::name(server, tool);
        let Some(alias) = alias else { return own };
        let reason = if !schema::is_valid_name(alias) {
            "cannot be used: a name can have only ASCII letters, digits, `_` and `-`, at most 64"
        } else if self.prefixes.iter().any(|prefix| alias.starts_with(prefix.as_str())) {
            "cannot be used: it has the prefix of a server's tools"
        } else if (self.reserved)(alias) {
            "is taken"
        } else if self.claimed.contains(alias) {
            "is given to several tools"
        } else {
            return alias.to_owned();
        };
        self.note(server, format!("the alias `{alias}` {reason}; `{}` is called `{own}`", shown(tool)));
        own
    }

    fn note(&mut self, server: &str, note: String) {
        self.published.notes.push((server.to_owned(), note));
    }
}

/// Maximum total size of tools without configured availability in each request, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Tools of one server whose availability is not configured. A model with hundreds of tools chooses badly, and each
/// request repeats them. These tools are therefore offered in every turn only while the tools of all servers are few.
#[derive(Debug, Default)]
struct OpenTools {
    tools: Vec<String>,
    bytes: usize,
}

impl OpenTools {
    fn add(&mut self, spec: &ToolSpec) {
        self.tools.push(spec.name.clone());
        self.bytes += spec.name.len() + spec.description.len() + spec.parameters.to_string().len();
    }
}

/// Selects the tools that fit. The tools of the largest server are dropped first; among servers of equal size, the
/// tools of the last server by name. The result depends only on the servers' tools, so it is stable while the tools do
/// not change.
fn within_limits(mut offers: BTreeMap<String, OpenTools>, limit: usize) -> BTreeSet<String> {
    loop {
        let tools: usize = offers.values().map(|offer| offer.tools.len()).sum();
        let bytes: usize = offers.values().map(|offer| offer.bytes).sum();
        let largest = if tools > limit {
            offers.iter().max_by_key(|(name, offer)| (offer.tools.len(), *name))
        } else if bytes > MAX_BYTES {
            offers.iter().max_by_key(|(name, offer)| (offer.bytes, *name))
        } else {
            None
        };
        let Some(largest) = largest.map(|(name, _)| name.clone()) else {
            return offers.into_values().flat_map(|offer| offer.tools).collect();
        };
        offers.remove(&largest);
    }
}

/// Returns the name chosen by a server, for display.
pub(crate) fn shown(name: &str) -> String {
    agentd_core::untrusted::sanitize(name).replace('\n', " ").chars().take(100).collect()
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
