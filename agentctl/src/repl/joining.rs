//! Turns of other clients in this conversation's session: they are shown as they happen, and a message that meets one is added
//! to it.

use std::sync::Arc;

use super::{chat::Chat, conversation::ChatBackend as _, watch};
use crate::{
    exit::Exit,
    render::Human,
    turn::{BuiltinNotice, SocketLine},
};

impl Chat {
    /// Shows a turn of somebody else's from there on, to which the person may speak.
    pub(super) async fn join_turn(&mut self, after: u64) -> anyhow::Result<Exit> {
        let id = self.session()?;
        self.signals.forget();
        let line = SocketLine::attach(&self.daemon, id, after).await?;
        let human = Human::stdio().showing_input().with_status(Arc::clone(&self.known.status));
        let mut renderer = BuiltinNotice::new(Box::new(human), Vec::new(), &self.daemon);
        self.follow(line, Some(&mut renderer)).await
    }

    /// Adds a message to the turn of another client that was met, and shows that turn from its start. What it does not take
    /// waits for its end. None where no such turn is at work.
    pub(super) async fn speak_to_other(&mut self, text: Option<String>) -> anyhow::Result<Option<Exit>> {
        let Some(id) = self.place.id().filter(|_| self.present) else { return Ok(None) };
        let view = self.daemon.client.session(&id.to_string()).await?;
        let Some(after) = watch::before_turn(&view) else { return Ok(None) };
        text.into_iter().for_each(|text| self.keyboard.typed(|typed| typed.speak(text)));
        self.note("another client's turn is at work here; what you say is added to it");
        self.join_turn(after).await.map(Some)
    }
}
