//! Follows a turn: sends the turn's events and questions to the editor, and the editor's answers to the daemon.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use agent_client_protocol_schema::v1::{
    ErrorCode, PromptResponse, StopReason as WireReason, ToolCallStatus, ToolCallUpdateFields, Usage as WireUsage,
};
use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    model::ModelInfo,
    turn::{StopReason, TurnResult},
    usage::Usage,
};
use agentd_proto::client::{SessionChoice, SessionView, StartRequest};
use tokio_util::sync::CancellationToken;

use super::{
    bridge::{self, Bridge, Editor},
    message::{self, Result},
    questions::{self, Buffers, OpenQuestions},
    session::{self, FollowedTurn, OpenSession, SuspendedTurn},
    tool_call::SessionRoots,
    updates::{self, Updates},
};
use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    turn::{self, Arrival, Line as _, SocketLine, line::is_connection_lost},
};

/// Maximum number of times that a turn is continued after a stop of the daemon ended it.
const MAX_CONTINUATIONS: u32 = 3;
/// Time to wait for a stopped daemon to come back.
const RECONNECT_LIMIT: Duration = Duration::from_secs(15);
/// Delay between connection attempts.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A turn that is followed for an editor.
pub(super) struct Follow {
    bridge: Arc<Bridge>,
    session: Arc<OpenSession>,
    daemon: Daemon,
    editor: Editor,
    roots: SessionRoots,
    /// Translator of the turn's events.
    pub(super) updates: Updates,
    questions: OpenQuestions,
    /// Questions already asked as text, to avoid asking twice.
    asked: HashSet<InterruptId>,
    buffers: Buffers,
    /// Embedded models, to notify the user when one is used.
    pub(super) builtin: Vec<ModelInfo>,
    /// Answers that have not reached the daemon yet.
    unsent: Vec<(InterruptId, Answer)>,
    /// Usage of the turns that have ended.
    usage: Usage,
    cancel: CancellationToken,
    is_cancelled: bool,
    /// Set while the turn is followed without a prompt. Cancelling this token hands the turn over to a prompt.
    handover: Option<CancellationToken>,
}

/// Reason to stop following.
enum FollowEnd {
    Ended(Box<TurnResult>),
    /// The stream closed before the end of the turn was received.
    Unseen,
    /// A question was asked as text and waits for the next prompt, or a prompt takes over the turn.
    Asks,
    /// The editor has disconnected.
    Disconnected,
}

impl Follow {
    pub(super) fn new(
        bridge: Arc<Bridge>,
        session: Arc<OpenSession>,
        daemon: Daemon,
        roots: SessionRoots,
        cancel: CancellationToken,
    ) -> Self {
        let editor = bridge.editor();
        let updates = Updates::live(session.id, roots.clone(), editor.features);
        let folder = roots.project.as_ref().map(|project| session.named(project));
        let buffers = Buffers::new(bridge.peer.clone(), session.wire.clone(), folder);
        Self {
            bridge,
            session,
            daemon,
            editor,
            roots,
            updates,
            questions: OpenQuestions::default(),
            asked: HashSet::new(),
            buffers,
            builtin: Vec::new(),
            unsent: Vec::new(),
            usage: Usage::default(),
            cancel,
            is_cancelled: false,
            handover: None,
        }
    }

    /// Follows, without a prompt, the turn that was running when a session was opened, until the turn ends or a prompt
    /// takes it over. Earlier events are processed without being sent, because the editor already has them.
    pub(super) fn begin_guest(bridge: &Arc<Bridge>, session: &Arc<OpenSession>, daemon: &Daemon, view: SessionView) {
        let Some((_, first_seq)) = view.session.open_turn.filter(|_| view.live_turn.is_some()) else { return };
        let (cancel, handover) = (CancellationToken::new(), CancellationToken::new());
        let roots = bridge::session_roots(daemon, session.id, &view.session.settings);
        let mut follow = Self::new(bridge.clone(), session.clone(), daemon.clone(), roots, cancel.clone());
        follow.handover = Some(handover.clone());
        let (bridge, guest) = (bridge.clone(), session.clone());
        let following = async move {
            if let Err(error) = follow.run_guest(first_seq, &view).await {
                bridge.send_notice(&guest, &error.into_error().message).await;
            }
        };
        session.follow(|| FollowedTurn { cancel, handover, task: tokio::spawn(following) });
    }

    async fn run_guest(mut self, first_seq: u64, view: &SessionView) -> Result<PromptResponse> {
        let line = SocketLine::attach(&self.daemon, self.session.id, first_seq.saturating_sub(1)).await?;
        let mut line = line.with_children();
        self.updates.spent = view.session.summary.usage.cost_microusd;
        while line.last_seq() < view.session.summary.last_seq
            && let Some(arrival) = line.next().await?
        {
            self.updates.arrival(&arrival);
        }
        let pending: Vec<&Interrupt> = view.pending.iter().collect();
        self.run(line, &pending).await
    }

    /// Follows the turn to its end, across restarts of the daemon. `pending` are questions raised earlier.
    ///
    /// # Errors
    /// Fails if the turn failed, or the daemon is lost.
    pub(super) async fn run(mut self, mut line: SocketLine, pending: &[&Interrupt]) -> Result<PromptResponse> {
        for interrupt in pending {
            if self.ask(interrupt).await {
                return Ok(self.suspended(line));
            }
        }
        let mut continued = 0;
        loop {
            let end = self.until_end(&mut line).await?;
            let result = match &end {
                FollowEnd::Asks => return Ok(self.suspended(line)),
                FollowEnd::Ended(result) => result,
                FollowEnd::Unseen | FollowEnd::Disconnected => return self.end_prompt(end).await,
            };
            self.usage += result.usage;
            let was_stopped = matches!(result.stop_reason, StopReason::Interrupted | StopReason::Suspended);
            if !was_stopped || self.is_cancelled || continued == MAX_CONTINUATIONS || self.handover.is_some() {
                return self.end_prompt(end).await;
            }
            continued += 1;
            let (cancel, last_seq) = (self.cancel.clone(), line.last_seq());
            line = tokio::select! {
                line = self.continued(last_seq) => line?,
                () = cancel.cancelled() => {
                    self.is_cancelled = true;
                    return self.end_prompt(end).await;
                }
            };
        }
    }

    /// Resumes a suspended turn with the state known to the editor.
    pub(super) fn resume(&mut self, suspended: SuspendedTurn) -> SocketLine {
        (self.updates, self.asked) = (suspended.updates, suspended.asked);
        suspended.line
    }

    /// Sends the remaining events of a suspended turn that has ended in the meantime.
    ///
    /// # Errors
    /// Fails if the daemon is lost.
    pub(super) async fn catch_up(&mut self, suspended: SuspendedTurn) -> Result<()> {
        let SuspendedTurn { mut line, updates, .. } = suspended;
        let fresh = std::mem::replace(&mut self.updates, updates);
        while let Some(arrival) = line.next().await? {
            let translated = self.updates.arrival(&arrival);
            self.bridge.update(&self.session, translated).await;
        }
        self.bridge.update(&self.session, self.updates.finish()).await;
        self.updates = fresh;
        Ok(())
    }

    /// Suspends the turn and ends the prompt. The next prompt answers the question that was asked as text.
    fn suspended(self, line: SocketLine) -> PromptResponse {
        let reason = if self.is_cancelled { WireReason::Cancelled } else { WireReason::EndTurn };
        self.session.state().suspended =
            Some(Box::new(SuspendedTurn { line, updates: self.updates, asked: self.asked }));
        PromptResponse::new(reason)
    }

    /// Ends the prompt, and returns the stop reason for the turn's outcome, with the usage of its turns.
    async fn end_prompt(&mut self, end: FollowEnd) -> Result<PromptResponse> {
        if matches!(end, FollowEnd::Disconnected) {
            let text = "the editor disconnected; the turn continues without it";
            return Err(message::error_with_code(ErrorCode::RequestCancelled, text).into());
        }
        self.bridge.update(&self.session, self.updates.finish()).await;
        let response = |reason| PromptResponse::new(reason).usage(wire_usage(&self.usage));
        if self.is_cancelled {
            return Ok(response(WireReason::Cancelled));
        }
        let FollowEnd::Ended(result) = end else { return Ok(response(WireReason::EndTurn)) };
        if result.only_compacted && !self.updates.has_compacted {
            // The editor shows no result of a compaction unless it is sent as a message.
            self.bridge.update(&self.session, vec![updates::message(&result.text)]).await;
        }
        Ok(response(match result.stop_reason {
            StopReason::Completed | StopReason::NoAnswer | StopReason::WrongForm | StopReason::Denied => {
                WireReason::EndTurn
            }
            StopReason::Cancelled => WireReason::Cancelled,
            StopReason::MaxSteps | StopReason::TimeLimit | StopReason::Loop => WireReason::MaxTurnRequests,
            StopReason::Budget | StopReason::Cut => WireReason::MaxTokens,
            StopReason::Filtered => WireReason::Refusal,
            StopReason::Failed | StopReason::Interrupted | StopReason::Suspended => {
                let gone = Failure::new(ErrorKind::ShuttingDown, "the turn ended because the daemon stopped")
                    .hint("your next message continues the session");
                return Err(match &result.error {
                    Some(error) => message::of_turn(error).into(),
                    None => gone.into(),
                });
            }
        }))
    }

    /// Follows the turn, and returns the reason to stop.
    async fn until_end(&mut self, line: &mut SocketLine) -> Result<FollowEnd> {
        let (shutdown, cancel, handover) = (self.bridge.shutdown.clone(), self.cancel.clone(), self.handover.clone());
        let mut last = None;
        loop {
            tokio::select! {
                // Biased, so that a busy stream cannot starve a cancellation.
                biased;
                () = shutdown.cancelled() => return Ok(FollowEnd::Disconnected),
                () = cancel.cancelled(), if !self.is_cancelled => {
                    self.is_cancelled = true;
                    self.questions.withdraw_all();
                    line.cancel().await;
                }
                () = turn::or_never(handover.as_ref().map(CancellationToken::cancelled)) => return Ok(FollowEnd::Asks),
                (interrupt, answer) = self.questions.next() => match answer {
                    Some(answer) => self.answer(&interrupt, answer).await,
                    // An editor that cancels the turn also dismisses its questions.
                    None if self.is_cancelled => {}
                    None => self.bridge.update(&self.session, vec![updates::message(&questions::postponed_message(&interrupt))]).await,
                },
                arrival = line.next() => match arrival? {
                    Some(Arrival::Event(event)) => {
                        if self.event(&event).await {
                            return Ok(FollowEnd::Asks);
                        }
                        if let EventKind::TurnEnded { result } = event.kind {
                            if line.ends_with(result.turn_id) {
                                return Ok(FollowEnd::Ended(result));
                            }
                            last = Some(result);
                        }
                    }
                    Some(Arrival::Child(event)) => {
                        self.bridge.update(&self.session, self.updates.child(&event)).await;
                    }
                    Some(Arrival::FileRequested(request, sender)) => self.buffers.ask(request, sender),
                    Some(Arrival::Note(_)) => self.resend_answers().await,
                    Some(Arrival::Lost) => {}
                    None => return Ok(last.map_or(FollowEnd::Unseen, FollowEnd::Ended)),
                },
            }
        }
    }

    /// Sends an event to the editor. Returns true if it was a question asked as text, which ends the prompt.
    async fn event(&mut self, event: &Event) -> bool {
        self.bridge.update(&self.session, self.updates.event(event)).await;
        match &event.kind {
            EventKind::TurnStarted { model, .. }
                if self.builtin.iter().any(|builtin| builtin.id == *model)
                    && !self.bridge.has_announced_builtin.swap(true, Ordering::Relaxed) =>
            {
                let text = [turn::builtin_notice(&self.daemon)];
                self.bridge.send_messages(&self.session, &text).await;
            }
            EventKind::InterruptRaised { interrupt } if !self.is_cancelled => return self.ask(interrupt).await,
            EventKind::InterruptResolved { interrupt_id, call_id, answer, .. } => {
                self.questions.withdraw(*interrupt_id);
                if call_id.is_none() {
                    self.complete_approval(*interrupt_id, answer).await;
                }
            }
            _ => {}
        }
        false
    }

    /// Asks the user. Returns true if the question was asked as text, which ends the prompt.
    async fn ask(&mut self, interrupt: &Interrupt) -> bool {
        if self.questions.knows(interrupt.id) {
            // The question is already known; this is its replayed event.
            return false;
        }
        let call = interrupt.call_id.as_ref().map(|call| self.updates.call_id(interrupt.session_id, call));
        match &interrupt.ask {
            Ask::Question { .. } if interrupt.ask.is_secret() || !self.editor.has_forms => {
                let text = questions::question_text(interrupt).filter(|_| self.asked.insert(interrupt.id));
                let Some(text) = text else { return false };
                let is_answered_here = !interrupt.ask.is_secret();
                if is_answered_here {
                    self.session.state().questions.insert(interrupt.id);
                }
                self.bridge.update(&self.session, vec![updates::message(&text)]).await;
                return is_answered_here;
            }
            Ask::Approval { tool, args, .. } => {
                // A subagent's call may not have been sent to the editor yet.
                if let (Some(id), Some(call)) = (&interrupt.call_id, &call)
                    && !self.updates.knows(call)
                {
                    let update = self.updates.call(interrupt.session_id, id, tool, args);
                    self.bridge.update(&self.session, vec![update]).await;
                }
            }
            Ask::Question { .. } => {}
        }
        self.questions.ask(&self.bridge.peer, &self.session.wire, call, interrupt, &self.roots);
        false
    }

    /// Completes the tool call shown for an approval that belongs to no call.
    async fn complete_approval(&mut self, id: InterruptId, answer: &Answer) {
        if self.questions.knows(id) {
            let is_refused = matches!(answer, Answer::Reject { .. });
            let status = if is_refused { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
            let update = updates::update(id.to_string(), ToolCallUpdateFields::new().status(status));
            self.bridge.update(&self.session, vec![update]).await;
        }
    }

    /// Sends an answer to the daemon. A late answer is not a failure.
    async fn answer(&mut self, interrupt: &Interrupt, answer: Answer) {
        let Err(error) = self.daemon.client.answer(interrupt.id, &answer, &self.editor.name).await else { return };
        match error.answered() {
            Some(ErrorKind::Conflict | ErrorKind::NotFound) => {}
            Some(ErrorKind::ShuttingDown) | None => self.unsent.push((interrupt.id, answer)),
            Some(_) => {
                let text = format!("\n\nThe answer was refused: {error}.{}", questions::postponed_message(interrupt));
                self.bridge.update(&self.session, vec![updates::message(&text)]).await;
            }
        }
    }

    /// Sends stored answers to the daemon once it is back.
    async fn resend_answers(&mut self) {
        // The continued turn may call these servers.
        session::register_servers_again(&self.daemon, &self.session).await;
        for (id, answer) in std::mem::take(&mut self.unsent) {
            // Any error except a lost connection means that the question is no longer open.
            let sent = self.daemon.client.answer(id, &answer, &self.editor.name).await;
            if sent.is_err_and(|error| is_connection_lost(&error)) {
                self.unsent.push((id, answer));
            }
        }
    }

    /// Continues a turn that was ended by a stop of the daemon. Waits for the daemon to come back, but does not start
    /// it, because the stop may have been intended.
    async fn continued(&mut self, last_seq: u64) -> Result<SocketLine, Failure> {
        let started_at = Instant::now();
        loop {
            match self.start_again(last_seq).await {
                Err(failure) if failure.exit == Exit::Unreachable && started_at.elapsed() < RECONNECT_LIMIT => {
                    tokio::time::sleep(RETRY_DELAY).await
                }
                line => return line,
            }
        }
    }

    /// Starts the turn again, or follows the turn that another client has already started.
    async fn start_again(&mut self, last_seq: u64) -> Result<SocketLine, Failure> {
        let client = self.daemon.location.connect().await?;
        self.daemon = Daemon { client, ..self.daemon.clone() };
        session::register_servers_again(&self.daemon, &self.session).await;
        let start = self.bridge.turn(&self.daemon, &self.session, None);
        let request = StartRequest { session: SessionChoice::Existing(self.session.id.to_string()), start };
        match SocketLine::start_with_files(&self.daemon, request, self.editor.files).await {
            Err(failure) if failure.exit != Exit::Unreachable => {
                let view = self.daemon.client.session(&self.session.id.to_string()).await?;
                if view.live_turn.is_none() {
                    return Err(failure);
                }
                Ok(SocketLine::attach(&self.daemon, self.session.id, last_seq).await?.with_children())
            }
            line => Ok(line?.with_children()),
        }
    }
}

/// Returns the tokens of a prompt's turns, each kind of input apart as editors add them up. Returns `None` if no server
/// counted any.
fn wire_usage(usage: &Usage) -> Option<WireUsage> {
    let counted = |tokens: u64| (tokens > 0).then_some(tokens);
    let from_cache = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
    let input = usage.prompt_tokens.saturating_sub(from_cache);
    let counts = WireUsage::new(counted(usage.tokens())?, input, usage.completion_tokens);
    let counts = counts.thought_tokens(counted(usage.reasoning_tokens));
    let counts = counts.cached_read_tokens(counted(usage.cached_tokens));
    Some(counts.cached_write_tokens(counted(usage.cache_write_tokens)))
}
