//! Turns that begin with a plan: it is made with tools that only look, a person decides about it, and its steps become the todo
//! list.
//!
//! A turn plans while its history has the notice that asks for a plan, and not yet the one behind it that says what became of it:
//! so it is after a restart, too.

mod steps;

use agentd_core::{
    event::{EventKind, StateChange},
    ids::CallId,
    interrupt::{Answer, Ask},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    tool::{ToolErrorCode, ToolOutput},
    turn::{Denial, OnInterrupt, StopReason},
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    agents::transfer_tool::PREFIX,
    turn::{
        Phase, TurnContext, TurnExit, TurnState,
        hooks::{Invocation, Link, Next, Reminder},
        plan::PLAN_FIRST,
        recorder::CallAnswers,
    },
};

/// Said to the model behind an approval.
const APPROVED: &str = "The plan is approved. Carry it out now: you may change files and run commands again. Its steps are your \
    todo list; keep that up to date.";

/// Beginning of what is said behind an approval of another plan.
const CHANGED: &str = "The person changed the plan and approved it as it stands here. Carry it out now: you may change files and \
    run commands again. Its steps are your todo list; keep that up to date.";

/// Said for a call that hands work on.
const BY_YOURSELF: &str =
    "while you plan, no work is handed on: look yourself, and make handing it on a step of the plan";

pub(crate) struct TurnPlan;

impl Link for TurnPlan {
    fn name(&self) -> &'static str {
        "planning"
    }

    fn description(&self) -> &'static str {
        "asks a person about the plan with which a turn begins, before anything is changed"
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        async move {
            let is_made = state.phase == Phase::Planning && state.pending_calls.is_empty();
            let Some(plan) = state.answer.clone().filter(|_| is_made) else { return Ok(()) };
            decide(context, state, plan).await?;
            // The loop left what was said meanwhile to this.
            for steer in context.recorder.take_steers().await? {
                state.note(steer);
            }
            Ok(())
        }
        .boxed()
    }

    fn reminder(&self, _: &TurnContext, state: &TurnState) -> Option<Reminder> {
        (state.phase == Phase::Planning).then(|| Reminder::new(NoticeTopic::Plan, PLAN_FIRST))
    }

    fn around_tool<'a>(
        &'a self,
        call: &'a Invocation<'a>,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, TurnExit>> {
        let hands_on = || call.call.name.starts_with(PREFIX) || call.context.is_delegation(&call.call.name);
        if call.state.phase == Phase::Planning && hands_on() {
            return std::future::ready(Ok(ToolOutput::error(ToolErrorCode::Denied, BY_YOURSELF))).boxed();
        }
        next.run(call)
    }
}

/// Has the plan decided about, and takes in what came of it.
async fn decide(context: &TurnContext, state: &mut TurnState, plan: String) -> Result<(), TurnExit> {
    let id = call_id(state);
    let earlier = context.rules.answered.get(&id).and_then(CallAnswers::approval).cloned();
    let denied = |reason: &str| Denial { call_id: id.clone(), tool: Ask::PLAN.to_owned(), reason: reason.to_owned() };
    let answered = match (earlier, context.rules.answering.now()) {
        (Some(answered), _) => answered,
        (None, OnInterrupt::Wait) => context.ask(id.clone(), Ask::of_plan(&plan)).await?,
        (None, OnInterrupt::Approve) => return carry_out(context, state, APPROVED.to_owned(), &plan).await,
        // The plan is what the run is for then.
        (None, OnInterrupt::Deny) => return Err(TurnExit::Finished(StopReason::Completed)),
        (None, OnInterrupt::Fail) => return Err(TurnExit::Denied(denied("the plan needs an approval"))),
    };
    match &answered.answer {
        Answer::Reject { .. } => match answered.words_of_person() {
            Some(words) => plan_again(context, state, words).await,
            None => Err(TurnExit::Denied(denied("the plan was rejected"))),
        },
        Answer::Edit { args } => match args.get(Ask::PLAN).and_then(|text| text.as_str()) {
            Some(changed) if changed.trim() == plan.trim() => {
                carry_out(context, state, APPROVED.to_owned(), &plan).await
            }
            Some(changed) if !changed.trim().is_empty() => {
                carry_out(context, state, format!("{CHANGED}\n\n{}", changed.trim()), changed).await
            }
            // Nobody has approved that.
            _ => Err(TurnExit::Denied(denied("the changed plan has no words"))),
        },
        Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } => {
            carry_out(context, state, APPROVED.to_owned(), &plan).await
        }
        Answer::Text { .. } => Err(TurnExit::Denied(denied("the plan was not approved"))),
    }
}

/// The call as which a plan is asked about: after a restart the answer is known by it.
fn call_id(state: &TurnState) -> CallId {
    let said = state.history.iter().rev().find(|item| matches!(item.body, ItemBody::AgentMessage { .. }));
    CallId::from(format!("{}_{}", Ask::PLAN, said.map_or_else(String::new, |item| item.id.to_string())))
}

/// Ends the planning: the todo list and the words to the model are stored together.
async fn carry_out(context: &TurnContext, state: &mut TurnState, text: String, plan: &str) -> Result<(), TurnExit> {
    let body = ItemBody::Notice { text, topic: NoticeTopic::Planned, sources: Vec::new(), pictures: Vec::new() };
    let item = Item::new(context.ids.turn, body);
    let todos = steps::todos(plan);
    let facts = vec![
        EventKind::StateChanged { change: StateChange::Todos { todos: todos.clone() } },
        EventKind::ItemStarted { item: item.clone() },
        EventKind::ItemCompleted { item: item.clone(), status: ItemStatus::Done },
    ];
    context.recorder.facts(facts).await?;
    state.todos = todos;
    state.note(item.into());
    Ok(())
}

/// Hands the words of the person on to the model, like all that they add to a turn.
async fn plan_again(context: &TurnContext, state: &mut TurnState, words: String) -> Result<(), TurnExit> {
    let body = ItemBody::UserMessage { text: words, steered: true, typed_bytes: None, stored: None };
    state.note(context.recorder.whole(body).await?);
    Ok(())
}
