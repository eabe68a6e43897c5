//! `agentctl worktree`: git worktrees of sessions: what is in them, and how it gets into the main tree.

use std::io::{self, IsTerminal as _, Write as _};

use agentd_core::{
    visible,
    worktree::{WorktreeApplied, WorktreeReport},
};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    report,
    terminal::{note, sanitize::clean_line},
};

/// The arguments of `worktree`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl run 'Fix the parser' --worktree=parser --detach
  agentctl run 'Write the docs' --worktree --detach
  agentctl worktree list
  agentctl worktree diff parser
  agentctl worktree apply parser               commit, and merge into the main tree
  agentctl worktree remove parser
  agentctl worktree remove parser --force      with changes that are merged nowhere

A worktree is named by its name, or by a session that works in it: id, title, number in `sessions list`, or `last`.")]
pub(crate) struct WorktreeArgs {
    #[command(subcommand)]
    command: WorktreeCommand,
}

#[derive(Debug, Subcommand)]
enum WorktreeCommand {
    /// List the worktrees, with changed files and commits of each
    List,
    /// Show all changes since the newest commit that the main tree has as well
    Diff(WorktreeName),
    /// Commit what is not committed, and merge the branch into what the main tree has checked out: all of it, or nothing
    Apply(WorktreeName),
    /// Remove a worktree and its branch
    Remove {
        #[command(flatten)]
        worktree: WorktreeName,
        /// Remove changes that are merged nowhere, too
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
struct WorktreeName {
    /// Name of the worktree, or a session that works in it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Does it.
pub(crate) async fn handle(global: &Global, args: WorktreeArgs) -> anyhow::Result<Exit> {
    let client = daemon::connect(global).await?.client;
    match args.command {
        WorktreeCommand::List => {
            let all = client.worktrees().await?;
            report::show(global.json, &all, || list(&all))
        }
        WorktreeCommand::Diff(WorktreeName { name }) => {
            let diff = client.diff_worktree(&name).await?;
            report::show(global.json, &diff, || {
                if diff.files.is_empty() {
                    note("nothing has changed");
                }
                // As it is for programs, such as `git apply`; with all that a terminal would hide or obey to be seen by a person.
                let text = if io::stdout().is_terminal() { visible::lines(&diff.text) } else { diff.text.clone() };
                io::stdout().lock().write_all(text.as_bytes())?;
                if diff.is_cut {
                    note("the patch is too long and lacks its end: look at it with git in the worktree's folder");
                }
                if diff.is_lossy {
                    note("the patch has text that is no UTF-8, so `git apply` does not take it as it is here");
                }
                Ok(())
            })
        }
        WorktreeCommand::Apply(WorktreeName { name }) => {
            let applied = client.apply_worktree(&name).await?;
            report::note(global.json, &applied, &told(&applied))
        }
        WorktreeCommand::Remove { worktree: WorktreeName { name }, force } => {
            let name = client.remove_worktree(&name, force).await?;
            report::note(global.json, &json!({ "name": name }), &format!("removed the worktree {}", clean_line(&name)))
        }
    }
}

fn told(applied: &WorktreeApplied) -> String {
    if applied.files.is_empty() {
        return format!("the main tree has all of the worktree {} already", clean_line(&applied.name));
    }
    let commit = format!("{:.12}", applied.commit);
    let onto = if applied.onto.is_empty() { "what is checked out" } else { &applied.onto };
    let files = report::count(applied.files.len() as u64, "file");
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
        let of = if one.is_orphan { format!("session {session} is gone") } else { format!("session {session}") };
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
