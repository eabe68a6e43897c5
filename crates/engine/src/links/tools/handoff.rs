//! `transfer_to_…`: another agent goes on in the session, with its own instructions, tools and model.
//!
//! The agent changes behind the step that asks for it: the turn's task ends there, and the session starts another one for the
//! same turn. What the agents have said and done is one history.

use agentd_core::{
    agent::MAIN,
    event::{EventKind, StateChange},
    tool::{ToolErrorCode, ToolOutput},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde::Deserialize;

use crate::{
    agents::transfer_tool::PREFIX,
    turn::{
        Phase, TurnExit, dispatch,
        hooks::{Invocation, Link, Next},
    },
};

/// The agents that may stand behind each other, the first one not counted.
const DEPTH: usize = 5;

/// The changes of agent in one turn.
const MOST_CHANGES: u32 = 10;

pub(crate) struct Handoff;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(alias = "result", alias = "message", alias = "reason")]
    task: Option<String>,
}

impl Link for Handoff {
    fn name(&self) -> &'static str {
        "handoff"
    }

    fn description(&self) -> &'static str {
        "hands the session to another agent, and refuses circles of them"
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<BoxFuture<'a, Result<Option<String>, ToolOutput>>> {
        is_call(call).then(|| std::future::ready(wanted(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(
        &'a self,
        call: &'a Invocation<'a>,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, TurnExit>> {
        if is_call(call) { hand_on(call).boxed() } else { next.run(call) }
    }
}

/// Tools of others may have such a name; those are shown where no agent has it.
fn is_call(call: &Invocation<'_>) -> bool {
    let Some(id) = call.call.name.strip_prefix(PREFIX) else { return false };
    id == MAIN || call.context.acting.agents().get(id).is_some()
}

async fn hand_on(call: &Invocation<'_>) -> Result<ToolOutput, TurnExit> {
    let (stack, task) = match wanted(call) {
        Ok(wanted) => wanted,
        Err(output) => return Ok(output),
    };
    dispatch::begin(call).await?;
    let change = StateChange::Agent { stack: stack.clone() };
    call.context.recorder.fact(EventKind::StateChanged { change }).await?;
    let from = call.context.acting.name();
    let text = match stack.last() {
        Some(to) if call.context.acting.chain().first() == Some(&to.as_str()) => {
            format!("`{from}` has handed the conversation back to you, `{to}`: {task}")
        }
        Some(to) => format!("`{from}` has handed the conversation to you, `{to}`. Your task: {task}"),
        None => format!("`{from}` has handed the conversation back to you, the main agent: {task}"),
    };
    call.record.affect(|effects| effects.changes_agent = true);
    Ok(ToolOutput::ok(text))
}

/// The next agent and its task; an error where that cannot be.
fn wanted(call: &Invocation<'_>) -> Result<(Vec<String>, String), ToolOutput> {
    let (acting, name) = (&call.context.acting, call.call.name.as_str());
    if acting.is_subagent() || !acting.may_transfer(name) {
        let text =
            "this agent does not hand the conversation on to that one: do it yourself, or answer what is left to do";
        return Err(ToolOutput::error(ToolErrorCode::UnknownTool, text));
    }
    let Arguments { task } = serde_json::from_str(&call.call.arguments).map_err(|error| {
        let text = format!("{name} needs {{\"task\": \"…\"}}: {error}");
        ToolOutput::error(ToolErrorCode::InvalidArgs, text)
    })?;
    if call.state.phase == Phase::HandingOff {
        let text = "this step already hands over to another agent, which decides who is next";
        return Err(ToolOutput::error(ToolErrorCode::Tool, text));
    }
    let to = name.strip_prefix(PREFIX).unwrap_or(name);
    let stack = next_stack(&acting.chain(), to, call.state.agent_changes);
    let stack = stack.map_err(|why| ToolOutput::error(ToolErrorCode::Tool, why))?;
    Ok((stack, task.filter(|task| !task.trim().is_empty()).unwrap_or_else(|| "go on".to_owned())))
}

/// Whom the session is handed to then, or why not.
fn next_stack(chain: &[&str], to: &str, changes: u32) -> Result<Vec<String>, String> {
    let first = chain.first().copied().unwrap_or(MAIN);
    // The main agent is no part of a stack.
    let stack = |chain: &[&str]| chain.iter().filter(|id| **id != MAIN).map(|id| (*id).to_owned()).collect();
    let way = || chain.join(" → ");
    if to == first {
        return if chain.len() <= 1 {
            Err(format!("you are `{first}`: continue yourself"))
        } else {
            Ok(stack(&[first]))
        };
    }
    if chain.contains(&to) {
        return Err(format!(
            "`{to}` has a part in this already ({}): it would go round in a ring. Answer with what you have, or \
             hand back with {PREFIX}{first}",
            way()
        ));
    }
    if chain.len() > DEPTH {
        return Err(format!(
            "{DEPTH} agents are already stacked ({}), which is the maximum. Answer with what you have, or hand back with \
             {PREFIX}{first}",
            way()
        ));
    }
    if changes >= MOST_CHANGES {
        return Err(format!(
            "the agent has changed {MOST_CHANGES} times in this turn, and may not again. Answer with what you have"
        ));
    }
    Ok(stack(&[chain, &[to]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_the_session_twice_and_the_chain_is_short() {
        let check = |stack: &[&str], to: &str, changes: u32, expected: Result<&[&str], &str>| {
            let chain: Vec<&str> = ["main"].into_iter().chain(stack.iter().copied()).collect();
            match (next_stack(&chain, to, changes), expected) {
                (Ok(next), Ok(expected)) => assert_eq!(next, expected),
                (Err(why), Err(words)) => assert!(why.contains(words), "{why}"),
                (next, expected) => panic!("{next:?} is not {expected:?}"),
            }
        };
        check(&[], "a", 0, Ok(&["a"]));
        check(&["a"], "b", 1, Ok(&["a", "b"]));
        check(&["a", "b"], "a", 2, Err("main → a → b"));
        check(&["a"], "a", 1, Err("in a ring"));
        check(&["a", "b"], "main", 9, Ok(&[]));
        check(&["a", "b"], "main", 99, Ok(&[]));
        check(&[], "main", 0, Err("you are `main`"));
        check(&["a", "b", "c", "d", "e"], "f", 5, Err("5 agents"));
        check(&[], "a", 10, Err("10 times"));
    }
}
