//! Answers in a form: the model is told the schema, and the answer that would end the turn is checked. One that does not match
//! is asked for once more, with the reasons.

use std::{sync::Arc, time::Duration};

use agentd_core::item::{ItemBody, NoticeTopic};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{task::spawn_blocking, time::timeout};

use crate::turn::{
    Phase, TurnContext, TurnExit, TurnState,
    hooks::{Link, Reminder},
    unusable::Problem,
};

/// Time limit for checking one answer: a schema can say the same over and over.
const PATIENCE: Duration = Duration::from_secs(10);

/// Said in front of the schema.
const IN_FORM: &str = "The answer that ends this turn has to be one JSON document that matches the JSON Schema below, and \
    nothing else: no words before or behind it, and no code fence. Until then work and call tools as usual. This holds for \
    this turn only.";

/// Said in the next turn that has no form, for the words above stay in the history.
const FREE: &str = "The answer of this turn has no special form: answer in words again.";

pub(crate) struct InForm;

impl Link for InForm {
    fn name(&self) -> &'static str {
        "answer_form"
    }

    fn description(&self) -> &'static str {
        "tells the model which schema the answer has to match, and checks the answer before the turn ends with it"
    }

    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        // A plan is in words.
        if state.phase == Phase::Planning {
            return None;
        }
        let text = match &context.answer_form {
            Some(form) => format!("{IN_FORM}\n\n{}", form.schema().text()),
            None => {
                let mut told = state.history.iter().rev().filter_map(|item| match &item.body {
                    ItemBody::Notice { topic: NoticeTopic::AnswerForm, text, .. } => Some(text.as_str()),
                    _ => None,
                });
                told.next().filter(|text| *text != FREE).map(|_| FREE.to_owned())?
            }
        };
        Some(Reminder::new(NoticeTopic::AnswerForm, text))
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        async move {
            let (Some(form), Phase::Working, Some(answer)) = (&context.answer_form, state.phase, &state.answer) else {
                return Ok(());
            };
            let (form, answer) = (Arc::clone(form), answer.clone());
            let checking = timeout(PATIENCE, spawn_blocking(move || form.check(&answer)));
            let unchecked = || Err(vec![format!("it could not be checked within {} seconds", PATIENCE.as_secs())]);
            match context
                .or_cancelled(checking)
                .await?
                .map_or_else(|_| unchecked(), |done| done.unwrap_or_else(|_| unchecked()))
            {
                Ok(document) => state.answer = Some(document),
                Err(reasons) => state.take_problem(Some(Problem::WrongForm { reasons }), false),
            }
            Ok(())
        }
        .boxed()
    }
}
