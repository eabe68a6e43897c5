//! Subagents: sessions that work on another session's call.
//!
//! A subagent is a session like any other, with its own history, todos, journal, actor and turns. Its settings name the
//! parent session, whose files the subagent shares. A call of the parent starts the subagent, follows its events to the
//! end, and returns the result.
//!
//! A monitor forwards the subagent's questions to the parent's user, and forwards the parent's cancellation, limits,
//! grants and the disconnection of its client to the subagent.

use std::{collections::HashSet, sync::atomic::Ordering, time::Duration};

use agentd_core::{
    agent::{Parent, SUBAGENT, Subagent},
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{InterruptId, SessionId, TurnId},
    item::{Item, ItemBody},
    ports::CallProgress,
    session::SessionSettings,
    tool::{ToolErrorCode, ToolOutput},
    turn::{StartTurn, StopReason, TurnOptions},
    worktree::SessionWorktree,
};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    client::{ClientLines, TurnStart},
    error::{EngineError, Result},
    grants::LiveGrants,
    links::tools::agents,
    recovery::subagents::{
        self, SubagentOutput, SubagentResult, ended_output, note_removed_worktree, own_worktree, prepare_for_parent,
    },
    session::{
        SessionHandle,
        journal::Subscription,
        registry::{
            WeakRegistry,
            worktree::{check_worktree_limit, remove_unchanged, with_worktree},
        },
        wait_until,
    },
    turn::{
        Flow, TurnContext, TurnExit, dispatch,
        hooks::{Hook, Invocation, Subagents, Task},
        stopwatch::StopwatchGuard,
    },
};

/// Maximum length of a task's title, in characters.
const MAX_TITLE: usize = 80;

/// Answer length in characters below which the subagent is asked once for detail. Such short answers often only state
/// that something was done.
const SHORT_ANSWER: usize = 200;

/// Prompt for more detail.
const DETAIL_PROMPT: &str = "The agent that gave you this task sees only your answer. If it is complete, repeat it \
                      unchanged. Otherwise give it in full: what you found or did, with paths, names and figures, and \
                      what is left to do. Do not call tools unless something is missing.";

/// A subagent that is working on a call.
struct RunningSubagent {
    session: SessionHandle,
    subagent: Subagent,
    /// The turn that does the work.
    turn: TurnId,
}

/// Runs subagents as sessions of the same daemon.
pub(crate) struct SessionSubagents(pub(crate) WeakRegistry);

impl Subagents for SessionSubagents {
    fn run<'a>(&'a self, call: &'a Invocation<'a>, task: Task) -> Hook<'a, ToolOutput> {
        Box::pin(async move {
            match self.begin(call, &task).await? {
                Ok(running) => self.follow(call, running, task.max_steps).await,
                Err(refused) => self.fail(call, &refused).await,
            }
        })
    }

    fn resume<'a>(&'a self, call: &'a Invocation<'a>, subagent: Subagent, max_steps: u32) -> Hook<'a, ToolOutput> {
        Box::pin(async move {
            let context = call.context;
            let found = async {
                let session = self.0.registry()?.get(subagent.session_id).await?;
                // Passes on the current grants, because the session that previously did so may no longer exist.
                session.take_permissions(context.rules.grants.of_session()).await?;
                let turn = session.show().await?.live_turn;
                Ok::<_, EngineError>((session, turn))
            };
            let lost = match found.await {
                Ok((session, Some(turn))) => {
                    return self.follow(call, RunningSubagent { session, subagent, turn }, max_steps).await;
                }
                Ok((_, None)) => match ended_output(&context.ports, context.ids.session, subagent).await {
                    Ok(ended) => return Ok(record_effects(call, ended)),
                    Err(lost) => lost,
                },
                Err(lost) => lost,
            };
            self.fail(call, &lost).await
        })
    }

    fn is_alive(&self, id: SessionId) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let live = async { self.0.registry()?.live(id).await };
            matches!(live.await, Ok(Some(_)))
        })
    }

    fn cancel(&self, id: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A subagent that has ended needs no cancellation, and a stopping daemon cancels it anyway.
            let cancelled = async { self.0.registry()?.get(id).await?.cancel(None).await };
            if let Err(error) = cancelled.await {
                tracing::debug!(session = %id, "the subagent was not cancelled: {error}");
            }
        })
    }
}

impl SessionSubagents {
    /// Returns the output of a call whose subagent cannot run. If the daemon is stopping, the call is left to the next
    /// start.
    async fn fail(&self, call: &Invocation<'_>, error: &EngineError) -> Flow<ToolOutput> {
        if self.is_stopping(call.context, error).await {
            return leave_for_next_start(call).await;
        }
        Ok(ToolOutput::error(ToolErrorCode::Tool, failure_text(error)))
    }

    /// Returns true if the error is due to a daemon stop, as opposed to an idle session that was unloaded.
    async fn is_stopping(&self, context: &TurnContext, error: &EngineError) -> bool {
        let live = async { self.0.registry()?.live(context.ids.session).await };
        error.kind() == ErrorKind::ShuttingDown && live.await.is_err()
    }

    /// Records the subagent in the journal before starting the subagent, so that a crash between these steps leaves no
    /// unknown session.
    async fn begin(&self, call: &Invocation<'_>, task: &Task) -> Flow<Result<RunningSubagent>> {
        let context = call.context;
        let target = match task.context_id {
            None => (SessionId::generate(), task.agent.clone(), 0),
            Some(id) => match find_earlier(call, task, id).await {
                Ok((agent, last_seq)) => (id, agent, last_seq),
                Err(refused) => return Ok(Err(refused)),
            },
        };
        let (session_id, agent, after) = target;
        let subagent = Subagent {
            call_id: call.call.call_id.clone(),
            session_id,
            name: agent.clone().unwrap_or_else(|| SUBAGENT.to_owned()),
            task: subagents::one_line(&task.text, MAX_TITLE),
            after,
        };
        dispatch::begin(call).await?;
        context.recorder.change(StateChange::Subagent(subagent.clone())).await?;
        context.recorder.flush().await?;
        let started = self.start(context, task, subagent, agent).await;
        if started.is_err() && task.worktree {
            // The worktree is unused.
            remove_unchanged(&context.ports, session_id).await;
        }
        Ok(started)
    }

    /// Starts the work with the current settings, rules and grants of the session.
    async fn start(
        &self,
        context: &TurnContext,
        task: &Task,
        subagent: Subagent,
        agent: Option<String>,
    ) -> Result<RunningSubagent> {
        let registry = self.0.registry()?;
        let parent = Some(Parent { session: context.ids.session, agent, tools: context.tools.finder.names() });
        let settings =
            SessionSettings { parent, agent: None, ..context.rules.grants.of_session().applied_to(&context.settings) };
        let session = match task.context_id {
            Some(id) => {
                let session = registry.get(id).await?;
                session.adopt(settings).await?;
                session
            }
            None if task.worktree => {
                check_worktree_limit(&context.ports, context.ids.session).await?;
                let worktree = Some(SessionWorktree::default());
                let settings = SessionSettings { worktree, ..settings };
                let settings = with_worktree(&context.ports, subagent.session_id, settings).await?;
                registry.new_session(subagent.session_id, settings).await?
            }
            None => registry.new_session(subagent.session_id, settings).await?,
        };
        let has_own_worktree =
            task.worktree || own_worktree(&context.ports, session.id(), context.ids.session).await.is_some();
        let start = input(context, task.text.clone(), task.max_steps, task.agent.as_deref(), has_own_worktree);
        let turn = session.start_turn(start).await?.turn_id;
        Ok(RunningSubagent { session, subagent, turn })
    }

    /// Follows the subagent to its end, and asks it once for detail after a short answer.
    async fn follow(&self, call: &Invocation<'_>, running: RunningSubagent, max_steps: u32) -> Flow<ToolOutput> {
        let RunningSubagent { session, subagent, turn } = running;
        let name = subagent.name.clone();
        let mut work = SubagentResult::new(subagent);
        let mut monitor = match Monitor::begin(call, session.clone(), turn, &work).await {
            Ok(monitor) => monitor,
            Err(lost) if self.is_stopping(call.context, &lost).await => return leave_for_next_start(call).await,
            Err(lost) => {
                work.lost = Some(failure_text(&lost));
                return Ok(record_effects(call, work.output()));
            }
        };
        monitor.follow_to_end(&mut work).await?;
        let context = call.context;
        let has_own_worktree = own_worktree(&context.ports, session.id(), context.ids.session).await.is_some();
        if work.wants_detail(SHORT_ANSWER) {
            let detail = input(context, DETAIL_PROMPT.to_owned(), max_steps, Some(&name), has_own_worktree);
            // If the subagent cannot be asked, its first answer is final.
            if let Ok(started) = session.start_turn(detail).await {
                (monitor.turn, monitor.disconnect_reported) = (started.turn_id, false);
                monitor.follow_to_end(&mut work).await?;
            }
        }
        let output = record_effects(call, work.output());
        if has_own_worktree && remove_unchanged(&context.ports, session.id()).await {
            return Ok(note_removed_worktree(output));
        }
        Ok(prepare_for_parent(&context.ports, session.id(), context.ids.session, output).await)
    }
}

/// Records the effects of the subagent's work on the turn.
fn record_effects(call: &Invocation<'_>, SubagentOutput { output, delegated }: SubagentOutput) -> ToolOutput {
    call.record.entries().effects.delegated = delegated;
    output
}

async fn leave_for_next_start<T>(call: &Invocation<'_>) -> Flow<T> {
    call.context.control.cancel.cancelled().await;
    Err(TurnExit::Finished(StopReason::Cancelled))
}

/// Returns the agent of an earlier subagent of this session, and the sequence number of its last event.
async fn find_earlier(call: &Invocation<'_>, task: &Task, id: SessionId) -> Result<(Option<String>, u64)> {
    let context = call.context;
    let stored = context.ports.store.session(id).await?;
    let is_ours = |parent: &Parent| parent.session == context.ids.session;
    match stored.as_ref().and_then(|stored| Some((stored, stored.settings.parent.clone().filter(is_ours)?))) {
        Some((stored, parent)) => {
            let named = task.agent.as_deref().filter(|_| task.is_named);
            agents::check_continuation(context, parent.agent.as_deref(), named)
                .map_err(|reason| EngineError::new(ErrorKind::InvalidInput, reason))?;
            Ok((parent.agent, stored.summary.last_seq))
        }
        None => {
            let unknown = format!("no subagent of this session has the context_id {id}");
            Err(EngineError::not_found(unknown, "omit context_id for a new subagent"))
        }
    }
}

/// Creates the start request of a subagent's turn. The input is written by a model, so none of it counts as typed by
/// the user.
fn input(
    context: &TurnContext,
    text: String,
    max_steps: u32,
    agent: Option<&str>,
    has_own_worktree: bool,
) -> TurnStart {
    let own = agent.and_then(|id| context.active_agent.agents().get(id)?.slot);
    // Without its own worktree, the subagent works on the same files, which the same clients have open.
    let files = if has_own_worktree { Default::default() } else { context.files.client_files.lines() };
    let lines = ClientLines { tools: None, files };
    let start = StartTurn {
        text: Some(text),
        typed_bytes: Some(0),
        slot: context.settings.slot.or(own).or(Some(context.models.slot)),
        max_steps: Some(max_steps),
        on_interrupt: context.rules.answering.now(),
        while_connected: context.rules.answering.while_connected(),
        client: context.ids.client.clone().unwrap_or_default(),
        environment: (*context.control.environment).clone(),
        // Tools that the client did not allow for the turn are also not allowed for its subagents.
        options: TurnOptions { allowed_tools: context.options.allowed_tools.clone(), ..TurnOptions::default() },
        ..StartTurn::default()
    };
    TurnStart { start, lines }
}

fn failure_text(error: &EngineError) -> String {
    format!("the subagent could not run: {}", error.sentence())
}

/// Time for a subagent to record its end after a cancellation. Five seconds of this time are for a running tool.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// Maximum length of a call's arguments in progress lines, in characters.
const MAX_ARGUMENTS: usize = 100;

/// Follows the subagent of one call.
struct Monitor<'a> {
    call: &'a Invocation<'a>,
    session: SessionHandle,
    /// The turn that does the work. Other turns may follow, and many events may come after its end.
    turn: TurnId,
    events: Subscription,
    grants: LiveGrants,
    progress: CallProgress,
    /// Open questions of the subagent. While there are any, the turn's stopwatch is paused.
    questions: HashSet<InterruptId>,
    guard: StopwatchGuard<'a>,
    /// Reason why the subagent was cancelled, and the deadline for its end.
    stopped: Option<(StopReason, Instant)>,
    /// True once the subagent was notified that the client has disconnected.
    disconnect_reported: bool,
}

impl<'a> Monitor<'a> {
    async fn begin(
        call: &'a Invocation<'a>,
        session: SessionHandle,
        turn: TurnId,
        work: &SubagentResult,
    ) -> Result<Self> {
        let events = session.subscribe(work.subagent.after).await?;
        let context = call.context;
        let progress = call.started.get().map(|item| context.recorder.progress(*item)).unwrap_or_default();
        // Clients that wait for progress get this line at once.
        progress.report(&format!("{}: {}", work.subagent.name, work.subagent.task));
        let grants = context.rules.grants.clone();
        let (questions, guard) = (HashSet::new(), context.control.stopwatch.work());
        Ok(Self {
            call,
            session,
            turn,
            events,
            grants,
            progress,
            questions,
            guard,
            stopped: None,
            disconnect_reported: false,
        })
    }

    /// Follows the subagent until the turn that does the work has ended.
    async fn follow_to_end(&mut self, work: &mut SubagentResult) -> Flow {
        let context = self.call.context;
        loop {
            let runs = self.stopped.is_none();
            let give_up_at = self.stopped.map(|(_, at)| at);
            tokio::select! {
                biased;
                () = context.control.cancel.cancelled(), if runs => self.stop(work, StopReason::Cancelled).await,
                () = context.rules.answering.wait_for_disconnect(), if !self.disconnect_reported => {
                    self.disconnect_reported = true;
                    // An error means that the session has ended and asks no more questions.
                    let _ = self.session.client_left(self.turn).await;
                }
                event = self.events.next() => match event {
                    Some(Ok(event)) => {
                        self.record_event(work, &event).await?;
                        if matches!(&event.kind, EventKind::TurnEnded { result } if result.turn_id == self.turn) {
                            return Ok(());
                        }
                    }
                    // The daemon is stopping, so the next daemon process handles the call.
                    Some(Err(error)) if error.kind() == ErrorKind::ShuttingDown => {
                        return leave_for_next_start(self.call).await;
                    }
                    gone => {
                        let cause = gone.and_then(Result::err);
                        work.lost = Some(cause.map_or_else(|| "it was closed".to_owned(), |error| error.to_string()));
                        return Ok(());
                    }
                },
                // Grants and revocations for the session apply to its subagents.
                () = self.grants.changed() => {
                    if let Err(error) = self.session.take_permissions(self.grants.of_session()).await {
                        let session = self.session.id();
                        tracing::warn!(%session, "could not pass on the current permissions: {error}");
                    }
                }
                // While the subagent waits for the user, no time limit applies, regardless of time used by others.
                () = context.control.stopwatch.reaches(context.limits.time), if runs && self.questions.is_empty() => {
                    self.stop(work, StopReason::TimeLimit).await;
                }
                () = wait_until(give_up_at) => {
                    work.lost = Some("it did not end in time after it was cancelled".to_owned());
                    return Ok(());
                }
            }
        }
    }

    async fn record_event(&mut self, work: &mut SubagentResult, event: &Event) -> Flow {
        let context = self.call.context;
        work.record_event(&event.kind);
        match &event.kind {
            EventKind::UsageUpdated { usage, .. } => {
                let before = context.tools.delegated.fetch_add(usage.tokens(), Ordering::Relaxed);
                let total_delegated = before.saturating_add(usage.tokens());
                let own = self.call.state.usage.tokens().saturating_sub(self.call.state.delegated);
                let is_spent = context.limits.tokens.is_some_and(|limit| own.saturating_add(total_delegated) >= limit);
                if is_spent && self.stopped.is_none() {
                    self.stop(work, StopReason::Budget).await;
                }
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolCall(call), .. }, .. } => {
                let arguments = subagents::one_line(&call.arguments, MAX_ARGUMENTS);
                self.progress.report(&format!("{}: {} {arguments}", work.subagent.name, call.name));
            }
            EventKind::InterruptRaised { interrupt } => {
                if self.questions.is_empty() {
                    self.guard = context.control.stopwatch.pause();
                }
                self.questions.insert(interrupt.id);
                context.recorder.child(event.kind.clone()).await?;
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                if self.questions.remove(interrupt_id) && self.questions.is_empty() {
                    self.guard = context.control.stopwatch.work();
                }
                context.recorder.child(event.kind.clone()).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Cancels the subagent for this reason.
    async fn stop(&mut self, work: &mut SubagentResult, reason: StopReason) {
        self.stopped = Some((reason, Instant::now() + CANCEL_GRACE));
        work.stopped.get_or_insert(reason);
        // A subagent that has ended has already recorded its end.
        let _ = self.session.cancel(Some(self.turn)).await;
    }
}
