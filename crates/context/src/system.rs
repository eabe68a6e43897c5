//! The system message. It is the same for the whole life of a session, as long as what is set up for all sessions is the same:
//! nothing else in it may vary.

use agentd_core::{Timestamp, folder::AddedFolder, ports::Workspace};

/// The bytes that follow the instructions, about.
const FOLLOWS: usize = 128;

/// The instructions, which MCP servers there are, what may be done with the person's project and further folders, where the session works, and
/// when it began, to the minute, last.
pub fn system(
    instructions: &str,
    servers: &str,
    workspace: &Workspace,
    surroundings: &str,
    began: Timestamp,
) -> String {
    // Each open turn holds it, so there is room for what follows and for nothing else.
    let instructions = instructions.trim_end();
    let mut text = String::with_capacity(instructions.len() + servers.len() + surroundings.len() + FOLLOWS);
    text.push_str(instructions);
    if !servers.is_empty() {
        text.push_str("\n\n");
        text.push_str(servers);
    }
    if let Some(project) = &workspace.project {
        let may = if project.writable { "read and change" } else { "read" };
        text.push_str(&format!("\n\nThe person's project is at `/project`; you may {may} it."));
    }
    if !workspace.folders.is_empty() {
        let folder = |folder: &AddedFolder| {
            format!("`{}` (you may {} it)", folder.at, if folder.writable { "read and change" } else { "read" })
        };
        let folders: Vec<String> = workspace.folders.iter().map(folder).collect();
        text.push_str(&format!("\n\nThe person added further folders: {}.", folders.join(", ")));
    }
    if !surroundings.is_empty() {
        text.push_str("\n\n");
        text.push_str(surroundings);
    }
    let minute = began.strftime("%Y-%m-%d %H:%M");
    text.push_str(&format!("\n\nThis session began on {minute} UTC."));
    text
}
