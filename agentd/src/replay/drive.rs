//! Replays a recording turn by turn.
//!
//! This module also contains the ports for replays, and the temporary folder of a replay.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use agentd_core::{
    Timestamp,
    audit::AuditEntry,
    error::{AuditError, WorkspaceFuture},
    event::{Event, EventKind},
    ids::{CallId, SessionId},
    interrupt::{Answer, Ask, Interrupt},
    ports::{Audit, Changes, Clock, FilesBefore, Snapshots, ToolContext, Workspace},
    tool::FileChange,
    turn::{OnInterrupt, StartTurn, StopReason, TurnOptions, TurnResult},
    undo::{FilesReverted, UndoOutcome, UndoneFile},
};
use agentd_engine::{Engine, SessionHandle};
use agentd_replay::{Play, RecordedEnd, RecordedTurn, Script};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::replay::{PlayError, PlayOptions};

/// Client name in the turns and answers of a replay.
const CLIENT: &str = "replay";

/// One replay in progress.
pub(super) struct ReplayRun<'a> {
    pub(super) engine: &'a Engine,
    pub(super) session: &'a SessionHandle,
    pub(super) script: &'a Arc<Script>,
    pub(super) clock: &'a ReplayClock,
    pub(super) options: &'a PlayOptions,
    pub(super) events: &'a mpsc::Sender<Arc<Event>>,
}

impl ReplayRun<'_> {
    /// Replays all turns, or up to the first turn that deviates from the recording. Returns the number of replayed
    /// turns.
    pub(super) async fn run(&self) -> Result<usize, PlayError> {
        for index in 0..self.script.turns() {
            let Some(turn) = self.script.turn(index) else { break };
            self.clock.set(turn.start.at);
            self.script.begin(index, self.session.id());
            let Some(result) = self.play_turn(&turn).await? else { return Ok(index) };
            self.compare(turn.end.as_ref(), &result);
            let should_continue = self.options.play != Play::Strict || self.script.problems().is_empty();
            if !should_continue {
                return Ok(index + 1);
            }
        }
        Ok(self.script.turns())
    }

    /// Replays a turn. Returns `None` if the client has disconnected.
    async fn play_turn(&self, turn: &RecordedTurn) -> Result<Option<TurnResult>, PlayError> {
        let mut started = self.session.start_turn(self.start(turn)).await?;
        while let Some(event) = started.events.next().await {
            let event = event?;
            if self.events.send(Arc::clone(&event)).await.is_err() {
                return Ok(None);
            }
            match &event.kind {
                EventKind::InterruptRaised { interrupt } if self.uses_recorded_answers() => {
                    self.answer(interrupt).await?
                }
                EventKind::TurnEnded { result } if event.turn_id == Some(started.turn_id) => {
                    return Ok(Some((**result).clone()));
                }
                _ => {}
            }
        }
        Err(PlayError::Stopping)
    }

    fn start(&self, turn: &RecordedTurn) -> StartTurn {
        let start = turn.start.clone();
        // With a live model, the turn uses the configured model, not the recorded one.
        let options = match self.options.play {
            Play::LiveModel => TurnOptions { model: None, slot: None, ..start.options },
            Play::Learn | Play::Strict | Play::LiveTools => start.options,
        };
        StartTurn {
            text: start.input,
            typed_bytes: start.typed_bytes,
            answer_schema: start.answer_schema,
            slot: Some(start.slot),
            max_steps: Some(start.max_steps).filter(|steps| *steps > 0),
            on_interrupt: match (self.uses_recorded_answers(), self.options.approve) {
                (true, _) => OnInterrupt::Wait,
                (false, true) => OnInterrupt::Approve,
                (false, false) => OnInterrupt::Deny,
            },
            client: CLIENT.to_owned(),
            options,
            ..StartTurn::default()
        }
    }

    /// Returns true if recorded answers are used. They are never used with live tools: a recording may come from an
    /// unknown source and must not approve calls.
    fn uses_recorded_answers(&self) -> bool {
        self.options.play != Play::LiveTools
    }

    async fn answer(&self, interrupt: &Interrupt) -> Result<(), PlayError> {
        let recorded = self.script.question(&interrupt.ask).map(|answer| match answer {
            // Grants are not stored in a replay.
            Answer::Always { .. } | Answer::Keep { .. } => Answer::Approve,
            answer => answer,
        });
        let answer = recorded.unwrap_or_else(|| {
            let ran = self.script.ran(&interrupt.ask);
            if ran && self.options.play == Play::Learn {
                self.script.learn_question(&interrupt.ask, &Answer::Approve);
                return Answer::Approve;
            }
            let about = match &interrupt.ask {
                Ask::Approval { tool, .. } => format!("approval of an unrecorded call to {tool}"),
                Ask::Question { .. } => "an answer to an unrecorded question".to_owned(),
            };
            self.script.note(format!("the turn asks for {about}"));
            if ran {
                return Answer::Approve;
            }
            Answer::Reject { reason: Some("the recording has no answer".to_owned()) }
        });
        // The question may come from a subagent.
        Ok(self.engine.answer(interrupt.id, answer, CLIENT.to_owned()).await?)
    }

    /// Records differences between the recorded and the actual end of a turn.
    fn compare(&self, recorded: Option<&RecordedEnd>, result: &TurnResult) {
        if !matches!(self.options.play, Play::Strict | Play::Learn) {
            return;
        }
        let ended_by_itself = |end: &&RecordedEnd| {
            !matches!(end.reason, StopReason::Cancelled | StopReason::Interrupted | StopReason::Suspended)
        };
        let Some(end) = recorded.filter(ended_by_itself) else { return };
        if !self.script.problems().is_empty() {
            return;
        }
        if end.reason != result.stop_reason {
            self.script
                .note(format!("the turn ended with stop reason {:?} instead of {:?}", result.stop_reason, end.reason));
        } else if end.text != result.text {
            self.script.note("the turn's answer differs from the recorded answer");
        }
        let unplayed = self.script.unplayed();
        if unplayed > 0 {
            self.script.note(format!("{unplayed} recorded model answers were not used"));
        }
        let unasked = self.script.unasked();
        if unasked > 0 {
            self.script.note(format!("{unasked} recorded questions were not asked"));
        }
    }
}

/// Clock of a replay. Returns the time of the recorded turn, unless live tools or a live model run.
pub(super) struct ReplayClock(Option<Mutex<Timestamp>>);

impl ReplayClock {
    pub(super) fn new(play: Play) -> Self {
        let has_recorded_time = matches!(play, Play::Learn | Play::Strict);
        Self(has_recorded_time.then(|| Mutex::new(Timestamp::UNIX_EPOCH)))
    }

    pub(super) fn set(&self, now: Timestamp) {
        if let Some(time) = &self.0 {
            *time.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

impl Clock for ReplayClock {
    fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::now, |time| *time.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Audit log that records nothing, because no tool runs.
pub(super) struct NoAudit;

impl Audit for NoAudit {
    fn record(&self, _: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn note(&self, _: AuditEntry) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Snapshots that do not change files. No tool runs, and the recorded data about files is untrusted.
pub(super) struct NoSnapshots;

impl Snapshots for NoSnapshots {
    fn before<'a>(&'a self, _: &'a ToolContext, _: Option<&'a [String]>) -> WorkspaceFuture<'a, FilesBefore> {
        let after = Box::pin(std::future::ready(Ok(Changes::default())));
        let (closed, gaps, unstored) = (Vec::new(), Vec::new(), Vec::new());
        Box::pin(std::future::ready(Ok(FilesBefore { closed, gaps, unchecked: None, unstored, after })))
    }

    fn unfinished<'a>(&'a self, _: SessionId, _: &'a Workspace, _: &'a CallId) -> WorkspaceFuture<'a, Changes> {
        Box::pin(std::future::ready(Ok(Changes::default())))
    }

    /// Reports every change as undone.
    fn undo<'a>(
        &'a self,
        _: SessionId,
        _: &'a Workspace,
        changes: Vec<FileChange>,
        _: bool,
    ) -> WorkspaceFuture<'a, FilesReverted> {
        let done = |change: FileChange| UndoneFile {
            path: change.path,
            change: change.change.inverse(),
            outcome: UndoOutcome::Done,
            reason: None,
            diff: None,
        };
        let files = changes.into_iter().map(done).collect();
        Box::pin(std::future::ready(Ok(FilesReverted { files, changes: Vec::new() })))
    }

    fn remove(&self, _: SessionId) -> WorkspaceFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

pub(super) struct ReplayFolder(PathBuf);

impl ReplayFolder {
    /// Creates a folder with mode 0700 in `base`.
    pub(super) fn create(base: &Path) -> io::Result<Self> {
        let path = base.join(SessionId::generate().to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ReplayFolder {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        // Tools may have left many files, so the folder is removed on a blocking thread if there is a runtime.
        let remove = move || {
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!("could not remove a replay folder; the next start retries: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
