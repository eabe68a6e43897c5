//! Calls in flight to one server. The server's progress reports, questions and requests for roots are assigned to these
//! calls.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    ids::SessionId,
    mutex::lock,
    ports::{CallProgress, Person, Sampler, ToolContext},
};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Minimum interval between two progress reports to the user.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of questions to the user during one call.
pub(crate) const MAX_QUESTIONS: u32 = 8;
/// Maximum number of waiting questions. More are rejected, because each question stays in memory until the user
/// answers.
const MAX_WAITING: usize = 3;

/// All calls in flight to one server.
#[derive(Default)]
pub(crate) struct Calls {
    in_flight: Mutex<BTreeMap<u64, Arc<Call>>>,
    next: AtomicU64,
}

/// Tool call in flight.
pub(crate) struct Call {
    session: SessionId,
    progress: CallProgress,
    /// User and model that can be asked.
    pub(crate) person: Person,
    pub(crate) sampler: Sampler,
    root: Option<PathBuf>,
    time: Mutex<Time>,
    /// Wakes the task that watches the time limits.
    changed: Notify,
    /// Held while a question is asked, so that questions are asked in sequence.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Permits for active and waiting questions.
    questions: Semaphore,
    /// Cancelled when the call ends, because its questions no longer need answers.
    ended: CancellationToken,
}

/// Times and counters of a call.
struct Time {
    started_at: Instant,
    last_message: Instant,
    /// Total time spent waiting for the user or a model, and the start of the current wait.
    waited: Duration,
    waiting: Option<Instant>,
    last_report: Option<Instant>,
    questions: u32,
    /// Progress token, unique per request.
    token: Option<ProgressToken>,
}

/// Removes a call from the list when it is over.
pub(crate) struct CallGuard<'a> {
    calls: &'a Calls,
    number: u64,
    pub(crate) call: Arc<Call>,
}

impl Calls {
    /// Adds a call to the list.
    pub(crate) fn begin(&self, context: &ToolContext) -> CallGuard<'_> {
        let now = Instant::now();
        let call = Arc::new(Call {
            session: context.session_id,
            progress: context.progress.clone(),
            person: context.person.clone(),
            sampler: context.sampler.clone(),
            root: context.workspace.project.as_ref().map(|project| project.path.clone()),
            time: Mutex::new(Time {
                started_at: now,
                last_message: now,
                waited: Duration::ZERO,
                waiting: None,
                last_report: None,
                questions: 0,
                token: None,
            }),
            changed: Notify::new(),
            asking: tokio::sync::Mutex::new(()),
            questions: Semaphore::new(MAX_WAITING),
            ended: CancellationToken::new(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.in_flight).insert(number, Arc::clone(&call));
        CallGuard { calls: self, number, call }
    }

    /// Returns the most recent call, to which requests from the server are assigned. The flag is true if other sessions
    /// have calls in flight, so that the assignment may be wrong.
    pub(crate) fn latest(&self) -> Option<(Arc<Call>, bool)> {
        let list = lock(&self.in_flight);
        let (_, latest) = list.last_key_value()?;
        let is_ambiguous = list.values().any(|call| call.session != latest.session);
        Some((Arc::clone(latest), is_ambiguous))
    }

    /// Returns the project folders of the sessions with calls in flight.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = lock(&self.in_flight).values().filter_map(|call| call.root.clone()).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// Reports progress to the call with this token.
    pub(crate) fn report_progress(&self, progress: &ProgressNotificationParam) {
        let list = lock(&self.in_flight);
        if let Some(call) = list.values().find(|call| lock(&call.time).token.as_ref() == Some(&progress.progress_token))
        {
            call.report_progress(progress);
        }
    }
}

impl Call {
    /// Assigns a progress token to the call when the request is sent to the server.
    pub(crate) fn set_token(&self, token: ProgressToken) {
        let mut time = lock(&self.time);
        (time.token, time.last_message) = (Some(token), Instant::now());
    }

    /// Completes when the call has been silent for too long, has taken too long in total, or has asked too many
    /// questions. Returns the exceeded limit. Time spent waiting for the user or a model does not count.
    pub(crate) async fn expired(&self, silence: Duration, all: Duration) -> ExpiredLimit {
        loop {
            let next = {
                let (time, now) = (lock(&self.time), Instant::now());
                let (silence_end, total_end) = (time.last_message + silence, time.started_at + all + time.waited);
                match time.waiting {
                    _ if time.questions > MAX_QUESTIONS => return ExpiredLimit::Questions,
                    Some(_) => None,
                    None if now >= total_end => return ExpiredLimit::Total,
                    None if now >= silence_end => return ExpiredLimit::Silence,
                    None => Some(silence_end.min(total_end)),
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = until(next) => {}
            }
        }
    }

    /// Asks a question, unless several are waiting already. Ends without an answer when the call is over.
    pub(crate) async fn question<T>(&self, asking: impl Future<Output = T>) -> Result<T, NoQuestion> {
        let Ok(_permit) = self.questions.try_acquire() else {
            // A rejected question counts towards the maximum.
            let _ = self.next_question();
            return Err(NoQuestion::TooMany);
        };
        self.ended.run_until_cancelled(asking).await.ok_or(NoQuestion::Over)
    }

    /// Returns the number of the next question of this call, or `None` if the maximum is exceeded.
    pub(crate) fn next_question(&self) -> Option<u32> {
        let mut time = lock(&self.time);
        time.questions = time.questions.saturating_add(1);
        let number = time.questions;
        drop(time);
        self.changed.notify_one();
        Some(number).filter(|number| *number <= MAX_QUESTIONS)
    }

    /// Suspends the time limits until the guard is dropped, while the server waits for the user or a model.
    pub(crate) fn suspend_limits(&self) -> WaitGuard<'_> {
        lock(&self.time).waiting.get_or_insert_with(Instant::now);
        self.changed.notify_one();
        WaitGuard(self)
    }

    fn report_progress(&self, progress: &ProgressNotificationParam) {
        let (mut time, now) = (lock(&self.time), Instant::now());
        time.last_message = now;
        let is_due = time.last_report.is_none_or(|last| now >= last + REPORT_INTERVAL);
        if is_due {
            time.last_report = Some(now);
        }
        drop(time);
        self.changed.notify_one();
        if is_due {
            self.progress.report(&line(progress));
        }
    }
}

/// Limit that a call has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiredLimit {
    /// Time since the last message.
    Silence,
    /// Total time of the call.
    Total,
    /// Number of questions to the user.
    Questions,
}

/// Reason why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoQuestion {
    /// Too many questions from the call are waiting.
    TooMany,
    /// The call is over.
    Over,
}

/// Guard that suspends the time limits of a call.
pub(crate) struct WaitGuard<'a>(&'a Call);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let (mut time, now) = (lock(&self.0.time), Instant::now());
        if let Some(since) = time.waiting.take() {
            time.waited += now - since;
        }
        time.last_message = now;
        drop(time);
        self.0.changed.notify_one();
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        lock(&self.calls.in_flight).remove(&self.number);
        self.call.ended.cancel();
    }
}

/// Completes at `time`, or never if it is `None`.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Formats the progress of a call as one line of limited length.
fn line(progress: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam { progress, total, message, .. } = progress;
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let shown = |message: &String| agentd_core::untrusted::sanitize(message).chars().take(300).collect::<String>();
    let message = message.as_ref().map(|message| format!(": {}", shown(message))).unwrap_or_default();
    format!("{progress}{total}{message}")
}

#[cfg(test)]
pub(crate) mod tests {
    use agentd_core::{
        Timestamp,
        ids::{CallId, TurnId},
        ports::Workspace,
    };

    use super::*;
    use crate::config::{HttpWire, ServerAddress};

    /// Returns the address of an HTTP server.
    pub(crate) fn http(url: &str) -> ServerAddress {
        ServerAddress::Http { url: url.into(), headers: BTreeMap::new(), wire: HttpWire::Streamable, client: None }
    }

    /// Returns the context of a call without a user to ask.
    pub(crate) fn context() -> ToolContext {
        ToolContext {
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: CallId::generate(),
            workspace: Arc::new(Workspace {
                root: "/nonexistent".into(),
                project: None,
                folders: Vec::new(),
                memories: None,
                worktree: None,
            }),
            state_files: Arc::default(),
            client_files: None,
            reading: Default::default(),
            environment: Arc::default(),
            progress: CallProgress::default(),
            person: Person::default(),
            sampler: Sampler::default(),
            sight: Default::default(),
            stands_for: None,
            confinement: agentd_core::policy::Confinement::Usual,
            guarded: Default::default(),
            closed: Default::default(),
            now: Timestamp::UNIX_EPOCH,
            cancel: CancellationToken::new(),
        }
    }
}
