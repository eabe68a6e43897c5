//! `transfer_to_…`: the tools by which an agent hands the session on, and what the next one is told.

use agentd_core::{
    agent::{AgentCard, MAIN},
    tool::{Effect, ToolSpec},
};
use serde_json::json;

/// Prefix of these tools.
pub(crate) const PREFIX: &str = "transfer_to_";

/// Instructions for an agent that has taken over.
pub(crate) const TAKEN_OVER: &str = "The conversation was handed to you: continue it in your own way. Your answer goes to \
                                     the person. When the rest is not your task, hand it back with `transfer_to_main` and \
                                     report your result.";

/// The tools of this kind that the last of these agents is shown.
pub(crate) fn specs(stack: &[String], offered: &[&AgentCard]) -> Vec<ToolSpec> {
    // Also those that stand behind it: one list for all of them, and whoever would go round in a ring is told so.
    let is_other = |card: &&&AgentCard| stack.last() != Some(&card.id);
    let others = offered.iter().filter(is_other).map(|card| ToolSpec {
        name: format!("{PREFIX}{}", card.id),
        description: format!(
            "Hands the conversation to the agent `{}`, which answers in your place and knows all that was said. {}",
            card.id, card.description
        ),
        parameters: parameters("The task, in a sentence or two."),
        effect: Effect::State,
    });
    let back = (!stack.is_empty()).then(|| ToolSpec {
        name: format!("{PREFIX}{MAIN}"),
        description: "Hands the conversation back to the main agent.".to_owned(),
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
