//! `agentctl plugin`: folders with skills, agents, commands and MCP servers, added and removed as a whole.
//!
//! - `view`: a plugin in lines: what it brings, and what of it would run. `fetched`: one that is in a repository of git.

mod fetched;
mod view;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use agentd_core::plugin::{PluginReport, PluginState};
use agentd_proto::client::Client;
use clap::{Args, Subcommand};

use self::fetched::Repository;
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    project::absolute,
    report::{self, Table},
    terminal::{ask, note, sanitize::clean_line},
};

/// The arguments of `plugin`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl plugin add ./kit                    shows what it brings, and asks
  agentctl plugin add https://example.org/kit.git
  agentctl plugin add ./kit --yes              for scripts
  agentctl plugin list
  agentctl plugin show kit
  agentctl plugin remove kit

A plugin is a folder with a plugin.json, and skills/, agents/, commands/ and mcp.json in it. It is copied, and you agree to \
its files as they are: if one changes by a byte, nothing of it is used. Approvals and rules hold for its parts as for your \
own.")]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// List the plugins
    List,
    /// Show what a plugin brings, what of it runs, and what has changed
    Show {
        /// Name of a plugin, or a folder that may become one
        #[arg(value_name = "PLUGIN")]
        plugin: String,
    },
    /// Add a plugin, or update one to other files, after showing what would run
    Add {
        /// Folder of the plugin, or the address of a git repository
        #[arg(value_name = "SOURCE", value_hint = clap::ValueHint::DirPath)]
        source: String,
        /// Folder of the plugin in it, where that has several
        #[arg(long, value_name = "DIR")]
        path: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Agree to the files of a plugin as they are now
    Approve {
        /// Name of the plugin
        #[arg(value_name = "PLUGIN")]
        plugin: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Remove plugins, with all that they brought
    Remove {
        /// Names of the plugins
        #[arg(value_name = "PLUGIN", required = true)]
        plugin: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Consent {
    /// Agree to what is shown without being asked
    #[arg(long)]
    yes: bool,
}

/// Does it.
pub(crate) async fn handle(global: &Global, args: PluginArgs) -> anyhow::Result<Exit> {
    let client = daemon::connect(global).await?.client;
    match args.command {
        PluginCommand::List => {
            let plugins = client.plugins().await?;
            report::show(global.json, &plugins, || list(&plugins))
        }
        PluginCommand::Show { plugin } => {
            let found = match Path::new(&plugin).is_dir() && plugin.contains(['/', '.']) {
                true => client.plugin_in(&absolute(Path::new(&plugin))?).await?,
                false => client.plugin(&plugin).await?,
            };
            report::show(global.json, &found, || report::lines(view::lines(&found)))
        }
        PluginCommand::Add { source, path, consent } => {
            let repository = match Repository::is_address(&source) {
                true => Some(Repository::fetch(&source)?),
                false => None,
            };
            let folder =
                repository.as_ref().map_or_else(|| PathBuf::from(&source), |found| found.folder().to_path_buf());
            let folder = path.as_ref().map_or(folder.clone(), |inner| folder.join(inner));
            let folder = absolute(&folder)?;
            let named = match (&repository, &path) {
                (Some(_), Some(inner)) => format!("{} ({inner})", Repository::shown(&source)),
                (Some(_), None) => Repository::shown(&source),
                (None, _) => folder.clone(),
            };
            let found = client.plugin_in(&folder).await?;
            if found.state == PluginState::Installed
                && client.plugin(&found.name).await?.state == PluginState::Installed
            {
                let words = format!("{} is there already, as it is", title(&found));
                return report::note(global.json, &found, &words);
            }
            agree(global, &client, &found, &folder, &named, &consent).await
        }
        PluginCommand::Approve { plugin, consent } => {
            let found = client.plugin(&plugin).await?;
            if found.state == PluginState::Installed {
                return report::note(global.json, &found, &format!("{} is as you agreed to it", title(&found)));
            }
            let folder = found.folder.to_string_lossy().into_owned();
            let source = found.source.clone();
            // As a folder it says what it is now.
            let found = client.plugin_in(&folder).await?;
            agree(global, &client, &found, &folder, &source, &consent).await
        }
        PluginCommand::Remove { plugin } => {
            let mut removed = Vec::new();
            for name in &plugin {
                match client.remove_plugin(name, daemon::CLIENT).await? {
                    Some(report) => {
                        note(&format!("removed {}", title(&report)));
                        removed.push(report);
                    }
                    None => note(&format!("there is no plugin {}: nothing was removed", clean_line(name))),
                }
            }
            if global.json {
                report::json(&removed)?;
            }
            Ok(Exit::Done)
        }
    }
}

/// Shows the plugin, asks, and adds it.
async fn agree(
    global: &Global,
    client: &Client,
    found: &PluginReport,
    folder: &str,
    source: &str,
    consent: &Consent,
) -> anyhow::Result<Exit> {
    for line in view::lines(found) {
        note(&line);
    }
    if !consent.yes {
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(Failure::usage(format!("nothing was added: {} needs your consent", title(found)))
                .hint("run it in a terminal, or add --yes")
                .into());
        }
        let verb = if found.state == PluginState::New { "Add" } else { "Use" };
        let answer = ask::line(&format!("{verb} {} as shown? [y/N] ", title(found)))?;
        if !answer.is_some_and(|answer| matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")) {
            note("nothing was added");
            return Ok(Exit::Cancelled);
        }
    }
    let added = client.add_plugin(folder, &found.hash, source, daemon::CLIENT).await?;
    let unused = added.problems.iter().filter(|problem| problem.is_fatal).count();
    let mut words = format!("added {}: {}", title(&added), view::parts(&added));
    if unused > 0 {
        words += &format!("; {} not used (agentctl plugin show {})", report::count(unused as u64, "part"), added.name);
    }
    report::note(global.json, &added, &words)
}

/// Its name and version.
fn title(report: &PluginReport) -> String {
    clean_line(format!("{} {}", report.name, report.version).trim())
}

fn list(plugins: &[PluginReport]) -> anyhow::Result<()> {
    let mut table = Table::new(["PLUGIN", "VERSION", "STATE", "BRINGS", "FROM"]);
    for plugin in plugins {
        let unused = plugin.problems.iter().filter(|problem| problem.is_fatal).count();
        let state = match plugin.state {
            PluginState::Changed => "changed, not used".to_owned(),
            _ if unused > 0 => format!("used, {unused} not"),
            _ => "used".to_owned(),
        };
        table.row_with_long_end([
            clean_line(&plugin.name),
            clean_line(&plugin.version),
            state,
            view::parts(plugin),
            clean_line(&plugin.source),
        ]);
    }
    table.print("no plugins; agentctl plugin add DIR adds one")?;
    for plugin in plugins {
        if plugin.state == PluginState::Changed {
            let name = clean_line(&plugin.name);
            note(&format!(
                "files of {name} are not those that you agreed to, so nothing of it is used: agentctl plugin show {name}"
            ));
        }
        for problem in plugin.problems.iter().filter(|problem| problem.is_fatal) {
            note(&clean_line(&format!("{}: {problem}", plugin.name)));
        }
    }
    Ok(())
}
