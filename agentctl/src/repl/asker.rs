//! Asks the person at the terminal, on a thread of its own, for reading keys blocks.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use agentd_core::interrupt::{Answer, Interrupt};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{
    console::{Console, TerminalConsole},
    plain::PlainConsole,
    question,
};
use crate::{
    keyboard::Keyboard, render::status::SharedStatus, report::short_id, terminal::look::TerminalStyle, turn::Asker,
};

/// Asks on the terminal: questions on standard error, keys from the keyboard.
#[derive(Debug)]
pub(crate) struct TerminalAsker {
    look: TerminalStyle,
    keyboard: Keyboard,
    leaves: bool,
    status: Option<SharedStatus>,
}

impl TerminalAsker {
    /// For this process's terminal.
    pub(crate) fn new(keyboard: Keyboard) -> Self {
        Self { look: TerminalStyle::detect(), keyboard, leaves: false, status: None }
    }

    /// For a chat, which has a prompt to go back to when an answer is put off, and a status line.
    pub(crate) fn in_chat(self, status: SharedStatus) -> Self {
        Self { leaves: true, status: Some(status), ..self }
    }
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(async move {
            let _hold = self.keyboard.hold();
            match ShownQuestion::start(interrupt.clone(), self) {
                Ok(mut asking) => (&mut asking.answer).await.ok().flatten(),
                Err(error) => unasked(interrupt, &error),
            }
        })
    }

    fn leaves(&self) -> bool {
        self.leaves
    }
}

/// A question that is on the screen. Dropping it takes it off, and waits until it is.
#[derive(Debug)]
struct ShownQuestion {
    dropped: Arc<AtomicBool>,
    answer: oneshot::Receiver<Option<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl ShownQuestion {
    fn start(interrupt: Interrupt, asker: &TerminalAsker) -> io::Result<Self> {
        let (look, keyboard, status) = (asker.look, asker.keyboard.clone(), asker.status.clone());
        let dropped = Arc::new(AtomicBool::new(false));
        let (sender, answer) = oneshot::channel();
        let thread = thread::Builder::new().name("agentctl-ask".to_owned()).spawn({
            let dropped = Arc::clone(&dropped);
            move || {
                let mut console: Box<dyn Console> = if look.err_terminal {
                    Box::new(TerminalConsole::new(dropped, keyboard, look, status))
                } else {
                    Box::new(PlainConsole::new(dropped, keyboard, look.size))
                };
                let asked = question::ask(console.as_mut(), &interrupt, look.err_color);
                let answer = asked.unwrap_or_else(|error| unasked(&interrupt, &error));
                // Nobody waits for it where the question was dropped.
                let _ = sender.send(answer);
            }
        })?;
        Ok(Self { dropped, answer, thread: Some(thread) })
    }
}

impl Drop for ShownQuestion {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
        // It looks many times a second whether it was dropped, so that this is short; and whoever writes next must not
        // write between its words.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the terminal cannot be used, the question stays open.
fn unasked(interrupt: &Interrupt, error: &io::Error) -> Option<Answer> {
    use io::Write as _;
    let id = short_id(interrupt.id);
    let _ = writeln!(
        io::stderr(),
        "cannot ask on this terminal: {error}; answer with `agentctl answer {id} …` from another one"
    );
    None
}
