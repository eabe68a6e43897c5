//! `agentctl agents`: who can work in a session besides the main agent.

use agentd_core::{agent::AgentCard, error::ErrorKind, plugin::PluginReport};
use clap::{Args, Subcommand};

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table},
    terminal::{
        note,
        sanitize::{clean, clean_line},
    },
};

/// The arguments of `agents`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl agents list
  agentctl agents list --json | jq -r '.[].id'
  agentctl agents show researcher

Agents are defined in agents.yaml. The main agent gives work to those that are enabled, or hands the session over to them.")]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the agents
    List,
    /// Show one agent: its purpose, instructions, tools and skills
    Show {
        /// Name of the agent
        agent: String,
    },
}

/// Does what was asked.
pub(crate) async fn handle(global: &Global, args: AgentsArgs) -> anyhow::Result<Exit> {
    let client = daemon::connect(global).await?.client;
    let agents = client.agents().await?;
    match args.command {
        AgentsCommand::List => {
            let plugins = client.plugins().await?;
            report::show(global.json, &agents, || list(&agents, &plugins))
        }
        AgentsCommand::Show { agent } => {
            let card = find(&agents, &agent)?;
            report::show(global.json, card, || show(card))
        }
    }
}

fn list(agents: &[AgentCard], plugins: &[PluginReport]) -> anyhow::Result<()> {
    let mut table = Table::new(["AGENT", "FROM", "STATE", "SLOT", "WHAT IT IS FOR"]);
    for card in agents {
        let slot = card.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string());
        let plugin = plugins
            .iter()
            .find(|plugin| plugin.agents.iter().any(|known| known.id == card.id && known.prompt == card.prompt));
        let from =
            plugin.map_or_else(|| "agents.yaml".to_owned(), |plugin| format!("plugin {}", clean_line(&plugin.name)));
        table.row_with_long_end([card.id.clone(), from, state(card).to_owned(), slot, clean_line(&card.description)]);
    }
    table.print("no agents besides the main one; agents.yaml names them")?;
    for plugin in plugins {
        for problem in plugin.problems.iter().filter(|problem| problem.message.starts_with("the agent ")) {
            note(&clean_line(&format!("plugin {}: {problem}", plugin.name)));
        }
    }
    Ok(())
}

fn find<'a>(agents: &'a [AgentCard], id: &str) -> Result<&'a AgentCard, Failure> {
    agents.iter().find(|card| card.id == id).ok_or_else(|| {
        let known: Vec<&str> = agents.iter().map(|card| card.id.as_str()).collect();
        let failure = Failure::new(ErrorKind::NotFound, format!("there is no agent {id:?}"));
        failure.hint(format!("there are: {}", known.join(", ")))
    })
}

fn show(card: &AgentCard) -> anyhow::Result<()> {
    let names = |names: &Option<Vec<String>>, none: &str| match names {
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.join(", "),
        None => none.to_owned(),
    };
    let slot = card.slot.map_or_else(|| "that of the turn".to_owned(), |slot| slot.to_string());
    let steps = card.max_steps.map_or_else(|| "50".to_owned(), |steps| steps.to_string());
    let text = format!(
        "{} ({})\n{}\n\ntools:  {}\nskills: {}\nslot:   {slot}\nsteps:  {steps} as a subagent\n\n{}\n",
        card.id,
        state(card),
        card.description,
        names(&card.tools, "all of the main agent's"),
        names(&card.skills, "any"),
        card.prompt,
    );
    anstream::print!("{}", clean(&text));
    Ok(())
}

fn state(card: &AgentCard) -> &'static str {
    if card.enabled { "enabled" } else { "by mention" }
}
