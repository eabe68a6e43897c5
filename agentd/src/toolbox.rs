//! The toolbox of the daemon: its own tools and those of MCP servers, as `tools.yaml` wants them: some shown only where they are
//! mentioned, some never, some described otherwise. What has nothing to work with is never shown, whatever it says.
//!
//! Of the tools of sessions that have servers of their own `tools.yaml` and `mcp_servers.yaml` say nothing: a client brings them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ToolLabel, ToolOrigin, ToolTier, UnlistedServer},
    ids::SessionId,
    ports::{ToolContext, ToolUser, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use agentd_mcp::{McpPool, McpToolbox, SessionServers, published::PublishedTools, session::is_of_session_server};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::config::{ToolSettings, nearest};

/// Begins the meaning of a tool of a session's server; the session and a space follow. No name of a configured server, which
/// the meaning of the daemon's tools begins with, has a space.
const MARK: &str = "session ";

/// Words for a model on a tool of a server that is not there any more.
const GONE: &str = "it was a tool of an MCP server that the client brought for this session, and the server is not there: agentd was \
                    restarted, or the client took it back. The call did not run. Go on without it, and say so where it matters";

/// The tools of agentd and those of MCP servers, where `tools.yaml` decides when each is offered, and its description; and those
/// of the servers that sessions have of their own.
pub struct DaemonTools {
    ours: Arc<dyn Toolbox>,
    /// The servers that all sessions have.
    pool: Arc<McpPool>,
    servers: Arc<SessionServers>,
    /// The names of tools that have nothing to work with, whatever is read again.
    idle: Vec<&'static str>,
    /// The settings, and what was made of them. Held for as long as it takes to look.
    made: Mutex<MadeCatalogue>,
    /// The tools of sessions, as they were when they were last asked for. A lock is held for as long as it takes to look.
    together: Mutex<HashMap<SessionId, MergedTools>>,
}

/// A catalogue, and what it was made from.
struct MadeCatalogue {
    settings: ToolSettings,
    /// The names of tools that have nothing to work with now.
    idle: Vec<&'static str>,
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
    specs: Arc<[ToolSpec]>,
}

impl DaemonTools {
    /// Both as `settings` want them, but for those that are `idle`, for good or now: they have nothing to work with. Names of
    /// `ours` are never among those of the pool, and none of these is among those of `servers`.
    pub fn new(
        ours: Arc<dyn Toolbox>,
        pool: Arc<McpPool>,
        servers: Arc<SessionServers>,
        settings: &ToolSettings,
        idle: Vec<&'static str>,
        now: Vec<&'static str>,
    ) -> Self {
        let made = Mutex::new(made(&*ours, pool.published(), settings.clone(), [&idle, &now]));
        Self { ours, pool, servers, idle, made, together: Mutex::default() }
    }

    /// All that there are now, whatever the settings say.
    pub fn all(&self) -> Vec<ToolSpec> {
        all(&self.ours.catalogue(), &self.pool.published()).tools.into_iter().map(|tool| tool.spec).collect()
    }

    /// Follows other settings, from the next turn on. Those tools that are `idle` have nothing to work with now.
    pub fn follow_settings(&self, settings: &ToolSettings, idle: Vec<&'static str>) {
        let mut known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if known.settings != *settings || known.idle != idle {
            let published = Arc::clone(&known.published);
            *known = made(&*self.ours, published, settings.clone(), [&self.idle, &idle]);
        }
    }

    /// The current tools: made anew where servers offer others. A server not queried yet is queried in the background.
    fn now<T>(&self, look: impl FnOnce(&MadeCatalogue) -> T) -> T {
        self.pool.look_around();
        let published = self.pool.published();
        let mut known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&known.published, &published) {
            let (settings, idle) = (std::mem::take(&mut known.settings), std::mem::take(&mut known.idle));
            *known = made(&*self.ours, published, settings, [&self.idle, &idle]);
        }
        look(&known)
    }

    /// Returns the reason if the call cannot be made. The engine checks that a model was shown the tool.
    fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        let name = self.ours.canonical_name(&call.name);
        let known = self.now(|made| made.specs.iter().any(|spec| spec.name == name || spec.name == call.name));
        let message = "there is no tool of that name, or it is not enabled; use another one";
        (!known).then(|| ToolOutput::error(ToolErrorCode::UnknownTool, message))
    }

    /// The toolbox of a tool that all sessions have.
    fn whose(&self, call: &ToolCall) -> Arc<dyn Toolbox> {
        let theirs = McpToolbox::new(Arc::clone(&self.pool));
        if theirs.has(&call.name) { Arc::new(theirs) } else { Arc::clone(&self.ours) }
    }

    /// The same in a turn. A name that others have for a tool of ours may have been given to one of theirs meanwhile: it is
    /// that one's only where the turn was offered that one, for as that one it was judged.
    fn whose_in(&self, context: &ToolContext, call: &ToolCall) -> Arc<dyn Toolbox> {
        let is_alias = self.ours.canonical_name(&call.name) != call.name;
        if is_alias && context.stands_for.is_none() { Arc::clone(&self.ours) } else { self.whose(call) }
    }

    /// The toolbox of the session whose tool a turn was offered; none where it is one that all sessions have. An error where the
    /// session's server is gone.
    fn of_session(&self, context: &ToolContext) -> Option<Result<Arc<dyn Toolbox>, ToolOutput>> {
        let (session, _) = context.stands_for.as_ref()?.strip_prefix(MARK)?.split_once(' ')?;
        let pool = session.parse().ok().and_then(|session| self.servers.of(session));
        let theirs = |pool| Arc::new(McpToolbox::marked(pool, mark(session))) as Arc<dyn Toolbox>;
        Some(pool.map(theirs).ok_or_else(gone))
    }

    /// The toolbox that looks at a call without making it.
    fn looked_at_by(&self, context: &ToolContext, call: &ToolCall) -> Option<Arc<dyn Toolbox>> {
        self.of_session(context).unwrap_or_else(|| Ok(self.whose_in(context, call))).ok()
    }

    /// The toolbox that makes a call, or why it cannot be made.
    fn made_by(&self, context: &ToolContext, call: &ToolCall) -> Result<Arc<dyn Toolbox>, ToolOutput> {
        match self.of_session(context) {
            Some(theirs) => theirs,
            None => self.refusal(call).map_or_else(|| Ok(self.whose_in(context, call)), Err),
        }
    }

    fn together(&self) -> MutexGuard<'_, HashMap<SessionId, MergedTools>> {
        self.together.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Toolbox for DaemonTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.now(|made| Arc::clone(&made.specs))
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.now(|made| Arc::clone(&made.catalogue))
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.ours.canonical_name(name)
    }

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        self.ours.holds_commands()
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        self.ours.contains_commands()
    }

    fn session_catalogue(&self, session: SessionId) -> Option<Arc<Catalogue>> {
        let Some(pool) = self.servers.of(session) else {
            self.together().remove(&session);
            return None;
        };
        // One that did not answer is asked again.
        pool.look_around();
        let (base, published) = (self.catalogue(), pool.published());
        let mut together = self.together();
        let known = together.get(&session);
        let is_same =
            |known: &&MergedTools| Arc::ptr_eq(&known.base, &base) && Arc::ptr_eq(&known.published, &published);
        if let Some(known) = known.filter(is_same) {
            return Some(Arc::clone(&known.catalogue));
        }
        let catalogue = Arc::new(merged(session, &base, &published));
        together.insert(session, MergedTools { base, published, catalogue: Arc::clone(&catalogue) });
        Some(catalogue)
    }

    fn list_servers<'a>(&'a self, user: &'a ToolUser, names: &'a [String]) -> BoxFuture<'a, Vec<UnlistedServer>> {
        async move {
            let Some(pool) = user.session_id.and_then(|session| self.servers.of(session)) else {
                return self.pool.list_servers(user, names).await;
            };
            let listed = futures_util::join!(self.pool.list_servers(user, names), pool.list_servers(user, names));
            let (mut unlisted, of_session) = listed;
            // The client was sent the reasons of those that failed when it brought them.
            unlisted.extend(of_session.into_iter().filter(|server| server.is_late));
            unlisted
        }
        .boxed()
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        self.together().remove(&session);
        async move {
            self.ours.end_session(session).await;
            self.servers.remove(session).await;
        }
        .boxed()
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.whose(call).meant(call)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        self.looked_at_by(context, call)?.changes(context, call)
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        async move {
            let is_known = || self.specs().iter().any(|spec| spec.name == call.name);
            // A call of a session's tool that no turn was offered.
            if context.stands_for.is_none() && is_of_session_server(&call.name) && !is_known() {
                return Err(gone());
            }
            self.made_by(context, call)?.preview(context, call).await
        }
        .boxed()
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        async move { self.looked_at_by(context, call)?.follow(context, call).await }.boxed()
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        async move { self.looked_at_by(context, call)?.start(context, call).await }.boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        async move {
            match self.made_by(context, call) {
                Ok(toolbox) => toolbox.call(context, call).await,
                Err(refusal) => refusal,
            }
        }
        .boxed()
    }
}

fn made(
    ours: &dyn Toolbox,
    published: Arc<PublishedTools>,
    settings: ToolSettings,
    idle: [&[&'static str]; 2],
) -> MadeCatalogue {
    let catalogue = Arc::new(configured(&all(&ours.catalogue(), &published), &settings, &idle.concat()));
    let there = catalogue.tools.iter().filter(|tool| tool.label.tier != ToolTier::Off);
    let mut specs: Vec<ToolSpec> = there.map(|tool| tool.spec.clone()).collect();
    specs.dedup_by(|later, first| later.name == first.name);
    MadeCatalogue { settings, idle: idle[1].to_vec(), published, catalogue, specs: specs.into() }
}

/// Our tools and theirs, by their names.
fn all(ours: &Catalogue, published: &PublishedTools) -> Catalogue {
    let mut tools = ours.tools.clone();
    tools.extend(published.specs.iter().filter_map(|spec| offered(spec, published)));
    tools.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    Catalogue { tools, labels: ours.labels.clone(), servers: published.servers.clone() }
}

/// A tool of a server, as models are offered it: always where the configuration says so or says nothing and there is
/// room, otherwise where it is mentioned or was found. Agents that name their tools have only what they name, unless
/// the configuration itself says always.
fn offered(spec: &ToolSpec, published: &PublishedTools) -> Option<CatalogueTool> {
    let route = published.routes.get(&spec.name)?;
    let server = route.server.clone();
    let always = published.always.contains(&spec.name);
    let label = ToolLabel {
        tier: if always || published.offered.contains(&spec.name) { ToolTier::Enabled } else { ToolTier::Discovered },
        always_available: always,
        category: "mcp".to_owned(),
        tags: vec![server.clone()],
    };
    let stands_for = Some(route.word().into());
    let foreign = published.foreign.get(&spec.name).cloned();
    Some(CatalogueTool { spec: spec.clone(), origin: ToolOrigin::Mcp { server }, label, stands_for, foreign })
}

/// The catalogue with what the settings say, of the conversation's own tools too.
fn configured(from: &Catalogue, settings: &ToolSettings, idle: &[&str]) -> Catalogue {
    let tool = |tool: &CatalogueTool| {
        let is_idle = tool.origin == ToolOrigin::BuiltIn && idle.contains(&tool.spec.name.as_str());
        let tool = as_set(tool, settings);
        let tier = if is_idle { ToolTier::Off } else { tool.label.tier };
        CatalogueTool { label: ToolLabel { tier, ..tool.label }, ..tool }
    };
    let mut labels = from.labels.clone();
    for (name, setting) in settings {
        let label = setting.label(&labels.get(name).cloned().unwrap_or_default());
        labels.insert(name.clone(), label);
    }
    Catalogue { tools: from.tools.iter().map(tool).collect(), labels, servers: from.servers.clone() }
}

/// The tool with what the settings say of it.
fn as_set(tool: &CatalogueTool, settings: &ToolSettings) -> CatalogueTool {
    let Some(setting) = settings.get(&tool.spec.name) else { return tool.clone() };
    let description = setting.description.clone().unwrap_or_else(|| tool.spec.description.clone());
    let spec = ToolSpec { description, ..tool.spec.clone() };
    CatalogueTool { spec, label: setting.label(&tool.label), ..tool.clone() }
}

/// Settings of `tools.yaml` without effect. `configurable` are the tools that can be left out, `all` are all that there
/// are.
pub fn notes(settings: &ToolSettings, configurable: &[ToolSpec], all: &[ToolSpec]) -> Vec<String> {
    let has = |specs: &[ToolSpec], name: &str| specs.iter().any(|spec| spec.name == name);
    let mut notes = Vec::new();
    for (name, setting) in settings {
        if !has(configurable, name) && !has(all, name) {
            let names = all.iter().chain(configurable).map(|spec| spec.name.as_str());
            let guess = nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            notes.push(format!("tools.yaml: there is no tool `{name}`{guess}"));
        } else if !has(configurable, name) && setting.hides_or_describes() {
            notes.push(format!("tools.yaml: `{name}` belongs to every session and cannot be changed"));
        }
    }
    notes
}

/// The tools of a session, and what they were made from.
struct MergedTools {
    base: Arc<Catalogue>,
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
}

fn mark(session: impl std::fmt::Display) -> String {
    format!("{MARK}{session} ")
}

fn gone() -> ToolOutput {
    ToolOutput::error(ToolErrorCode::UnknownTool, GONE)
}

/// Both together. A tool of the session never takes the place of another one.
fn merged(session: SessionId, base: &Catalogue, published: &PublishedTools) -> Catalogue {
    let is_free = |spec: &&ToolSpec| base.tools.binary_search_by(|tool| tool.spec.name.cmp(&spec.name)).is_err();
    let offered = published.specs.iter().filter(is_free).filter_map(|spec| offered(spec, published));
    let marked = |tool: CatalogueTool| {
        let stands_for = tool.stands_for.map(|meaning| format!("{}{meaning}", mark(session)).into());
        CatalogueTool { stands_for, ..tool }
    };
    let mut catalogue = base.clone();
    catalogue.tools.extend(offered.map(marked));
    catalogue.tools.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    catalogue.servers.extend(published.servers.iter().cloned());
    catalogue.servers.sort_by(|one, other| one.name.cmp(&other.name));
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
    fn what_has_nothing_to_work_with_is_off_whatever_the_settings_say() {
        let always = ToolSetting { enabled: Some(ToolSwitch::Always), ..ToolSetting::default() };
        let settings = ToolSettings::from([("grep".to_owned(), always)]);
        let specs = ["grep", "now"].map(spec);
        let tiers = |origin: ToolOrigin| -> Vec<ToolTier> {
            let catalogue = configured(&Catalogue::of(&specs, &origin), &settings, &["grep"]);
            catalogue.tools.iter().map(|tool| tool.label.tier).collect()
        };
        assert_eq!(tiers(ToolOrigin::BuiltIn), [ToolTier::Off, ToolTier::Enabled]);
        let theirs = ToolOrigin::Mcp { server: "other".to_owned() };
        assert_eq!(tiers(theirs), [ToolTier::Enabled, ToolTier::Enabled], "of that name, and another tool");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let off = ToolSetting { enabled: Some(ToolSwitch::WhenMentioned), ..ToolSetting::default() };
        let settings = ["gerp", "ask_human", "grep"].map(|name| (name.to_owned(), off.clone())).into();
        let notes = notes(&settings, &[spec("grep")], &[spec("ask_human"), spec("grep")]);
        assert_eq!(
            notes,
            [
                "tools.yaml: `ask_human` belongs to every session and cannot be changed",
                "tools.yaml: there is no tool `gerp`, did you mean `grep`?",
            ]
        );
    }
}
