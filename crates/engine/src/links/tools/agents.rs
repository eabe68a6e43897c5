//! Tools that hand over work to other agents. With `delegate_task`, a separate session does a part of the work, and its
//! answer is the result. With `transfer_to_…`, another agent continues the session with its own instructions, tools and
//! model.
//!
//! The agent changes after the step that requests it: the turn's task ends there, and the session starts another task
//! for the same turn. All agents share one history.

use agentd_core::{
    agent::{AgentCard, MAIN, TRANSFER_PREFIX as TRANSFER},
    event::StateChange,
    ids::SessionId,
    session::SessionMode,
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    catalog::DELEGATE,
    turn::{
        Flow, InFlightCall, Phase, TurnContext, dispatch,
        hooks::{Hook, Invocation, Link, Next, Preview, Task},
    },
};

/// Default number of steps of a subagent.
const DEFAULT_STEPS: u32 = 50;

/// Maximum number of steps that a model may set.
const MAX_STEPS: u32 = 200;

pub(crate) struct Delegation;

/// Delegates part of the work to a subagent: an agent with its own history, the same files and the same tools. It cannot
/// see this conversation, so the task must contain everything that it needs: the goal, the paths, the form of the result.
/// Use it for work of many steps whose details you do not need, and call it several times at once for independent parts.
/// Its answer is returned as `result`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Everything that the subagent must know and do.
    #[serde(alias = "prompt")]
    task: String,
    /// Title that some models add. Ignored: the task describes the work.
    #[serde(rename = "description")]
    #[schemars(skip)]
    _description: Option<String>,
    /// Added to the schema only if there are agents to choose from.
    #[serde(alias = "agent_id", alias = "subagent_type")]
    #[schemars(skip)]
    agent: Option<String>,
    /// Maximum number of steps. Default 50.
    #[serde(alias = "max_loops")]
    #[schemars(range(min = 1, max = MAX_STEPS))]
    max_steps: Option<u32>,
    /// context_id of an earlier result, to continue that subagent with its history.
    context_id: Option<String>,
    /// Set to true if several subagents change files of one git repository at the same time: this one gets its own checkout
    /// and branch, made from the last commit. Its changes are not in your /project; the user merges them.
    #[serde(default)]
    worktree: bool,
}

impl Link for Delegation {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(DELEGATE, Effect::State)]
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        call.context.is_delegation(&call.call.name).then(|| std::future::ready(task(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        let is_ours = call.context.is_in_flight(call.call) || call.context.is_delegation(&call.call.name);
        if is_ours { delegate(call).boxed() } else { next.run(call) }
    }
}

async fn delegate(call: &Invocation<'_>) -> Flow<ToolOutput> {
    let task = task(call);
    if let Some(InFlightCall { subagent, .. }) = call.context.tools.in_flight.get(&call.call.call_id) {
        // The call was valid when it started. If a later change has made it invalid, the subagent still continues.
        let max_steps = task.map_or(DEFAULT_STEPS, |task| task.max_steps);
        return call.context.tools.subagents.resume(call, subagent.clone(), max_steps).await;
    }
    match task {
        Ok(task) => call.context.tools.subagents.run(call, task).await,
        Err(output) => Ok(output),
    }
}

/// Parses the task of a call. The error is the output for an invalid call.
fn task(call: &Invocation<'_>) -> Result<Task, ToolOutput> {
    if call.context.settings.parent.is_some() {
        let text = "a subagent cannot delegate: do it yourself, or report what is left to do";
        return Err(ToolOutput::error(ToolErrorCode::UnknownTool, text));
    }
    let invalid = |text: String| ToolOutput::error(ToolErrorCode::InvalidArgs, text);
    let Arguments { task, agent, max_steps, context_id, worktree, .. } = serde_json::from_str(&call.call.arguments)
        .map_err(|error| invalid(format!("{DELEGATE} needs {{\"task\": \"…\"}}: {error}")))?;
    if task.trim().is_empty() {
        return Err(invalid("the task is empty: describe everything that the subagent must know and do".to_owned()));
    }
    let agent = agent.map(|agent| agent.trim().to_owned()).filter(|agent| !agent.is_empty());
    let is_named = agent.is_some();
    // Without a name, an agent delegates to an agent like itself, with no more permissions.
    let card = match agent {
        Some(id) => Some(card(call.context, &id).map_err(invalid)?),
        None => call.context.active_agent.card(),
    };
    let context_id = context_id.filter(|id| !id.trim().is_empty()).map(|id| id.trim().parse::<SessionId>()).transpose();
    let context_id = context_id
        .map_err(|_| invalid("`context_id` must come from an earlier result; omit it for a new subagent".to_owned()))?;
    let is_plan = || call.context.rules.grants.mode() == SessionMode::Plan;
    let worktree_problem = match &call.context.settings.project {
        _ if !worktree => None,
        _ if context_id.is_some() => {
            Some("an earlier subagent works where it did before: omit `worktree` or `context_id`")
        }
        None => Some("a worktree requires a project, and this session has none: omit `worktree`"),
        Some(project) if !project.writable => {
            Some("the project is read-only, and a worktree changes its repository: omit `worktree`")
        }
        _ => is_plan().then_some("the session is in plan mode, and a worktree changes the repository: omit `worktree`"),
    };
    if let Some(problem) = worktree_problem {
        return Err(invalid(problem.to_owned()));
    }
    let steps = max_steps.map(|steps| steps.min(MAX_STEPS)).or_else(|| card?.max_steps).unwrap_or(DEFAULT_STEPS);
    let agent = card.map(|card| card.id.clone());
    Ok(Task { text: task, agent, is_named, max_steps: steps.max(1), context_id, worktree })
}

/// Checks that an earlier subagent running `agent` may continue: it must be an agent that the caller could name, or an
/// agent like the caller. Therefore, no agent can continue a subagent to exceed its own permissions.
pub(crate) fn check_continuation(
    context: &TurnContext,
    agent: Option<&str>,
    named: Option<&str>,
) -> Result<(), String> {
    let own = context.active_agent.card();
    if let Some(named) = named
        && agent != Some(named)
    {
        let current = agent.map_or_else(|| "no agent by name".to_owned(), |id| format!("`{id}`"));
        return Err(format!(
            "that subagent is {current}, not `{named}`: omit `agent`, or omit `context_id` for a new one"
        ));
    }
    match (agent, own) {
        (None, None) => Ok(()),
        (None, Some(own)) if own.tools.is_none() => Ok(()),
        (None, Some(own)) => {
            Err(format!("that subagent belongs to the main agent and can do more than `{}`: omit context_id", own.id))
        }
        (Some(id), Some(own)) if own.id == id => Ok(()),
        // The main agent could do all of the work itself.
        (Some(id), None) if context.active_agent.agents().get(id).is_some() => Ok(()),
        (Some(id), _) => card(context, id).map(drop),
    }
}

/// Finds the named agent. The error lists the available agents.
fn card<'a>(context: &'a TurnContext, id: &str) -> Result<&'a AgentCard, String> {
    let agents = context.active_agent.agents();
    // An agent that is not offered to models can be used if the user mentions it.
    let is_mentioned = |card: &&AgentCard| context.tools.mentions.agents.iter().any(|known| known.id == card.id);
    agents.get(id).filter(|card| card.enabled || is_mentioned(card)).ok_or_else(|| {
        let offered: Vec<&str> = agents.enabled().map(|card| card.id.as_str()).collect();
        match offered.as_slice() {
            [] => format!("no such agent: {id:?}; omit `agent`"),
            ids => format!("no such agent: {id:?}; omit `agent`, or name one of {}", ids.join(", ")),
        }
    })
}

/// Maximum number of stacked agents, not counting the first.
const MAX_STACKED: usize = 5;

/// Maximum number of agent changes per turn.
const MAX_CHANGES: u32 = 10;

pub(crate) struct Handoff;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandoffArguments {
    #[serde(alias = "result", alias = "message", alias = "reason")]
    task: Option<String>,
}

impl Link for Handoff {
    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        is_call(call).then(|| std::future::ready(transfer_target(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if is_call(call) { transfer(call).boxed() } else { next.run(call) }
    }
}

/// Returns true if the call names one of the configured agents. A foreign tool may have such a name if there is no
/// agent for it.
fn is_call(call: &Invocation<'_>) -> bool {
    let Some(id) = call.call.name.strip_prefix(TRANSFER) else { return false };
    id == MAIN || call.context.active_agent.agents().get(id).is_some()
}

async fn transfer(call: &Invocation<'_>) -> Flow<ToolOutput> {
    let (stack, task) = match transfer_target(call) {
        Ok(target) => target,
        Err(output) => return Ok(output),
    };
    dispatch::begin(call).await?;
    call.context.recorder.change(StateChange::Agent { stack: stack.clone() }).await?;
    let from = call.context.active_agent.name();
    let text = match stack.last() {
        Some(to) if call.context.active_agent.chain().first() == Some(&to.as_str()) => {
            format!("`{from}` has transferred the conversation back to you, `{to}`: {task}")
        }
        Some(to) => format!("`{from}` has transferred the conversation to you, `{to}`. Your task: {task}"),
        None => format!("`{from}` has transferred the conversation back to you, the main agent: {task}"),
    };
    call.record.entries().effects.changes_agent = true;
    Ok(ToolOutput::ok(text))
}

/// Returns the next stack of agents, and the task for the next agent. The error is the output for an invalid call.
fn transfer_target(call: &Invocation<'_>) -> Result<(Vec<String>, String), ToolOutput> {
    let (active_agent, name) = (&call.context.active_agent, call.call.name.as_str());
    if active_agent.is_subagent() || !active_agent.may_transfer(name) {
        let text = "this agent cannot transfer to that one: do it yourself, or report what is left to do";
        return Err(ToolOutput::error(ToolErrorCode::UnknownTool, text));
    }
    let HandoffArguments { task } = serde_json::from_str(&call.call.arguments).map_err(|error| {
        let text = format!("{name} needs {{\"task\": \"…\"}}: {error}");
        ToolOutput::error(ToolErrorCode::InvalidArgs, text)
    })?;
    if call.state.phase == Phase::HandingOff {
        let text = "this step already transfers to another agent, which decides who is next";
        return Err(ToolOutput::error(ToolErrorCode::Tool, text));
    }
    let to = name.strip_prefix(TRANSFER).unwrap_or(name);
    let stack = next_stack(&active_agent.chain(), to, call.state.agent_changes);
    let stack = stack.map_err(|reason| ToolOutput::error(ToolErrorCode::Tool, reason))?;
    Ok((stack, task.filter(|task| !task.trim().is_empty()).unwrap_or_else(|| "continue".to_owned())))
}

/// Returns the stack after a transfer, or a reason why the transfer is not possible.
fn next_stack(chain: &[&str], to: &str, changes: u32) -> Result<Vec<String>, String> {
    let first = chain.first().copied().unwrap_or(MAIN);
    // The main agent is not part of a stack.
    let stack = |chain: &[&str]| chain.iter().filter(|id| **id != MAIN).map(|id| (*id).to_owned()).collect();
    let path = || chain.join(" → ");
    if to == first {
        return if chain.len() <= 1 {
            Err(format!("you are `{first}`: continue yourself"))
        } else {
            Ok(stack(&[first]))
        };
    }
    if chain.contains(&to) {
        return Err(format!(
            "`{to}` already takes part ({}): this would be a loop. Answer with what you have, or transfer back with \
             {TRANSFER}{first}",
            path()
        ));
    }
    if chain.len() > MAX_STACKED {
        return Err(format!(
            "{MAX_STACKED} agents are already stacked ({}), which is the maximum. Answer with what you have, or transfer \
             back with {TRANSFER}{first}",
            path()
        ));
    }
    if changes >= MAX_CHANGES {
        return Err(format!(
            "the agent has changed {MAX_CHANGES} times in this turn, the maximum. Answer with what you have"
        ));
    }
    Ok(stack(&[chain, &[to]].concat()))
}
