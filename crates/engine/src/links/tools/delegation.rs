//! `delegate_task`: a session of its own does a part of the work, and its answer is the result.

use agentd_core::{
    agent::AgentCard,
    ids::SessionId,
    session::SessionMode,
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    agents::delegate_tool::NAME,
    turn::{
        InFlightCall, TurnContext, TurnExit,
        hooks::{Invocation, Link, Next, Task},
    },
};

/// The steps that a subagent may take where nobody says otherwise.
const STEPS: u32 = 50;

/// The steps that a model may give it.
const MOST_STEPS: u32 = 200;

pub(crate) struct Delegation;

/// Delegates part of the work to a subagent: an agent with a history of its own, the same files and the same tools. It sees
/// nothing of this conversation, so the task must contain everything that it needs: what is wanted, which paths, in which
/// form. Use it for work of many steps whose details you do not need, and call it several times at once for parts that do
/// not depend on each other. Its answer comes back as `result`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// All that the subagent has to know and to do.
    #[serde(alias = "prompt")]
    task: String,
    /// Some models name the work besides; what it is stands in the task.
    #[serde(rename = "description")]
    #[schemars(skip)]
    _description: Option<String>,
    /// Named in the schema where there are agents to be named.
    #[serde(alias = "agent_id", alias = "subagent_type")]
    #[schemars(skip)]
    agent: Option<String>,
    /// The steps that it may take. Default 50.
    #[serde(alias = "max_loops")]
    #[schemars(range(min = 1, max = MOST_STEPS))]
    max_steps: Option<u32>,
    /// The context_id of an earlier result, to continue that subagent with its history.
    context_id: Option<String>,
    /// Set to true where several subagents change files of one git repository at the same time: this one gets a checkout and a
    /// branch of its own, made from the last commit. Its changes are not in your /project; the user merges them.
    #[serde(default)]
    worktree: bool,
}

impl Link for Delegation {
    fn name(&self) -> &'static str {
        "delegation"
    }

    fn description(&self) -> &'static str {
        "lets sessions of their own do parts of the work; what they do is judged and told where they do it"
    }

    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(NAME, Effect::State)]
    }

    fn can_be_disabled(&self) -> bool {
        true
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<BoxFuture<'a, Result<Option<String>, ToolOutput>>> {
        call.context.is_delegation(&call.call.name).then(|| std::future::ready(task(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(
        &'a self,
        call: &'a Invocation<'a>,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, TurnExit>> {
        let is_meant = call.context.is_under_way(call.call) || call.context.is_delegation(&call.call.name);
        if is_meant { delegate(call).boxed() } else { next.run(call) }
    }
}

async fn delegate(call: &Invocation<'_>) -> Result<ToolOutput, TurnExit> {
    let task = task(call);
    if let Some(InFlightCall { subagent, .. }) = call.context.tools.in_flight.get(&call.call.call_id) {
        // That the call makes sense was found when it began, whatever has changed since.
        let max_steps = task.map_or(STEPS, |task| task.max_steps);
        return call.context.tools.subagents.resume(call, subagent.clone(), max_steps).await;
    }
    match task {
        Ok(task) => call.context.tools.subagents.run(call, task).await,
        Err(output) => Ok(output),
    }
}

/// The task of a call; an error where the call makes no sense.
fn task(call: &Invocation<'_>) -> Result<Task, ToolOutput> {
    if call.context.settings.parent.is_some() {
        let text = "a subagent gives no work to others: do it yourself, or answer what is left to do";
        return Err(ToolOutput::error(ToolErrorCode::UnknownTool, text));
    }
    let invalid = |text: String| ToolOutput::error(ToolErrorCode::InvalidArgs, text);
    let Arguments { task, agent, max_steps, context_id, worktree, .. } = serde_json::from_str(&call.call.arguments)
        .map_err(|error| invalid(format!("{NAME} needs {{\"task\": \"…\"}}: {error}")))?;
    if task.trim().is_empty() {
        return Err(invalid("the task is empty: say all that the subagent has to know and to do".to_owned()));
    }
    let agent = agent.map(|agent| agent.trim().to_owned()).filter(|agent| !agent.is_empty());
    let is_named = agent.is_some();
    // An agent that names nobody gives the work to one like itself, which may do no more than it.
    let card = match agent {
        Some(id) => Some(card(call.context, &id).map_err(invalid)?),
        None => call.context.acting.card(),
    };
    let context_id = context_id.filter(|id| !id.trim().is_empty()).map(|id| id.trim().parse::<SessionId>()).transpose();
    let context_id = context_id.map_err(|_| {
        invalid("`context_id` must be that of an earlier result; leave it out for a new subagent".to_owned())
    })?;
    if worktree && context_id.is_some() {
        return Err(invalid("an earlier subagent works where it did: leave `worktree` or `context_id` out".to_owned()));
    }
    if worktree && call.context.settings.project.is_none() {
        return Err(invalid("there is no project to make a worktree of: leave `worktree` out".to_owned()));
    }
    if worktree && call.context.settings.project.as_ref().is_some_and(|project| !project.writable) {
        return Err(invalid(
            "the project may only be read, and a worktree changes its repository: leave `worktree` out".to_owned(),
        ));
    }
    if worktree && call.context.rules.grants.mode() == SessionMode::Plan {
        return Err(invalid(
            "the session is in plan mode, and a worktree changes the repository: leave `worktree` out".to_owned(),
        ));
    }
    let steps = max_steps.map(|steps| steps.min(MOST_STEPS)).or_else(|| card?.max_steps).unwrap_or(STEPS);
    let agent = card.map(|card| card.id.clone());
    Ok(Task { text: task, agent, is_named, max_steps: steps.max(1), context_id, worktree })
}

/// Returns whether an earlier subagent may go on, which is that agent: one that whoever gives it work could name, or
/// that is like them. So nobody reaches through it what they cannot use themselves.
pub(crate) fn may_go_on(context: &TurnContext, agent: Option<&str>, named: Option<&str>) -> Result<(), String> {
    let own = context.acting.card();
    if let Some(named) = named
        && agent != Some(named)
    {
        let is = agent.map_or_else(|| "no agent by name".to_owned(), |id| format!("`{id}`"));
        return Err(format!("that subagent is {is}, not `{named}`: leave `agent` out, or `context_id` for a new one"));
    }
    match (agent, own) {
        (None, None) => Ok(()),
        (None, Some(own)) if own.tools.is_none() => Ok(()),
        (None, Some(own)) => {
            Err(format!("the main agent made that subagent, which can do more than `{}`: leave context_id out", own.id))
        }
        (Some(id), Some(own)) if own.id == id => Ok(()),
        // The main agent could do all of it itself.
        (Some(id), None) if context.acting.agents().get(id).is_some() => Ok(()),
        (Some(id), _) => card(context, id).map(drop),
    }
}

/// The agent that is meant, or which are offered.
fn card<'a>(context: &'a TurnContext, id: &str) -> Result<&'a AgentCard, String> {
    let agents = context.acting.agents();
    // One that models are not offered works where the person mentions it.
    let mentioned = |card: &&AgentCard| context.tools.mentions.agents.iter().any(|known| known.id == card.id);
    agents.get(id).filter(|card| card.enabled || mentioned(card)).ok_or_else(|| {
        let offered: Vec<&str> = agents.enabled().map(|card| card.id.as_str()).collect();
        match offered.as_slice() {
            [] => format!("there is no agent {id:?}: leave `agent` out"),
            ids => format!("there is no agent {id:?}: leave `agent` out, or name one of {}", ids.join(", ")),
        }
    })
}
