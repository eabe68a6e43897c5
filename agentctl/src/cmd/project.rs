//! `agentctl project`: shows and trusts the `.agentd/` folder of a project. `agentctl worktree`: lists, merges and
//! removes the git worktrees of sessions.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    project::{PROJECT_FOLDER, ProjectReport, ProjectTrust},
    visible,
    worktree::{WorktreeApplied, WorktreeReport},
};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    project::{about, absolute, change, parts},
    report::{self, FactSheet},
    terminal::{clean_line, note},
};

/// Examples for the help of `project`.
pub(crate) const PROJECT_HELP: &str = "Examples:
  agentctl project show                        what .agentd/ of this folder has
  agentctl project show ~/src/app
  agentctl project trust                       use it, until it changes
  agentctl project trust --hash 3f1c9a…        only if it has this hash
  agentctl project distrust ~/src/app
  agentctl project show --json | jq -r .trust

A project may have .agentd/ with instructions.md, agents/*.md or agents.yaml, skills/ and commands/*.md. Nothing of it \
is used until you trust it. You trust a hash of all its files: if one of them changes, it is no longer trusted. Rules, \
servers, models and variables of a project are never read.";

/// The subcommands of `project`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Show .agentd/ of a project, its hash, and what has changed since it was trusted
    Show(Folder),
    /// Trust a project as it is now
    Trust {
        #[command(flatten)]
        folder: Folder,
        /// Hash that the project must have, as shown by `project show`
        #[arg(long, value_name = "HASH")]
        hash: Option<String>,
    },
    /// Stop trusting a project
    Distrust(Folder),
}

#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the command `agentctl project`.
pub(crate) async fn handle(Daemon { client, .. }: Daemon, json: bool, command: ProjectCommand) -> anyhow::Result<Exit> {
    match command {
        ProjectCommand::Show(Folder { folder }) => {
            let found = client.project(&absolute(&client, &folder)?).await?;
            report::show(json, &found, || print_project(&found))
        }
        ProjectCommand::Trust { folder: Folder { folder }, hash } => {
            let folder = absolute(&client, &folder)?;
            let found = client.project(&folder).await?;
            if found.trust == ProjectTrust::Empty {
                let folder_text = clean_line(&folder);
                let nothing = format!("there is nothing to trust in {folder_text}/{PROJECT_FOLDER}");
                let hint = "agentctl project show lists its contents and problems";
                anyhow::bail!(Failure::new(ErrorKind::NotFound, nothing).hint(hint));
            }
            // Without `--hash`, trust exactly the state that was just loaded.
            let hash = hash.unwrap_or_else(|| found.hash.clone());
            let trusted = client.trust_project(&folder, &hash, daemon::CLIENT).await?;
            report::show(json, &trusted, || {
                print_project(&trusted)?;
                note(&format!("trusted: {} are used from the next session on", parts(&trusted)));
                Ok(())
            })
        }
        ProjectCommand::Distrust(Folder { folder }) => {
            let left = client.distrust_project(&absolute(&client, &folder)?, daemon::CLIENT).await?;
            let folder_text = clean_line(&left.path.display().to_string());
            report::note(json, &left, &format!("no longer trusted: {folder_text}/{PROJECT_FOLDER} is not used"))
        }
    }
}

fn print_project(found: &ProjectReport) -> anyhow::Result<()> {
    let mut facts = FactSheet::new(13, clean_line);
    facts.non_empty("project", found.path.to_string_lossy());
    facts.non_empty("trust", trust_text(found));
    facts.non_empty("hash", &found.hash);
    let bytes = found.files.iter().map(|file| file.bytes).sum();
    facts.non_empty("files", format!("{} ({})", found.files.len(), report::bytes(bytes)));
    facts.each("instructions", found.instructions.then_some("instructions.md"));
    facts.each("agent", found.agents.iter().map(about));
    facts.non_empty("skills", found.skills.join(", "));
    let commands: Vec<String> = found.commands.iter().map(|command| format!("/{}", command.name)).collect();
    facts.non_empty("commands", commands.join(", "));
    facts.each("changed", found.changes.iter().map(change));
    if !found.ignored.is_empty() {
        facts.line("ignored", format!("{} (never read from a project)", found.ignored.join(", ")));
    }
    facts.problems(found.problems.iter().map(|problem| (problem.is_fatal, problem.to_string())));
    facts.print()
}

fn trust_text(found: &ProjectReport) -> String {
    let when = found.trusted_at.map(|at| report::ago(at, Timestamp::now())).unwrap_or_default();
    match found.trust {
        ProjectTrust::Empty => {
            format!("nothing to trust: {PROJECT_FOLDER}/ is missing or has nothing to use")
        }
        ProjectTrust::Untrusted => "not trusted: none of it is used".to_owned(),
        ProjectTrust::Changed => format!("changed since you trusted it ({when}): none of it is used"),
        ProjectTrust::Trusted => format!("trusted ({when})"),
    }
}

/// Examples for the help of `worktree`.
pub(crate) const WORKTREE_HELP: &str = "Examples:
  agentctl run 'Fix the parser' --worktree=parser --detach
  agentctl run 'Write the docs' --worktree --detach
  agentctl worktree list
  agentctl worktree diff parser
  agentctl worktree apply parser               commit, and merge into the main worktree
  agentctl worktree remove parser
  agentctl worktree remove parser --force      with unmerged changes

NAME is the name of a worktree, or a session that works in it: id, title, number in `sessions list`, or `last`.";

/// The subcommands of `worktree`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorktreeCommand {
    /// List worktrees, with their changed files and commits
    List,
    /// Show all changes since the last commit shared with the main worktree
    Diff(WorktreeName),
    /// Commit uncommitted changes, and merge the branch into what the main worktree has checked out, all or nothing
    Apply(WorktreeName),
    /// Remove a worktree and its branch
    Remove {
        #[command(flatten)]
        worktree: WorktreeName,
        /// Also remove unmerged changes
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeName {
    /// Name of the worktree, or a session that works in it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs the command `agentctl worktree`.
pub(crate) async fn handle_worktree(daemon: Daemon, json: bool, command: WorktreeCommand) -> anyhow::Result<Exit> {
    let client = daemon.client;
    match command {
        WorktreeCommand::List => {
            let all = client.worktrees().await?;
            report::show(json, &all, || list(&all))
        }
        WorktreeCommand::Diff(WorktreeName { name }) => {
            let diff = client.diff_worktree(&name).await?;
            report::show(json, &diff, || {
                if diff.files.is_empty() {
                    note("nothing has changed");
                }
                // The text is printed verbatim for programs such as `git apply`. On a terminal, hidden and control
                // characters are escaped.
                let text = if io::stdout().is_terminal() { visible::lines(&diff.text) } else { diff.text.clone() };
                io::stdout().lock().write_all(text.as_bytes())?;
                if diff.is_cut {
                    note("the patch is too long and was truncated: view it with git in the worktree's folder");
                }
                if diff.is_lossy {
                    note("the patch has text that is not UTF-8, so `git apply` does not accept this output");
                }
                Ok(())
            })
        }
        WorktreeCommand::Apply(WorktreeName { name }) => {
            let applied = client.apply_worktree(&name).await?;
            report::note(json, &applied, &applied_text(&applied))
        }
        WorktreeCommand::Remove { worktree: WorktreeName { name }, force } => {
            let name = client.remove_worktree(&name, force).await?;
            report::note(json, &json!({ "name": name }), &format!("removed the worktree {}", clean_line(&name)))
        }
    }
}

fn applied_text(applied: &WorktreeApplied) -> String {
    if applied.files.is_empty() {
        return format!("the main worktree already has all changes of worktree {}", clean_line(&applied.name));
    }
    let commit = format!("{:.12}", applied.commit);
    let onto = if applied.onto.is_empty() { "the current commit" } else { &applied.onto };
    let files = report::count(applied.files.len(), "file");
    format!("merged {} into {}: {files} changed, now at {commit}", clean_line(&applied.name), clean_line(onto))
}

fn list(all: &[WorktreeReport]) -> anyhow::Result<()> {
    if all.is_empty() {
        note("no worktrees; `agentctl run --worktree` makes one");
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    for one in all {
        let session = report::short_id(one.session);
        let of = if one.is_orphan { format!("session {session} was deleted") } else { format!("session {session}") };
        let state = match &one.problem {
            Some(problem) => clean_line(problem),
            None => {
                let files = format!("{} changed", report::count(one.changed, "file"));
                let merged = if one.is_merged { ", all merged" } else { "" };
                format!("{files}, {}{merged}", report::count(one.ahead, "commit"))
            }
        };
        writeln!(out, "{}  {}  {of}  {state}", clean_line(&one.name), clean_line(&one.branch))?;
        writeln!(out, "    {}", clean_line(&one.folder.display().to_string()))?;
    }
    Ok(())
}
