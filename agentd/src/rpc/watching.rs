//! Events of all sessions, as one client's stream sees them.
//!
//! News are pulled when the connection has room for them, and nothing is done while there are none. Changes of a session are
//! gathered: it is read from the journal once for all that came meanwhile. A client that does not read loses the oldest news
//! and is told so; nobody waits for it.

use std::collections::{BTreeSet, VecDeque};

use agentd_core::{
    event::{Event, EventKind},
    ids::{InterruptId, SessionId},
};
use agentd_engine::{Engine, MissedNews, NewsReader, SessionNews};
use agentd_proto::v1::{
    self,
    watch_event::{ConfigReloaded, InterruptOver, Kind, Lagged, SessionDeleted, Snapshot, TurnBegan, TurnOver},
};
use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{Refusal, ReplyStream};

/// Default number of sessions in a snapshot.
const DEFAULT_SESSIONS: usize = 100;

/// Maximum number of sessions in a snapshot.
const MAX_SESSIONS: usize = 1000;

/// Questions and answers that a watch remembers, to tell of each once.
const MAX_TOLD: usize = 1024;

/// The news of one call.
pub(super) type WatchStream = ReplyStream<v1::WatchEvent>;

/// A watch, and what is still to be shown in it.
pub(super) struct Watch {
    engine: Engine,
    news: NewsReader,
    request: v1::WatchRequest,
    ready: VecDeque<Kind>,
    /// Sessions that have changed and were not shown since.
    changed: BTreeSet<SessionId>,
    /// Questions, and answers, that were told: the session that a subagent works for repeats both. The oldest stand first.
    told: VecDeque<(InterruptId, bool)>,
    shutdown: CancellationToken,
}

impl Watch {
    /// A watch from now on.
    pub(super) async fn start(
        engine: Engine,
        request: v1::WatchRequest,
        shutdown: CancellationToken,
    ) -> Result<Self, Refusal> {
        // What happens while the snapshot is read is told behind it.
        let news = engine.watch();
        let (ready, changed, told) = (VecDeque::new(), BTreeSet::new(), VecDeque::new());
        let mut watch = Self { engine, news, request, ready, changed, told, shutdown };
        watch.look().await?;
        Ok(watch)
    }

    /// The stream that a client reads.
    pub(super) fn into_stream(self) -> WatchStream {
        stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(Some(kind)) => Some((Ok(v1::WatchEvent { kind: Some(kind) }), Some(watch))),
                Ok(None) => None,
                Err(refusal) => Some((Err(refusal.into()), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Kind>, Refusal> {
        loop {
            if let Some(kind) = self.ready.pop_front() {
                return Ok(Some(kind));
            }
            let news = match self.news.try_next() {
                Some(news) => news,
                None => match self.changed.pop_first() {
                    Some(session) => {
                        self.ready.extend(self.summary(session).await?.map(Kind::SessionChanged));
                        continue;
                    }
                    None => tokio::select! {
                        news = self.news.next() => match news {
                            Some(news) => news,
                            None => return Ok(None),
                        },
                        () = self.shutdown.cancelled() => return Err(Refusal::stopping()),
                    },
                },
            };
            match news {
                Ok(news) => self.take(news).await?,
                Err(MissedNews(missed)) => {
                    self.changed.clear();
                    self.ready.push_back(Kind::Lagged(Lagged { missed }));
                    self.look().await?;
                }
            }
        }
    }

    /// Shows what there is, if the client wants that.
    async fn look(&mut self) -> Result<(), Refusal> {
        if !self.request.snapshot {
            return Ok(());
        }
        let limit = match usize::try_from(self.request.limit).unwrap_or(usize::MAX) {
            0 => DEFAULT_SESSIONS,
            limit => limit.min(MAX_SESSIONS),
        };
        let page = self.engine.filtered_page(None, limit, self.request.children, &Default::default()).await?;
        let interrupts = super::interrupts::in_view(self.engine.interrupts(None).await?);
        self.ready.push_back(Kind::Snapshot(Snapshot {
            more: page.next.is_some(),
            sessions: page.sessions.iter().map(Into::into).collect(),
            interrupts: interrupts.iter().map(Into::into).collect(),
        }));
        Ok(())
    }

    async fn take(&mut self, news: SessionNews) -> Result<(), Refusal> {
        match news {
            SessionNews::Created(session) => {
                self.ready.extend(self.summary(session).await?.map(Kind::SessionCreated));
            }
            SessionNews::Deleted { is_child: true, .. } if !self.request.children => {}
            SessionNews::Deleted { session, .. } => {
                self.changed.remove(&session);
                self.ready.push_back(Kind::SessionDeleted(SessionDeleted { session_id: session.to_string() }));
            }
            // What it asks a person, the session that it works for tells, too.
            SessionNews::Fact { is_child: true, .. } if !self.request.children => {}
            SessionNews::Fact { session, seq, is_event, .. } => {
                if is_event && let Some(event) = self.engine.stored_event(session, seq).await? {
                    self.tell(&event);
                }
                self.changed.insert(session);
            }
            SessionNews::Reconfigured => self.ready.push_back(Kind::ConfigReloaded(ConfigReloaded {})),
        }
        Ok(())
    }

    /// Tells of a fact, if it is not the repetition of one that was told.
    fn tell(&mut self, event: &Event) {
        let question = match &event.kind {
            EventKind::InterruptRaised { interrupt } => Some((interrupt.id, false)),
            EventKind::InterruptResolved { interrupt_id, .. } => Some((*interrupt_id, true)),
            _ => None,
        };
        if let Some(question) = question {
            if self.told.contains(&question) {
                return;
            }
            if self.told.len() == MAX_TOLD {
                self.told.pop_front();
            }
            self.told.push_back(question);
        }
        self.ready.extend(told(event));
    }

    /// A session as it is now; none where it is gone, or is not to be shown.
    async fn summary(&self, session: SessionId) -> Result<Option<v1::SessionSummary>, Refusal> {
        let summary = self.engine.summary(session).await?;
        let shown = summary.filter(|summary| self.request.children || summary.parent.is_none());
        Ok(shown.as_ref().map(Into::into))
    }
}

/// The event of its own that a fact is told as, if any, besides the change of its session.
fn told(event: &Event) -> Option<Kind> {
    let session_id = event.session_id.to_string();
    let turn_id = || event.turn_id.map(|turn| turn.to_string()).unwrap_or_default();
    match &event.kind {
        EventKind::TurnStarted { model, .. } => {
            Some(Kind::TurnStarted(TurnBegan { session_id, turn_id: turn_id(), model: model.clone() }))
        }
        EventKind::TurnEnded { result } => {
            let result = v1::TurnResult::from(result.as_ref());
            let v1::TurnResult { turn_id, stop_reason, error, .. } = result;
            Some(Kind::TurnEnded(TurnOver { session_id, turn_id, stop_reason, error, seq: event.seq }))
        }
        EventKind::InterruptRaised { interrupt } => Some(Kind::InterruptRaised(interrupt.as_ref().into())),
        EventKind::InterruptResolved { interrupt_id, answer, by, .. } => Some(Kind::InterruptResolved(InterruptOver {
            session_id,
            interrupt_id: interrupt_id.to_string(),
            answer: Some(answer.into()),
            by: Some(by.into()),
        })),
        _ => None,
    }
}
