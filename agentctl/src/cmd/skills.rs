//! `agentctl skills`: which skills there are, what is wrong with them, and how one is added.

use std::{io::Write as _, path::PathBuf};

use agentd_core::{
    error::ErrorKind,
    guide::{SkillListing, SkillOrigin, SkillReport},
};
use agentd_proto::client::Client;
use clap::{Args, Subcommand};

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    mentions::typed_path,
    report::{self, Table},
    terminal::sanitize::clean_line,
};

/// The arguments of `skills`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl skills list
  agentctl skills list --session 0193a5b2      with those of its project
  agentctl skills show pdf
  agentctl skills check ./my-skill             check it before you add it
  agentctl skills check pdf                    check one that is there
  agentctl skills add ~/.claude/skills/tax     copy it to your own
  agentctl skills list --json | jq -r '.[] | select(.usable | not) | .name'

A skill is a folder with a SKILL.md. Yours are in ~/.config/agentd/skills; skills.yaml says which are listed to models. \
@NAME in a prompt loads one.")]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List the skills
    List(Common),
    /// Show one skill and its SKILL.md
    Show {
        /// Name of the skill
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Check a skill; the exit code is 1 if it cannot be used
    Check {
        /// Folder of the skill, or the name of one that is listed
        #[arg(value_name = "DIR|NAME", value_hint = clap::ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Copy a skill to your own skills
    Add {
        /// Folder of the skill
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        folder: PathBuf,
        /// Replace a skill of the same name
        #[arg(long)]
        replace: bool,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// The session whose project's skills count too: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Does it.
pub(crate) async fn handle(global: &Global, args: SkillsArgs) -> anyhow::Result<Exit> {
    let client = daemon::connect(global).await?.client;
    match args.command {
        SkillsCommand::List(common) => {
            let skills = client.skills(common.session.as_deref().unwrap_or_default()).await?;
            report::show(global.json, &skills, || list(&skills))
        }
        SkillsCommand::Show { name, common } => {
            let name = name.trim_start_matches('@');
            let found = client.skill(common.session.as_deref().unwrap_or_default(), name).await?;
            report::show(global.json, &found, || {
                tell(&found)?;
                report::lines([""])?;
                report::lines(found.text.lines().map(clean_line))
            })
        }
        SkillsCommand::Check { folder } => {
            let found = client.check_skill(&named_folder(&client, &folder).await?).await?;
            report::show(global.json, &found, || tell(&found))?;
            Ok(if found.usable { Exit::Done } else { Exit::Failed })
        }
        SkillsCommand::Add { folder, replace } => {
            let added = client.add_skill(&absolute(&folder)?, replace).await?;
            report::show(global.json, &added, || {
                let (name, place) = (clean_line(&added.skill.name), clean_line(&added.folder));
                report::lines([format!("added {name} as {place}; say @{name} to use it")])?;
                report::lines(seen(&added).map(|form| format!("models are shown {form}")))
            })
        }
    }
}

/// The folder at a path, or that of the skill of this name.
async fn named_folder(client: &Client, folder: &PathBuf) -> anyhow::Result<String> {
    let name = folder.to_str().filter(|name| !name.contains('/') && !folder.exists());
    let Some(name) = name else { return absolute(folder) };
    match client.skill("", name.trim_start_matches('@')).await.map_err(Failure::from) {
        Ok(found) => Ok(typed_path(&found.folder).display().to_string()),
        Err(failure) if failure.kind == ErrorKind::NotFound => {
            Err(Failure::usage(format!("there is no folder and no skill {name}"))
                .hint("give the folder of a skill, or a name from `agentctl skills list`")
                .into())
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The path from the root on: the daemon is somewhere else.
fn absolute(folder: &PathBuf) -> anyhow::Result<String> {
    let path = std::fs::canonicalize(folder)
        .map_err(|error| Failure::usage(format!("{} cannot be opened: {error}", folder.display())))?;
    match path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(path) => Err(Failure::usage(format!("the path {} is not valid UTF-8", path.display())).into()),
    }
}

fn list(skills: &[SkillReport]) -> anyhow::Result<()> {
    let mut table = Table::new(["SKILL", "FROM", "SHOWN", "PACKAGES", "WHAT IT IS FOR"]);
    for found in skills {
        let skill = &found.skill;
        let shown = match (found.usable, skill.enabled, found.shown) {
            (false, ..) => "cannot be used",
            (true, false, _) => "when mentioned",
            (true, true, SkillListing::None) => "not shown",
            (true, true, SkillListing::Name) => "name only",
            (true, true, SkillListing::Shortened) => "shortened",
            (true, true, SkillListing::Whole) => "whole",
        };
        let packages = match (skill.packages.len(), found.installed) {
            (0, _) => "none".to_owned(),
            (_, true) => "installed".to_owned(),
            (several, false) => format!("{several}, asks first"),
        };
        let fatal = found.problems.iter().find(|problem| problem.is_fatal);
        let about = fatal.map_or_else(|| skill.description.clone(), ToString::to_string);
        table.row_with_long_end([skill.name.clone(), from(found), shown.to_owned(), packages, clean_line(&about)]);
    }
    table.print("no skills; put folders with a SKILL.md into ~/.config/agentd/skills")
}

fn tell(found: &SkillReport) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let skill = &found.skill;
    let mut line = |name: &str, value: &str| -> std::io::Result<()> {
        if value.is_empty() { Ok(()) } else { writeln!(out, "{name:<12}{}", clean_line(value)) }
    };
    line("name", &skill.name)?;
    line("for", &skill.description)?;
    line("folder", &found.folder)?;
    line("from", &from(found))?;
    line("license", found.license.as_deref().unwrap_or_default())?;
    line("files", &format!("{} ({} bytes)", found.files, found.bytes))?;
    line("file types", &skill.file_types.join(", "))?;
    line("says tools", &found.allowed_tools.join(", "))?;
    let installed =
        if found.installed { "installed" } else { "not installed; asked for when a command first needs them" };
    if !skill.packages.is_empty() {
        line("packages", &format!("{} ({installed})", skill.packages.join(", ")))?;
    }
    for problem in &found.problems {
        line(if problem.is_fatal { "wrong" } else { "odd" }, &problem.to_string())?;
    }
    line("usable", if found.usable { "yes" } else { "no" })?;
    Ok(())
}

/// Words for the form in which models see a skill, if it is not the whole.
fn seen(found: &SkillReport) -> Option<&'static str> {
    match found.shown {
        SkillListing::Whole => None,
        SkillListing::Shortened => Some("the beginning of its description: there is no room for all skills"),
        SkillListing::Name => Some("its name alone: there is no room for all skills"),
        SkillListing::None => Some("it only when it is mentioned"),
    }
}

fn from(found: &SkillReport) -> String {
    match found.plugin.as_str() {
        "" => origin(found.skill.origin).to_owned(),
        plugin => format!("plugin {}", clean_line(plugin)),
    }
}

fn origin(origin: SkillOrigin) -> &'static str {
    match origin {
        SkillOrigin::Person => "yours",
        SkillOrigin::Plugin => "a plugin",
        SkillOrigin::Bundled => "agentd",
        SkillOrigin::Project => "the project",
    }
}
