//! `agentctl agents`, `agentctl tools` and `agentctl skills`: lists agents, tools and skills, and checks and adds
//! skills.

use std::path::PathBuf;

use agentd_core::{
    agent::AgentCard,
    catalogue::ToolStanding,
    error::ErrorKind,
    guide::{SkillListing, SkillOrigin, SkillReport},
    plugin::PluginReport,
};
use agentd_proto::client::Client;
use clap::{Args, Subcommand};

use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    mentions::typed_path,
    project,
    report::{self, FactSheet, Table},
    terminal::{clean, clean_line, note_lines},
};

/// Examples for the help of `agents`.
pub(crate) const AGENTS_HELP: &str = "Examples:
  agentctl agents list
  agentctl agents list --json | jq -r '.[].id'
  agentctl agents show researcher

Agents are defined in agents.yaml. The main agent delegates work to those that are enabled, or hands the session over \
to them.";

/// The subcommands of `agents`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents
    List,
    /// Show one agent: its purpose, instructions, tools and skills
    Show {
        /// Name of the agent
        agent: String,
    },
}

/// Runs the command `agentctl agents`.
pub(crate) async fn handle(Daemon { client, .. }: Daemon, json: bool, command: AgentsCommand) -> anyhow::Result<Exit> {
    let agents = client.agents().await?;
    match command {
        AgentsCommand::List => {
            let plugins = client.plugins().await?;
            report::show(json, &agents, || list(&agents, &plugins))
        }
        AgentsCommand::Show { agent } => {
            let card = find(&agents, &agent)?;
            report::show(json, card, || show(card))
        }
    }
}

fn list(agents: &[AgentCard], plugins: &[PluginReport]) -> anyhow::Result<()> {
    let rows = agents.iter().map(|card| {
        let slot = card.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string());
        let plugin = plugins
            .iter()
            .find(|plugin| plugin.agents.iter().any(|known| known.id == card.id && known.prompt == card.prompt));
        let from =
            plugin.map_or_else(|| "agents.yaml".to_owned(), |plugin| format!("plugin {}", clean_line(&plugin.name)));
        [card.id.clone(), from, state(card).to_owned(), slot, clean_line(&card.description)]
    });
    Table::with_long_end(["AGENT", "FROM", "STATE", "SLOT", "PURPOSE"], rows)
        .print("no agents besides the main one; agents.yaml defines them")?;
    for plugin in plugins {
        let problems = plugin.problems.iter().filter(|problem| problem.message.starts_with("the agent "));
        note_lines(problems.map(|problem| format!("plugin {}: {problem}", plugin.name)));
    }
    Ok(())
}

fn find<'a>(agents: &'a [AgentCard], id: &str) -> Result<&'a AgentCard, Failure> {
    agents.iter().find(|card| card.id == id).ok_or_else(|| {
        let known: Vec<&str> = agents.iter().map(|card| card.id.as_str()).collect();
        let failure = Failure::new(ErrorKind::NotFound, format!("no such agent: {id:?}"));
        failure.hint(format!("known agents: {}", known.join(", ")))
    })
}

fn show(card: &AgentCard) -> anyhow::Result<()> {
    let names = |names: &Option<Vec<String>>, none: &str| match names {
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.join(", "),
        None => none.to_owned(),
    };
    let slot = card.slot.map_or_else(|| "the turn's".to_owned(), |slot| slot.to_string());
    let steps = card.max_steps.map_or_else(|| "50".to_owned(), |steps| steps.to_string());
    let text = format!(
        "{} ({})\n{}\n\ntools:  {}\nskills: {}\nslot:   {slot}\nsteps:  {steps} as a subagent\n\n{}\n",
        card.id,
        state(card),
        card.description,
        names(&card.tools, "same as the main agent"),
        names(&card.skills, "any"),
        card.prompt,
    );
    anstream::print!("{}", clean(&text));
    Ok(())
}

fn state(card: &AgentCard) -> &'static str {
    if card.enabled { "enabled" } else { "by mention" }
}

/// The arguments of `tools`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl tools
  agentctl tools --session 0193a5b2     for the next turn of a session
  agentctl tools --json                 with descriptions and JSON schemas
  agentctl tools --json | jq -r '.[] | select(.visible | not) | \"\\(.name): \\(.why)\"'

Tools marked `discovered` are not shown to models at first: @NAME in a prompt loads one, @SERVER those of an MCP \
server, and models find them with find_tool. Set this in tools.yaml and mcp_servers.yaml. Tools that write or execute \
ask first, unless the session allows them.")]
pub(crate) struct ToolsArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Runs the command `agentctl tools`.
pub(crate) async fn handle_tools(daemon: Daemon, json: bool, args: ToolsArgs) -> anyhow::Result<Exit> {
    let tools = daemon.client.tools(args.session.as_deref().unwrap_or_default()).await?;
    let rows = tools.iter().map(|ToolStanding { tool, visible, why }| {
        // Only the first sentence is shown; the remaining description is meant for models.
        let first = tool.spec.description.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let summary = if *visible { first.to_owned() } else { format!("(not shown: {why}) {first}") };
        [
            tool.spec.name.clone(),
            tool.label.tier.as_str().to_owned(),
            tool.label.category.clone(),
            report::word(tool.spec.effect),
            tool.origin.to_string(),
            clean_line(&summary),
        ]
    });
    let table = Table::with_long_end(["TOOL", "TIER", "CATEGORY", "EFFECT", "FROM", "DESCRIPTION"], rows);
    report::show(json, &tools, || table.print("no tools"))
}

/// Examples for the help of `skills`.
pub(crate) const SKILLS_HELP: &str = "Examples:
  agentctl skills list
  agentctl skills list --session 0193a5b2      with skills of its project
  agentctl skills show pdf
  agentctl skills check ./my-skill             check it before you add it
  agentctl skills check pdf                    check a listed one
  agentctl skills add ~/.claude/skills/tax     copy it to your skills
  agentctl skills list --json | jq -r '.[] | select(.usable | not) | .name'

A skill is a folder with a SKILL.md. Yours are in ~/.config/agentd/skills; skills.yaml selects which ones are listed \
to models. @NAME in a prompt loads one.";

/// The subcommands of `skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List skills
    List {
        /// Session whose project skills are included: id, title, number in `sessions list`, or `last`
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Show one skill and its SKILL.md
    Show {
        /// Name of the skill
        #[arg(value_name = "NAME")]
        name: String,
        /// Session whose project skills are included: id, title, number in `sessions list`, or `last`
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Check a skill; the exit code is 1 if it cannot be used
    Check {
        /// Folder of the skill, or the name of a listed one
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

/// Runs the command `agentctl skills`.
pub(crate) async fn handle_skills(
    Daemon { client, .. }: Daemon,
    json: bool,
    command: SkillsCommand,
) -> anyhow::Result<Exit> {
    match command {
        SkillsCommand::List { session } => {
            let skills = client.skills(session.as_deref().unwrap_or_default()).await?;
            report::show(json, &skills, || list_skills(&skills))
        }
        SkillsCommand::Show { name, session } => {
            let name = name.trim_start_matches('@');
            let found = client.skill(session.as_deref().unwrap_or_default(), name).await?;
            report::show(json, &found, || {
                print_skill(&found)?;
                report::lines([""])?;
                report::lines(found.text.lines().map(clean_line))
            })
        }
        SkillsCommand::Check { folder } => {
            let found = client.check_skill(&named_folder(&client, &folder).await?).await?;
            report::show(json, &found, || print_skill(&found))?;
            Ok(if found.usable { Exit::Done } else { Exit::Failed })
        }
        SkillsCommand::Add { folder, replace } => {
            let added = client.add_skill(&absolute(&client, &folder)?, replace).await?;
            report::show(json, &added, || {
                let (name, folder) = (clean_line(&added.skill.name), clean_line(&added.folder));
                report::lines([format!("added {name} as {folder}; mention @{name} to use it")])?;
                report::lines(listed_form(&added).map(|form| format!("models see {form}")))
            })
        }
    }
}

/// Resolves a folder, or the name of a listed skill, to an absolute path.
async fn named_folder(client: &Client, folder: &PathBuf) -> anyhow::Result<String> {
    let name = folder.to_str().filter(|name| !name.contains('/') && (client.host().is_some() || !folder.exists()));
    let Some(name) = name else { return absolute(client, folder) };
    match client.skill("", name.trim_start_matches('@')).await {
        Ok(found) => Ok(typed_path(&found.folder).display().to_string()),
        Err(error) if error.answered() == Some(ErrorKind::NotFound) => {
            Err(Failure::usage(format!("no such folder or skill: {name}"))
                .hint("pass the folder of a skill, or a name from `agentctl skills list`")
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the canonical path of a folder. A relative path is not enough, because the daemon has another working
/// folder.
fn absolute(client: &Client, folder: &PathBuf) -> anyhow::Result<String> {
    if client.host().is_some() {
        return project::absolute(client, folder).map_err(Into::into);
    }
    let path = std::fs::canonicalize(folder)
        .map_err(|error| Failure::usage(format!("could not open {}: {error}", folder.display())))?;
    project::absolute(client, &path).map_err(Into::into)
}

fn list_skills(skills: &[SkillReport]) -> anyhow::Result<()> {
    let rows = skills.iter().map(|found| {
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
        [skill.name.clone(), from(found), shown.to_owned(), packages, clean_line(&about)]
    });
    Table::with_long_end(["SKILL", "FROM", "SHOWN", "PACKAGES", "PURPOSE"], rows)
        .print("no skills; put folders with a SKILL.md into ~/.config/agentd/skills")
}

fn print_skill(found: &SkillReport) -> anyhow::Result<()> {
    let skill = &found.skill;
    let mut facts = FactSheet::new(12, clean_line);
    facts.non_empty("name", &skill.name);
    facts.non_empty("for", &skill.description);
    facts.non_empty("folder", &found.folder);
    facts.non_empty("from", from(found));
    facts.non_empty("license", found.license.as_deref().unwrap_or_default());
    facts.non_empty("files", format!("{} ({} bytes)", found.files, found.bytes));
    facts.non_empty("file types", skill.file_types.join(", "));
    facts.non_empty("tools", found.allowed_tools.join(", "));
    let installed =
        if found.installed { "installed" } else { "not installed; you are asked when a command first needs them" };
    if !skill.packages.is_empty() {
        facts.line("packages", format!("{} ({installed})", skill.packages.join(", ")));
    }
    facts.problems(found.problems.iter().map(|problem| (problem.is_fatal, problem.to_string())));
    facts.line("usable", if found.usable { "yes" } else { "no" });
    facts.print()
}

/// Describes how a skill is shortened in requests to models. Returns `None` if models receive the full skill.
fn listed_form(found: &SkillReport) -> Option<&'static str> {
    match found.shown {
        SkillListing::Whole => None,
        SkillListing::Shortened => Some("only the start of its description: the skill list is full"),
        SkillListing::Name => Some("only its name: the skill list is full"),
        SkillListing::None => Some("it only when mentioned"),
    }
}

fn from(found: &SkillReport) -> String {
    let origin = match (found.plugin.as_str(), found.skill.origin) {
        ("", SkillOrigin::Person) => "yours",
        ("", SkillOrigin::Plugin) => "a plugin",
        ("", SkillOrigin::Bundled) => "agentd",
        ("", SkillOrigin::Project) => "the project",
        (plugin, _) => return format!("plugin {}", clean_line(plugin)),
    };
    origin.to_owned()
}
