//! `agentctl agents`: who can work in a session besides the main agent.

use agentd_core::{agent::AgentCard, error::ErrorKind};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::{
    complete, daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table},
    terminal::sanitize::{clean, clean_line},
};

/// The arguments of `agents`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl agents list
  agentctl agents list --json | jq -r '.[].id'
  agentctl agents show researcher

Agents are named in agents.yaml. The main agent gives work to those that are enabled, or hands the session to them.")]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the agents
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one agent: what it is for, what it is told, what it has
    Show {
        /// The agent
        #[arg(value_name = "AGENT", add = ArgValueCandidates::new(complete::agents))]
        agent: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does what was asked.
pub(crate) async fn handle(global: &Global, args: AgentsArgs) -> anyhow::Result<Exit> {
    let agents = daemon::connect(global).await?.client.agents().await?;
    match args.command {
        AgentsCommand::List { json } => list(&agents, json),
        AgentsCommand::Show { agent, json } => show(&agents, &agent, json),
    }
}

fn list(agents: &[AgentCard], json: bool) -> anyhow::Result<Exit> {
    if json {
        report::json(&agents)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["AGENT", "STATE", "SLOT", "WHAT IT IS FOR"]);
    for card in agents {
        let slot = card.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string());
        table.row_with_long_end([card.id.clone(), state(card).to_owned(), slot, clean_line(&card.description)]);
    }
    table.print("no agents besides the main one; agents.yaml names them")?;
    Ok(Exit::Done)
}

fn show(agents: &[AgentCard], id: &str, json: bool) -> anyhow::Result<Exit> {
    let Some(card) = agents.iter().find(|card| card.id == id) else {
        let known: Vec<&str> = agents.iter().map(|card| card.id.as_str()).collect();
        let failure = Failure::new(ErrorKind::NotFound, format!("there is no agent {id:?}"));
        return Err(failure.hint(format!("there are: {}", known.join(", "))).into());
    };
    if json {
        report::json(card)?;
        return Ok(Exit::Done);
    }
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
        names(&card.skills, "none in particular"),
        card.prompt,
    );
    anstream::print!("{}", clean(&text));
    Ok(Exit::Done)
}

fn state(card: &AgentCard) -> &'static str {
    if card.enabled { "enabled" } else { "by mention" }
}
