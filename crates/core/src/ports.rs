//! Ports: traits through which the engine accesses its environment. Adapters implement these traits and do not depend
//! on the engine.

mod content;
mod folders;
mod workspaces;

use std::{path::PathBuf, sync::Arc};

use futures_util::{future::BoxFuture, stream::BoxStream};
use jiff::{Timestamp, civil::Date};
use tokio_util::sync::CancellationToken;

use crate::{
    catalogue::{Catalogue, ToolOrigin, UnlistedServer},
    counters::DayCounters,
    environment::ClientEnvironment,
    error::{ErrorKind, ModelError, StoreFuture},
    event::Event,
    grant::{Grant, ScopedGrant},
    guarded::GuardedNames,
    ids::{CallId, InterruptId, SessionId, TurnId},
    interrupt::{Answer, Interrupt},
    item::Item,
    model::{LearntForm, ListedModel, ModelChunk, ModelInfo, ModelRequest, Slot, SlotInfo, WindowSource},
    policy::Confinement,
    search::{SearchQuery, SearchResult},
    session::{EndedTurns, NewFork, SessionPage, SessionSettings, SessionSummary, StoredSession, TurnSpan},
    spending::{SideUsage, UsageQuery, UsageReport},
    state_files::{StateFileChange, StateFiles},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolOutput, ToolSpec},
    usage::Prices,
};

pub use crate::ports::{
    content::{
        ClientFileAccess, ClientFiles, CodeReader, Embeddings, Knowledge, Languages, NoLanguages, OnCodeProgress,
        OnProgress, Person, Pictures, ReadRules, SampleAnswer, SampleRequest, Sampler, Sight, Web,
    },
    folders::{
        Audit, AuditReader, CallProgress, Changes, ConfineError, ConfinedProcess, ConfinedProgram, Confiner, Exchanges,
        FilesBefore, JournalImports, NoExchanges, ProgramEnd, ProjectStanding, Projects, SecretFile, SkillPackages,
        Skills, Snapshots, StagedTree, TreeTransport, Worktrees,
    },
    workspaces::{Artifact, ArtifactDir, SessionTree, Workspace, WorkspaceArea, Workspaces},
};

/// Source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Model that answers requests.
pub trait Model: Send + Sync {
    /// Returns the properties that are currently known.
    fn info(&self) -> &ModelInfo;

    /// Queries the server for the model's ID and window unless they are configured. Afterwards, [`Self::info`] returns
    /// the results. Takes at most a few seconds, and returns immediately if both are configured. Values that cannot be
    /// determined stay unchanged.
    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Queries the server for picture support unless it is configured or already known. Afterwards, [`Self::info`]
    /// returns the result. Takes as long as [`Self::look_up`].
    fn look_up_vision(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns true if the ID and the window are known, or if the server was queried without success. The tools and
    /// guides in a turn's requests depend on the window.
    fn is_known(&self) -> bool {
        true
    }

    /// Lists the models of this model's server, at most [`MAX_LISTED_MODELS`], in the server's order.
    ///
    /// [`MAX_LISTED_MODELS`]: crate::model::MAX_LISTED_MODELS
    fn listed(&self) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let error =
            ModelError::new(ErrorKind::Configuration, format!("{} has no server that lists models", self.info().id));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Sends a request. The stream ends after [`ModelChunk::End`] or the first error; an end without either is a bug in
    /// the adapter. Dropping the stream cancels the call: an HTTP request is closed, and the embedded model stops
    /// within one token.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>>;

    /// Returns the model's token prices, if known.
    fn prices(&self) -> Option<Prices> {
        None
    }

    /// Records the size of the model's window. The source is [`WindowSource::Refusal`] if the server reported the size,
    /// or [`WindowSource::Cut`] if the server truncates longer requests. Afterwards, [`Self::info`] returns the size.
    fn note_window(&self, _tokens: u64, _source: WindowSource) {}

    /// Discards all information derived from the server's refusals and token counts.
    fn forget(&self) {}

    /// Lists differences between requests to this model and the default form, as derived from the server's refusals.
    fn learnt(&self) -> Vec<LearntForm> {
        Vec::new()
    }

    /// Returns true if a request may list tools that must not be called ([`ModelRequest::may_call`]). Returns false
    /// after the server has rejected such a request and accepted it without the tools, or after the model has called a
    /// forbidden tool. Requests to such a model should not list tools.
    fn can_forbid_calls(&self) -> bool {
        true
    }
}

/// Configured models by slot.
pub trait Models: Send + Sync {
    /// Returns the model of a slot, after resolving fallbacks between slots.
    fn get(&self, slot: Slot) -> Arc<dyn Model>;

    /// Returns the model with this ID on the server of a slot, or `None` if requests to this server cannot choose a
    /// model.
    fn named(&self, _slot: Slot, _id: &str) -> Option<Arc<dyn Model>> {
        None
    }

    /// Lists all slots with their models.
    fn list(&self) -> Vec<SlotInfo>;

    /// Lists the slots that have a model of their own.
    fn own_slots(&self) -> Vec<Slot> {
        self.list().into_iter().filter(|info| info.falls_back_to.is_none()).map(|info| info.slot).collect()
    }

    /// Lists the models to use if the slot's server does not answer, in order of preference.
    fn fallbacks(&self, _slot: Slot) -> Vec<FallbackModel> {
        Vec::new()
    }

    /// Returns the embeddings, if any are configured.
    fn embeddings(&self) -> Option<Arc<dyn Embeddings>> {
        None
    }
}

/// Model to use if another model does not answer.
#[derive(Clone)]
pub struct FallbackModel {
    /// Slot of the model, or the slot whose model it replaces.
    pub slot: Slot,
    /// Model that answers in place of the other one.
    pub model: Arc<dyn Model>,
}

/// Context of a tool call: its session and turn, and the handles that it may use.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Session of the call.
    pub session_id: SessionId,
    /// Turn of the call.
    pub turn_id: TurnId,
    /// ID of the call.
    pub call_id: CallId,
    /// Files of the session.
    pub workspace: Arc<Workspace>,
    /// Current state files of the session.
    pub state_files: Arc<StateFiles>,
    /// Client that has project files open, with unsaved text. `None` if files are only read from disk.
    pub client_files: Option<Arc<dyn ClientFiles>>,
    /// Rules for files that the call accesses without naming them, and for files that it names in order to change them.
    /// Results and errors, including those of previews, never quote a file that may not be read.
    pub reading: ReadRules,
    /// Client variables for the processes of tools. Empty if the client sent none.
    pub environment: Arc<ClientEnvironment>,
    /// Receiver of progress reports.
    pub progress: CallProgress,
    /// User that the call may ask while it runs.
    pub person: Person,
    /// Model that the call may ask while it runs.
    pub sampler: Sampler,
    /// Availability of a model for the pictures in the call's output.
    pub sight: Sight,
    /// Meaning of the tool's name when it was offered
    /// ([`CatalogueTool::stands_for`](crate::catalogue::CatalogueTool::stands_for)). If the meaning has changed since,
    /// the call differs from the one that was shown and approved, and does not run. `None` if the tool was not offered.
    pub stands_for: Option<Arc<str>>,
    /// Restrictions on the call's processes. Tools that run commands must apply them.
    pub confinement: Confinement,
    /// Names of files that other programs execute or follow automatically.
    pub guarded: GuardedNames,
    /// Paths that a guarded command cannot change, determined before the command.
    pub closed: Arc<[PathBuf]>,
    /// Time at the start of the call.
    pub now: Timestamp,
    /// Cancelled together with the turn. A tool must end its processes before it returns.
    pub cancel: CancellationToken,
}

/// Session for which a tool server is started. All fields are `None` if the session is unknown.
#[derive(Debug, Clone, Default)]
pub struct ToolUser {
    /// Session that uses the server.
    pub session_id: Option<SessionId>,
    /// Client environment of the session's turn.
    pub environment: Option<Arc<ClientEnvironment>>,
    /// Project folder of the session.
    pub project: Option<PathBuf>,
}

/// Tools with effects outside the session's own state.
pub trait Toolbox: Send + Sync {
    /// Returns the definitions of all tools, sorted by name.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// Returns all tools with their properties, including tools that are only shown if they are mentioned. Called at
    /// the start of each turn. Returns the same catalogue as long as it does not change.
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(Catalogue::of(&self.specs(), &ToolOrigin::BuiltIn))
    }

    /// Returns a session's tools: those of [`Self::catalogue`], and those of servers that a client provided for the
    /// session. Returns `None` if the session has no additional tools, and the same catalogue as long as it does not
    /// change.
    fn session_catalogue(&self, _: SessionId) -> Option<Arc<Catalogue>> {
        None
    }

    /// Requests the tools of these MCP servers, and waits up to the configured limit. Returns the servers whose tools
    /// are still unknown.
    fn list_servers<'a>(&'a self, _: &'a ToolUser, _: &'a [String]) -> BoxFuture<'a, Vec<UnlistedServer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Stops all servers that only run for this removed session.
    fn end_session(&self, _: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the name of the tool that a model refers to by this name or alias.
    fn canonical_name<'a>(&self, name: &'a str) -> &'a str;

    /// Translates a call that uses the argument names of another agent system. Applied to calls of models before the
    /// policy evaluates them. Calls from users are not translated.
    fn adapt(&self, _: &ToolCall) -> Option<AdaptedCall> {
        None
    }

    /// Returns a preview of the call for the user who decides on it: a unified diff or a command line. An error is the
    /// output of a call that is already certain to fail.
    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>>;

    /// Returns all paths that the call can change, if its arguments determine them. Only these paths are then checked
    /// for changes. Returns `None` if the call can change anything, like a command.
    fn changes(&self, _: &ToolContext, _: &ToolCall) -> Option<Vec<String>> {
        None
    }

    /// Resolves a link in the path of a call that reads, and returns the call with the target's path. Returns `None` if
    /// there is no link or a link cannot be ruled out. The call then runs unchanged, and reads nothing through a link.
    /// Calls that write are ignored, because they never change files through links.
    fn follow<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the folder in which the command of a call would start, given the current files. Returns `None` if the
    /// call does not run a command or the folder cannot be determined. Rules granted for a folder do not apply to such
    /// a call.
    fn start<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns true if the sandbox ensures that a command with [`Confinement::ReadOnly`] cannot change anything. If
    /// false, the rules treat such a command like any other command.
    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool>;

    /// Returns true if a command can neither change anything outside the session's folders nor reach other processes.
    /// Otherwise, commands without review must not run.
    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Runs the call. Failures are returned as outputs.
    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput>;
}

/// Interrupt that is stored in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredInterrupt {
    /// The interrupt with its question.
    pub interrupt: Interrupt,
    /// Answer to the interrupt, if there is one.
    pub answer: Option<Answer>,
}

/// The journal and its projections. Methods that change a session are only called by the session's single writer. Any
/// task may read.
pub trait Store: Send + Sync {
    /// Creates a session with these settings and optional first events. Atomic, and durable on return.
    fn create_session(
        &self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> StoreFuture<'_, ()>;

    /// Creates a session from a copy of another session's events, followed by its own events. Atomic. The new session
    /// starts with the state after the copied events, but without queued turns, interrupts and permanent grants. The
    /// other session is not changed.
    fn fork_session(&self, fork: NewFork) -> StoreFuture<'_, ()>;

    /// Returns the turns of a session, in the order in which they started.
    fn turns(&self, session: SessionId) -> StoreFuture<'_, Vec<TurnSpan>>;

    /// Returns up to `limit` turns that ended after position `after` in the store. Excludes turns of subagents and
    /// copies in forks.
    fn ended_turns(&self, after: u64, limit: usize) -> StoreFuture<'_, EndedTurns>;

    /// Appends events of one session, which must be numbered without gaps after the last stored event. Atomic. On
    /// return, the events are durable and the projections are up to date. Calls for several sessions share one commit.
    fn append(&self, events: Vec<Arc<Event>>) -> StoreFuture<'_, ()>;

    /// Returns one session, if it exists.
    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<StoredSession>>;

    /// Returns sessions without subagents' sessions, most recently used first. The store does not know which turns the
    /// engine is running: a turn without an end is reported as running, or as waiting if the turn or one of its
    /// subagents has a pending interrupt.
    fn sessions(&self, limit: usize) -> StoreFuture<'_, Vec<SessionSummary>> {
        let page = self.session_page(None, limit);
        Box::pin(async move { Ok(page.await?.sessions) })
    }

    /// Like [`Self::sessions`], but continues after `before`, which is [`SessionPage::next`] of the previous page. A
    /// session that is used between the calls moves to the first page.
    fn session_page(&self, before: Option<u64>, limit: usize) -> StoreFuture<'_, SessionPage>;

    /// Returns the sessions of the subagents of `parent`, in creation order.
    fn children(&self, parent: SessionId) -> StoreFuture<'_, Vec<SessionSummary>>;

    /// Finds up to `limit` sessions by name, newest first. Compares `name`, in this order, with the start of IDs
    /// (hyphens optional, case ignored), the end of IDs if `name` has at least six characters, and titles (case
    /// ignored). Excludes subagents' sessions from the search by title.
    fn find_sessions(&self, name: String, limit: usize) -> StoreFuture<'_, Vec<SessionId>>;

    /// Returns the sessions that have an unfinished or queued turn, for recovery at startup.
    fn open_turns(&self) -> StoreFuture<'_, Vec<SessionId>>;

    /// Returns up to `limit` stored events with numbers above `after`, in order.
    fn events(&self, session: SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<Arc<Event>>>;

    /// Returns the last completed items with event numbers above `after`, oldest first and at most `limit`, each with
    /// the number of the event that completed it.
    fn recent_items(&self, session: SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Item)>> {
        self.items_between(session, after, None, limit)
    }

    /// Like [`Self::recent_items`], but only returns items with event numbers below `before`.
    fn items_between(
        &self,
        session: SessionId,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<(u64, Item)>>;

    /// Searches one session or all sessions, and returns at most `limit` hits, best first. Covers all events stored
    /// before the call, except for those counted in [`SearchResult::unsearched`], because a search does not wait for a
    /// large index to be built.
    fn search(&self, query: SearchQuery, session: Option<SessionId>, limit: usize) -> StoreFuture<'_, SearchResult>;

    /// Reports the usage of model calls by model, session, day or slot, including deleted sessions. Reads totals that
    /// are updated with each call.
    ///
    /// Fails with kind `InvalidInput` if the last day is before the first.
    fn usage(&self, query: UsageQuery, now: Timestamp) -> StoreFuture<'_, UsageReport>;

    /// Returns daily counters for an inclusive range of days. Omits days without events. Reads totals that are updated
    /// with each event.
    fn counters(&self, _since: Option<Date>, _until: Option<Date>) -> StoreFuture<'_, Vec<DayCounters>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Records the usage of a model call outside of sessions. Durable on return.
    fn count_usage(&self, usage: SideUsage) -> StoreFuture<'_, ()>;

    /// Returns the files in a session's state.
    fn state_files(&self, session: SessionId) -> StoreFuture<'_, StateFiles>;

    /// Returns up to `limit` stored changes to these files with event numbers below `before`, newest first, each with
    /// its event number. Includes changes from before a reset.
    fn state_file_changes(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> StoreFuture<'_, Vec<(u64, StateFileChange)>>;

    /// Returns pending interrupts, oldest first. Covers one session and its subagents, or all sessions.
    fn pending_interrupts(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<Interrupt>>;

    /// Returns an interrupt and its answer, if it has one.
    fn interrupt(&self, id: InterruptId) -> StoreFuture<'_, Option<StoredInterrupt>>;

    /// Returns the permanent grants, oldest first. A permanent [`Answer::Always`] stores its grants atomically with the
    /// answer.
    fn grants(&self) -> StoreFuture<'_, Vec<Grant>>;

    /// Stores a permanent grant. If the rule is already granted, the existing grant stays unchanged.
    fn store_grant(&self, grant: Grant) -> StoreFuture<'_, ()>;

    /// Revokes a permanent grant, if it exists.
    fn revoke_grant(&self, rule: String) -> StoreFuture<'_, ()>;

    /// Returns the grants of sessions, ordered by creation of the session.
    fn session_grants(&self) -> StoreFuture<'_, Vec<ScopedGrant>>;

    /// Deletes a session and its subagents' sessions with all events and interrupts, but not permanent grants.
    /// Atomically records that the sessions' files must still be removed.
    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()>;

    /// Returns deleted sessions whose files may still exist.
    fn files_left(&self) -> StoreFuture<'_, Vec<SessionId>>;

    /// Records that the files of these deleted sessions have been removed.
    fn record_files_removed(&self, ids: Vec<SessionId>) -> StoreFuture<'_, ()>;

    /// Returns the port for imports, or `None` if the store does not support them.
    fn imports(&self) -> Option<&dyn JournalImports> {
        None
    }
}
