//! The daemon's end of the socket to a helper.

use std::io;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};
use tokio_util::task::AbortOnDropHandle;

use crate::config::{PLEASE_END, Report};

/// The daemon's end of the socket to a helper. When it is dropped, the command and all its children are killed.
#[derive(Debug)]
pub(crate) struct KillGuard {
    pub(super) up: BufReader<OwnedReadHalf>,
    pub(super) down: OwnedWriteHalf,
    /// True once the command is about to start.
    pub(crate) has_begun: bool,
    /// The proxy that the command reaches, as long as it is led.
    pub(super) _serving: Option<AbortOnDropHandle<()>>,
}

impl KillGuard {
    /// Outcome of the command. It may be dropped and asked again.
    pub(crate) async fn report(&mut self) -> io::Result<Report> {
        loop {
            // A report is one write of one short line, so it comes at once or, where nobody wrote one, as an end.
            let buffer = self.up.fill_buf().await?;
            if buffer.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = buffer.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let report = serde_json::from_slice(line);
            let used = buffer.len().min(line.len() + 1);
            self.up.consume(used);
            match report? {
                Report::Begun => self.has_begun = true,
                report => return Ok(report),
            }
        }
    }

    /// Asks the command to end. If the pipe is closed, it has ended.
    pub(crate) async fn please_end(&mut self) {
        let _ = self.down.write_all(&[PLEASE_END]).await;
    }

    /// Kills everything; the outcome can still be requested.
    pub(crate) async fn let_go(&mut self) {
        let _ = self.down.shutdown().await;
    }
}
