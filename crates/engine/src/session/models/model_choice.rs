//! The model of a session: the one of a slot, or one that was chosen by its id from those of that slot's server.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    error::ErrorKind,
    model::{MAX_MODEL_ID, Slot, SlotInfo, is_model_id},
    ports::{Model, Models},
    session::SessionSettings,
};
use futures_util::future::{join, join_all};
use tokio::time::timeout;

use crate::{
    error::EngineError,
    session::actor::{Actor, Fault},
    turn::route::SlotChoice,
};

/// Time limit for asking servers about their models while a person waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// The model that was chosen by its id, where it is one of that slot.
fn chosen(settings: &SessionSettings, slot: Slot) -> Option<&str> {
    settings.model.as_deref().filter(|_| settings.slot == Some(slot))
}

/// These settings with the slot of the model that they name, where they name one.
///
/// # Errors
/// When it cannot be the model of a session.
pub(crate) fn checked(models: &dyn Models, settings: SessionSettings) -> Result<SessionSettings, EngineError> {
    let Some(id) = settings.model.as_deref() else { return Ok(settings) };
    let slot = settings.slot.unwrap_or_default();
    check(models, slot, id)?;
    Ok(SessionSettings { slot: Some(slot), ..settings })
}

/// Makes sure that the server of a slot can be asked for the model of that id.
pub(crate) fn check(models: &dyn Models, slot: Slot, id: &str) -> Result<(), EngineError> {
    if !is_model_id(id) {
        let odd = format!("that is no id of a model: it has 1 to {MAX_MODEL_ID} bytes, in one line");
        return Err(
            EngineError::new(ErrorKind::InvalidInput, odd).with_hint("`agentctl models --available` lists them")
        );
    }
    if models.named(slot, id).is_some() {
        return Ok(());
    }
    let own = models.get(slot);
    let (message, hint) = if own.info().embedded {
        let message = format!("the slot {slot} has the built-in model, and no server that has a model {id:?}");
        (message, "name a server in models.yaml, or by MODEL_BASIC_BASE_URL")
    } else {
        let message = format!("the server of the slot {slot} has one model, which is not chosen by its id");
        (message, "with `wire: openai` and the address up to /v1 it can be asked for its models")
    };
    Err(EngineError::new(ErrorKind::InvalidInput, message).with_hint(hint))
}

impl Actor {
    /// The model that a slot means in this session.
    pub(crate) fn model(&self, slot: Slot) -> Arc<dyn Model> {
        let models = &self.shared.parts.models;
        let named = self.chosen(slot).and_then(|id| models.named(slot, id));
        named.unwrap_or_else(|| models.get(slot))
    }

    /// Returns whether a person chose the model that a slot means in this session.
    pub(crate) fn is_chosen(&self, slot: Slot) -> bool {
        self.chosen(slot).is_some()
    }

    /// The model that was chosen by its id for a slot: by the client for the open turn, or for the session.
    fn chosen(&self, slot: Slot) -> Option<&str> {
        let of_turn = self.options.model.as_deref().filter(|_| self.options.slot == Some(slot));
        of_turn.or_else(|| chosen(&self.state.settings, slot))
    }

    /// Makes sure that a turn with that slot has the model that was chosen for it: the configuration may be another since.
    pub(crate) fn check_model(&self, slot: Slot) -> Result<(), EngineError> {
        match self.chosen(slot) {
            Some(id) => check(&*self.shared.parts.models, slot, id).map_err(|error| {
                EngineError::new(ErrorKind::Configuration, format!("this session is set to a model: {error}"))
                    .with_hint("/model default sets it back; so does /model with another one")
            }),
            None => Ok(()),
        }
    }

    /// Has the models that a turn may ask tell their ids and the sizes of their windows, if they were not asked yet.
    pub(crate) async fn look_up(&self, choice: SlotChoice) {
        let (model, (_, chat)) = (self.model(choice.slot), self.chat(choice));
        // A server that says nothing in time is asked again with the request.
        let _ = timeout(PATIENCE, join(model.look_up(), chat.look_up())).await;
    }

    /// Has the models that may be shown pictures find out whether they see.
    pub(crate) async fn look_for_sight(&self) {
        let models = Slot::ALL.map(|slot| self.model(slot));
        let _ = timeout(PATIENCE, join_all(models.iter().map(|model| model.look_for_sight()))).await;
    }

    /// Sets the slot, and the model on its server. Both hold from the next turn on: one that runs keeps its own.
    pub(crate) async fn set_model(&mut self, slot: Option<Slot>, model: Option<String>) -> Result<SlotInfo, Fault> {
        let settings = self.state.settings.clone();
        if settings.parent.is_some() {
            let own = "a session that works for another one has its model";
            return Err(EngineError::new(ErrorKind::InvalidInput, own).with_hint("set it there").into());
        }
        let slot = if model.is_some() { slot.or(settings.slot) } else { slot };
        let settings = checked(&*self.shared.parts.models, SessionSettings { slot, model, ..settings })?;
        if settings != self.state.settings {
            self.set(settings).await?;
        }
        let slot = slot.unwrap_or_default();
        self.look_up(SlotChoice::by_name(slot)).await;
        // Another model has another window.
        self.tell_level().await?;
        Ok(SlotInfo { slot, falls_back_to: None, model: self.model(slot).info().clone() })
    }
}
