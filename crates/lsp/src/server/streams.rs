//! Pipes of a server. Each pipe has its own task, so that a server that stops reading or floods its output does not
//! block anything else.

use std::{io, os::fd::OwnedFd, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    sync::mpsc,
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use crate::message::{self, FrameDecoder, IncomingMessage};

/// Maximum number of messages waiting in each direction.
const MAX_WAITING: usize = 256;
/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Time window of the output limits.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of bytes per window.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of messages per window.
const MAX_MESSAGES: usize = 20_000;

/// Message of the server, or the reason why no more messages follow.
type Incoming = Result<IncomingMessage, String>;

#[derive(Debug)]
pub(super) struct Streams {
    /// Received messages, or the reason why there will be no further messages.
    pub(super) incoming: mpsc::Receiver<Incoming>,
    outgoing: mpsc::Sender<Vec<u8>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Streams {
    pub(super) fn open(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let input = pipe::Sender::from_owned_fd(input)?;
        let output = pipe::Receiver::from_owned_fd(output)?;
        let (outgoing, to_write) = mpsc::channel(MAX_WAITING);
        let (read, incoming) = mpsc::channel(MAX_WAITING);
        let tasks = [tokio::spawn(write(input, to_write)), tokio::spawn(listen(output, read))];
        Ok(Self { incoming, outgoing, _tasks: tasks.map(AbortOnDropHandle::new) })
    }

    /// Sends a message. Returns false if the server does not read.
    pub(super) fn send(&self, frame: Vec<u8>) -> bool {
        self.outgoing.try_send(frame).is_ok()
    }
}

async fn write(mut input: pipe::Sender, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if input.write_all(&frame).await.is_err() {
            // The end of the process is reported elsewhere.
            return;
        }
    }
}

async fn listen(output: pipe::Receiver, messages: mpsc::Sender<Incoming>) {
    if let Err(reason) = read(output, &messages).await {
        let _ = messages.send(Err(reason)).await;
    }
}

async fn read(mut output: pipe::Receiver, messages: &mpsc::Sender<Incoming>) -> Result<(), String> {
    let mut decoder = FrameDecoder::default();
    let mut piece = vec![0; BUFFER_BYTES];
    let mut allowance = Allowance::new();
    loop {
        let count = output.read(&mut piece).await.map_err(|error| format!("its output cannot be read: {error}"))?;
        if count == 0 {
            return Err("it closed its output".to_owned());
        }
        allowance.take(count, 0)?;
        decoder.push(&piece[..count]);
        while let Some(body) = decoder.next_body().map_err(|error| error.to_string())? {
            allowance.take(0, 1)?;
            let message = message::parse(&body).ok_or("it sent an invalid message")?;
            if messages.send(Ok(message)).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Remaining output allowance of a server in the current window.
struct Allowance {
    since: Instant,
    bytes: usize,
    messages: usize,
}

impl Allowance {
    fn new() -> Self {
        Self { since: Instant::now(), bytes: MAX_BYTES, messages: MAX_MESSAGES }
    }

    fn take(&mut self, bytes: usize, messages: usize) -> Result<(), String> {
        if self.since.elapsed() > WINDOW {
            *self = Self::new();
        }
        let left = self.bytes.checked_sub(bytes).zip(self.messages.checked_sub(messages));
        (self.bytes, self.messages) = left.ok_or("it sent too much output")?;
        Ok(())
    }
}
