//! `/btw`: side questions, whose answers do not enter the model's history.

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    exit::Exit,
    keyboard::Key,
    turn::{ASIDE_CANCELLED, Asides, Renderer as _, signals::EndSignal},
};

impl Chat {
    /// Asks a side question, and waits for its answer.
    pub(super) async fn ask_aside(&mut self, question: String) -> anyhow::Result<Exit> {
        self.asides = Asides::of(&self.daemon.client, self.session()?);
        self.asides.ask(&format!("/btw {question}"));
        let _hold = self.keyboard.hold_ahead();
        self.signals.forget();
        self.finish_asides().await?;
        Ok(Exit::Done)
    }

    /// Waits for the answers to pending side questions, and shows them. Esc or Ctrl-C cancels the questions.
    pub(super) async fn finish_asides(&mut self) -> anyhow::Result<()> {
        if !self.asides.is_empty() {
            self.note("the side question waits for its answer; Esc cancels it");
        }
        while !self.asides.is_empty() {
            let signal = tokio::select! {
                biased;
                signal = self.signals.next() => signal,
                press = self.keyboard.next() => match press.key {
                    Key::Escape => EndSignal::Interrupt,
                    _ => {
                        self.keyboard.typed(|typed| typed.press(press));
                        continue;
                    }
                },
                aside = self.asides.next() => {
                    self.renderer.aside(aside)?;
                    continue;
                }
            };
            self.asides.cancel();
            self.note(ASIDE_CANCELLED);
            self.left(signal)?;
        }
        Ok(())
    }
}
