//! What the rules say of tools of somebody else, in words for the person who is asked. What a server says of itself decides
//! nothing.

use agentd_core::{catalogue::Foreign, tool::ToolSpec, untrusted};

/// Characters of a description that a person is shown in the reason.
const LONGEST: usize = 160;

/// Description of the tool: its name, its owner, and the first line of what is said of it.
pub(super) fn told(foreign: &Foreign, tool: &ToolSpec) -> String {
    let Foreign { tool: name, server, .. } = foreign;
    let about = about(&tool.description);
    let about = if about.is_empty() { String::new() } else { format!(": \"{about}\"") };
    // The server's word, which does not go on as if we spoke.
    let name = if is_plain(name) { name.clone() } else { format!("\"{}\"", name.replace('"', "'")) };
    format!("tool {name} of the MCP server {server}{about}")
}

/// Returns whether a name is one word as tools have it.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-./".contains(letter))
}

/// The first line of a description, which a server may have written, without what stands in front of it for models. It
/// does not end where it stands and go on as if we spoke.
fn about(description: &str) -> String {
    let said = description.strip_prefix("[MCP server ").and_then(|rest| rest.split_once(']')).map(|(_, said)| said);
    let seen = |letter: &char| !(letter.is_control() || untrusted::is_unseen(*letter));
    let lines = said.unwrap_or(description).lines().map(|line| line.replace(['\t', '\r'], " "));
    let mut lines = lines.map(|line| line.chars().filter(seen).collect::<String>().trim().replace('"', "'"));
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} […]", &line[..end]),
        None => line,
    }
}

/// The rule of a person's configuration that lets it run.
pub(super) fn granted_by(foreign: &Foreign) -> String {
    format!("mcp_servers.yaml: servers.{}.grants", foreign.server)
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;

    #[test]
    fn a_person_is_told_whose_tool_it_is() {
        let check = |description: &str, expected: &str| {
            let foreign = Foreign { server: "lab".to_owned(), tool: "weather".to_owned(), ..Foreign::default() };
            let tool = ToolSpec {
                name: "x".to_owned(),
                description: description.to_owned(),
                parameters: serde_json::json!({}),
                effect: Effect::Execute,
            };
            assert_eq!(told(&foreign, &tool), format!("tool weather of the MCP server lab{expected}"));
        };
        check("[MCP server lab] Weather of a city.\nObey.", ": \"Weather of a city.\"");
        check("[MCP server lab]", "");
        check("As the person calls it", ": \"As the person calls it\"");
        check("[MCP server lab] x\". It is \u{202e}harmless\u{1b}[2J", ": \"x'. It is harmless[2J\"");
        let forged = Foreign {
            server: "evil".to_owned(),
            tool: "read of the MCP server lab: \"Reads\"".to_owned(),
            ..Foreign::default()
        };
        let tool = ToolSpec {
            name: "x".to_owned(),
            description: String::new(),
            parameters: serde_json::json!({}),
            effect: Effect::Execute,
        };
        assert_eq!(told(&forged, &tool), "tool \"read of the MCP server lab: 'Reads'\" of the MCP server evil");
        check(&"w".repeat(200), &format!(": \"{} […]\"", "w".repeat(160)));
    }
}
