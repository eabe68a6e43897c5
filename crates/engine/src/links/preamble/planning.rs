//! Turns that begin with a plan. The plan is made with read-only tools, the user decides on the plan, and its steps
//! become the todo list.
//!
//! A turn is planning if its history has the notice that requests a plan but not yet the notice with the decision. This
//! way, the state survives a restart.

use agentd_core::{
    agent::TRANSFER_PREFIX as TRANSFER,
    event::{EventKind, StateChange},
    ids::CallId,
    interrupt::{Answer, Ask},
    item::{Item, ItemBody, NoticeTopic},
    session::{Todo, TodoPriority, TodoStatus},
    tool::{ToolErrorCode, ToolOutput},
    turn::{Denial, OnInterrupt, StopReason},
};

use crate::turn::{
    Flow, Phase, TurnContext, TurnExit, TurnState,
    hooks::{Hook, Invocation, Link, Next, Reminder, done},
    recorder::whole,
    route::PLAN_FIRST,
};

/// Notice after an approval.
const PLAN_APPROVED: &str = "The plan is approved. Carry it out now: you may change files and run commands again. Its \
    steps are your todo list; keep it up to date.";

/// Start of the notice after the approval of a modified plan.
const PLAN_EDITED: &str = "The user edited the plan and approved this version. Carry it out now: you may change files and \
    run commands again. Its steps are your todo list; keep it up to date.";

/// Output for calls that delegate work while planning.
const NO_DELEGATION: &str =
    "you cannot delegate while planning: read the files yourself, and make delegation a step of the plan";

pub(crate) struct TurnPlan;

impl Link for TurnPlan {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        Box::pin(async move {
            let is_made = state.phase == Phase::Planning && state.pending_calls.is_empty();
            let Some(plan) = state.answer.clone().filter(|_| is_made) else { return Ok(()) };
            decide(context, state, plan).await?;
            // The turn loop does not receive the user's messages while a plan is pending, so they are received here.
            for steer in context.recorder.take_steers().await? {
                state.note(steer);
            }
            Ok(())
        })
    }

    fn reminder(&self, _: &TurnContext, state: &TurnState) -> Option<Reminder> {
        (state.phase == Phase::Planning).then(|| Reminder::new(NoticeTopic::Plan, PLAN_FIRST))
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        let delegates = || call.call.name.starts_with(TRANSFER) || call.context.is_delegation(&call.call.name);
        if call.state.phase == Phase::Planning && delegates() {
            return done(ToolOutput::error(ToolErrorCode::Denied, NO_DELEGATION));
        }
        next.run(call)
    }
}

/// Gets a decision on the plan, and applies the decision.
async fn decide(context: &TurnContext, state: &mut TurnState, plan: String) -> Flow {
    let id = call_id(state);
    let earlier = context.rules.answered.get(&id).and_then(|earlier| earlier.approval.clone());
    let denied = |reason: &str| Denial { call_id: id.clone(), tool: Ask::PLAN.to_owned(), reason: reason.to_owned() };
    let answered = match (earlier, context.rules.answering.now()) {
        (Some(answered), _) => answered,
        (None, OnInterrupt::Wait) => context.ask(id.clone(), Ask::of_plan(&plan)).await?,
        (None, OnInterrupt::Approve) => return finish_planning(context, state, &plan, None).await,
        // In this case, the plan is the result of the turn.
        (None, OnInterrupt::Deny) => return Err(TurnExit::Finished(StopReason::Completed)),
        (None, OnInterrupt::Fail) => return Err(TurnExit::Denied(denied("the plan requires approval"))),
    };
    let changed = match &answered.answer {
        Answer::Reject { .. } => {
            let rejected = || TurnExit::Denied(denied("the plan was rejected"));
            // The text is handled like any input added to the turn.
            let text = answered.user_text().ok_or_else(rejected)?;
            let body = ItemBody::UserMessage { text, steered: true, typed_bytes: None, stored: None };
            return context.append_notice(state, body).await;
        }
        Answer::Edit { args } => match args.get(Ask::PLAN).and_then(|text| text.as_str()) {
            Some(same) if same.trim() == plan.trim() => None,
            Some(changed) if !changed.trim().is_empty() => Some(changed),
            // The approval of an empty plan counts as a rejection.
            _ => return Err(TurnExit::Denied(denied("the edited plan is empty"))),
        },
        Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } => None,
        Answer::Text { .. } => return Err(TurnExit::Denied(denied("the plan was not approved"))),
    };
    finish_planning(context, state, &plan, changed).await
}

/// Returns the call ID of the question about a plan. This ID identifies the answer after a restart.
fn call_id(state: &TurnState) -> CallId {
    let last_message = state.history.iter().rev().find(|item| matches!(item.body, ItemBody::AgentMessage { .. }));
    CallId::from(format!("{}_{}", Ask::PLAN, last_message.map_or_else(String::new, |item| item.id.to_string())))
}

/// Ends the planning with the model's plan or the user's version. The todo list and the notice are stored atomically.
async fn finish_planning(context: &TurnContext, state: &mut TurnState, plan: &str, changed: Option<&str>) -> Flow {
    let text = changed.map_or(PLAN_APPROVED.to_owned(), |changed| format!("{PLAN_EDITED}\n\n{}", changed.trim()));
    let item = Item::new(context.ids.turn, Reminder::new(NoticeTopic::Planned, text).notice());
    let todos = todos(changed.unwrap_or(plan));
    let change = StateChange::Todos { todos: todos.clone() };
    let facts = [EventKind::StateChanged { change }].into_iter().chain(whole(item.clone()));
    context.recorder.facts(facts.collect()).await?;
    state.todos = todos;
    state.note(item.into());
    Ok(())
}

/// Maximum number of steps; the rest of the plan is dropped.
const MAX_STEPS: usize = 50;

/// Maximum length of a step, in characters.
const MAX_STEP: usize = 300;

/// Returns the steps of a plan: the outermost items of its first list, or its first line if the plan has no list.
pub(crate) fn todos(plan: &str) -> Vec<Todo> {
    let mut steps = list_items(plan, is_numbered);
    if steps.is_empty() {
        steps = list_items(plan, |item| item.starts_with("- ") || item.starts_with("* "));
    }
    if steps.is_empty() {
        let line = plan.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        steps.extend(line.map(str::to_owned));
    }
    let todo = |(at, step): (usize, String)| Todo {
        id: (at + 1).to_string(),
        content: step.chars().take(MAX_STEP).collect(),
        status: TodoStatus::Pending,
        priority: TodoPriority::Medium,
    };
    steps.into_iter().take(MAX_STEPS).enumerate().map(todo).collect()
}

/// Returns the outermost items of lists of this kind, outside of code fences.
fn list_items(plan: &str, is_item: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut inside, mut level, mut items) = (false, None, Vec::new());
    for line in plan.lines() {
        let text = line.trim_start();
        if text.starts_with("```") || text.starts_with("~~~") {
            inside = !inside;
            continue;
        }
        let indent = line.len() - text.len();
        if inside || !is_item(text) || level.is_some_and(|level| indent > level) {
            continue;
        }
        level.get_or_insert(indent);
        let content = text.trim_start_matches(|char: char| char.is_ascii_digit());
        let content = content.trim_start_matches(['.', ')', '-', '*', ' ']);
        let content = content.trim_start_matches("[ ]").trim_start_matches("[x]").replace("**", "");
        if !content.trim().is_empty() {
            items.push(content.trim().to_owned());
        }
    }
    items
}

fn is_numbered(item: &str) -> bool {
    let rest = item.trim_start_matches(|char: char| char.is_ascii_digit());
    rest.len() < item.len() && (rest.starts_with(". ") || rest.starts_with(") "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(plan: &str, expected: &[&str]) {
        let steps: Vec<String> = todos(plan).into_iter().map(|todo| todo.content).collect();
        assert_eq!(steps, expected, "{plan}");
    }

    #[test]
    fn plan_steps_are_items_of_the_outermost_list() {
        check(
            "# Plan\n\n1. Read `a.rs`\n2. **Change** it\n   - the first part\n   1. and more\n3) Test",
            &["Read `a.rs`", "Change it", "Test"],
        );
        check("- [ ] one\n- two\n  - below\n* three", &["one", "two", "three"]);
        check("Notes:\n- not this\n\n1. this", &["this"]);
        check("```\n1. no step\n```\n1. a step", &["a step"]);
        check("# Plan\nI would just do it.", &["I would just do it."]);
        check("  \n", &[]);
        check("1.5 is a number", &["1.5 is a number"]);
    }

    #[test]
    fn long_plans_are_truncated() {
        let plan: String = (1..=200).map(|at| format!("{at}. {}\n", "long ".repeat(200))).collect();
        let todos = todos(&plan);
        assert_eq!(todos.len(), MAX_STEPS);
        assert!(todos.iter().all(|todo| todo.content.chars().count() <= MAX_STEP));
        assert_eq!(todos[49].id, "50");
    }

    proptest! {
        #[test]
        fn any_text_parses_as_a_plan(text in "([0-9]{0,3}[.) -]{0,2}|\n| {0,3}|```|[a-zä]{1,3}){0,60}") {
            for todo in todos(&text) {
                prop_assert!(!todo.content.trim().is_empty());
            }
        }
    }
}
