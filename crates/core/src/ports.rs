//! Ports: what the engine needs of the world. Adapters implement them and never see the engine.

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
    grant::{Grant, HeldGrant},
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

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Properties that are known now.
    fn info(&self) -> &ModelInfo;

    /// Asks its server for the id and the window, where nobody configured them; [`Self::info`] tells them from then on. It
    /// takes a few seconds at the most, and no time where nothing is missing. What cannot be found out stays as it is.
    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Asks its server whether it can be shown pictures, where nobody configured it and nobody asked; [`Self::info`] tells it from
    /// then on. It takes as long as [`Self::look_up`].
    fn look_for_sight(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns whether its id and its window are known, or stay unknown because its server was asked in vain: what a turn
    /// shows depends on the window.
    fn is_known(&self) -> bool {
        true
    }

    /// The models that its server lists, in its order, at most [`MAX_LISTED_MODELS`].
    ///
    /// [`MAX_LISTED_MODELS`]: crate::model::MAX_LISTED_MODELS
    fn listed(&self) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let alone =
            ModelError::new(ErrorKind::Configuration, format!("{} has no server that lists models", self.info().id));
        Box::pin(std::future::ready(Err(alone)))
    }

    /// Asks it. The stream ends after [`ModelChunk::End`] or after the first error; an end without either is
    /// a defect of the adapter. Dropping the stream cancels the call: an HTTP request is closed, the embedded
    /// model stops within a token.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>>;

    /// Prices of its tokens, as far as they are known now.
    fn prices(&self) -> Option<Prices> {
        None
    }

    /// Takes note of the size that its window turned out to have: [`WindowSource::Refusal`] where its server said so, or
    /// [`WindowSource::Cut`] where its server cuts longer requests. [`Self::info`] tells it from then on.
    fn note_window(&self, _tokens: u64, _source: WindowSource) {}

    /// Forgets what was learnt from refusals and counts of its server.
    fn forget(&self) {}

    /// Differences of its requests from the usual ones, as learnt from refusals of its server.
    fn learnt(&self) -> Vec<LearntForm> {
        Vec::new()
    }

    /// Returns whether a request may name tools that must not be called ([`ModelRequest::may_call`]). False from when
    /// its server has refused that and taken the same request without them, or it has called one all the same: then it
    /// is better asked without tools.
    fn can_forbid_calls(&self) -> bool {
        true
    }
}

/// The models of the configuration.
pub trait Models: Send + Sync {
    /// The model that serves a slot, after falling back.
    fn get(&self, slot: Slot) -> Arc<dyn Model>;

    /// The model of that id on the server of a slot. None where the slot has no server that is told which model is meant.
    fn named(&self, _slot: Slot, _id: &str) -> Option<Arc<dyn Model>> {
        None
    }

    /// All slots.
    fn list(&self) -> Vec<SlotInfo>;

    /// The slots that have a model of their own.
    fn own_slots(&self) -> Vec<Slot> {
        self.list().into_iter().filter(|info| info.falls_back_to.is_none()).map(|info| info.slot).collect()
    }

    /// Models that answer in place of a slot's where its server does not, in their order.
    fn fallbacks(&self, _slot: Slot) -> Vec<FallbackModel> {
        Vec::new()
    }
}

/// A model that answers in place of another one.
#[derive(Clone)]
pub struct FallbackModel {
    /// Its slot, or the one that it stands in for.
    pub slot: Slot,
    /// The model.
    pub model: Arc<dyn Model>,
}

/// Where a tool call works.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The session's files.
    pub workspace: Arc<Workspace>,
    /// The files of the session's own state, as they are now.
    pub state_files: Arc<StateFiles>,
    /// The client that holds the project's files, with text that is not saved; none where only the disk counts.
    pub client_files: Option<Arc<dyn ClientFiles>>,
    /// Rules about files that the call comes upon without naming them, and about those that it names to change them:
    /// neither a result nor a failure, of a preview either, quotes one that may not be read.
    pub reading: ReadRules,
    /// Variables of the client's environment for the processes of tools; empty where the client sent none.
    pub environment: Arc<ClientEnvironment>,
    /// Where the call tells how far it is.
    pub progress: CallProgress,
    /// Whom the call may ask while it runs.
    pub person: Person,
    /// The model that it may ask while it runs.
    pub sampler: Sampler,
    /// Meaning of the called tool's name when it was offered
    /// ([`CatalogueTool::stands_for`](crate::catalogue::CatalogueTool::stands_for)): where it stands for something else
    /// by now, the call is not what was shown and allowed, and does not run. None where it was not offered.
    pub stands_for: Option<Arc<str>>,
    /// Limits of what the call runs. A tool that runs commands holds them to it.
    pub confinement: Confinement,
    /// Names that others run or obey.
    pub guarded: GuardedNames,
    /// Paths that a guarded command cannot change, as they were seen before it.
    pub closed: Arc<[PathBuf]>,
    /// The time.
    pub now: Timestamp,
    /// Set when the turn is cancelled. A tool that holds processes ends them before it returns.
    pub cancel: CancellationToken,
}

/// A session for which a server of tools is started; where nothing is known of it, nobody's.
#[derive(Debug, Clone, Default)]
pub struct ToolUser {
    /// The session.
    pub session_id: Option<SessionId>,
    /// The client of its turn.
    pub environment: Option<Arc<ClientEnvironment>>,
    /// Its project folder.
    pub project: Option<PathBuf>,
}

/// The tools that work on the world outside the session's own state.
pub trait Toolbox: Send + Sync {
    /// All tools, sorted by name.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// All tools with what is known of them besides, those included that a turn shows only where they are mentioned. Asked
    /// at the start of each turn: the same catalogue is handed out as long as nothing has changed.
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(Catalogue::of(&self.specs(), &ToolOrigin::BuiltIn))
    }

    /// The tools of a session that has more than all have: those of [`Self::catalogue`], and those of servers that a client brought
    /// for it. None where it has no others. The same catalogue is handed out as long as nothing has changed.
    fn session_catalogue(&self, _: SessionId) -> Option<Arc<Catalogue>> {
        None
    }

    /// Asks these MCP servers for their tools, and waits for them as long as the person has configured. Returns those whose
    /// tools are still not known.
    fn list_servers<'a>(&'a self, _: &'a ToolUser, _: &'a [String]) -> BoxFuture<'a, Vec<UnlistedServer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Ends all that runs for a session alone: the session is gone.
    fn end_session(&self, _: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The name under which a tool is known, for a name or alias that a model wrote.
    fn canonical_name<'a>(&self, name: &'a str) -> &'a str;

    /// The call in the words of its tool, where it is written in those of another system. Asked before a model's call is
    /// judged; what a person writes is taken as it stands.
    fn meant(&self, _: &ToolCall) -> Option<AdaptedCall> {
        None
    }

    /// Preview of the call, for a person who is asked to approve it: a unified diff or a command line. An error is what
    /// the call would return if it ran, where that is already certain.
    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>>;

    /// The paths that the call can change and no others, where that is known from its arguments: then only they are
    /// looked at to record its changes. None where it can change anything, as a command can.
    fn changes(&self, _: &ToolContext, _: &ToolCall) -> Option<Vec<String>> {
        None
    }

    /// The form of a call that names what it would read, where a link stands between the path that it names and that.
    /// None where no link is in the way, and where nobody can tell: such a call runs as it is written, and reads
    /// nothing through a link. Nor does any call change a file through one; nothing is said of those here.
    fn follow<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        Box::pin(std::future::ready(None))
    }

    /// The folder where the command of a call starts, as the files stand now. None where the call runs no command, and where
    /// nobody can tell: then no rule that was kept for a folder holds for what may start elsewhere.
    fn start<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        Box::pin(std::future::ready(None))
    }

    /// True where a command that is called with [`Confinement::ReadOnly`] can change nothing. Where nothing would hold it to
    /// that, it is judged as any other command.
    fn holds_commands(&self) -> BoxFuture<'_, bool>;

    /// True where a command changes nothing outside of the session's folders, and reaches no other process, whatever it
    /// does: only there may one run that nobody looked at.
    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Runs the call. Failures are outputs; this cannot fail otherwise.
    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput>;
}

/// An interrupt as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredInterrupt {
    /// The question.
    pub interrupt: Interrupt,
    /// The answer, if it has one.
    pub answer: Option<Answer>,
}

/// The journal and its projections. All methods of one session are called by its one writer, except the reads.
pub trait Store: Send + Sync {
    /// Creates a session with these settings and its first events, if it has any yet: all or nothing. It is durable
    /// when this returns.
    fn create_session(
        &self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Creates a session whose first events are a copy of another's, and then its own: all or nothing. What the copied events
    /// add up to is what it begins with, but for the turns that waited; no interrupt and nothing that they kept for good
    /// comes along. The events of the other session are not changed.
    fn fork_session(&self, fork: NewFork) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The turns of a session, in the order in which they began.
    fn turns(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<TurnSpan>, StoreError>>;

    /// Turns that have ended, of people's sessions, whose ends are stored behind that place, at most `limit`. Copies in forks
    /// are none.
    fn ended_turns(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<EndedTurns, StoreError>>;

    /// Appends events of one session, numbered without a gap after the last stored one, all or none. They are
    /// durable, and the projections agree with them, when this returns. Calls of many sessions share one commit.
    fn append(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// One session.
    fn session(&self, id: SessionId) -> BoxFuture<'_, Result<Option<StoredSession>, StoreError>>;

    /// Sessions, last used first. `running` is known to the engine only: here a turn that has not ended counts as
    /// running, or as waiting where an interrupt of it or of one that works for it is pending. Those that work for another
    /// are not among them.
    fn sessions(&self, limit: usize) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        let page = self.session_page(None, limit);
        Box::pin(async move { Ok(page.await?.sessions) })
    }

    /// The same, behind those that `before` says, which is [`SessionPage::next`] of the page before it. What was used
    /// meanwhile is among the first again.
    fn session_page(&self, before: Option<u64>, limit: usize) -> BoxFuture<'_, Result<SessionPage, StoreError>>;

    /// The sessions that work for that one, in the order in which they were made.
    fn children(&self, parent: SessionId) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>>;

    /// The sessions of that name, at most `limit`, newest first: those whose ids start with it (hyphens optional, case
    /// ignored); else, from six characters on, those whose ids end with it; else those with that title (case ignored),
    /// without those that work for another.
    fn find_sessions(&self, name: String, limit: usize) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// The sessions with a turn that has not ended, or that waits to begin, for recovery at start.
    fn open_turns(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// Stored events with numbers above `after`, in order, at most `limit`.
    fn events(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event>>, StoreError>>;

    /// The last completed items with event numbers above `after`, oldest first, at most `limit`, each with the number
    /// of its completion.
    fn recent_items(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>> {
        self.items_between(session, after, None, limit)
    }

    /// The same of those with event numbers below `before`.
    fn items_between(
        &self,
        session: SessionId,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>>;

    /// Finds what was said and done, in one session or in all, at most `limit`, the best first. All that was stored when
    /// it was asked is searched, but for what [`SearchResult::unsearched`] counts: no search waits for a large index to be built.
    fn search(
        &self,
        query: SearchQuery,
        session: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<SearchResult, StoreError>>;

    /// Usage of model calls by model, session, day or slot, that of deleted sessions included. It is read from sums that are
    /// written with each call.
    ///
    /// An error of kind `InvalidInput` says that the last day is before the first.
    fn usage(&self, query: UsageQuery, now: Timestamp) -> BoxFuture<'_, Result<UsageReport, StoreError>>;

    /// Counters of what happened from one day to another, both included, day by day; days without any are left out. They are read
    /// from sums that are written with each event.
    fn counters(
        &self,
        _since: Option<Date>,
        _until: Option<Date>,
    ) -> BoxFuture<'_, Result<Vec<DayCounters>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Counts a model call that belongs to no session. It is durable when this returns.
    fn count_usage(&self, usage: SideUsage) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The files of a session's own state.
    fn state_files(&self, session: SessionId) -> BoxFuture<'_, Result<StateFiles, StoreError>>;

    /// Stored changes of these files with event numbers below `before`, newest first, at most `limit`, each with its
    /// number. Those that a reset has set aside are among them.
    fn state_file_changes(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, StateFileChange)>, StoreError>>;

    /// Pending interrupts of one session and of those that work for it, or of all, oldest first.
    fn pending_interrupts(&self, session: Option<SessionId>) -> BoxFuture<'_, Result<Vec<Interrupt>, StoreError>>;

    /// One interrupt and its answer, if it has one.
    fn interrupt(&self, id: InterruptId) -> BoxFuture<'_, Result<Option<StoredInterrupt>, StoreError>>;

    /// The rules that are kept for good, oldest first. Those of an interrupt that is resolved with
    /// [`Answer::Always`] for good are among them as soon as that answer is stored: with it, all or nothing.
    fn grants(&self) -> BoxFuture<'_, Result<Vec<Grant>, StoreError>>;

    /// Keeps a rule for good. One that is kept already stays as it is.
    fn keep_grant(&self, grant: Grant) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Takes back a rule that is kept for good, if it is.
    fn revoke_grant(&self, rule: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The rules that sessions keep for themselves, sessions in the order in which they were made.
    fn session_grants(&self) -> BoxFuture<'_, Result<Vec<HeldGrant>, StoreError>>;

    /// Removes a session with all its events and interrupts, and those that work for it. What was kept for good in it stays.
    /// It is noted with it, all or nothing, that their files are still to be removed.
    fn delete_session(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Sessions that were removed and whose files may still be there.
    fn files_left(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// Notes that the files of these removed sessions are gone.
    fn note_files_gone(&self, ids: Vec<SessionId>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Brings sessions in from elsewhere; none where nobody can.
    fn imports(&self) -> Option<&dyn JournalImports> {
        None
    }
}
