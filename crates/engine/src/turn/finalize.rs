//! The last answer of a turn that would otherwise end on a tool result.

use agentd_context::ToolSet;
use agentd_core::{event::EventKind, item::NoticeTopic, routing::ChoiceRule};

use crate::turn::{
    Phase, Reply, TurnContext, TurnExit, TurnState, hooks::Reminder, request, route::SlotChoice, sample,
};

/// Said at the end of the last request: a model that is only forbidden to call often says nothing instead.
const LAST_WORDS: &str = "No tool can be called any more in this turn. Answer the person now, in words, with what you have: \
                          what is done, and what is left to do.";

/// Asks the chat model once more for the answer. It may call nothing, but the tools are still named: without them the
/// request would repeat nothing of the one before. One that says nothing has said it: the turn ends as it is.
pub(crate) async fn finalize(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    state.phase = Phase::Finalizing;
    let answered = last_answer(context, state).await;
    state.phase = Phase::Working;
    answered
}

async fn last_answer(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    // What fits the window of the turn's model may be too much for that of the one that is asked now.
    context.tools.chain.before_step(context, state).await?;
    tell_model(context).await?;
    let named = if context.models.chat.can_forbid_calls() { context.tools.finds.tools() } else { ToolSet::none() };
    ask(context, state, named).await?;
    if state.reply == Reply::CalledInVain && state.answer.is_none() {
        // It was told not to, and calls all the same: then it has to be asked without.
        ask(context, state, ToolSet::none()).await?;
    }
    if state.answer.is_none() {
        let message = "the model ended the turn without an answer".to_owned();
        context.recorder.warn("empty_answer", message).await?;
    }
    Ok(())
}

/// Tells which model writes it, where that is another one than the turn's.
async fn tell_model(context: &TurnContext) -> Result<(), TurnExit> {
    let models = &context.models;
    if models.chat_slot == models.slot {
        return Ok(());
    }
    let choice = SlotChoice { slot: models.chat_slot, rule: ChoiceRule::LastAnswer };
    let (slot, rule, reason) = (choice.slot, choice.rule, choice.reason().to_owned());
    context.recorder.fact(EventKind::ModelChosen { slot, model: models.chat.info().id.clone(), rule, reason }).await
}

/// Asks, and once more behind a compaction where it did not fit.
async fn ask(context: &TurnContext, state: &mut TurnState, tools: ToolSet) -> Result<(), TurnExit> {
    ask_once(context, state, tools.clone()).await?;
    if state.reply == Reply::Overflowed {
        context.tools.chain.before_step(context, state).await?;
        ask_once(context, state, tools).await?;
    }
    Ok(())
}

async fn ask_once(context: &TurnContext, state: &mut TurnState, tools: ToolSet) -> Result<(), TurnExit> {
    request::append_reminders(context, state, Some(Reminder::new(NoticeTopic::LastAnswer, LAST_WORDS))).await?;
    let mut draft = request::assemble(context, state, tools).in_form(context.answer_schema());
    draft.forbid_calls();
    context.tools.chain.before_model(context, state, &mut draft);
    sample::ask(context, state, context.models.chat_slot, &*context.models.chat, draft).await
}
