//! What an input mentions: said where it stands for nothing, and the model is reminded of it once.

use agentd_core::{event::EventKind, item::NoticeTopic};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::turn::{
    TurnContext, TurnExit, TurnState,
    hooks::{Link, Reminder},
};

/// Problems that are told one by one at the most.
const MAX_TOLD: usize = 5;

pub(crate) struct MentionsOfInput;

impl Link for MentionsOfInput {
    fn name(&self) -> &'static str {
        "mentions"
    }

    fn description(&self) -> &'static str {
        "tools, skills and agents that an input names with @: the model is reminded of them"
    }

    fn before_turn<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        // One that goes on after a restart has said so.
        if state.steps > 0 || context.tools.mentions.problems.is_empty() {
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let problems = &context.tools.mentions.problems;
            for problem in problems.iter().take(MAX_TOLD) {
                warn(context, problem.clone()).await?;
            }
            match problems.len().saturating_sub(MAX_TOLD) {
                0 => Ok(()),
                more => warn(context, format!("{more} more names that are mentioned load nothing either")).await,
            }
        }
        .boxed()
    }

    fn reminder(&self, context: &TurnContext, _: &TurnState) -> Option<Reminder> {
        let told = context.tools.mentions.reminders(|tool| context.tools.visible.get(tool).is_some());
        Some(Reminder::new(NoticeTopic::Mentions, told.join("\n")))
    }
}

async fn warn(context: &TurnContext, message: String) -> Result<(), TurnExit> {
    context.recorder.fact(EventKind::Warning { code: "mention".to_owned(), message }).await
}
