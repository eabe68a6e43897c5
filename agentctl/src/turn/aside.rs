//! Side questions of the user: asked beside a turn, and answered when it suits the turn.

use agentd_core::ids::SessionId;
use agentd_proto::{client::Client, view::SideAnswer};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

use crate::{daemon, failure::Failure};

/// Note below an answer that reached the limit of its length.
pub(crate) const ASIDE_CUT: &str = "the answer was cut at the limit of its length";

/// Note that side questions were cancelled.
pub(crate) const ASIDE_CANCELLED: &str = "the side question was cancelled";

/// Destination of a text that is typed during a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The turn, whose model reads the text at its next step.
    Turn,
    /// The session, as a side question beside the turn.
    Aside(String),
    /// The prompt, after the end of the turn.
    Later,
}

/// Side question with its answer.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) question: String,
    pub(crate) answer: Result<SideAnswer, Failure>,
}

/// Side questions that wait for their answers. Dropping them cancels them.
#[derive(Default)]
pub(crate) struct Asides {
    /// Session that is asked; `None` if no questions are asked.
    target: Option<(Client, SessionId)>,
    pending: FuturesUnordered<BoxFuture<'static, Aside>>,
    /// Answer that was not taken yet.
    ready: Option<Aside>,
}

impl Asides {
    /// Creates an empty set for questions to a session.
    pub(crate) fn of(client: &Client, session: SessionId) -> Self {
        Self { target: Some((client.clone(), session)), ..Self::default() }
    }

    /// Asks a question. Does nothing without a session.
    pub(crate) fn ask(&mut self, question: String) {
        let Some((client, session)) = self.target.clone() else { return };
        self.pending.push(Box::pin(async move {
            let answer = client.ask_aside(&session.to_string(), &question, daemon::CLIENT, |_| ()).await;
            Aside { question, answer: answer.map_err(Failure::from) }
        }));
    }

    /// Returns the next answer once `rest` is over; never completes if no question waits. Cancel safe.
    pub(crate) async fn next(&mut self, rest: impl Future<Output = ()>) -> Aside {
        if self.ready.is_none() {
            self.ready = self.pending.next().await;
        }
        rest.await;
        super::or_never(self.ready.take().map(std::future::ready)).await
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_none() && self.pending.is_empty()
    }

    /// Cancels all questions. Returns true if there were any.
    pub(crate) fn cancel(&mut self) -> bool {
        let is_empty = self.is_empty();
        (self.pending, self.ready) = Default::default();
        !is_empty
    }
}
