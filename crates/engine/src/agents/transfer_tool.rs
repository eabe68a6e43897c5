//! `transfer_to_…`: the tools by which an agent hands the session on, and what the next one is told.

pub(crate) use agentd_core::agent::TRANSFERS as PREFIX;
use agentd_core::{
    agent::{AgentCard, MAIN},
    tool::{Effect, ToolSpec},
};
use serde_json::json;

/// Instructions for an agent that has taken over from others, of whom this one was the first.
pub(crate) fn taken_over(first: &str) -> String {
    format!(
        "The conversation was handed to you: continue it in your own way. Your answer goes to the person. When the rest is \
         not your task, hand it back with `{PREFIX}{first}` and report your result."
    )
}

/// The tools of this kind that the last of these agents is shown.
pub(crate) fn specs(chain: &[&str], offered: &[&AgentCard]) -> Vec<ToolSpec> {
    // Also those that stand behind it: one list for all of them, and whoever would go round in a ring is told so.
    let (first, last) = (chain.first().copied().unwrap_or(MAIN), chain.last().copied());
    let is_other = |card: &&&AgentCard| last != Some(&card.id) && first != card.id;
    let others = offered.iter().filter(is_other).map(|card| ToolSpec {
        name: format!("{PREFIX}{}", card.id),
        description: format!(
            "Hands the conversation to the agent `{}`, which answers in your place and knows all that was said. {}",
            card.id, card.description
        ),
        parameters: parameters("The task, in a sentence or two."),
        effect: Effect::State,
    });
    let back = (chain.len() > 1).then(|| ToolSpec {
        name: format!("{PREFIX}{first}"),
        description: match first {
            MAIN => "Hands the conversation back to the main agent.".to_owned(),
            first => format!("Hands the conversation back to the agent `{first}`."),
        },
        parameters: parameters("What came of your part, and what is left to do."),
        effect: Effect::State,
    });
    others.chain(back).collect()
}

fn parameters(task: &str) -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {"task": {"type": "string", "description": task}},
        "required": ["task"],
        "additionalProperties": false
    })
}
