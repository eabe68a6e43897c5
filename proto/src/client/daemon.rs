//! Calls for the daemon itself: status, MCP servers, storage, usage, audit log, and recorded requests to models.
//!
//! Also the stream of events of all sessions.

use std::time::Duration;

use agentd_core::{
    Date,
    agent::AgentCard,
    audit::{AuditRecord, AuditReport, RecordQuery},
    catalogue::ToolStanding,
    counters::DayCounters,
    error::ErrorKind,
    exchange::{Exchange, StoredExchanges},
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
    /// Returns the status of the daemon.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn status() -> DaemonStatus = daemon.status(StatusRequest) whole;

    /// Reloads the configuration.
    ///
    /// # Errors
    /// Fails if the configuration is invalid (the old configuration remains active), or if the connection fails.
    fn reload() -> ReloadOutcome = daemon.reload(ReloadRequest) whole;

    /// Requests a shutdown, and immediately returns the daemon's process ID. Running turns may continue until the
    /// deadline or for the configured time, and are then suspended.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn stop(deadline: Option<Duration>) -> u32 = daemon.stop(v1::StopRequest { drain_ms: deadline.to_wire() }) only pid;

    /// Returns the five slots and their models.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn models() -> Vec<SlotInfo> = daemon.models(v1::ModelsRequest::default()) all slots;

    /// Returns the models like [`Self::models`], after querying the servers for model properties that are not
    /// configured. Takes at most two seconds.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn models_looked_up() -> Vec<SlotInfo> = daemon.models(ModelsRequest + look_up: true) all slots;

    /// Checks all stored data and returns the problems. Takes about one second per 100 MB.
    ///
    /// # Errors
    /// Fails if the connection fails, or the daemon is too old for this method.
    fn examine() -> Vec<Finding> = daemon.examine(ExamineRequest) all findings;

    /// Returns the models that the server of a slot lists.
    ///
    /// # Errors
    /// Fails if the slot has no server, the server is unreachable or lists no models, or the connection fails.
    fn listed_models(slot: Slot) -> Vec<ListedModel> = daemon.list_models(ListModelsRequest) all models;

    /// Returns all tools, sorted by name, each with the reason why the next turn of the session would offer it or not.
    /// If `session` is empty, a new session is assumed.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn tools(session: &str) -> Vec<ToolStanding> = daemon.tools(ToolsRequest) all standings;

    /// Returns all agents except the main one, sorted by name.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn agents() -> Vec<AgentCard> = daemon.agents(AgentsRequest) all agents;

    /// Returns the source of each configuration value, and the chain of links around a turn.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn config() -> ConfigView = daemon.config(ConfigRequest) whole;

    /// Returns the configured MCP servers, by name.
    ///
    /// # Errors
    /// Fails if the connection fails.
    fn mcp_servers() -> Vec<McpServerView> = mcp.list(v1::ListMcpServersRequest::default()) all servers;

    /// Returns the servers that a client supplied for a session, by name.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn session_servers(session: &str) -> Vec<McpServerView> = mcp.list(ListMcpServersRequest) all servers;

    /// Stops a server, and returns once the server has exited.
    ///
    /// # Errors
    /// Fails if there is no server with that name, or the connection fails.
    fn stop_mcp_server(name: &str) -> () = mcp.stop(StopMcpServerRequest) nothing;

    /// Returns the last lines of a server's log, oldest first, at most `lines`; 0 for all.
    ///
    /// # Errors
    /// Fails if there is no server with that name, or the connection fails.
    fn mcp_server_logs(name: &str, lines: u32) -> Vec<String> = mcp.logs(McpServerLogsRequest) only lines;

    /// Starts a login to a server with a URL. Returns the URL that the user must open.
    ///
    /// # Errors
    /// Fails if there is no server with that name, the server does not support logins, or the connection fails.
    fn begin_mcp_login(name: &str, redirect: &str) -> String = mcp.begin_login(BeginMcpLoginRequest) only address;

    /// Completes a login with the full URL to which the browser was redirected.
    ///
    /// # Errors
    /// Fails if no login was begun, the token is rejected, or the connection fails.
    fn finish_mcp_login(name: &str, came_back_to: &str) -> () = mcp.finish_login(FinishMcpLoginRequest) nothing;

    /// Starts a server now, for a project in `folder`. If `folder` is empty, the project of the last session is used.
    ///
    /// # Errors
    /// Fails if there is no server with that name, the server cannot be started, or the connection fails.
    fn start_mcp_server(name: &str, folder: &str) -> McpServerView =
        mcp.start(StartMcpServerRequest) needed server "the server";

    /// Validates `text` as the content of the user's `mcp_servers.yaml`.
    ///
    /// # Errors
    /// Fails if the text is invalid, or the connection fails.
    fn check_mcp_servers(text: &str, path: &str) -> () = mcp.check(CheckMcpServersRequest) nothing;

    /// Returns the disk usage of each part of the data folder.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or the connection fails.
    fn storage() -> StorageView = storage_service.show(ShowStorageRequest) whole;

    /// Removes data that has been unused for the configured time, or reports what would be removed.
    ///
    /// # Errors
    /// Fails if the sessions cannot be listed, or the connection fails.
    fn clean(dry_run: bool, client: &str) -> CleanReport = storage_service.clean(CleanRequest) whole;

    /// Returns tokens and cost of model calls, by model, session, day or slot.
    ///
    /// # Errors
    /// Fails if the range of days is invalid, the journal cannot be read, or the connection fails.
    fn usage(query: &UsageQuery) -> UsageReport = spending.show(v1::ShowSpendingRequest::from(query)) whole;

    /// Returns daily counters for a range of days.
    ///
    /// # Errors
    /// Fails if the journal cannot be read, or the connection fails.
    fn counters(since: Option<Date>, until: Option<Date>) -> Vec<DayCounters> =
        spending.counters(CountersRequest) all days;

    /// Returns the newest audit records that match the query, oldest first. Returns fewer records if they would be too
    /// large for one message.
    ///
    /// # Errors
    /// Fails if the log cannot be read, or the connection fails.
    fn audit_records(query: &RecordQuery) -> Vec<AuditRecord> =
        audit.list(v1::ListAuditRequest::from(query)) all records;

    /// Verifies the audit log. If a hash was noted elsewhere, checks that its line is still in the log.
    ///
    /// # Errors
    /// Fails if the log cannot be read, or the connection fails.
    fn verify_audit(noted_hash: Option<String>) -> AuditReport = audit.verify(VerifyAuditRequest) whole;
}

impl Client {
    /// Tests the model of a slot. Reports the plan and each completed check to the callback, and returns all checks.
    ///
    /// # Errors
    /// Fails if the connection fails, or the daemon is too old for this method.
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
                // The step kind was added by a newer daemon.
                None => {}
            }
        }
        Ok(checks)
    }

    /// Replaces the MCP servers that clients supplied for a session. Returns their states in the same order, and the
    /// version of the set.
    ///
    /// # Errors
    /// Fails if there is no such session, a definition is invalid, or the connection fails.
    pub async fn set_session_servers(
        &self,
        servers: v1::SetSessionServersRequest,
    ) -> Result<(Vec<McpServerView>, u64), ClientError> {
        let set = self.mcp().set_session_servers(servers).await?.into_inner();
        Ok((all(set.servers)?, set.version))
    }
}

/// Maximum total size of exchanges in one read, in bytes.
const MAX_TRACE_BYTES: usize = 256 << 20;

impl Client {
    /// Reads recorded exchanges of a session: the exchanges in `numbers`, or all exchanges without their bodies if
    /// `numbers` is empty.
    ///
    /// # Errors
    /// Fails if nothing is recorded for the session, a number does not exist, or the connection fails.
    pub async fn exchanges(&self, session: &str, numbers: &[u64]) -> Result<StoredExchanges, ClientError> {
        let request = v1::ReadTraceRequest { session: session.to_owned(), numbers: numbers.to_vec() };
        let mut pieces = self.traces().read(request).await?.into_inner();
        let mut text = Vec::new();
        while let Some(piece) = pieces.message().await? {
            match piece.part {
                Some(trace_piece::Part::Data(data)) if text.len() + data.len() <= MAX_TRACE_BYTES => text.extend(data),
                Some(trace_piece::Part::Data(_)) => return Err(unreadable("the exchanges exceed 256 MiB")),
                Some(trace_piece::Part::Summary(v1::TraceSummary { remarks })) => {
                    return Ok(StoredExchanges { exchanges: parsed(&text)?, remarks });
                }
                None => {}
            }
        }
        Err(unreadable("the daemon's list of exchanges ended early"))
    }
}

fn parsed(text: &[u8]) -> Result<Vec<Exchange>, ClientError> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&format!("invalid exchange: {error}")))
}

fn unreadable(reason: &str) -> ClientError {
    ClientError::new(ClientErrorKind::Answered(ErrorKind::Internal), reason)
}

/// An event of any session.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// The current state, sent first.
    Snapshot {
        /// Sessions, most recently used first.
        sessions: Vec<SessionSummary>,
        /// Pending interrupts, oldest first.
        interrupts: Vec<Interrupt>,
        /// True if there are more sessions.
        more: bool,
    },
    /// A session was created.
    SessionCreated(Box<SessionSummary>),
    /// The summary of a session changed.
    SessionChanged(Box<SessionSummary>),
    /// A session was deleted.
    SessionDeleted(SessionId),
    /// A turn of a session began.
    TurnStarted {
        /// Session of the turn.
        session: SessionId,
        /// ID of the turn.
        turn: TurnId,
        /// ID of the model.
        model: String,
    },
    /// A turn has ended.
    TurnEnded {
        /// Session of the turn.
        session: SessionId,
        /// ID of the turn.
        turn: TurnId,
        /// Reason why the turn ended.
        stop_reason: StopReason,
        /// Error of the turn, if any.
        error: Option<TurnError>,
    },
    /// A turn waits for an answer.
    InterruptRaised(Box<Interrupt>),
    /// An interrupt was answered.
    InterruptResolved {
        /// Session in which the interrupt was raised.
        session: SessionId,
        /// ID of the interrupt.
        interrupt: InterruptId,
        /// Answer to the question.
        answer: Answer,
    },
    /// The configuration was reloaded.
    ConfigReloaded,
    /// This client read too slowly and has missed approximately this many events.
    Lagged(u64),
}

impl TryFrom<v1::WatchEvent> for WatchEvent {
    type Error = WireError;

    fn try_from(event: v1::WatchEvent) -> Result<Self, WireError> {
        Ok(match event.kind.ok_or(WireError::Unknown("a session event"))? {
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
                stop_reason: newer(Wire::from_wire(over.stop_reason, "the stop reason"), StopReason::Failed)?,
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

/// Live events of all sessions.
#[derive(Debug)]
pub struct WatchStream(Streaming<v1::WatchEvent>);

impl WatchStream {
    /// Returns the next event, or `None` after the last. Events of unknown kinds are skipped.
    ///
    /// # Errors
    /// Fails with [`ClientErrorKind::Lost`], or with `ShuttingDown` when the daemon stops.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        next_known(&mut self.0, WatchEvent::try_from).await
    }
}

impl Client {
    /// Watches all sessions. With `snapshot`, the current state is sent first. With `children`, subagent sessions are
    /// included.
    ///
    /// # Errors
    /// Fails if the connection fails, or the daemon is too old for this method.
    pub async fn watch(&self, snapshot: bool, children: bool) -> Result<WatchStream, ClientError> {
        let request = v1::WatchRequest { snapshot, limit: 0, children };
        Ok(WatchStream(self.daemon().watch(request).await?.into_inner()))
    }
}
