//! The `.agentd/` of a project, as people are told of it: what it brings along, and whether it is trusted; and the worktree of a
//! session.

use std::path::{Path, PathBuf};

use agentd_core::{
    agent::AgentCard,
    project::{PROJECT_FOLDER, ProjectChange, ProjectChangeKind, ProjectReport, ProjectTrust},
    worktree::SessionWorktree,
};
use agentd_proto::client::Client;

use crate::{
    failure::Failure,
    report::{self, count},
    terminal::sanitize::clean_line,
};

/// Report on a project that has such a folder; none where it has none, or the daemon does not tell.
pub(crate) async fn look(client: &Client, project: &Path) -> Option<ProjectReport> {
    // Most projects have none, and the daemon need not be asked.
    project.join(PROJECT_FOLDER).symlink_metadata().ok()?;
    client.project(project.to_str()?).await.ok()
}

/// The real path of a folder, for the daemon, which is somewhere else. One that is gone keeps the path that it is named by.
///
/// # Errors
/// When it cannot be told as text.
pub(crate) fn absolute(folder: &Path) -> Result<String, Failure> {
    let path = std::fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    let path: PathBuf =
        path.map_err(|error| Failure::usage(format!("{} cannot be found: {error}", folder.display())))?;
    let path = path.into_os_string().into_string();
    path.map_err(|path| Failure::usage(format!("the path {} is not valid UTF-8", path.display())))
}

/// The words about a project that is not trusted; none where there is nothing to be said.
pub(crate) fn notice(report: &ProjectReport) -> Option<String> {
    let why = match report.trust {
        ProjectTrust::Empty | ProjectTrust::Trusted => return None,
        ProjectTrust::Untrusted => format!("this project has {PROJECT_FOLDER}/ with {}, not trusted", parts(report)),
        ProjectTrust::Changed => {
            let files = count(report.changes.len(), "file");
            format!("{PROJECT_FOLDER}/ of this project changed since you trusted it ({files}; {})", parts(report))
        }
    };
    Some(format!("{why}: nothing of it is used"))
}

/// The way to look at it and to trust it.
pub(crate) fn way(report: &ProjectReport) -> String {
    format!("{}, agentctl project trust {} uses it", way_to_look(report), folder(report))
}

/// The way to look at it.
pub(crate) fn way_to_look(report: &ProjectReport) -> String {
    format!("agentctl project show {} tells what is there", folder(report))
}

/// The folder as a shell takes it.
fn folder(report: &ProjectReport) -> String {
    let folder = clean_line(&report.path.display().to_string());
    report::shell_word(&folder, |letter| letter.is_ascii_alphanumeric() || "/._-+".contains(letter))
}

/// Its parts, in a few words.
pub(crate) fn parts(report: &ProjectReport) -> String {
    let mut parts = Vec::from_iter(report.instructions.then(|| "instructions".to_owned()));
    let counted = [(report.agents.len(), "agent"), (report.skills.len(), "skill"), (report.commands.len(), "command")];
    parts.extend(counts(&counted));
    if parts.is_empty() { count(report.files.len(), "file") } else { parts.join(", ") }
}

/// So many of each kind, where there are any.
pub(crate) fn counts(counted: &[(usize, &str)]) -> Vec<String> {
    counted.iter().filter(|(many, _)| *many > 0).map(|(many, what)| count(*many, what)).collect()
}

/// An agent in one line.
pub(crate) fn about(card: &AgentCard) -> String {
    let tools = match &card.tools {
        None => "all tools of the main agent".to_owned(),
        Some(tools) if tools.is_empty() => "no tools".to_owned(),
        Some(tools) => tools.join(", "),
    };
    format!("{}: {} ({tools})", card.id, card.description)
}

/// A change of a file in one line.
pub(crate) fn change(change: &ProjectChange) -> String {
    let sign = match change.kind {
        ProjectChangeKind::Added => '+',
        ProjectChangeKind::Changed => '~',
        ProjectChangeKind::Removed => '-',
    };
    format!("{sign} {}", change.path)
}

/// A worktree in one line.
pub(crate) fn shown_worktree(worktree: &SessionWorktree) -> String {
    let project = worktree.project.display().to_string();
    format!("{} (branch {}) of {}", clean_line(&worktree.name), clean_line(&worktree.branch), clean_line(&project))
}

/// The same for a session that has just got it, with what is not in it.
pub(crate) fn announced_worktree(worktree: &SessionWorktree) -> String {
    let mut line = format!("worktree {}", shown_worktree(worktree));
    if worktree.left_out > 0 {
        let files = report::count(worktree.left_out, "file");
        line.push_str(&format!("; {files} with changes that are not committed stay in the main tree"));
    }
    line
}
