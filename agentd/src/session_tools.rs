//! The tools of sessions that have servers of their own, beside those that all sessions have. `tools.yaml` and
//! `mcp_servers.yaml` say nothing of them: a client brings them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, UnlistedServer},
    ids::SessionId,
    ports::{ToolContext, ToolUser, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use agentd_mcp::{McpPool, McpToolbox, SessionServers, published::PublishedTools, session::is_of_session_server};
use futures_util::{FutureExt, future::BoxFuture};

use crate::mcp;

/// Begins the meaning of a tool of a session's server; the session and a space follow. No name of a configured server, which
/// the meaning of the daemon's tools begins with, has a space.
const MARK: &str = "session ";

/// Words for a model on a tool of a server that is not there any more.
const GONE: &str = "it was a tool of an MCP server that the client brought for this session, and the server is not there: agentd was \
                    restarted, or the client took it back. The call did not run. Go on without it, and say so where it matters";

/// A toolbox in which sessions have the tools of their own servers, too.
pub struct SessionTools {
    inner: Arc<dyn Toolbox>,
    /// The servers that all sessions have.
    pool: Arc<McpPool>,
    servers: Arc<SessionServers>,
    /// The tools of sessions, as they were when they were last asked for. A lock is held for as long as it takes to look.
    together: Mutex<HashMap<SessionId, MergedTools>>,
}

/// The tools of a session, and what they were made from.
struct MergedTools {
    base: Arc<Catalogue>,
    published: Arc<PublishedTools>,
    catalogue: Arc<Catalogue>,
}

impl SessionTools {
    /// The tools of `inner`, with those of `pool` among them, and those of `servers`, whose names are never among them.
    #[must_use]
    pub fn new(inner: Arc<dyn Toolbox>, pool: Arc<McpPool>, servers: Arc<SessionServers>) -> Self {
        Self { inner, pool, servers, together: Mutex::default() }
    }

    /// The toolbox of the session whose tool a turn was offered; none where it is one that all sessions have. An error where the
    /// session's server is gone.
    fn theirs(&self, context: &ToolContext) -> Option<Result<McpToolbox, ToolOutput>> {
        let (session, _) = context.stands_for.as_ref()?.strip_prefix(MARK)?.split_once(' ')?;
        let pool = session.parse().ok().and_then(|session| self.servers.of(session));
        Some(pool.map(|pool| McpToolbox::marked(pool, mark(session))).ok_or_else(gone))
    }

    /// Refusal of a call of a session's tool that no turn was offered.
    fn lost(&self, context: &ToolContext, call: &ToolCall) -> Option<ToolOutput> {
        let is_known = || self.inner.specs().iter().any(|spec| spec.name == call.name);
        (context.stands_for.is_none() && is_of_session_server(&call.name) && !is_known()).then(gone)
    }

    fn together(&self) -> MutexGuard<'_, HashMap<SessionId, MergedTools>> {
        self.together.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let offered = published.specs.iter().filter(is_free).filter_map(|spec| mcp::offered(spec, published));
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

impl Toolbox for SessionTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.inner.specs()
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.inner.catalogue()
    }

    fn session_catalogue(&self, session: SessionId) -> Option<Arc<Catalogue>> {
        let Some(pool) = self.servers.of(session) else {
            self.together().remove(&session);
            return None;
        };
        // One that did not answer is asked again.
        pool.look_around();
        let (base, published) = (self.inner.catalogue(), pool.published());
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
            self.inner.end_session(session).await;
            self.servers.remove(session).await;
        }
        .boxed()
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.inner.canonical_name(name)
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.inner.meant(call)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        match self.theirs(context) {
            Some(_) => None,
            None => self.inner.changes(context, call),
        }
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        match self.theirs(context) {
            Some(Ok(theirs)) => async move { theirs.preview(context, call).await }.boxed(),
            Some(Err(gone)) => async { Err(gone) }.boxed(),
            None => match self.lost(context, call) {
                Some(gone) => async { Err(gone) }.boxed(),
                None => self.inner.preview(context, call),
            },
        }
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        match self.theirs(context) {
            Some(_) => async { None }.boxed(),
            None => self.inner.follow(context, call),
        }
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        match self.theirs(context) {
            Some(_) => async { None }.boxed(),
            None => self.inner.start(context, call),
        }
    }

    /// Only our own tools run commands.
    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        self.inner.holds_commands()
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        self.inner.contains_commands()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        match self.theirs(context) {
            Some(Ok(theirs)) => async move { theirs.call(context, call).await }.boxed(),
            Some(Err(gone)) => async { gone }.boxed(),
            None => self.inner.call(context, call),
        }
    }
}
