//! Calls about the daemon itself: its state, MCP servers, storage, usage, audit log, and requests to models as they were on
//! the wire.
//!
//! Events of all sessions.

use std::time::Duration;

use agentd_core::{
    Date,
    agent::AgentCard,
    audit::{AuditRecord, AuditReport, RecordQuery},
    catalogue::ToolStanding,
    counters::DayCounters,
    error::ErrorKind,
    exchange::{Exchange, KeptExchanges},
    ids::{InterruptId, SessionId, TurnId},
    interrupt::{Answer, Interrupt},
    model::{ListedModel, ModelCheck, ModelTestPlan, Slot, SlotInfo},
    session::SessionSummary,
    spending::{UsageQuery, UsageReport},
    storage::{CleanReport, StorageView},
    turn::{StopReason, TurnError},
};
use tonic::Streaming;

use crate::{
    client::{
        Client, ClientError, ClientErrorKind, ConfigView, DaemonStatus, Finding, McpServerView, ReloadOutcome,
        next_known,
    },
    convert::{Wire, WireError, all, newer},
    v1::{self, test_model_response::Part, trace_piece, watch_event::Kind},
};

calls! {
    /// Status of the daemon.
    ///
    /// # Errors
    /// When the connection fails.
    fn status() -> DaemonStatus = daemon.status(v1::StatusRequest {}) whole;

    /// Makes the daemon read its configuration again.
    ///
    /// # Errors
    /// When the configuration has a mistake; then the old one holds on. When the connection fails.
    fn reload() -> ReloadOutcome = daemon.reload(v1::ReloadRequest {}) whole;

    /// Tells the daemon to stop and returns its process id at once. Running turns may take until the deadline, or
    /// the configured time, to come to an end; then they are suspended.
    ///
    /// # Errors
    /// When the connection fails.
    fn stop(deadline: Option<Duration>) -> u32 = daemon.stop(v1::StopRequest { drain_ms: deadline.to_wire() }) only pid;

    /// The five slots and the models that serve them.
    ///
    /// # Errors
    /// When the connection fails.
    fn models() -> Vec<SlotInfo> = daemon.models(v1::ModelsRequest::default()) all slots;

    /// The same, after the servers were asked for what nobody configured of their models; two seconds at the most.
    ///
    /// # Errors
    /// When the connection fails.
    fn models_looked_up() -> Vec<SlotInfo> = daemon.models(v1::ModelsRequest { look_up: true }) all slots;

    /// Examines everything that is stored, at about a second for each 100 MB, and returns the problems.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    fn examine() -> Vec<Finding> = daemon.examine(v1::ExamineRequest {}) all findings;

    /// The models that the server of a slot lists.
    ///
    /// # Errors
    /// When the slot has no server, the server cannot be asked or lists none, or the connection fails.
    fn listed_models(slot: Slot) -> Vec<ListedModel> =
        daemon.list_models(v1::ListModelsRequest { slot: slot.to_wire() }) all models;

    /// All tools, sorted by name, and why the next turn of that session, or of a new one where it is empty, would show each
    /// or not.
    ///
    /// # Errors
    /// When there is no such session or the connection fails.
    fn tools(session: &str) -> Vec<ToolStanding> =
        daemon.tools(v1::ToolsRequest { session: session.to_owned() }) all standings;

    /// The agents besides the main one, sorted by name.
    ///
    /// # Errors
    /// When the connection fails.
    fn agents() -> Vec<AgentCard> = daemon.agents(v1::AgentsRequest {}) all agents;

    /// Where each value of the configuration came from, and the chain of capabilities around a turn.
    ///
    /// # Errors
    /// When the connection fails.
    fn config() -> ConfigView = daemon.config(v1::ConfigRequest {}) whole;

    /// The servers of the configuration, by name.
    ///
    /// # Errors
    /// When the connection fails.
    fn mcp_servers() -> Vec<McpServerView> = mcp.list(v1::ListMcpServersRequest::default()) all servers;

    /// The servers that a client brought for a session, by name.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    fn session_servers(session: &str) -> Vec<McpServerView> =
        mcp.list(v1::ListMcpServersRequest { session: session.to_owned() }) all servers;

    /// Stops a server. It is gone when this returns.
    ///
    /// # Errors
    /// When there is none of that name, or the connection fails.
    fn stop_mcp_server(name: &str) -> () = mcp.stop(v1::StopMcpServerRequest { name: name.to_owned() }) nothing;

    /// The last words of a server, oldest first, at most so many lines; 0 for all.
    ///
    /// # Errors
    /// When there is none of that name, or the connection fails.
    fn mcp_server_logs(name: &str, lines: u32) -> Vec<String> =
        mcp.logs(v1::McpServerLogsRequest { name: name.to_owned(), lines }) only lines;

    /// Begins to log in to a server behind an address. Returns the address that the person has to open.
    ///
    /// # Errors
    /// When there is none of that name, it knows nobody, or the connection fails.
    fn begin_mcp_login(name: &str, redirect: &str) -> String =
        mcp.begin_login(v1::BeginMcpLoginRequest { name: name.to_owned(), redirect: redirect.to_owned() }) only address;

    /// Finishes a login, with the whole address that the browser was sent back to.
    ///
    /// # Errors
    /// When nothing was begun, the token is refused, or the connection fails.
    fn finish_mcp_login(name: &str, came_back_to: &str) -> () =
        mcp.finish_login(v1::FinishMcpLoginRequest {
            name: name.to_owned(), came_back_to: came_back_to.to_owned(),
        }) nothing;

    /// Starts a server now, for a project in that folder; an empty one stands for that of the last session.
    ///
    /// # Errors
    /// When there is none of that name, it cannot be started, or the connection fails.
    fn start_mcp_server(name: &str, folder: &str) -> McpServerView = mcp.start(v1::StartMcpServerRequest {
        name: name.to_owned(), folder: folder.to_owned(),
    }) needed server "the server";

    /// Finds out whether the person's `mcp_servers.yaml` could have this text.
    ///
    /// # Errors
    /// When something in it makes no sense, and when the connection fails.
    fn check_mcp_servers(text: &str, path: &str) -> () =
        mcp.check(v1::CheckMcpServersRequest { text: text.to_owned(), path: path.to_owned() }) nothing;

    /// Sizes of everything in the data folder.
    ///
    /// # Errors
    /// When it cannot be read, or the connection fails.
    fn storage() -> StorageView = storage_service.show(v1::ShowStorageRequest {}) whole;

    /// Removes what nobody has used for as long as the configuration says, or tells what would be removed.
    ///
    /// # Errors
    /// When the sessions cannot be listed, or the connection fails.
    fn clean(dry_run: bool, client: &str) -> CleanReport =
        storage_service.clean(v1::CleanRequest { dry_run, client: client.to_owned() }) whole;

    /// Tokens and money of model calls, by model, session, day or slot.
    ///
    /// # Errors
    /// When the days make no sense, the journal cannot be read, or the connection fails.
    fn usage(query: &UsageQuery) -> UsageReport = spending.show(v1::ShowSpendingRequest::from(query)) whole;

    /// Counters of what happened from one day to another, day by day.
    ///
    /// # Errors
    /// When the journal cannot be read, or the connection fails.
    fn counters(since: Option<Date>, until: Option<Date>) -> Vec<DayCounters> =
        spending.counters(v1::CountersRequest { since: since.to_wire(), until: until.to_wire() }) all days;

    /// The newest records that fit the query, oldest first; fewer where they would be too large for one message.
    ///
    /// # Errors
    /// When the log cannot be read, or the connection fails.
    fn audit_records(query: &RecordQuery) -> Vec<AuditRecord> =
        audit.list(v1::ListAuditRequest::from(query)) all records;

    /// Verifies the log. With a hash that was noted elsewhere, reports whether that line is still in it.
    ///
    /// # Errors
    /// When the log cannot be read, or the connection fails.
    fn verify_audit(noted_hash: Option<String>) -> AuditReport =
        audit.verify(v1::VerifyAuditRequest { noted_hash: noted_hash.unwrap_or_default() }) whole;
}

impl Client {
    /// Tests the model of a slot, shows the plan and each check when it is done, and returns all of them.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    pub async fn test_model(
        &self,
        slot: Slot,
        mut plan: impl FnMut(ModelTestPlan),
        mut show: impl FnMut(&ModelCheck),
    ) -> Result<Vec<ModelCheck>, ClientError> {
        let mut steps = self.daemon().test_model(v1::TestModelRequest { slot: slot.to_wire() }).await?.into_inner();
        let mut checks = Vec::new();
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(Part::Plan(outline)) => plan(outline.try_into()?),
                Some(Part::Check(check)) => {
                    let check = check.try_into()?;
                    show(&check);
                    checks.push(check);
                }
                // From a newer daemon.
                None => {}
            }
        }
        Ok(checks)
    }

    /// Gives a session servers, in place of those that it has. Returns how they are, in that order, and the version that names them.
    ///
    /// # Errors
    /// When there is no such session, a definition makes no sense, or the connection fails.
    pub async fn set_session_servers(
        &self,
        servers: v1::SetSessionServersRequest,
    ) -> Result<(Vec<McpServerView>, u64), ClientError> {
        let set = self.mcp().set_session_servers(servers).await?.into_inner();
        Ok((all(set.servers)?, set.version))
    }
}

/// Bytes of exchanges that are read at once.
const MAX_TRACE_BYTES: usize = 256 << 20;

impl Client {
    /// Reads exchanges of a session: those with these numbers, or all without their bodies where none is given.
    ///
    /// # Errors
    /// When nothing is kept of the session, there is no exchange of a number, or the connection fails.
    pub async fn exchanges(&self, session: &str, numbers: &[u64]) -> Result<KeptExchanges, ClientError> {
        let request = v1::ReadTraceRequest { session: session.to_owned(), numbers: numbers.to_vec() };
        let mut pieces = self.traces().read(request).await?.into_inner();
        let mut text = Vec::new();
        while let Some(piece) = pieces.message().await? {
            match piece.part {
                Some(trace_piece::Part::Data(data)) if text.len() + data.len() <= MAX_TRACE_BYTES => text.extend(data),
                Some(trace_piece::Part::Data(_)) => return Err(unreadable("the exchanges have more than 256 MiB")),
                Some(trace_piece::Part::Summary(v1::TraceSummary { remarks })) => {
                    return Ok(KeptExchanges { exchanges: parsed(&text)?, remarks });
                }
                None => {}
            }
        }
        Err(unreadable("the daemon ended the list of exchanges too early"))
    }
}

fn parsed(text: &[u8]) -> Result<Vec<Exchange>, ClientError> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&format!("an exchange cannot be read: {error}")))
}

fn unreadable(why: &str) -> ClientError {
    ClientError::new(ClientErrorKind::Answered(ErrorKind::Internal), why)
}

/// Something that happened in some session.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// All that there is.
    Snapshot {
        /// Sessions, last used first.
        sessions: Vec<SessionSummary>,
        /// Pending interrupts, oldest first.
        interrupts: Vec<Interrupt>,
        /// Set if there are more sessions.
        more: bool,
    },
    /// There is a new session.
    SessionCreated(Box<SessionSummary>),
    /// A session is not as it was.
    SessionChanged(Box<SessionSummary>),
    /// A session is gone.
    SessionDeleted(SessionId),
    /// A turn began.
    TurnStarted {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// The model's id.
        model: String,
    },
    /// A turn is over.
    TurnEnded {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// Why it ended.
        stop_reason: StopReason,
        /// The error, where there was one.
        error: Option<TurnError>,
    },
    /// A turn waits for an answer.
    InterruptRaised(Box<Interrupt>),
    /// An interrupt has its answer.
    InterruptResolved {
        /// The session that tells of it.
        session: SessionId,
        /// The interrupt.
        interrupt: InterruptId,
        /// The answer.
        answer: Answer,
    },
    /// The configuration was read again.
    ConfigReloaded,
    /// This client read too slowly, and has missed about so many events.
    Lagged(u64),
}

impl TryFrom<v1::WatchEvent> for WatchEvent {
    type Error = WireError;

    fn try_from(event: v1::WatchEvent) -> Result<Self, WireError> {
        Ok(match event.kind.ok_or(WireError::Unknown("an event of all sessions"))? {
            Kind::Snapshot(snapshot) => Self::Snapshot {
                sessions: all(snapshot.sessions)?,
                interrupts: all(snapshot.interrupts)?,
                more: snapshot.more,
            },
            Kind::SessionCreated(summary) => Self::SessionCreated(Box::new(summary.try_into()?)),
            Kind::SessionChanged(summary) => Self::SessionChanged(Box::new(summary.try_into()?)),
            Kind::SessionDeleted(deleted) => Self::SessionDeleted(deleted.session_id.parse()?),
            Kind::TurnStarted(began) => Self::TurnStarted {
                session: began.session_id.parse()?,
                turn: began.turn_id.parse()?,
                model: began.model,
            },
            Kind::TurnEnded(over) => Self::TurnEnded {
                session: over.session_id.parse()?,
                turn: over.turn_id.parse()?,
                stop_reason: newer(Wire::from_wire(over.stop_reason, "the end"), StopReason::Failed)?,
                error: Wire::from_wire(over.error, "the error")?,
            },
            Kind::InterruptRaised(interrupt) => Self::InterruptRaised(Box::new(interrupt.try_into()?)),
            Kind::InterruptResolved(over) => Self::InterruptResolved {
                session: over.session_id.parse()?,
                interrupt: over.interrupt_id.parse()?,
                answer: Wire::from_wire(over.answer, "the answer")?,
            },
            Kind::ConfigReloaded(_) => Self::ConfigReloaded,
            Kind::Lagged(lagged) => Self::Lagged(lagged.missed),
        })
    }
}

/// Events of all sessions, as they come.
#[derive(Debug)]
pub struct WatchStream(Streaming<v1::WatchEvent>);

impl WatchStream {
    /// The next event; `None` after the last. Events of kinds that are not known here are skipped.
    ///
    /// # Errors
    /// [`ClientErrorKind::Lost`], or `ShuttingDown` when the daemon stops.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        next_known(&mut self.0, WatchEvent::try_from).await
    }
}

impl Client {
    /// Watches all sessions: with `snapshot`, what there is comes first. Sessions that work for others are told of only if
    /// `children` is set.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    pub async fn watch(&self, snapshot: bool, children: bool) -> Result<WatchStream, ClientError> {
        let request = v1::WatchRequest { snapshot, limit: 0, children };
        Ok(WatchStream(self.daemon().watch(request).await?.into_inner()))
    }
}
