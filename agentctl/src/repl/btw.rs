//! `/btw`: side questions, whose answers do not enter the model's history.

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    keyboard::Key,
    turn::{ASIDE_CANCELLED, Asides, Renderer as _, STATUS_INTERVAL, signals::EndSignal},
};

impl Chat {
    /// Asks a side question, and waits for its answer.
    pub(super) async fn ask_aside(&mut self, question: String) -> anyhow::Result<Exit> {
        self.asides = Asides::of(&self.daemon.client, self.session()?);
        self.asides.ask(question);
        self.signals.forget();
        self.finish_asides().await?;
        Ok(Exit::Done)
    }

    /// Waits for the answers to pending side questions, and shows them. Esc, Ctrl-C or Ctrl-D cancels the questions.
    pub(super) async fn finish_asides(&mut self) -> anyhow::Result<()> {
        if self.asides.is_empty() {
            return Ok(());
        }
        self.note("the side question waits for its answer; Esc cancels it");
        let hold = self.keyboard.hold_ahead();
        let mut status = tokio::time::interval(STATUS_INTERVAL);
        while !self.asides.is_empty() {
            if hold.is_some() {
                self.keyboard.typed(|typed| self.renderer.typed(typed).ok());
            }
            let signal = tokio::select! {
                biased;
                signal = self.signals.next() => signal,
                press = self.keyboard.next() => match press.key {
                    Key::Escape if !self.keyboard.typed(|typed| typed.composer.is_choosing()) => EndSignal::Interrupt,
                    Key::Leave if !self.keyboard.typed(|typed| typed.is_writing()) => EndSignal::Interrupt,
                    _ => {
                        self.keyboard.typed(|typed| typed.press(press));
                        continue;
                    }
                },
                aside = self.asides.next(async {}) => {
                    self.renderer.aside(aside)?;
                    continue;
                }
                _ = status.tick() => continue,
            };
            self.asides.cancel();
            self.note(ASIDE_CANCELLED);
            self.left(signal)?;
        }
        Ok(self.renderer.leave()?)
    }
}
