//! Follows a subagent: its questions reach the person at the parent, and the parent's cancel, limits, grants and the
//! leave of its client reach it.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::{InterruptId, TurnId},
    item::{Item, ItemBody},
    ports::CallProgress,
    tool::ToolCall,
    turn::StopReason,
};
use tokio::time::{Instant, sleep_until};

use crate::{
    error::EngineError,
    grants::LiveGrants,
    recovery::subagents::{self, SubagentResult},
    session::{SessionHandle, history::journal::Subscription},
    turn::{TurnExit, hooks::Invocation, stopwatch::StopwatchGuard},
};

/// Time for a subagent to tell its end after a cancel. A tool of it has five seconds of that.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// The characters of a call's arguments that are told.
const ARGUMENTS: usize = 100;

/// One call's look at the subagent that works for it.
pub(super) struct Monitor<'a> {
    call: &'a Invocation<'a>,
    session: SessionHandle,
    /// The turn that does the work. Others may follow it, and much may be told behind its end.
    turn: TurnId,
    events: Subscription,
    grants: LiveGrants,
    progress: CallProgress,
    /// Its open questions; while there are any, the time of the turn stands still.
    asked: HashSet<InterruptId>,
    share: StopwatchGuard<'a>,
    /// Why it was told to end, and until when it may take.
    stopped: Option<(StopReason, Instant)>,
    /// It was told that the client is gone.
    told_of_leave: bool,
}

/// Event of the monitor.
enum MonitorEvent {
    Event(Option<Result<Arc<Event>, EngineError>>),
    Stop(StopReason),
    Granted,
    ClientLeft,
    GaveUp,
}

impl<'a> Monitor<'a> {
    pub(super) async fn begin(
        call: &'a Invocation<'a>,
        session: SessionHandle,
        turn: TurnId,
        work: &SubagentResult,
    ) -> Result<Self, EngineError> {
        let events = session.subscribe(work.subagent().after).await?;
        let context = call.context;
        let progress = call.started.get().map(|item| context.recorder.progress(*item)).unwrap_or_default();
        // Also for clients that wait to listen: it is there now.
        progress.tell(&format!("{}: {}", work.subagent().name, work.subagent().task));
        let grants = context.rules.grants.clone();
        let (asked, share) = (HashSet::new(), context.control.stopwatch.work());
        Ok(Self { call, session, turn, events, grants, progress, asked, share, stopped: None, told_of_leave: false })
    }

    /// From here on another turn of it does the work.
    pub(super) fn go_on_with(&mut self, turn: TurnId) {
        self.turn = turn;
        self.told_of_leave = false;
    }

    /// Follows it until the turn that does the work has ended.
    pub(super) async fn follow_to_end(&mut self, work: &mut SubagentResult) -> Result<(), TurnExit> {
        loop {
            match self.next().await {
                MonitorEvent::Event(Some(Ok(event))) => {
                    self.take_in(work, &event).await?;
                    if matches!(&event.kind, EventKind::TurnEnded { result } if result.turn_id == self.turn) {
                        return Ok(());
                    }
                }
                // The daemon stops: what is left to do is for its next life.
                MonitorEvent::Event(Some(Err(error))) if error.kind() == ErrorKind::ShuttingDown => {
                    return super::left_to_the_next_life(self.call).await;
                }
                MonitorEvent::Event(gone) => {
                    let why = gone.and_then(Result::err).map_or_else(|| "it was closed".to_owned(), |e| e.to_string());
                    work.end_lost(why);
                    return Ok(());
                }
                MonitorEvent::Stop(reason) => self.stop(work, reason).await,
                MonitorEvent::Granted => self.pass_grants_on().await,
                MonitorEvent::ClientLeft => {
                    self.told_of_leave = true;
                    // One that is gone asks nothing any more.
                    let _ = self.session.client_left(self.turn).await;
                }
                MonitorEvent::GaveUp => {
                    work.end_lost("it did not end in time after it was cancelled".to_owned());
                    return Ok(());
                }
            }
        }
    }

    async fn next(&mut self) -> MonitorEvent {
        let context = self.call.context;
        let runs = self.stopped.is_none();
        let give_up_at = self.stopped.map(|(_, at)| at);
        tokio::select! {
            biased;
            () = context.control.cancel.cancelled(), if runs => MonitorEvent::Stop(StopReason::Cancelled),
            () = context.rules.answering.left(), if !self.told_of_leave => MonitorEvent::ClientLeft,
            event = self.events.next() => MonitorEvent::Event(event),
            () = self.grants.changed() => MonitorEvent::Granted,
            // One that waits for a person takes no time, whatever others have taken of it.
            () = context.control.stopwatch.reaches(context.limits.time), if runs && self.asked.is_empty() => MonitorEvent::Stop(StopReason::TimeLimit),
            () = at(give_up_at) => MonitorEvent::GaveUp,
        }
    }

    async fn take_in(&mut self, work: &mut SubagentResult, event: &Event) -> Result<(), TurnExit> {
        let context = self.call.context;
        work.take_in(&event.kind);
        match &event.kind {
            EventKind::UsageUpdated { usage, .. } => {
                let before = context.tools.delegated.fetch_add(usage.tokens(), Ordering::Relaxed);
                let all = before.saturating_add(usage.tokens());
                let known = self.call.state.usage.tokens().saturating_sub(self.call.state.delegated);
                let is_spent = context.limits.tokens.is_some_and(|limit| known.saturating_add(all) >= limit);
                if is_spent && self.stopped.is_none() {
                    self.stop(work, StopReason::Budget).await;
                }
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolCall(call), .. }, .. } => self.tell(work, call),
            EventKind::InterruptRaised { interrupt } => {
                if self.asked.is_empty() {
                    self.share = context.control.stopwatch.pause();
                }
                self.asked.insert(interrupt.id);
                context.recorder.child(event.kind.clone()).await?;
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                if self.asked.remove(interrupt_id) && self.asked.is_empty() {
                    self.share = context.control.stopwatch.work();
                }
                context.recorder.child(event.kind.clone()).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells its progress, in one line.
    fn tell(&self, work: &SubagentResult, call: &ToolCall) {
        let arguments = subagents::one_line(&call.arguments, ARGUMENTS);
        self.progress.tell(&format!("{}: {} {arguments}", work.subagent().name, call.name));
    }

    /// Tells it to end.
    async fn stop(&mut self, work: &mut SubagentResult, reason: StopReason) {
        self.stopped = Some((reason, Instant::now() + CANCEL_GRACE));
        work.stopped_for(reason);
        // One that has ended meanwhile has told so.
        let _ = self.session.cancel(Some(self.turn)).await;
    }

    /// Passes grants and mode on: what a person allows for the session holds for those that work for it, and what they
    /// revoke does not.
    async fn pass_grants_on(&mut self) {
        let permissions = self.grants.of_session();
        if let Err(error) = self.session.take_permissions(permissions).await {
            tracing::warn!(session = %self.session.id(), "what is allowed now could not be passed on: {error}");
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
