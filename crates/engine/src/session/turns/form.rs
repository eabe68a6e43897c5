//! The form of a turn's answer: what its client asked for, or what the turn had that it goes on with.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    model::ModelInfo,
    turn::{IfBusy, StartTurn},
};

use crate::{
    answer_form::AnswerForm,
    error::EngineError,
    session::actor::{Actor, Fault},
};

/// Refuses a form that no answer could come to.
pub(crate) fn check(start: &StartTurn, joins: bool) -> Result<(), EngineError> {
    let Some(schema) = &start.answer_schema else { return Ok(()) };
    if start.compact.is_some() {
        let message = "a turn that compacts the history has no answer that could be in a form";
        return Err(EngineError::new(ErrorKind::InvalidInput, message).with_hint("leave the schema out"));
    }
    if joins && start.if_busy == IfBusy::Steer {
        let message = "a running turn cannot be given another form of its answer";
        return Err(EngineError::new(ErrorKind::InvalidInput, message)
            .with_hint("queue the input instead: agentctl run --if-busy queue"));
    }
    AnswerForm::compile(schema).map(|_| ())
}

/// Refuses a form that the model of the turn is too small for.
pub(crate) fn check_model(form: Option<&Arc<AnswerForm>>, model: &ModelInfo) -> Result<(), EngineError> {
    if form.is_some() && model.embedded {
        return Err(EngineError::new(ErrorKind::InvalidInput, "the built-in model cannot answer in a form")
            .with_hint("name a model that can, see docs/models.md, or leave the schema out"));
    }
    Ok(())
}

impl Actor {
    /// The form of the answer of a turn that begins. One without an input goes on with that of the turn before it.
    pub(crate) async fn form(&self, start: &StartTurn) -> Result<Option<Arc<AnswerForm>>, Fault> {
        let goes_on = start.text.is_none() && start.compact.is_none();
        if start.answer_schema.is_none() && goes_on {
            return self.form_before().await;
        }
        Ok(AnswerForm::of(start.answer_schema.as_ref())?)
    }

    /// The form of the last turn that did more than compact.
    async fn form_before(&self) -> Result<Option<Arc<AnswerForm>>, Fault> {
        let store = &self.shared.parts.store;
        let turns = store.turns(self.id).await.map_err(EngineError::from)?;
        for turn in turns.iter().rev().take_while(|turn| !self.is_imported(turn.began)) {
            let first = store.events(self.id, turn.began.saturating_sub(1), 1).await.map_err(EngineError::from)?;
            if let Some(EventKind::TurnStarted { compacts: false, answer_schema, .. }) =
                first.first().map(|event| &event.kind)
            {
                return Ok(AnswerForm::of(answer_schema.as_ref())?);
            }
        }
        Ok(None)
    }
}
