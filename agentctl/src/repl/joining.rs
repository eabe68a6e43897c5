//! Turns of other clients in the session of this conversation: shown as they happen, and extended by messages of the
//! user.

use std::sync::Arc;

use super::{chat::Chat, conversation::ChatBackend as _, watch};
use crate::{
    exit::Exit,
    render::Human,
    turn::{BuiltinNotice, SocketLine},
};

impl Chat {
    /// Follows another client's turn from an event on. The user may add messages to it.
    pub(super) async fn join_turn(&mut self, after: u64) -> anyhow::Result<Exit> {
        let id = self.session()?;
        self.signals.forget();
        let line = SocketLine::attach(&self.daemon, id, after).await?;
        let human = Human::stdio().showing_input().with_status(Arc::clone(&self.known.status));
        let mut renderer = BuiltinNotice::new(Box::new(human), Vec::new(), &self.daemon);
        self.follow(line, Some(&mut renderer)).await
    }

    /// Adds a message to another client's running turn, and shows that turn from its start. A message that the turn
    /// does not accept waits for its end. Returns `None` if no such turn runs.
    pub(super) async fn speak_to_other(&mut self, text: Option<String>) -> anyhow::Result<Option<Exit>> {
        let Some(id) = self.place.id().filter(|_| self.present) else { return Ok(None) };
        let view = self.daemon.client.session(&id.to_string()).await?;
        let Some(after) = watch::before_turn(&view) else { return Ok(None) };
        text.into_iter().for_each(|text| self.keyboard.typed(|typed| typed.speak(text)));
        self.note("another client's turn is at work here; what you say is added to it");
        self.join_turn(after).await.map(Some)
    }
}
