//! A plugin in lines, for whoever has to agree to it: nothing of what runs is left out.

use agentd_core::{
    agent::AgentCard,
    plugin::{PluginReport, PluginServer, PluginSkill, PluginState},
    project::ProjectChangeKind,
    visible,
};

use crate::{report, terminal::sanitize::clean_line};

/// Scripts of a skill that are named.
const SCRIPTS: usize = 12;
/// Files that are named of those that differ.
const CHANGES: usize = 40;

/// All lines.
pub(super) fn lines(report: &PluginReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name:<11}{}", visible::line(value)));
        }
    };
    line("plugin", format!("{} {}", report.name, report.version).trim());
    line("for", &report.description);
    line("state", &state(report));
    line("licence", &report.license);
    line("page", &report.homepage);
    line("from", &report.source);
    line("files", &format!("{} ({})", report.files, report::bytes(report.bytes)));
    line("hash", &report.hash);
    for skill in &report.skills {
        line("skill", &about_skill(skill));
        for script in skill.scripts.iter().take(SCRIPTS) {
            line("  script", script);
        }
        let more = skill.scripts.len().saturating_sub(SCRIPTS);
        line("  script", &if more > 0 { format!("and {more} more") } else { String::new() });
        line("  packages", &skill.packages.join(", "));
    }
    for card in &report.agents {
        line("agent", &about_agent(card));
    }
    let commands: Vec<String> = report.commands.iter().map(|command| format!("/{}", command.name)).collect();
    line("commands", &commands.join(", "));
    for server in &report.servers {
        line("server", &server.name);
        line("  runs", &command_line(server));
        line("  calls", &server.url);
        line("  in", &server.cwd);
        // In the folder that it has by itself nothing is but what it wrote.
        if !matches!(server.cwd.as_str(), "" | "${PLUGIN_DATA}") {
            line("  beware", "programs such as npx and python load code from the folder in which they start");
        }
        server.values.iter().for_each(|value| line("  sets", value));
        server.steering.iter().for_each(|name| line("  beware", &format!("{name} may decide which code runs")));
        line("  gets", &reads(server));
    }
    if !report.servers.is_empty() {
        line("", "");
        line("note", "a server that runs is a program with your rights; its tools ask before they are called");
    }
    if !report.unsupported.is_empty() {
        line("not used", &format!("{} (agentd has nothing for them; never run)", report.unsupported.join(", ")));
    }
    for change in report.changes.iter().take(CHANGES) {
        let sign = match change.kind {
            ProjectChangeKind::Added => '+',
            ProjectChangeKind::Changed => '~',
            ProjectChangeKind::Removed => '-',
        };
        line("changed", &format!("{sign} {}", change.path));
    }
    let more = report.changes.len().saturating_sub(CHANGES);
    line("changed", &if more > 0 { format!("and {more} more") } else { String::new() });
    for problem in &report.problems {
        line(if problem.is_fatal { "wrong" } else { "odd" }, &problem.to_string());
    }
    lines
}

/// Its parts, in a few words.
pub(super) fn parts(report: &PluginReport) -> String {
    let counted = [
        (report.skills.len(), "skill"),
        (report.agents.len(), "agent"),
        (report.commands.len(), "command"),
        (report.servers.len(), "server"),
    ];
    let parts = counted.iter().filter(|(many, _)| *many > 0).map(|(many, what)| report::count(*many as u64, what));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn state(report: &PluginReport) -> String {
    match report.state {
        PluginState::New => "not added".to_owned(),
        PluginState::Installed => "used, as you agreed to it".to_owned(),
        PluginState::Changed => "changed since you agreed to it: nothing of it is used".to_owned(),
        PluginState::Update => match report.installed_version.as_str() {
            "" => "takes the place of the one that is there".to_owned(),
            version => format!("takes the place of {version}"),
        },
    }
}

fn about_skill(skill: &PluginSkill) -> String {
    format!("{}: {}", skill.name, skill.description)
}

fn about_agent(card: &AgentCard) -> String {
    let tools = match &card.tools {
        None => "all tools of the main agent".to_owned(),
        Some(tools) if tools.is_empty() => "no tools".to_owned(),
        Some(tools) => tools.join(", "),
    };
    format!("{}: {} ({tools})", card.id, card.description)
}

/// A command line in which it is seen where an argument ends.
fn command_line(server: &PluginServer) -> String {
    let plain = |text: &str| {
        !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "/._-+=:@,${}".contains(letter))
    };
    let quoted = |text: &String| match plain(text) {
        true => text.clone(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    };
    server.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn reads(server: &PluginServer) -> String {
    let names: Vec<String> = server.reads.iter().map(|name| format!("${name}")).collect();
    clean_line(&names.join(", "))
}
