//! Asks the user at the terminal, on a separate thread, because reading keys blocks.

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

/// Asks on the terminal: writes questions to standard error, and reads keys from the keyboard.
#[derive(Debug)]
pub(crate) struct TerminalAsker {
    look: TerminalStyle,
    keyboard: Keyboard,
    leaves: bool,
    status: Option<SharedStatus>,
}

impl TerminalAsker {
    /// Creates an asker for the terminal of this process.
    pub(crate) fn new(keyboard: Keyboard) -> Self {
        Self { look: TerminalStyle::detect(), keyboard, leaves: false, status: None }
    }

    /// Shows a status line, and returns to the prompt of the chat if the user postpones an answer.
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

/// Question on the screen. Dropping it removes it from the screen, and waits until it is removed.
#[derive(Debug)]
struct ShownQuestion {
    dropped: Arc<AtomicBool>,
    answer: oneshot::Receiver<Option<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl ShownQuestion {
    fn start(interrupt: Interrupt, asker: &TerminalAsker) -> io::Result<Self> {
        let (look, keyboard, status) = (asker.look, asker.keyboard.clone(), asker.status.clone());
        keyboard.typed(|typed| typed.is_answering = false);
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
                // The receiver is gone if the question was dropped.
                let _ = sender.send(answer);
            }
        })?;
        Ok(Self { dropped, answer, thread: Some(thread) })
    }
}

impl Drop for ShownQuestion {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
        // The wait is short, because the thread checks the flag many times a second. It is necessary, because other
        // output must not mix with the question.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reports that the terminal cannot be used. The question stays open.
fn unasked(interrupt: &Interrupt, error: &io::Error) -> Option<Answer> {
    use io::Write as _;
    let id = short_id(interrupt.id);
    let _ = writeln!(
        io::stderr(),
        "cannot ask on this terminal: {error}; answer with `agentctl answer {id} …` from another one"
    );
    None
}
