//! Files that the client of a turn holds: questions that wait for its answer. The line ends with the client's half of the
//! stream, and with it every question that waits.

use std::collections::HashMap;

use agentd_core::{client_file::ClientFileAnswer, ids::TurnId, ports::ClientFileAccess};
use agentd_engine::{ClientFileQuestion, FileLine};
use agentd_proto::{
    convert::answered_file,
    v1::{ClientFiles, turn_request::FileAnswer},
};
use tokio::sync::{mpsc, oneshot};

use super::{Refusal, feed::ClientNotice};

/// Questions about the client's files, from the engine to the client's stream and back.
#[derive(Default)]
pub(super) struct FileQuestions {
    questions: Option<mpsc::Receiver<ClientFileQuestion>>,
    waiting: HashMap<String, oneshot::Sender<ClientFileAnswer>>,
}

impl FileQuestions {
    /// The questions to a client that holds files as it says, and the line that they come by.
    pub(super) fn of(client: Option<&ClientFiles>) -> (Self, Vec<FileLine>) {
        let Some(client) = client else { return (Self::default(), Vec::new()) };
        let (line, questions) =
            FileLine::new(if client.writes { ClientFileAccess::ReadWrite } else { ClientFileAccess::Read });
        (Self { questions: Some(questions), waiting: HashMap::new() }, vec![line])
    }

    /// The next question to the client; never where it holds no files.
    pub(super) async fn next(&mut self) -> ClientFileQuestion {
        match &mut self.questions {
            Some(questions) => match questions.recv().await {
                Some(question) => question,
                // The turn has ended.
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }

    /// Asks the client. One that leaves too much unread is not asked: it counts as late.
    pub(super) fn offer(&mut self, turn: TurnId, question: ClientFileQuestion, stream: &mpsc::Sender<ClientNotice>) {
        let ClientFileQuestion { request, reply } = question;
        // Nobody waits for these any more.
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        let id = request.id.clone();
        if stream.try_send(ClientNotice::FileRequested(Box::new(request))).is_err() {
            tracing::warn!(%turn, "a client does not read its stream, so it is not asked about a file");
        }
        self.waiting.insert(id, reply);
    }

    /// Hands an answer to whoever waits for it.
    ///
    /// # Errors
    /// When nobody does.
    pub(super) fn answer(&mut self, answer: FileAnswer) -> Result<(), Refusal> {
        let waiting = self.waiting.remove(&answer.request_id).filter(|waiting| !waiting.is_closed());
        let Some(waiting) = waiting else {
            let shown: String = answer.request_id.chars().take(80).collect();
            return Err(Refusal::invalid(format!("no question {shown:?} about a file waits for an answer"))
                .with_hint("it was answered, was given up after some seconds, or never was"));
        };
        // A turn that has ended meanwhile does not need it.
        let _ = waiting.send(answered_file(answer));
        Ok(())
    }
}
