//! The daemon's toolbox: agentd's own tools and the tools of MCP servers.
//!
//! `tools.yaml` configures when each tool is offered and can replace its description. A tool that is currently
//! unavailable is never offered, regardless of the settings. `tools.yaml` and `mcp_servers.yaml` do not apply to the
//! MCP servers of a session, which are provided by a client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ToolLabel, ToolOrigin, ToolTier, UnlistedServer},
    ids::SessionId,
    mutex::lock,
    ports::{ToolContext, ToolUser, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use agentd_mcp::{McpPool, McpToolbox, SessionServers, published_tools::PublishedTools, session::is_of_session_server};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::config::{ToolSettings, nearest};

/// Prefix of `stands_for` for a tool of a session server, followed by the session ID and a space. The values for
/// configured servers start with the server name, which contains no space.
const SESSION_MARK: &str = "session ";

/// Message to a model if the session's MCP server no longer exists.
const SERVER_GONE: &str = "the client's MCP server with this tool is gone: agentd restarted, or the client removed the \
                           server. The call did not run. Continue without this tool, and mention it if relevant";

/// All tools of the daemon: agentd's own tools, and the tools of configured MCP servers and of session servers.
pub struct DaemonTools {
    builtin: Arc<dyn Toolbox>,
    /// The MCP servers of the configuration, shared by all sessions.
    pool: Arc<McpPool>,
    servers: Arc<SessionServers>,
    /// Names of tools that are unavailable in this run. Reloads do not change the list.
    unavailable: Vec<&'static str>,
    /// The settings and the catalogue built from them. Only locked for short lookups.
    current: Mutex<ConfiguredCatalogue>,
    /// Catalogues of sessions with their own servers, as of their last use. Only locked for short lookups.
    merged_tools: Mutex<HashMap<SessionId, MergedTools>>,
}

/// Catalogue together with the inputs from which it was built.
struct ConfiguredCatalogue {
    settings: ToolSettings,
    /// Names of tools that are currently unavailable.
    unavailable: Vec<&'static str>,
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
    specs: Arc<[ToolSpec]>,
}

impl DaemonTools {
    /// Creates the toolbox. Offers neither the tools in `unavailable`, which cannot work in this run, nor those in
    /// `now`, which currently cannot work. Names in `builtin` never occur in `pool`, and names in either never occur in
    /// `servers`.
    pub fn new(
        builtin: Arc<dyn Toolbox>,
        pool: Arc<McpPool>,
        servers: Arc<SessionServers>,
        settings: &ToolSettings,
        unavailable: Vec<&'static str>,
        now: Vec<&'static str>,
    ) -> Self {
        let current = Mutex::new(build(&*builtin, pool.published(), settings.clone(), [&unavailable, &now]));
        Self { builtin, pool, servers, unavailable, current, merged_tools: Mutex::default() }
    }

    /// Returns all current tools, regardless of the settings.
    pub fn all(&self) -> Vec<ToolSpec> {
        all(&self.builtin.catalogue(), &self.pool.published()).tools.into_iter().map(|tool| tool.spec).collect()
    }

    /// Applies new settings, starting with the next turn. The tools in `unavailable` are currently unavailable.
    pub fn follow_settings(&self, settings: &ToolSettings, unavailable: Vec<&'static str>) {
        let mut current = lock(&self.current);
        if current.settings != *settings || current.unavailable != unavailable {
            let published = Arc::clone(&current.published);
            *current = build(&*self.builtin, published, settings.clone(), [&self.unavailable, &unavailable]);
        }
    }

    /// Passes the current catalogue to `read`. Rebuilds the catalogue if servers offer other tools. Queries servers
    /// that have never been queried in the background.
    fn with_current<T>(&self, read: impl FnOnce(&ConfiguredCatalogue) -> T) -> T {
        self.pool.list_missing();
        let published = self.pool.published();
        let mut current = lock(&self.current);
        if !Arc::ptr_eq(&current.published, &published) {
            let (settings, unavailable) =
                (std::mem::take(&mut current.settings), std::mem::take(&mut current.unavailable));
            *current = build(&*self.builtin, published, settings, [&self.unavailable, &unavailable]);
        }
        read(&current)
    }

    /// Returns a refusal if the tool is unknown or disabled. The engine checks that the tool was shown to the model.
    fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        let name = self.builtin.canonical_name(&call.name);
        let is_enabled =
            self.with_current(|current| current.specs.iter().any(|spec| spec.name == name || spec.name == call.name));
        let message = "unknown or disabled tool; use another one";
        (!is_enabled).then(|| ToolOutput::error(ToolErrorCode::UnknownTool, message))
    }

    /// Returns the toolbox for a tool that all sessions share.
    fn toolbox_of(&self, call: &ToolCall) -> Arc<dyn Toolbox> {
        let from_mcp = McpToolbox::new(Arc::clone(&self.pool));
        if from_mcp.has(&call.name) { Arc::new(from_mcp) } else { Arc::clone(&self.builtin) }
    }

    /// Returns the shared toolbox for a call in a turn. A server's tool may have taken over the alias of a built-in
    /// tool since the turn started. The name refers to the server's tool only if that tool was offered in the turn,
    /// because the rules were then evaluated for that tool.
    fn toolbox_in_turn(&self, context: &ToolContext, call: &ToolCall) -> Arc<dyn Toolbox> {
        let is_alias = self.builtin.canonical_name(&call.name) != call.name;
        if is_alias && context.stands_for.is_none() { Arc::clone(&self.builtin) } else { self.toolbox_of(call) }
    }

    /// Returns the toolbox of the session server if the server's tool was offered in the turn, or `None` for tools that
    /// all sessions share. Returns an error if the session server no longer exists.
    fn session_toolbox(&self, context: &ToolContext) -> Option<Result<Arc<dyn Toolbox>, ToolOutput>> {
        let (session, _) = context.stands_for.as_ref()?.strip_prefix(SESSION_MARK)?.split_once(' ')?;
        let pool = session.parse().ok().and_then(|session| self.servers.of(session));
        let from_mcp = |pool| Arc::new(McpToolbox::marked(pool, session_mark(session))) as Arc<dyn Toolbox>;
        Some(pool.map(from_mcp).ok_or_else(server_gone))
    }

    /// Returns the toolbox that inspects a call without running it.
    fn inspecting_toolbox(&self, context: &ToolContext, call: &ToolCall) -> Option<Arc<dyn Toolbox>> {
        self.session_toolbox(context).unwrap_or_else(|| Ok(self.toolbox_in_turn(context, call))).ok()
    }

    /// Returns the toolbox that runs a call, or the reason why the call cannot run.
    fn running_toolbox(&self, context: &ToolContext, call: &ToolCall) -> Result<Arc<dyn Toolbox>, ToolOutput> {
        match self.session_toolbox(context) {
            Some(from_mcp) => from_mcp,
            None => self.refusal(call).map_or_else(|| Ok(self.toolbox_in_turn(context, call)), Err),
        }
    }
}

impl Toolbox for DaemonTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.with_current(|current| Arc::clone(&current.specs))
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.with_current(|current| Arc::clone(&current.catalogue))
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.builtin.canonical_name(name)
    }

    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        self.builtin.can_enforce_read_only()
    }

    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        self.builtin.can_contain_commands()
    }

    fn session_catalogue(&self, session: SessionId) -> Option<Arc<Catalogue>> {
        let Some(pool) = self.servers.of(session) else {
            lock(&self.merged_tools).remove(&session);
            return None;
        };
        // Servers that did not answer are queried again.
        pool.list_missing();
        let (base, published) = (self.catalogue(), pool.published());
        let mut merged_tools = lock(&self.merged_tools);
        let cached = merged_tools.get(&session);
        let is_same =
            |cached: &&MergedTools| Arc::ptr_eq(&cached.base, &base) && Arc::ptr_eq(&cached.published, &published);
        if let Some(cached) = cached.filter(is_same) {
            return Some(Arc::clone(&cached.catalogue));
        }
        let catalogue = Arc::new(merged(session, &base, &published));
        merged_tools.insert(session, MergedTools { base, published, catalogue: Arc::clone(&catalogue) });
        Some(catalogue)
    }

    fn list_servers<'a>(&'a self, user: &'a ToolUser, names: &'a [String]) -> BoxFuture<'a, Vec<UnlistedServer>> {
        async move {
            let Some(pool) = user.session_id.and_then(|session| self.servers.of(session)) else {
                return self.pool.list_servers(user, names).await;
            };
            let listed = futures_util::join!(self.pool.list_servers(user, names), pool.list_servers(user, names));
            let (mut unlisted, of_session) = listed;
            // The client was informed about failed servers when it provided the servers.
            unlisted.extend(of_session.into_iter().filter(|server| server.is_late));
            unlisted
        }
        .boxed()
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        lock(&self.merged_tools).remove(&session);
        async move {
            self.builtin.end_session(session).await;
            self.servers.remove(session).await;
        }
        .boxed()
    }

    fn adapt(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.toolbox_of(call).adapt(call)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        self.inspecting_toolbox(context, call)?.changes(context, call)
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        async move {
            let is_known = || self.specs().iter().any(|spec| spec.name == call.name);
            // The call names a session server's tool that was not offered in the turn.
            if context.stands_for.is_none() && is_of_session_server(&call.name) && !is_known() {
                return Err(server_gone());
            }
            self.running_toolbox(context, call)?.preview(context, call).await
        }
        .boxed()
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        async move { self.inspecting_toolbox(context, call)?.follow(context, call).await }.boxed()
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        async move { self.inspecting_toolbox(context, call)?.start(context, call).await }.boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        async move {
            match self.running_toolbox(context, call) {
                Ok(toolbox) => toolbox.call(context, call).await,
                Err(refusal) => refusal,
            }
        }
        .boxed()
    }
}

fn build(
    builtin: &dyn Toolbox,
    published: Arc<PublishedTools>,
    settings: ToolSettings,
    unavailable: [&[&'static str]; 2],
) -> ConfiguredCatalogue {
    let catalogue = Arc::new(configured(&all(&builtin.catalogue(), &published), &settings, &unavailable.concat()));
    let enabled = catalogue.tools.iter().filter(|tool| tool.label.tier != ToolTier::Off);
    let mut specs: Vec<ToolSpec> = enabled.map(|tool| tool.spec.clone()).collect();
    specs.dedup_by(|later, first| later.name == first.name);
    ConfiguredCatalogue { settings, unavailable: unavailable[1].to_vec(), published, catalogue, specs: specs.into() }
}

/// Merges agentd's own tools with server tools, sorted by name.
fn all(builtin: &Catalogue, published: &PublishedTools) -> Catalogue {
    let mut tools = builtin.tools.clone();
    tools.extend(published.specs.iter().filter_map(|spec| offered_tool(spec, published)));
    tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    Catalogue { tools, labels: builtin.labels.clone(), servers: published.servers.clone() }
}

/// Returns a server tool in the form in which it is offered to models. The tool is offered in every turn if the
/// configuration requests this, or by default up to a limit. Otherwise, it is offered when it is mentioned or found by
/// a search. Agents with a tool list only get the listed tools, unless the configuration sets `always_available`.
fn offered_tool(spec: &ToolSpec, published: &PublishedTools) -> Option<CatalogueTool> {
    let route = published.routes.get(&spec.name)?;
    let server = route.server.clone();
    let always = published.always.contains(&spec.name);
    let label = ToolLabel {
        tier: if always || published.offered.contains(&spec.name) { ToolTier::Enabled } else { ToolTier::Discovered },
        always_available: always,
        category: "mcp".to_owned(),
        tags: vec![server.clone()],
    };
    let stands_for = Some(route.identity().into());
    let foreign = published.foreign.get(&spec.name).cloned();
    Some(CatalogueTool { spec: spec.clone(), origin: ToolOrigin::Mcp { server }, label, stands_for, foreign })
}

/// Applies the settings to the catalogue, including the engine's own tools.
fn configured(from: &Catalogue, settings: &ToolSettings, unavailable: &[&str]) -> Catalogue {
    let tool = |tool: &CatalogueTool| {
        let is_unavailable = tool.origin == ToolOrigin::BuiltIn && unavailable.contains(&tool.spec.name.as_str());
        let tool = with_setting(tool, settings);
        let tier = if is_unavailable { ToolTier::Off } else { tool.label.tier };
        CatalogueTool { label: ToolLabel { tier, ..tool.label }, ..tool }
    };
    let mut labels = from.labels.clone();
    for (name, setting) in settings {
        let label = setting.label(&labels.get(name).cloned().unwrap_or_default());
        labels.insert(name.clone(), label);
    }
    Catalogue { tools: from.tools.iter().map(tool).collect(), labels, servers: from.servers.clone() }
}

/// Applies the settings to one tool.
fn with_setting(tool: &CatalogueTool, settings: &ToolSettings) -> CatalogueTool {
    let Some(setting) = settings.get(&tool.spec.name) else { return tool.clone() };
    let description = setting.description.clone().unwrap_or_else(|| tool.spec.description.clone());
    let spec = ToolSpec { description, ..tool.spec.clone() };
    CatalogueTool { spec, label: setting.label(&tool.label), ..tool.clone() }
}

/// Returns warnings about settings in `tools.yaml` that have no effect. `configurable` are the tools that can be
/// disabled or described, `all` are all existing tools.
pub fn notes(settings: &ToolSettings, configurable: &[ToolSpec], all: &[ToolSpec]) -> Vec<String> {
    let has = |specs: &[ToolSpec], name: &str| specs.iter().any(|spec| spec.name == name);
    let mut notes = Vec::new();
    for (name, setting) in settings {
        if !has(configurable, name) && !has(all, name) {
            let names = all.iter().chain(configurable).map(|spec| spec.name.as_str());
            let guess = nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            notes.push(format!("tools.yaml: unknown tool `{name}`{guess}"));
        } else if !has(configurable, name) && setting.hides_or_describes() {
            notes.push(format!("tools.yaml: `{name}` belongs to every session and cannot be changed"));
        }
    }
    notes
}

/// Tools of a session, and the inputs from which they were built.
struct MergedTools {
    base: Arc<Catalogue>,
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
}

fn session_mark(session: impl std::fmt::Display) -> String {
    format!("{SESSION_MARK}{session} ")
}

fn server_gone() -> ToolOutput {
    ToolOutput::error(ToolErrorCode::UnknownTool, SERVER_GONE)
}

/// Merges both tool lists. A session tool never replaces another tool.
fn merged(session: SessionId, base: &Catalogue, published: &PublishedTools) -> Catalogue {
    let is_free = |spec: &&ToolSpec| base.tools.binary_search_by(|tool| tool.spec.name.cmp(&spec.name)).is_err();
    let offered = published.specs.iter().filter(is_free).filter_map(|spec| offered_tool(spec, published));
    let marked = |tool: CatalogueTool| {
        let stands_for = tool.stands_for.map(|meaning| format!("{}{meaning}", session_mark(session)).into());
        CatalogueTool { stands_for, ..tool }
    };
    let mut catalogue = base.clone();
    catalogue.tools.extend(offered.map(marked));
    catalogue.tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    catalogue.servers.extend(published.servers.iter().cloned());
    catalogue.servers.sort_by(|a, b| a.name.cmp(&b.name));
    catalogue
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;
    use crate::config::{ToolSetting, ToolSwitch};

    fn spec(name: &str) -> ToolSpec {
        let description = format!("the {name}");
        ToolSpec { name: name.to_owned(), description, parameters: serde_json::json!({}), effect: Effect::Read }
    }

    #[test]
    fn unavailable_tools_are_off_despite_settings() {
        let always = ToolSetting { enabled: Some(ToolSwitch::Always), ..ToolSetting::default() };
        let settings = ToolSettings::from([("grep".to_owned(), always)]);
        let specs = ["grep", "now"].map(spec);
        let tiers = |origin: ToolOrigin| -> Vec<ToolTier> {
            let catalogue = configured(&Catalogue::of(&specs, &origin), &settings, &["grep"]);
            catalogue.tools.iter().map(|tool| tool.label.tier).collect()
        };
        assert_eq!(tiers(ToolOrigin::BuiltIn), [ToolTier::Off, ToolTier::Enabled]);
        let from_mcp = ToolOrigin::Mcp { server: "other".to_owned() };
        assert_eq!(tiers(from_mcp), [ToolTier::Enabled, ToolTier::Enabled], "a server's tools are not affected");
    }

    #[test]
    fn ineffective_tool_settings_are_reported() {
        let when_mentioned = ToolSetting { enabled: Some(ToolSwitch::WhenMentioned), ..ToolSetting::default() };
        let settings = ["gerp", "ask_human", "grep"].map(|name| (name.to_owned(), when_mentioned.clone())).into();
        let notes = notes(&settings, &[spec("grep")], &[spec("ask_human"), spec("grep")]);
        assert_eq!(
            notes,
            [
                "tools.yaml: `ask_human` belongs to every session and cannot be changed",
                "tools.yaml: unknown tool `gerp`, did you mean `grep`?",
            ]
        );
    }
}
