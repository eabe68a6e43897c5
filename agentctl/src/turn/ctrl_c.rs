//! Ctrl-C as something to wait for.

use std::io;

use tokio::sync::mpsc;

/// How many presses are remembered. Two are enough: the first cancels the turn, the second quits.
const REMEMBERED: usize = 2;

/// The presses of Ctrl-C, as long as this lives. The process does not end by them any more.
#[derive(Debug)]
pub(crate) struct CtrlC {
    presses: mpsc::Receiver<()>,
}

impl CtrlC {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system has no room for one more signal handler.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let (press, presses) = mpsc::channel(REMEMBERED);
        tokio::spawn(async move {
            while interrupt.recv().await.is_some() {
                if let Err(mpsc::error::TrySendError::Closed(())) = press.try_send(()) {
                    break;
                }
            }
        });
        Ok(Self { presses })
    }

    /// Nobody presses: what cancels comes another way.
    pub(crate) fn never() -> Self {
        Self { presses: mpsc::channel(REMEMBERED).1 }
    }

    /// Presses that come from somewhere else.
    #[cfg(test)]
    pub(crate) fn from_presses(presses: mpsc::Receiver<()>) -> Self {
        Self { presses }
    }

    /// Waits for the next press. Dropping the wait loses none.
    pub(crate) async fn pressed(&mut self) {
        if self.presses.recv().await.is_none() {
            // Nobody can press any more: then nobody ever does.
            std::future::pending::<()>().await;
        }
    }

    /// Forgets the presses that nobody waited for, so that one meant for the last turn does not cancel the next.
    pub(crate) fn forget(&mut self) {
        while self.presses.try_recv().is_ok() {}
    }
}
