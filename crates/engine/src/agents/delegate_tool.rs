//! `delegate_task`: its names, and what models are told of the agents that it can give work to.

use agentd_core::{agent::AgentCard, tool::ToolSpec};
use serde_json::json;

/// The tool's name.
pub(crate) const NAME: &str = "delegate_task";

/// Names of the engine's tools in other systems, and ours.
const ALIASES: [(&str, &str); 5] =
    [("call_subagent", NAME), ("task", NAME), ("Task", NAME), ("TodoRead", "todo_read"), ("TodoWrite", "todo_write")];

/// The name of the tool that is meant.
pub(crate) fn canonical_name(name: &str) -> &str {
    ALIASES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
}

/// Description of this tool where these agents are offered, and of any other as it is.
pub(crate) fn told_of(tool: &ToolSpec, offered: &[&AgentCard]) -> ToolSpec {
    let mut tool = tool.clone();
    if tool.name == NAME && !offered.is_empty() {
        let cards: Vec<String> = offered.iter().map(|card| format!("{}: {}", card.id, card.description)).collect();
        tool.parameters["properties"]["agent"] = json!({
            "type": "string",
            "description": format!("Who does it; a subagent like you where absent. {}", cards.join(" ")),
        });
    }
    tool
}
