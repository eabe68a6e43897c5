//! The tools by which agents hand work on: `delegate_task`, with what models are told of the agents that it can give work to,
//! and `transfer_to_…`, with what the next one is told.

use agentd_core::{
    agent::{AgentCard, MAIN},
    tool::{Effect, ToolSpec},
};
use serde_json::json;

/// The tool's name.
pub(crate) const DELEGATE: &str = "delegate_task";

/// Names of the engine's tools in other systems, and ours.
const ALIASES: [(&str, &str); 5] = [
    ("call_subagent", DELEGATE),
    ("task", DELEGATE),
    ("Task", DELEGATE),
    ("TodoRead", "todo_read"),
    ("TodoWrite", "todo_write"),
];

/// The name of the tool that is meant.
pub(crate) fn canonical_name(name: &str) -> &str {
    ALIASES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
}

/// Description of this tool where these agents are offered, and of any other as it is.
pub(crate) fn told_of(tool: &ToolSpec, offered: &[&AgentCard]) -> ToolSpec {
    let mut tool = tool.clone();
    if tool.name == DELEGATE && !offered.is_empty() {
        let cards: Vec<String> = offered.iter().map(|card| format!("{}: {}", card.id, card.description)).collect();
        tool.parameters["properties"]["agent"] = json!({
            "type": "string",
            "description": format!("Who does it; a subagent like you where absent. {}", cards.join(" ")),
        });
    }
    tool
}

pub(crate) use agentd_core::agent::TRANSFERS as TRANSFER;

/// The tools of this kind that the last of these agents is shown.
pub(crate) fn specs(chain: &[&str], offered: &[&AgentCard]) -> Vec<ToolSpec> {
    // Also those that stand behind it: one list for all of them, and whoever would go round in a ring is told so.
    let (first, last) = (chain.first().copied().unwrap_or(MAIN), chain.last().copied());
    let is_other = |card: &&&AgentCard| last != Some(&card.id) && first != card.id;
    let others = offered.iter().filter(is_other).map(|card| ToolSpec {
        name: format!("{TRANSFER}{}", card.id),
        description: format!(
            "Hands the conversation to the agent `{}`, which answers in your place and knows all that was said. {}",
            card.id, card.description
        ),
        parameters: parameters("The task, in a sentence or two."),
        effect: Effect::State,
    });
    let back = (chain.len() > 1).then(|| ToolSpec {
        name: format!("{TRANSFER}{first}"),
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
