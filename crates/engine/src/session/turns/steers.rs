//! What is added to a turn that runs: stored when it comes, and whole where the model is given it.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    ids::TurnId,
    item::{Item, ItemStatus},
};

use crate::{
    error::EngineError,
    large_input::UserInput,
    session::{
        actor::{Actor, Fault, OpenTurn},
        turns::user_item,
    },
};

impl Actor {
    pub(crate) async fn steer(&mut self, turn: Option<TurnId>, input: UserInput, whole: bool) -> Result<(), Fault> {
        let turn_id = self.open_turn(turn)?;
        if input.text.trim().is_empty() {
            return Err(EngineError::new(ErrorKind::InvalidInput, "there is nothing to add: the text is empty").into());
        }
        if self.open.as_ref().is_some_and(OpenTurn::is_cancelled) {
            let message = format!("turn {turn_id} is being cancelled, so nothing can be added to it");
            return Err(EngineError::new(ErrorKind::Conflict, message)
                .with_hint("send it when the turn has ended")
                .into());
        }
        let input = self.fit_added(input, whole).await?;
        let stored = self.stored_warning(&input, self.choice_at_work());
        let item = user_item(turn_id, input, true);
        // It is on the disk before anybody is told that it was taken, and whole when the model is given it.
        let started = EventKind::ItemStarted { item: item.clone() };
        self.commit(Some(turn_id), [started].into_iter().chain(stored).collect()).await?;
        if let Some(open) = &mut self.open {
            open.steers.push(Arc::new(item));
        }
        Ok(())
    }

    /// Additions that no model has seen. From here on they stand after all that was stored before, which is where the
    /// model reads them.
    pub(crate) async fn take_steers(&mut self, turn_id: TurnId) -> Result<Vec<Arc<Item>>, Fault> {
        let steers = self.open.as_mut().map(|open| std::mem::take(&mut open.steers)).unwrap_or_default();
        let whole = |item: &Arc<Item>| EventKind::ItemCompleted { item: (**item).clone(), status: ItemStatus::Done };
        self.commit(Some(turn_id), steers.iter().map(whole).collect()).await?;
        Ok(steers)
    }
}
