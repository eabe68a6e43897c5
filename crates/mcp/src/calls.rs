//! The calls that are under way with one server, so that progress, questions and roots find theirs.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    ids::SessionId,
    ports::{CallProgress, Person, Sampler, ToolContext},
};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Minimum interval between two reports of progress to a person.
const TOLD_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of questions to a person during one call.
pub(crate) const MOST_QUESTIONS: u32 = 8;
/// Maximum number of them that wait at once: more are refused, for each is held in memory as long as a person takes.
const MOST_WAITING: usize = 3;

/// All of them.
#[derive(Default)]
pub(crate) struct Calls {
    under_way: Mutex<BTreeMap<u64, Arc<Call>>>,
    next: AtomicU64,
}

/// One of them.
pub(crate) struct Call {
    session: SessionId,
    progress: CallProgress,
    /// The person, and the model, who can be asked.
    pub(crate) person: Person,
    pub(crate) sampler: Sampler,
    root: Option<PathBuf>,
    time: Mutex<Time>,
    /// Wakes who watches the time.
    changed: Notify,
    /// Lets one question be asked at a time, as long as it is held.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Room for questions that are asked, or wait for that.
    questions: Semaphore,
    /// Set when it is over: what it asked needs no answer any more.
    over: CancellationToken,
}

/// Time that a call has taken.
struct Time {
    began: Instant,
    last_word: Instant,
    /// Time spent waiting for people and models, and the start of the current wait.
    waited: Duration,
    waiting: Option<Instant>,
    last_told: Option<Instant>,
    questions: u32,
    /// Name of its progress, another one for each request.
    token: Option<ProgressToken>,
}

/// Takes a call off the list when it is over.
pub(crate) struct UnderWay<'a> {
    calls: &'a Calls,
    number: u64,
    pub(crate) call: Arc<Call>,
}

impl Calls {
    /// Puts a call on the list.
    pub(crate) fn begin(&self, context: &ToolContext) -> UnderWay<'_> {
        let now = Instant::now();
        let call = Arc::new(Call {
            session: context.session_id,
            progress: context.progress.clone(),
            person: context.person.clone(),
            sampler: context.sampler.clone(),
            root: context.workspace.project.as_ref().map(|project| project.path.clone()),
            time: Mutex::new(Time {
                began: now,
                last_word: now,
                waited: Duration::ZERO,
                waiting: None,
                last_told: None,
                questions: 0,
                token: None,
            }),
            changed: Notify::new(),
            asking: tokio::sync::Mutex::new(()),
            questions: Semaphore::new(MOST_WAITING),
            over: CancellationToken::new(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.list().insert(number, Arc::clone(&call));
        UnderWay { calls: self, number, call }
    }

    /// The call that a server means: of several, the one that began last. Also says whether it may be another's.
    pub(crate) fn latest(&self) -> Option<(Arc<Call>, bool)> {
        let list = self.list();
        let (_, latest) = list.last_key_value()?;
        let may_be_others = list.values().any(|call| call.session != latest.session);
        Some((Arc::clone(latest), may_be_others))
    }

    /// The project folders of the sessions whose calls are under way.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = self.list().values().filter_map(|call| call.root.clone()).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// Tells the call whose progress it is.
    pub(crate) fn progressed(&self, progress: &ProgressNotificationParam) {
        let list = self.list();
        if let Some(call) = list.values().find(|call| call.time().token.as_ref() == Some(&progress.progress_token)) {
            call.progressed(progress);
        }
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Call>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Progress under this token is this call's. The server has begun to work on it.
    pub(crate) fn known_by(&self, token: ProgressToken) {
        let mut time = self.time();
        (time.token, time.last_word) = (Some(token), Instant::now());
    }

    /// Returns when the call has gone too long without a word, has taken too long in all, or asks a person without end; says
    /// which limit that was.
    /// The time in which the server waits for a person or a model does not count.
    pub(crate) async fn expired(&self, silence: Duration, all: Duration) -> ExpiredLimit {
        loop {
            let next = {
                let (time, now) = (self.time(), Instant::now());
                let (quiet, over) = (time.last_word + silence, time.began + all + time.waited);
                match time.waiting {
                    _ if time.questions > MOST_QUESTIONS => return ExpiredLimit::Questions,
                    Some(_) => None,
                    None if now >= over => return ExpiredLimit::InAll,
                    None if now >= quiet => return ExpiredLimit::Silence,
                    None => Some(quiet.min(over)),
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = until(next) => {}
            }
        }
    }

    /// Asks a question, unless several wait already; whoever answers a call that is over answers nobody.
    pub(crate) async fn question<T>(&self, asking: impl Future<Output = T>) -> Result<T, NoQuestion> {
        let Ok(_taken) = self.questions.try_acquire() else {
            // It counts as one that was asked.
            let _ = self.next_question();
            return Err(NoQuestion::TooMany);
        };
        self.over.run_until_cancelled(asking).await.ok_or(NoQuestion::Over)
    }

    /// The number of the next question of this call; none where there were so many already that nobody is asked any more.
    pub(crate) fn next_question(&self) -> Option<u32> {
        let mut time = self.time();
        time.questions = time.questions.saturating_add(1);
        let number = time.questions;
        drop(time);
        self.changed.notify_one();
        Some(number).filter(|number| *number <= MOST_QUESTIONS)
    }

    /// The server waits for a person, or for a model, until this is dropped.
    pub(crate) fn wait_for_us(&self) -> WaitGuard<'_> {
        self.time().waiting.get_or_insert_with(Instant::now);
        self.changed.notify_one();
        WaitGuard(self)
    }

    fn progressed(&self, progress: &ProgressNotificationParam) {
        let (mut time, now) = (self.time(), Instant::now());
        time.last_word = now;
        let tells = time.last_told.is_none_or(|last| now >= last + TOLD_AGAIN);
        if tells {
            time.last_told = Some(now);
        }
        drop(time);
        self.changed.notify_one();
        if tells {
            self.progress.tell(&line(progress));
        }
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which limit a call has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiredLimit {
    /// Too long without a word.
    Silence,
    /// Too long in all.
    InAll,
    /// Too many questions to a person.
    Questions,
}

/// Why a question was not asked, or has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoQuestion {
    /// Several of the call wait.
    TooMany,
    /// The call is over.
    Over,
}

/// The server waits for a person or a model.
pub(crate) struct WaitGuard<'a>(&'a Call);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let (mut time, now) = (self.0.time(), Instant::now());
        if let Some(since) = time.waiting.take() {
            time.waited += now - since;
        }
        time.last_word = now;
        drop(time);
        self.0.changed.notify_one();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.list().remove(&self.number);
        self.call.over.cancel();
    }
}

/// Returns at this time, if there is one.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Progress of a call, in one line of bounded length.
fn line(progress: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam { progress, total, message, .. } = progress;
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let shown = |message: &String| agentd_core::untrusted::told(message).chars().take(300).collect::<String>();
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

    /// A server at an address.
    pub(crate) fn http(url: &str) -> ServerAddress {
        ServerAddress::Http { url: url.into(), headers: BTreeMap::new(), wire: HttpWire::Streamable, client: None }
    }

    /// A call with nobody to be asked.
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
            stands_for: None,
            confinement: agentd_core::policy::Confinement::Usual,
            guarded: Default::default(),
            closed: Default::default(),
            now: Timestamp::UNIX_EPOCH,
            cancel: CancellationToken::new(),
        }
    }
}
