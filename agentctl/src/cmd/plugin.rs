//! `agentctl plugin`: folders with skills, agents, commands and MCP servers, added and removed as a whole.
//!
//! The user's own `git` fetches a plugin from a repository into a temporary folder. All programs that a plugin would
//! run are shown before the user agrees to it.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agentd_core::{
    plugin::{PluginReport, PluginServer, PluginState},
    visible,
};
use agentd_proto::client::Client;
use clap::Subcommand;
use tempfile::TempDir;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    project::{self, absolute},
    report::{self, FactSheet, Table},
    terminal::{ask, clean_line, is_attended, note, note_lines},
};

/// Examples for the help of `plugin`.
pub(crate) const PLUGIN_HELP: &str = "Examples:
  agentctl plugin add ./kit                    shows its contents, and asks
  agentctl plugin add https://example.org/kit.git
  agentctl plugin add ./kit --yes              for scripts
  agentctl plugin list
  agentctl plugin show kit
  agentctl plugin remove kit

A plugin is a folder with a plugin.json, and skills/, agents/, commands/ and mcp.json in it. It is copied, and you \
agree to its exact files: if one of them changes, none of it is used. Approvals and rules apply to its parts as to \
your own.";

/// The subcommands of `plugin`.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List plugins
    List,
    /// Show what a plugin contains, what it runs, and what has changed
    Show {
        /// Name of a plugin, or a folder that can be added as one
        #[arg(value_name = "PLUGIN")]
        plugin: String,
    },
    /// Add or update a plugin, after showing what would run
    Add {
        /// Folder of the plugin, or the address of a git repository
        #[arg(value_name = "SOURCE", value_hint = clap::ValueHint::DirPath)]
        source: String,
        /// Folder of the plugin in SOURCE, if it has several
        #[arg(long, value_name = "DIR")]
        path: Option<String>,
        /// Agree without asking
        #[arg(long)]
        yes: bool,
    },
    /// Agree to the current files of a plugin
    Approve {
        /// Name of the plugin
        #[arg(value_name = "PLUGIN")]
        plugin: String,
        /// Agree without asking
        #[arg(long)]
        yes: bool,
    },
    /// Remove plugins with all their parts
    Remove {
        /// Names of the plugins
        #[arg(value_name = "PLUGIN", required = true)]
        plugin: Vec<String>,
    },
}

/// Runs the command `agentctl plugin`.
pub(crate) async fn handle(Daemon { client, .. }: Daemon, json: bool, command: PluginCommand) -> anyhow::Result<Exit> {
    match command {
        PluginCommand::List => {
            let plugins = client.plugins().await?;
            report::show(json, &plugins, || list(&plugins))
        }
        PluginCommand::Show { plugin } => {
            let may_exist = if client.host().is_some() { plugin.contains('/') } else { Path::new(&plugin).is_dir() };
            let found = match may_exist && plugin.contains(['/', '.']) {
                true => client.plugin_in(&absolute(&client, Path::new(&plugin))?).await?,
                false => client.plugin(&plugin).await?,
            };
            report::show(json, &found, || report::lines(lines(&found)))
        }
        PluginCommand::Add { source, path, yes } => {
            if client.host().is_some() && is_address(&source) {
                let problem = "another machine cannot read what is fetched to this one";
                return Err(Failure::usage(problem).hint("fetch it there, and add its folder").into());
            }
            let repository = is_address(&source).then(|| fetch(&source)).transpose()?;
            let folder = repository.as_ref().map_or_else(|| PathBuf::from(&source), |(_, folder)| folder.clone());
            let folder = absolute(&client, &path.as_ref().map_or(folder.clone(), |inner| folder.join(inner)))?;
            let named = match (&repository, &path) {
                (Some(_), Some(inner)) => format!("{} ({inner})", shown(&source)),
                (Some(_), None) => shown(&source),
                (None, _) => folder.clone(),
            };
            let found = client.plugin_in(&folder).await?;
            if found.state == PluginState::Installed
                && client.plugin(&found.name).await?.state == PluginState::Installed
            {
                let text = format!("{} is already installed, unchanged", title(&found));
                return report::note(json, &found, &text);
            }
            ask_consent(json, &client, &found, &folder, &named, yes).await
        }
        PluginCommand::Approve { plugin, yes } => {
            let found = client.plugin(&plugin).await?;
            if found.state == PluginState::Installed {
                return report::note(json, &found, &format!("{} is unchanged", title(&found)));
            }
            let folder = found.folder.to_string_lossy().into_owned();
            let source = found.source.clone();
            // Loaded from the folder, to show its current content.
            let found = client.plugin_in(&folder).await?;
            ask_consent(json, &client, &found, &folder, &source, yes).await
        }
        PluginCommand::Remove { plugin } => {
            let mut removed = Vec::new();
            for name in &plugin {
                match client.remove_plugin(name, daemon::CLIENT).await? {
                    Some(report) => {
                        note(&format!("removed {}", title(&report)));
                        removed.push(report);
                    }
                    None => note(&format!("no such plugin: {}; nothing was removed", clean_line(name))),
                }
            }
            if json {
                report::json(&removed)?;
            }
            Ok(Exit::Done)
        }
    }
}

/// Shows the plugin, asks for consent, and adds it.
async fn ask_consent(
    json: bool,
    client: &Client,
    found: &PluginReport,
    folder: &str,
    source: &str,
    yes: bool,
) -> anyhow::Result<Exit> {
    for line in lines(found) {
        note(&line);
    }
    if !yes {
        if !is_attended() {
            let hint = "run it in a terminal, or add --yes";
            anyhow::bail!(Failure::usage(format!("nothing was added: {} needs your consent", title(found))).hint(hint));
        }
        let verb = if found.state == PluginState::New { "Add" } else { "Use" };
        if !ask::confirm(&format!("{verb} {} as shown? [y/N] ", title(found)))? {
            note("nothing was added");
            return Ok(Exit::Cancelled);
        }
    }
    let added = client.add_plugin(folder, &found.hash, source, daemon::CLIENT).await?;
    let unused = added.problems.iter().filter(|problem| problem.is_fatal).count();
    let mut text = format!("added {}: {}", title(&added), parts(&added));
    if unused > 0 {
        text += &format!("; {} not used (agentctl plugin show {})", report::count(unused, "part"), added.name);
    }
    report::note(json, &added, &text)
}

/// Returns the name and version of the plugin.
fn title(report: &PluginReport) -> String {
    clean_line(format!("{} {}", report.name, report.version).trim())
}

fn list(plugins: &[PluginReport]) -> anyhow::Result<()> {
    let rows = plugins.iter().map(|plugin| {
        let unused = plugin.problems.iter().filter(|problem| problem.is_fatal).count();
        let state = match plugin.state {
            PluginState::Changed => "changed, not used".to_owned(),
            _ if unused > 0 => format!("used, {unused} not"),
            _ => "used".to_owned(),
        };
        let [name, version, source] = [&plugin.name, &plugin.version, &plugin.source].map(|text| clean_line(text));
        [name, version, state, parts(plugin), source]
    });
    Table::with_long_end(["PLUGIN", "VERSION", "STATE", "PROVIDES", "FROM"], rows)
        .print("no plugins; agentctl plugin add DIR adds one")?;
    for plugin in plugins {
        if plugin.state == PluginState::Changed {
            let name = clean_line(&plugin.name);
            note(&format!(
                "files of {name} have changed since you agreed to them, so none of it is used: \
                 agentctl plugin show {name}"
            ));
        }
        let fatal = plugin.problems.iter().filter(|problem| problem.is_fatal);
        note_lines(fatal.map(|problem| format!("{}: {problem}", plugin.name)));
    }
    Ok(())
}

/// Returns true if the source is a URL, not a path.
fn is_address(source: &str) -> bool {
    let schemes = ["https://", "http://", "ssh://", "git://", "file://", "git@"];
    schemes.iter().any(|scheme| source.starts_with(scheme))
}

/// Clones the latest files of a repository into a temporary folder, which is removed on drop. No hooks run, and no
/// submodules are fetched.
fn fetch(address: &str) -> Result<(TempDir, PathBuf), Failure> {
    let failed =
        |message: String| Failure::usage(message).hint("nothing was added; fetch it yourself, and add its folder");
    let own = Permissions::from_mode(0o700);
    let parent = tempfile::Builder::new().prefix("agentctl-plugin-").permissions(own).tempdir();
    let parent = parent.map_err(|error| {
        failed(format!("could not create {}: {error}", std::env::temp_dir().join("agentctl-plugin").display()))
    })?;
    let folder = parent.path().join(folder_name(address));
    let status = Command::new("git")
        .args("-c core.hooksPath=/dev/null clone --quiet --depth 1 --no-recurse-submodules --".split(' '))
        .arg(address)
        .arg(&folder)
        .env("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file")
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok((parent, folder)),
        Ok(status) => Err(failed(format!("git could not fetch {} ({status})", shown(address)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed("git is not installed".to_owned())),
        Err(error) => Err(failed(format!("could not run git: {error}"))),
    }
}

/// Returns the URL for display, without credentials.
fn shown(address: &str) -> String {
    match address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (who, rest))) if !who.contains('/') => format!("{scheme}://{rest}"),
        _ => address.to_owned(),
    }
}

/// Returns the folder name that git derives from a URL. It becomes the plugin's name if the plugin does not define one.
fn folder_name(address: &str) -> String {
    let last = address.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let name: String = last
        .trim_end_matches(".git")
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
        .collect();
    if name.is_empty() { "plugin".to_owned() } else { name }
}

/// Maximum number of listed scripts of a skill.
const MAX_SCRIPTS: usize = 12;
/// Maximum number of listed changed files.
const MAX_CHANGES: usize = 40;

/// Returns all lines that describe a plugin.
fn lines(report: &PluginReport) -> Vec<String> {
    let mut facts = FactSheet::new(11, visible::line);
    facts.non_empty("plugin", format!("{} {}", report.name, report.version).trim());
    facts.non_empty("for", &report.description);
    facts.non_empty("state", state(report));
    facts.non_empty("licence", &report.license);
    facts.non_empty("page", &report.homepage);
    facts.non_empty("from", &report.source);
    facts.non_empty("files", format!("{} ({})", report.files, report::bytes(report.bytes)));
    facts.non_empty("hash", &report.hash);
    let more = |all: usize, shown: usize| (all > shown).then(|| format!("and {} more", all - shown));
    for skill in &report.skills {
        facts.line("skill", format!("{}: {}", skill.name, skill.description));
        facts.each("  script", skill.scripts.iter().take(MAX_SCRIPTS).filter(|script| !script.is_empty()));
        facts.each("  script", more(skill.scripts.len(), MAX_SCRIPTS));
        facts.non_empty("  packages", skill.packages.join(", "));
    }
    facts.each("agent", report.agents.iter().map(project::about));
    let commands: Vec<String> = report.commands.iter().map(|command| format!("/{}", command.name)).collect();
    facts.non_empty("commands", commands.join(", "));
    for server in &report.servers {
        facts.non_empty("server", &server.name);
        facts.non_empty("  runs", command_line(server));
        facts.non_empty("  calls", &server.url);
        facts.non_empty("  in", &server.cwd);
        // The server's default folder contains only the server's own files; any other folder may contain other code.
        if !matches!(server.cwd.as_str(), "" | "${PLUGIN_DATA}") {
            facts.line("  beware", "programs such as npx and python load code from the folder in which they start");
        }
        facts.each("  sets", server.values.iter().filter(|value| !value.is_empty()));
        facts.each("  beware", server.steering.iter().map(|name| format!("{name} may decide which code runs")));
        let read: Vec<String> = server.reads.iter().map(|name| format!("${name}")).collect();
        facts.non_empty("  gets", clean_line(&read.join(", ")));
    }
    if !report.servers.is_empty() {
        facts.line("note", "a server that runs is a program with your rights; its tools ask before they are called");
    }
    if !report.unsupported.is_empty() {
        let parts = report.unsupported.join(", ");
        facts.line("not used", format!("{parts} (not supported by agentd; never run)"));
    }
    facts.each("changed", report.changes.iter().take(MAX_CHANGES).map(project::change));
    facts.each("changed", more(report.changes.len(), MAX_CHANGES));
    facts.problems(report.problems.iter().map(|problem| (problem.is_fatal, problem.to_string())));
    facts.lines
}

/// Returns a summary of the plugin's parts.
fn parts(report: &PluginReport) -> String {
    let parts = project::counts(&[
        (report.skills.len(), "skill"),
        (report.agents.len(), "agent"),
        (report.commands.len(), "command"),
        (report.servers.len(), "server"),
    ]);
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn state(report: &PluginReport) -> String {
    match report.state {
        PluginState::New => "not added".to_owned(),
        PluginState::Installed => "used, unchanged since you agreed to it".to_owned(),
        PluginState::Changed => "changed since you agreed to it: none of it is used".to_owned(),
        PluginState::Update => match report.installed_version.as_str() {
            "" => "replaces the installed one".to_owned(),
            version => format!("replaces {version}"),
        },
    }
}

/// Returns the command line with shell quoting, which shows where arguments end.
fn command_line(server: &PluginServer) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+=:@,${}".contains(letter);
    server.command.iter().map(|word| report::shell_word(word, plain)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_distinguished_from_paths_and_give_names() {
        for address in ["https://example.org/kit.git", "git@example.org:me/kit.git", "ssh://x/kit", "file:///tmp/kit/"]
        {
            assert!(is_address(address), "{address}");
            assert_eq!(folder_name(address), "kit");
        }
        assert_eq!(shown("https://me:hunter2@example.org/kit"), "https://example.org/kit");
        assert_eq!(shown("https://example.org/a@b"), "https://example.org/a@b");
        assert_eq!(shown("git@example.org:me/kit"), "git@example.org:me/kit");
        for path in ["./kit", "/tmp/kit.git", "kit", "ext::sh -c x", "--upload-pack=x"] {
            assert!(!is_address(path), "{path}");
        }
    }
}
