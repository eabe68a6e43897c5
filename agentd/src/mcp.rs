//! MCP servers beside the tools of agentd: one toolbox of both, and what servers see of the environment.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ToolLabel, ToolOrigin, ToolTier},
    ids::SessionId,
    ports::{ToolContext, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolOutput, ToolSpec},
};
use agentd_extensions::plugins::PluginStore;
use agentd_mcp::{
    Clean, McpConfig, McpPool, McpToolbox, PluginCheck, SessionServers,
    catalogue::CatalogueFolder,
    login::Logins,
    pool::{PoolOwner, PoolParts},
    published::PublishedTools,
    session::SessionServersParts,
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{environment::Environment, redact::Redactor};

/// Variables of the daemon's environment that servers see. They are programs of the person, and work in the person's
/// home; no possible secret is among them.
const PASSED: [&str; 14] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Default search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The pool of the configuration. Nothing is started; what servers offered when they were last reached is read, which
/// blocks.
#[must_use]
pub fn pool(
    config: &McpConfig,
    data: &Path,
    env: &Environment,
    guard: &Path,
    redactor: Redactor,
    ours: Arc<dyn Toolbox>,
    plugins: PluginStore,
) -> Arc<McpPool> {
    let environment = environment(env);
    let own: Vec<String> = agentd_engine::own_tools().into_iter().map(|tool| tool.name).collect();
    let reserved = move |name: &str| {
        // What other systems call our tools is free: a person may give such a name to another one.
        ours.specs().iter().any(|spec| spec.name == name) || own.iter().any(|tool| tool == name)
    };
    McpPool::new(PoolParts {
        config: config.clone(),
        catalogues: CatalogueFolder::new(data.join("mcp").join("catalogues")),
        guard: guard.to_owned(),
        logins: Logins::new(data.join("mcp").join("tokens")).over(env.routes()),
        environment,
        clean: Clean::new(move |words| redactor.clean(words)),
        reserved: Box::new(reserved),
        owner: PoolOwner::Daemon,
        plugin_check: plugin_check(plugins),
    })
}

/// The check of a plugin before one of its servers starts.
fn plugin_check(plugins: PluginStore) -> PluginCheck {
    PluginCheck::new(move |name| {
        let (plugins, name) = (plugins.clone(), name.to_owned());
        async move {
            let checked = tokio::task::spawn_blocking(move || plugins.check(&name)).await;
            checked.unwrap_or_else(|_| Err("its plugin could not be looked at".to_owned()))
        }
        .boxed()
    })
}

/// Servers that clients bring for sessions. They see of the daemon's environment as much as its own servers do.
#[must_use]
pub fn session_servers(env: &Environment, guard: &Path, redactor: Redactor) -> Arc<SessionServers> {
    let (learning, cleaning) = (redactor.clone(), redactor);
    Arc::new(SessionServers::new(SessionServersParts {
        guard: guard.to_owned(),
        environment: environment(env),
        routes: env.routes(),
        clean: Clean::new(move |words| cleaning.clean(words)),
        learn_secrets: Box::new(move |secrets| learning.learn_brought(secrets)),
    }))
}

/// Environment of servers before anything is added.
fn environment(env: &Environment) -> BTreeMap<String, String> {
    let passed = |name: &&str| env.text(name).map(|value| ((*name).to_owned(), value.to_owned()));
    let mut environment: BTreeMap<String, String> = PASSED.iter().filter_map(passed).collect();
    environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    environment
}

/// The tools of agentd and those of MCP servers.
pub struct AllTools {
    ours: Arc<dyn Toolbox>,
    pool: Arc<McpPool>,
    theirs: McpToolbox,
    /// Both together, as they were when they were last asked for.
    together: Mutex<Option<Together>>,
}

/// Both together, and what servers offered then.
struct Together {
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
    specs: Arc<[ToolSpec]>,
}

impl AllTools {
    /// Both. Names of `ours` are never among theirs.
    #[must_use]
    pub fn new(ours: Arc<dyn Toolbox>, pool: Arc<McpPool>) -> Self {
        Self { ours, theirs: McpToolbox::new(Arc::clone(&pool)), pool, together: Mutex::default() }
    }

    /// All tools that there are now. A server not queried yet is queried in the background.
    fn now(&self) -> (Arc<Catalogue>, Arc<[ToolSpec]>) {
        self.pool.look_around();
        let published = self.pool.published();
        let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        if together.as_ref().is_none_or(|known| !Arc::ptr_eq(&known.published, &published)) {
            let ours = self.ours.catalogue();
            let mut tools = ours.tools.clone();
            tools.extend(published.specs.iter().filter_map(|spec| offered(spec, &published)));
            tools.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
            let specs = tools.iter().map(|tool| tool.spec.clone()).collect();
            let servers = published.servers.clone();
            let catalogue = Arc::new(Catalogue { tools, labels: ours.labels.clone(), servers });
            *together = Some(Together { published, catalogue, specs });
        }
        together.as_ref().map(|known| (Arc::clone(&known.catalogue), Arc::clone(&known.specs))).unwrap_or_default()
    }

    fn whose(&self, call: &ToolCall) -> &dyn Toolbox {
        if self.theirs.has(&call.name) { &self.theirs } else { &*self.ours }
    }

    /// The same in a turn. A name that others have for a tool of ours may have been given to one of theirs meanwhile: it is
    /// that one's only where the turn was offered that one, for as that one it was judged.
    fn whose_in(&self, context: &ToolContext, call: &ToolCall) -> &dyn Toolbox {
        let is_alias = self.ours.canonical_name(&call.name) != call.name;
        if is_alias && context.stands_for.is_none() { &*self.ours } else { self.whose(call) }
    }
}

/// A tool of a server, as models are offered it: always where the configuration says so or says nothing and there is
/// room, otherwise where it is mentioned or was found. Agents that name their tools have only what they name, unless
/// the configuration itself says always.
pub(crate) fn offered(spec: &ToolSpec, published: &PublishedTools) -> Option<CatalogueTool> {
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

impl Toolbox for AllTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.now().1
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.now().0
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        self.ours.end_session(session)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.ours.canonical_name(name)
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.whose(call).meant(call)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        self.whose_in(context, call).changes(context, call)
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        self.whose_in(context, call).preview(context, call)
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        self.whose_in(context, call).follow(context, call)
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        self.whose_in(context, call).start(context, call)
    }

    /// Only our own tools run commands.
    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        self.ours.holds_commands()
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        self.ours.contains_commands()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        self.whose_in(context, call).call(context, call)
    }
}
