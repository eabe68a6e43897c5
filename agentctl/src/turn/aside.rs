//! Side questions of the user: asked beside a turn, and answered when it suits the turn.

use agentd_core::ids::SessionId;
use agentd_proto::client::Client;
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

use crate::{daemon, failure::Failure};

/// Command of the chat that asks a side question.
const COMMAND: &str = "/btw ";

/// Side question with its answer.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) question: String,
    pub(crate) answer: Result<String, Failure>,
}

/// Side questions that wait for their answers. Dropping them cancels them.
#[derive(Default)]
pub(crate) struct Asides {
    /// Session that is asked; `None` if no questions are asked.
    target: Option<(Client, SessionId)>,
    pending: FuturesUnordered<BoxFuture<'static, Aside>>,
}

impl Asides {
    /// Creates an empty set for questions to a session.
    pub(crate) fn of(client: &Client, session: SessionId) -> Self {
        Self { target: Some((client.clone(), session)), pending: FuturesUnordered::new() }
    }

    /// Asks the question of a line that is the command. Returns false for any other line, or without a session.
    pub(crate) fn ask(&mut self, line: &str) -> bool {
        let question = line.strip_prefix(COMMAND).map(str::trim).filter(|question| !question.is_empty());
        let (Some(question), Some((client, session))) = (question.map(str::to_owned), self.target.clone()) else {
            return false;
        };
        self.pending.push(Box::pin(async move {
            let answer = client.ask_aside(&session.to_string(), &question, daemon::CLIENT, |_| ()).await;
            Aside { question, answer: answer.map(|answer| answer.text).map_err(Failure::from) }
        }));
        true
    }

    /// Returns the next answer; never completes if no question waits. Cancel safe.
    pub(crate) async fn next(&mut self) -> Aside {
        let next = self.pending.next().await;
        super::or_never(next.map(std::future::ready)).await
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Cancels all questions. Returns true if there were any.
    pub(crate) fn cancel(&mut self) -> bool {
        !std::mem::take(&mut self.pending).is_empty()
    }
}
