//! Reading threads, each with its own read-only connection. The threads share one queue, so that a long read does not
//! block other reads while another thread is free.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use agentd_core::mutex::lock;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    codec::Fault,
    writer::{join, no_reply},
};

type Query = Box<dyn FnOnce(&Connection) + Send>;

enum Task {
    Read(Query),
    /// Ends the thread that receives this task.
    Stop,
}

/// Maximum number of queued reads. Callers wait while the queue is full.
const MAX_WAITING: usize = 64;

/// Handle to the reading threads.
pub(crate) struct Readers {
    queue: mpsc::Sender<Task>,
    /// True if the journal was closed. False if the threads ended for another reason, such as a panic.
    closed: AtomicBool,
    /// Handles of the threads. The first close takes the handles and waits for the threads to end.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>) -> Result<Self, Fault> {
        let (queue, tasks) = mpsc::channel(MAX_WAITING);
        let tasks = Arc::new(Mutex::new(tasks));
        let mut threads = Vec::new();
        for connection in connections {
            let tasks = Arc::clone(&tasks);
            let thread = std::thread::Builder::new().name("journal-read".into());
            threads.push(thread.spawn(move || serve(&connection, &tasks))?);
        }
        Ok(Self { queue, closed: AtomicBool::new(false), threads: Mutex::new(threads) })
    }

    /// Runs a query on one of the threads. The query does not run if its caller stops waiting before it begins.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (reply, answer) = oneshot::channel();
        let task = Task::Read(Box::new(move |connection| {
            if !reply.is_closed() {
                let _ = reply.send(query(connection));
            }
        }));
        self.queue.send(task).await.map_err(|_| no_reply(&self.closed))?;
        answer.await.unwrap_or_else(|_| Err(no_reply(&self.closed)))
    }

    /// Answers the queued reads, then ends the threads. A second close does nothing.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let threads = std::mem::take(&mut *lock(&self.threads));
        for _ in &threads {
            // A send error means that all threads have ended.
            let _ = self.queue.send(Task::Stop).await;
        }
        for thread in threads {
            join(thread).await;
        }
    }
}

fn serve(connection: &Connection, tasks: &Mutex<mpsc::Receiver<Task>>) {
    loop {
        // A thread only holds the lock while it waits for a task; then the next thread waits for a task.
        let task = lock(tasks).blocking_recv();
        let Some(Task::Read(query)) = task else { return };
        // A panic is a bug in one query. The caller detects it by the dropped reply, and other queries continue.
        if catch_unwind(AssertUnwindSafe(|| query(connection))).is_err() {
            tracing::error!("a query of the journal panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers(count: usize) -> Readers {
        Readers::start((0..count).map(|_| Connection::open_in_memory().unwrap()).collect()).unwrap()
    }

    #[tokio::test]
    async fn panicking_query_is_an_error_and_the_thread_survives() {
        let readers = readers(1);
        let panicked_read = readers.read::<()>(|_| panic!("intentional")).await;
        assert!(matches!(panicked_read, Err(Fault::Lost)));
        assert_eq!(readers.read(|_| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn long_read_does_not_block_other_reads() {
        let readers = readers(2);
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (entered, inside) = oneshot::channel();
        let long = readers.read(move |_| {
            let _ = entered.send(());
            let _ = blocked.recv();
            Ok("long")
        });
        let short = async {
            inside.await.unwrap();
            let answer = readers.read(|_| Ok("short")).await;
            drop(release);
            answer
        };
        let (long, short) = tokio::join!(long, short);
        assert_eq!((long.unwrap(), short.unwrap()), ("long", "short"));
    }
}
