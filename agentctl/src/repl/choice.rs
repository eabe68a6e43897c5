//! A row that the person chooses from a list, in the middle of a conversation.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    chat::Chat,
    picker::{self, Choice},
};

impl Chat {
    /// Has the person choose a row; the mark is at `at` to begin with. None where they choose none.
    pub(super) async fn choose(
        &mut self,
        title: &str,
        choices: Vec<Choice>,
        at: usize,
    ) -> anyhow::Result<Option<usize>> {
        let stop = Arc::new(AtomicBool::new(false));
        self.signals.forget();
        let keyboard = self.keyboard.clone();
        let mut picking = Box::pin(picker::pick(&keyboard, title, choices, at, Arc::clone(&stop)));
        tokio::select! {
            biased;
            signal = self.signals.next() => {
                stop.store(true, Ordering::Relaxed);
                picking.await?;
                self.left(signal).map(|()| None)
            }
            picked = &mut picking => Ok(picked?),
        }
    }
}
