//! Ports: traits through which the engine reaches its environment. Adapters implement them and do not depend on the
//! engine.

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
    error::{ErrorKind, ModelError, StoreError},
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
        ClientFileAccess, ClientFiles, CodeReader, Knowledge, Languages, NoLanguages, OnCodeProgress, OnProgress,
        Person, Pictures, ReadRules, SampleAnswer, SampleRequest, Sampler, Web,
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

/// A model that answers requests.
pub trait Model: Send + Sync {
    /// Returns the properties known now.
    fn info(&self) -> &ModelInfo;

    /// Queries the server for the model's id and window if they are not configured. [`Self::info`] returns the results
    /// afterwards. Takes at most a few seconds, and returns at once if neither is missing. Values that cannot be
    /// determined stay unchanged.
    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Queries the server for picture support if this support is neither configured nor known. [`Self::info`] returns
    /// the result afterwards. Takes as long as [`Self::look_up`].
    fn look_up_vision(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns true if the id and the window are known, or if the server was queried for them without success. The
    /// tools and guides in a turn's requests depend on the window.
    fn is_known(&self) -> bool {
        true
    }

    /// Lists the models of this model's server in the server's order, at most [`MAX_LISTED_MODELS`].
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

    /// Records the discovered size of the model's window. The source is [`WindowSource::Refusal`] if the server stated
    /// the size, or [`WindowSource::Cut`] if the server truncates longer requests. [`Self::info`] returns the size
    /// afterwards.
    fn note_window(&self, _tokens: u64, _source: WindowSource) {}

    /// Discards everything learnt from the server's refusals and token counts.
    fn forget(&self) {}

    /// Lists differences between requests to this model and the default form, as learnt from the server's refusals.
    fn learnt(&self) -> Vec<LearntForm> {
        Vec::new()
    }

    /// Returns true if a request may list tools that must not be called ([`ModelRequest::may_call`]). Returns false
    /// once the server has rejected such a request and accepted it without the tools, or once the model has called a
    /// forbidden tool. Requests to such a model should not list tools.
    fn can_forbid_calls(&self) -> bool {
        true
    }
}

/// Models of the configuration, by slot.
pub trait Models: Send + Sync {
    /// Returns the model that serves a slot, after resolving fallbacks between slots.
    fn get(&self, slot: Slot) -> Arc<dyn Model>;

    /// Returns the model with this id on the server of a slot. `None` if requests to the slot's server cannot choose
    /// the model.
    fn named(&self, _slot: Slot, _id: &str) -> Option<Arc<dyn Model>> {
        None
    }

    /// Lists all slots with their models.
    fn list(&self) -> Vec<SlotInfo>;

    /// Lists the slots that have their own model.
    fn own_slots(&self) -> Vec<Slot> {
        self.list().into_iter().filter(|info| info.falls_back_to.is_none()).map(|info| info.slot).collect()
    }

    /// Lists the models that answer instead if the slot's server does not, in order of preference.
    fn fallbacks(&self, _slot: Slot) -> Vec<FallbackModel> {
        Vec::new()
    }
}

/// A model that answers instead of another model.
#[derive(Clone)]
pub struct FallbackModel {
    /// Slot of the model, or the slot that the model substitutes for.
    pub slot: Slot,
    /// Model that answers instead.
    pub model: Arc<dyn Model>,
}

/// Everything a tool call needs from its session and turn.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Session of the call.
    pub session_id: SessionId,
    /// Turn of the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Files of the session.
    pub workspace: Arc<Workspace>,
    /// Current files in the session's state.
    pub state_files: Arc<StateFiles>,
    /// Client with open project files and their unsaved text. `None` if files are only read from disk.
    pub client_files: Option<Arc<dyn ClientFiles>>,
    /// Rules for files that the call reaches without naming them, and for files that it names in order to change them.
    /// Neither results nor errors, including those of previews, quote a file that may not be read.
    pub reading: ReadRules,
    /// Client variables for the processes of tools; empty if the client sent none.
    pub environment: Arc<ClientEnvironment>,
    /// Receiver of progress reports.
    pub progress: CallProgress,
    /// User that the call may ask while it runs.
    pub person: Person,
    /// Model that the call may ask while it runs.
    pub sampler: Sampler,
    /// Meaning of the tool's name when it was offered
    /// ([`CatalogueTool::stands_for`](crate::catalogue::CatalogueTool::stands_for)). If the meaning has changed since
    /// then, the call differs from the call that was shown and approved, and does not run. `None` if the tool was not
    /// offered.
    pub stands_for: Option<Arc<str>>,
    /// Limits of the call's processes. Tools that run commands must apply them.
    pub confinement: Confinement,
    /// Names of files that other programs execute or follow automatically.
    pub guarded: GuardedNames,
    /// Paths that a guarded command cannot change, as found before the command.
    pub closed: Arc<[PathBuf]>,
    /// Current time at the start of the call.
    pub now: Timestamp,
    /// Cancelled together with the turn. A tool ends its running processes before it returns.
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

/// Tools that act outside of the session's own state.
pub trait Toolbox: Send + Sync {
    /// Returns the definitions of all tools, sorted by name.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// Returns all tools with their properties, including tools that a turn shows only on mention. Called at the start
    /// of each turn. Returns the same catalogue until something changes.
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(Catalogue::of(&self.specs(), &ToolOrigin::BuiltIn))
    }

    /// Returns a session's tools: those of [`Self::catalogue`], and those of servers that a client supplied for the
    /// session. `None` if the session has no additional tools. Returns the same catalogue until something changes.
    fn session_catalogue(&self, _: SessionId) -> Option<Arc<Catalogue>> {
        None
    }

    /// Requests the tools of these MCP servers, and waits up to the configured limit. Returns the servers whose tools
    /// are still unknown.
    fn list_servers<'a>(&'a self, _: &'a ToolUser, _: &'a [String]) -> BoxFuture<'a, Vec<UnlistedServer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Stops everything that runs only for this removed session.
    fn end_session(&self, _: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the tool name for a name or alias written by a model.
    fn canonical_name<'a>(&self, name: &'a str) -> &'a str;

    /// Translates a call that uses the argument names of another agent system. Applied to a model's call before the
    /// policy judges it. Calls from users are not translated.
    fn adapt(&self, _: &ToolCall) -> Option<AdaptedCall> {
        None
    }

    /// Returns a preview of the call for the user who approves it: a unified diff or a command line. An error is the
    /// output of a call that is already certain to fail.
    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>>;

    /// Returns the only paths that the call can change, if its arguments determine them. Only these paths are then
    /// scanned for changes. `None` if the call can change anything, as a command can.
    fn changes(&self, _: &ToolContext, _: &ToolCall) -> Option<Vec<String>> {
        None
    }

    /// Resolves a link in the path of a call that reads. Returns the call with the target's path. `None` if there is no
    /// link, or if a link cannot be ruled out. The call then runs unchanged, and reads nothing through a link. Calls
    /// never change files through links, so this method ignores calls that write.
    fn follow<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the folder where the command of a call would start with the current files. `None` if the call runs no
    /// command, or if the folder cannot be determined. Rules granted for a folder do not apply to such a call.
    fn start<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns true if a command with [`Confinement::ReadOnly`] really cannot change anything. If false, such a command
    /// is judged like any other command.
    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool>;

    /// Returns true if a command can neither change anything outside of the session's folders nor reach other
    /// processes. Only then may an unreviewed command run.
    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Runs the call. Failures are returned as outputs.
    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput>;
}

/// An interrupt as stored in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredInterrupt {
    /// The interrupt with its question.
    pub interrupt: Interrupt,
    /// Answer to the interrupt, if given.
    pub answer: Option<Answer>,
}

/// The journal and its projections. Only one writer per session calls the methods that change the session. Any task may
/// read.
pub trait Store: Send + Sync {
    /// Creates a session with these settings and its first events, if any. Atomic, and durable on return.
    fn create_session(
        &self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Creates a session that begins with a copy of another session's events, followed by its own. Atomic. The new
    /// session starts with the state after the copied events, but without queued turns, interrupts and permanent
    /// grants. The other session is not changed.
    fn fork_session(&self, fork: NewFork) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the turns of a session, in the order in which they began.
    fn turns(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<TurnSpan>, StoreError>>;

    /// Returns up to `limit` ended turns that ended after position `after` in the store. Turns of subagents and copies
    /// in forks are excluded.
    fn ended_turns(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<EndedTurns, StoreError>>;

    /// Appends events of one session, numbered without gaps after the last stored event. Atomic. On return, the events
    /// are durable and the projections agree with them. Calls for several sessions share one commit.
    fn append(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns one session, if it exists.
    fn session(&self, id: SessionId) -> BoxFuture<'_, Result<Option<StoredSession>, StoreError>>;

    /// Returns sessions, last used first, without subagents' sessions. The store has no information about which turns
    /// the engine runs. A turn without an end is reported as running, or as waiting if the turn or one of its subagents
    /// has a pending interrupt.
    fn sessions(&self, limit: usize) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        let page = self.session_page(None, limit);
        Box::pin(async move { Ok(page.await?.sessions) })
    }

    /// Same as [`Self::sessions`], but continues after `before`, which is [`SessionPage::next`] of the previous page.
    /// Sessions used between the calls move to the first page.
    fn session_page(&self, before: Option<u64>, limit: usize) -> BoxFuture<'_, Result<SessionPage, StoreError>>;

    /// Returns the sessions of subagents of `parent`, in creation order.
    fn children(&self, parent: SessionId) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>>;

    /// Finds up to `limit` sessions by name, newest first. Tries, in this order: ids that start with `name` (hyphens
    /// optional, case ignored); ids that end with `name`, if it has at least six characters; titles (case ignored),
    /// without subagents' sessions.
    fn find_sessions(&self, name: String, limit: usize) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// Returns the sessions with an unfinished or queued turn, for recovery at startup.
    fn open_turns(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// Returns up to `limit` stored events with numbers above `after`, in order.
    fn events(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event>>, StoreError>>;

    /// Returns the last completed items with event numbers above `after`, at most `limit`, oldest first, each with the
    /// number of its completion.
    fn recent_items(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>> {
        self.items_between(session, after, None, limit)
    }

    /// Same as [`Self::recent_items`], but only items with event numbers below `before`.
    fn items_between(
        &self,
        session: SessionId,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>>;

    /// Searches one session or all, and returns at most `limit` hits, best first. Covers everything stored before the
    /// call, except for the events counted in [`SearchResult::unsearched`], because a search does not wait until a
    /// large index is built.
    fn search(
        &self,
        query: SearchQuery,
        session: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<SearchResult, StoreError>>;

    /// Reports the usage of model calls by model, session, day or slot, including deleted sessions. Reads sums that are
    /// updated with each call.
    ///
    /// Fails with kind `InvalidInput` if the last day is before the first.
    fn usage(&self, query: UsageQuery, now: Timestamp) -> BoxFuture<'_, Result<UsageReport, StoreError>>;

    /// Returns daily counters for an inclusive range of days, without empty days. Reads sums that are updated with each
    /// event.
    fn counters(
        &self,
        _since: Option<Date>,
        _until: Option<Date>,
    ) -> BoxFuture<'_, Result<Vec<DayCounters>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Records the usage of a model call outside of sessions. The record is durable on return.
    fn count_usage(&self, usage: SideUsage) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the files in a session's state.
    fn state_files(&self, session: SessionId) -> BoxFuture<'_, Result<StateFiles, StoreError>>;

    /// Returns up to `limit` stored changes to these files with event numbers below `before`, newest first, each with
    /// its event number. Includes changes before a reset.
    fn state_file_changes(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, StateFileChange)>, StoreError>>;

    /// Returns pending interrupts, oldest first, either of one session and its subagents, or of all sessions.
    fn pending_interrupts(&self, session: Option<SessionId>) -> BoxFuture<'_, Result<Vec<Interrupt>, StoreError>>;

    /// Returns an interrupt with its answer, if any.
    fn interrupt(&self, id: InterruptId) -> BoxFuture<'_, Result<Option<StoredInterrupt>, StoreError>>;

    /// Returns the permanent grants, oldest first. A permanent [`Answer::Always`] stores its grants atomically with the
    /// answer.
    fn grants(&self) -> BoxFuture<'_, Result<Vec<Grant>, StoreError>>;

    /// Stores a permanent grant. An existing grant stays unchanged.
    fn store_grant(&self, grant: Grant) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Revokes a permanent grant, if it exists.
    fn revoke_grant(&self, rule: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the grants of sessions, ordered by creation of the session.
    fn session_grants(&self) -> BoxFuture<'_, Result<Vec<ScopedGrant>, StoreError>>;

    /// Deletes a session and its subagents' sessions with all events and interrupts. Permanent grants stay. Atomically
    /// records that the sessions' files still have to be removed.
    fn delete_session(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns deleted sessions whose files may still exist.
    fn files_left(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// Records that the files of these deleted sessions have been removed.
    fn record_files_removed(&self, ids: Vec<SessionId>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the port for imports, or `None` if the store does not support them.
    fn imports(&self) -> Option<&dyn JournalImports> {
        None
    }
}
