//! Descriptions of a project's `.agentd/` folder and its trust state, and of a session's worktree.

use std::path::{Path, PathBuf};

use agentd_core::{
    agent::AgentCard,
    project::{PROJECT_FOLDER, ProjectChange, ProjectChangeKind, ProjectReport, ProjectTrust},
    worktree::SessionWorktree,
};
use agentd_proto::client::Client;

use crate::{
    failure::Failure,
    mount,
    report::{self, count},
    terminal::clean_line,
};

/// Loads the report on a project. Returns `None` if it has no such folder or the daemon does not report it.
pub(crate) async fn load_report(client: &Client, project: Option<impl AsRef<Path>>) -> Option<ProjectReport> {
    let project = project?;
    // Most projects have no such folder, so a request is usually unnecessary.
    if client.host().is_none() {
        project.as_ref().join(PROJECT_FOLDER).symlink_metadata().ok()?;
    }
    client.project(project.as_ref().to_str()?).await.ok()
}

/// Resolves a folder to its real path, because the daemon has another working folder. If the folder does not exist,
/// returns its absolute path. A folder of another machine is returned as it is.
///
/// # Errors
/// Fails if the path is not valid UTF-8, or is relative and of another machine.
pub(crate) fn absolute(client: &Client, folder: &Path) -> Result<String, Failure> {
    if let Some(host) = client.host() {
        return mount::folder_of_host(host, folder, "this command").map(|path| path.display().to_string());
    }
    let path = std::fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    let path: PathBuf =
        path.map_err(|error| Failure::usage(format!("could not find {}: {error}", folder.display())))?;
    let path = path.into_os_string().into_string();
    path.map_err(|path| Failure::usage(format!("the path {} is not valid UTF-8", path.display())))
}

/// Returns a notice if the project is not trusted. Returns `None` if there is nothing to report.
pub(crate) fn notice(report: &ProjectReport) -> Option<String> {
    let state = match report.trust {
        ProjectTrust::Empty | ProjectTrust::Trusted => return None,
        ProjectTrust::Untrusted => format!("this project has {PROJECT_FOLDER}/ with {}, not trusted", parts(report)),
        ProjectTrust::Changed => {
            let files = count(report.changes.len(), "file");
            format!("{PROJECT_FOLDER}/ of this project changed since you trusted it ({files}; {})", parts(report))
        }
    };
    Some(format!("{state}: none of it is used"))
}

/// Returns a hint for inspecting and trusting the project.
pub(crate) fn trust_hint(report: &ProjectReport) -> String {
    format!("{}, agentctl project trust {} uses it", show_hint(report), folder(report))
}

/// Returns a hint for inspecting the project.
pub(crate) fn show_hint(report: &ProjectReport) -> String {
    format!("agentctl project show {} lists it", folder(report))
}

/// Returns the folder, quoted for a shell.
fn folder(report: &ProjectReport) -> String {
    let folder = clean_line(&report.path.display().to_string());
    report::shell_word(&folder, |letter| letter.is_ascii_alphanumeric() || "/._-+".contains(letter))
}

/// Returns a short summary of the folder's parts.
pub(crate) fn parts(report: &ProjectReport) -> String {
    let mut parts = Vec::from_iter(report.instructions.then(|| "instructions".to_owned()));
    let part_counts =
        [(report.agents.len(), "agent"), (report.skills.len(), "skill"), (report.commands.len(), "command")];
    parts.extend(counts(&part_counts));
    if parts.is_empty() { count(report.files.len(), "file") } else { parts.join(", ") }
}

/// Formats each count with its noun, and omits zero counts.
pub(crate) fn counts(part_counts: &[(usize, &str)]) -> Vec<String> {
    part_counts.iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(*number, noun)).collect()
}

/// Describes an agent in one line.
pub(crate) fn about(card: &AgentCard) -> String {
    let tools = match &card.tools {
        None => "all tools of the main agent".to_owned(),
        Some(tools) if tools.is_empty() => "no tools".to_owned(),
        Some(tools) => tools.join(", "),
    };
    format!("{}: {} ({tools})", card.id, card.description)
}

/// Describes a file change in one line.
pub(crate) fn change(change: &ProjectChange) -> String {
    let sign = match change.kind {
        ProjectChangeKind::Added => '+',
        ProjectChangeKind::Changed => '~',
        ProjectChangeKind::Removed => '-',
    };
    format!("{sign} {}", change.path)
}

/// Describes a worktree in one line.
pub(crate) fn shown_worktree(worktree: &SessionWorktree) -> String {
    let project = worktree.project.display().to_string();
    format!("{} (branch {}) of {}", clean_line(&worktree.name), clean_line(&worktree.branch), clean_line(&project))
}

/// Describes a worktree that was just created, with the number of uncommitted files that are not in it.
pub(crate) fn announced_worktree(worktree: &SessionWorktree) -> String {
    let mut line = format!("worktree {}", shown_worktree(worktree));
    if worktree.left_out > 0 {
        let files = report::count(worktree.left_out, "file");
        line.push_str(&format!("; {files} with uncommitted changes stay in the main worktree"));
    }
    line
}
