//! Clients that hold files of the project: the line to each, and which of them a turn asks. A client that answered too
//! late is left alone for a while, so that one which hangs holds up no other work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    client_file::{ClientFileAnswer, ClientFileRequest, FileAction, NoAnswer},
    ports::{ClientFileAccess, ClientFiles},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};

/// Questions that wait for a client which does not read.
const QUEUE: usize = 16;
/// Time limit for a text, and for a client to take one: it may format and save it.
const READ: Duration = Duration::from_secs(5);
const WRITE: Duration = Duration::from_secs(20);
/// Time for which a client is asked nothing that was late.
const PAUSE: Duration = Duration::from_secs(15);

/// A question on its way to the client, and where its answer goes. Dropped without one, the client counts as gone.
#[derive(Debug)]
pub struct ClientFileQuestion {
    /// The question.
    pub request: ClientFileRequest,
    /// Takes the answer.
    pub reply: oneshot::Sender<ClientFileAnswer>,
}

/// The engine's end of the line to a client that holds files.
#[derive(Debug, Clone)]
pub struct FileLine {
    sender: mpsc::Sender<ClientFileQuestion>,
    access: ClientFileAccess,
    asked: Arc<AtomicU64>,
    begun: Instant,
    /// Milliseconds since it began at which it may be asked again.
    paused: Arc<AtomicU64>,
}

impl FileLine {
    /// A line, and the end that whoever speaks to the client reads.
    #[must_use]
    pub fn new(access: ClientFileAccess) -> (Self, mpsc::Receiver<ClientFileQuestion>) {
        let (sender, questions) = mpsc::channel(QUEUE);
        (Self { sender, access, asked: Arc::default(), begun: Instant::now(), paused: Arc::default() }, questions)
    }

    fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn ask(&self, path: &str, action: FileAction) -> Result<ClientFileAnswer, NoAnswer> {
        if self.elapsed() < self.paused.load(Ordering::Relaxed) {
            return Err(NoAnswer::Late);
        }
        let limit = if action == FileAction::Read { READ } else { WRITE };
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = oneshot::channel();
        let request = ClientFileRequest { id: format!("file-{number}"), path: path.to_owned(), action };
        match self.sender.try_send(ClientFileQuestion { request, reply }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(NoAnswer::Late),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(NoAnswer::Gone),
        }
        match timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|_| NoAnswer::Gone),
            Err(_) => {
                let pause = u64::try_from(PAUSE.as_millis()).unwrap_or_default();
                self.paused.store(self.elapsed().saturating_add(pause), Ordering::Relaxed);
                Err(NoAnswer::Late)
            }
        }
    }
}

/// The lines of an open turn, which clients that join it add to.
#[derive(Debug)]
pub(crate) struct OpenFileLines(watch::Sender<Vec<FileLine>>);

impl OpenFileLines {
    pub(crate) fn new(lines: Vec<FileLine>) -> Self {
        Self(watch::Sender::new(lines))
    }

    /// Adds the lines of a client that joins the turn.
    pub(crate) fn join(&self, lines: Vec<FileLine>) {
        if !lines.is_empty() {
            self.0.send_modify(|known| {
                known.retain(|line| !line.is_gone());
                known.extend(lines);
            });
        }
    }

    /// The same for the turn's task, as they are at any time.
    pub(crate) fn live(&self) -> Arc<FileLines> {
        Arc::new(FileLines(self.0.subscribe()))
    }
}

/// The clients that hold files for a turn. The one that came last is asked.
#[derive(Debug)]
pub(crate) struct FileLines(watch::Receiver<Vec<FileLine>>);

impl FileLines {
    fn last(&self) -> Option<FileLine> {
        self.0.borrow().iter().rev().find(|line| !line.is_gone()).cloned()
    }

    /// The lines, for a session that works for the turn.
    pub(crate) fn lines(&self) -> Vec<FileLine> {
        self.0.borrow().iter().filter(|line| !line.is_gone()).cloned().collect()
    }
}

impl ClientFiles for FileLines {
    fn access(&self) -> Option<ClientFileAccess> {
        self.last().map(|line| line.access)
    }

    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>> {
        async move {
            match self.last() {
                Some(line) => line.ask(path, action).await,
                None => Err(NoAnswer::Gone),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_late_is_left_alone_for_a_while() {
        let (line, mut questions) = FileLine::new(ClientFileAccess::Read);
        let files = OpenFileLines::new(vec![line]);
        let files = files.live();
        assert_eq!(files.ask("a", FileAction::Read).await, Err(NoAnswer::Late));
        let late = questions.recv().await.unwrap();
        assert!(late.reply.is_closed());
        assert_eq!(files.ask("b", FileAction::Read).await, Err(NoAnswer::Late));
        assert!(questions.try_recv().is_err(), "it was asked again at once");
        tokio::time::advance(PAUSE).await;
        let answer = async {
            let question = questions.recv().await.unwrap();
            assert_eq!(question.request.path, "c");
            question.reply.send(ClientFileAnswer::Absent).unwrap();
        };
        assert_eq!(tokio::join!(files.ask("c", FileAction::Read), answer).0, Ok(ClientFileAnswer::Absent));
    }

    #[tokio::test]
    async fn the_client_that_came_last_is_asked_as_long_as_it_is_there() {
        let (first, mut first_questions) = FileLine::new(ClientFileAccess::Read);
        let (second, second_questions) = FileLine::new(ClientFileAccess::ReadWrite);
        let open = OpenFileLines::new(vec![first]);
        let files = open.live();
        open.join(vec![second]);
        assert_eq!(files.access(), Some(ClientFileAccess::ReadWrite));
        drop(second_questions);
        assert_eq!(files.access(), Some(ClientFileAccess::Read));
        let hangs_up = async { drop(first_questions.recv().await.unwrap()) };
        assert_eq!(tokio::join!(files.ask("a", FileAction::Read), hangs_up).0, Err(NoAnswer::Gone));
        drop(first_questions);
        assert_eq!(files.access(), None);
        assert_eq!(files.ask("a", FileAction::Read).await, Err(NoAnswer::Gone));
    }
}
