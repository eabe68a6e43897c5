//! `agentctl project`: what a project brings along in `.agentd/`, and whether it is used.

use std::{io::Write as _, path::PathBuf};

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    project::{PROJECT_FOLDER, ProjectReport, ProjectTrust},
};
use clap::{Args, Subcommand};

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    project::{about, absolute, change, parts},
    report,
    terminal::{note, sanitize::clean_line},
};

/// The arguments of `project`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl project show                        what this folder brings along
  agentctl project show ~/src/app
  agentctl project trust                       use it, until it changes
  agentctl project trust --hash 3f1c9a…        only if it has this hash
  agentctl project distrust ~/src/app
  agentctl project show --json | jq -r .trust

A project may have .agentd/ with instructions.md, agents/*.md or agents.yaml, skills/ and commands/*.md. Nothing of it is \
used until you trust it. Trust is in a hash over all of its files: if one changes by a byte, it is trusted no longer. Rules, \
servers, models and variables of a project are never read.")]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Show what a project brings along, its hash, and what has changed since it was trusted
    Show(Folder),
    /// Trust a project as it is now
    Trust {
        #[command(flatten)]
        folder: Folder,
        /// Hash that the project must have, as `project show` told it
        #[arg(long, value_name = "HASH")]
        hash: Option<String>,
    },
    /// Trust a project no longer
    Distrust(Folder),
}

#[derive(Debug, Args)]
struct Folder {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

/// Does it.
pub(crate) async fn handle(global: &Global, args: ProjectArgs) -> anyhow::Result<Exit> {
    let client = daemon::connect(global).await?.client;
    match args.command {
        ProjectCommand::Show(Folder { folder }) => {
            let found = client.project(&absolute(&folder)?).await?;
            report::show(global.json, &found, || tell(&found))
        }
        ProjectCommand::Trust { folder: Folder { folder }, hash } => {
            let folder = absolute(&folder)?;
            let found = client.project(&folder).await?;
            if found.trust == ProjectTrust::Empty {
                let place = clean_line(&folder);
                let nothing = format!("there is nothing to trust in {place}/{PROJECT_FOLDER}");
                return Err(Failure::new(ErrorKind::NotFound, nothing)
                    .hint("agentctl project show tells what is there, and what is wrong with it")
                    .into());
            }
            // What is trusted is what is shown here.
            let hash = hash.unwrap_or_else(|| found.hash.clone());
            let trusted = client.trust_project(&folder, &hash, daemon::CLIENT).await?;
            report::show(global.json, &trusted, || {
                tell(&trusted)?;
                note(&format!("trusted: {} are used from the next session on", parts(&trusted)));
                Ok(())
            })
        }
        ProjectCommand::Distrust(Folder { folder }) => {
            let left = client.distrust_project(&absolute(&folder)?, daemon::CLIENT).await?;
            let place = clean_line(&left.path.display().to_string());
            report::note(global.json, &left, &format!("trusted no longer: nothing of {place}/{PROJECT_FOLDER} is used"))
        }
    }
}

fn tell(found: &ProjectReport) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let mut line = |name: &str, value: &str| -> std::io::Result<()> {
        if value.is_empty() { Ok(()) } else { writeln!(out, "{name:<13}{}", clean_line(value)) }
    };
    line("project", &found.path.display().to_string())?;
    line("trust", &standing(found))?;
    line("hash", &found.hash)?;
    let bytes = found.files.iter().map(|file| file.bytes).sum();
    line("files", &format!("{} ({})", found.files.len(), report::bytes(bytes)))?;
    line("instructions", if found.instructions { "instructions.md" } else { "" })?;
    for card in &found.agents {
        line("agent", &about(card))?;
    }
    line("skills", &found.skills.join(", "))?;
    let commands: Vec<String> = found.commands.iter().map(|command| format!("/{}", command.name)).collect();
    line("commands", &commands.join(", "))?;
    for changed in &found.changes {
        line("changed", &change(changed))?;
    }
    if !found.ignored.is_empty() {
        line("ignored", &format!("{} (never read from a project)", found.ignored.join(", ")))?;
    }
    for problem in &found.problems {
        line(if problem.is_fatal { "wrong" } else { "odd" }, &problem.to_string())?;
    }
    Ok(())
}

fn standing(found: &ProjectReport) -> String {
    let when = found.trusted_at.map(|at| report::ago(at, Timestamp::now())).unwrap_or_default();
    match found.trust {
        ProjectTrust::Empty => {
            format!("nothing to trust: there is no {PROJECT_FOLDER}/ with anything in it that is used")
        }
        ProjectTrust::Untrusted => "not trusted: nothing of it is used".to_owned(),
        ProjectTrust::Changed => format!("changed since you trusted it ({when}): nothing of it is used"),
        ProjectTrust::Trusted => format!("trusted ({when})"),
    }
}
