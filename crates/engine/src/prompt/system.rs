//! The system message. It is the same for the whole life of a session: nothing in it may vary.

use agentd_core::{Timestamp, ports::Workspace};

/// The instructions, where the session's files are, and when it began, to the minute, last.
pub(crate) fn system(instructions: &str, workspace: &Workspace, began: Timestamp) -> String {
    let mut text = instructions.trim_end().to_owned();
    text.push_str(
        "\n\nFiles: paths are relative to this session's workspace. `uploads/` holds what the person gave you, \
         `outputs/` is for what you make, `temp/` for the rest.",
    );
    if let Some(project) = &workspace.project {
        let may = if project.writable { "read and change" } else { "read" };
        text.push_str(&format!(" The person's project is at `/project`; you may {may} it."));
    }
    let minute = began.strftime("%Y-%m-%d %H:%M");
    text.push_str(&format!("\n\nThis session began on {minute} UTC."));
    text
}
