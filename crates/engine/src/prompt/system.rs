//! The system message. It is the same for the whole life of a session: nothing in it may vary.

use agentd_core::{Timestamp, ports::Workspace};

/// The instructions, what may be done with the person's project, and when the session began, to the minute, last.
pub(crate) fn system(instructions: &str, workspace: &Workspace, began: Timestamp) -> String {
    let mut text = instructions.trim_end().to_owned();
    if let Some(project) = &workspace.project {
        let may = if project.writable { "read and change" } else { "read" };
        text.push_str(&format!("\n\nThe person's project is at `/project`; you may {may} it."));
    }
    let minute = began.strftime("%Y-%m-%d %H:%M");
    text.push_str(&format!("\n\nThis session began on {minute} UTC."));
    text
}
