//! Parts of a plugin: skills, agents, commands and MCP servers. No side effects.
//!
//! An invalid part is reported and skipped, without affecting the others.

use agentd_core::{
    agent::AgentCard,
    plugin::PluginSkill,
    project::{ProjectCommand, ProjectProblem},
};

use super::{
    folder::{PluginFile, PluginFolder},
    manifest::Manifest,
    servers::{FoundServers, ServerEntry},
};
use crate::{
    files::{
        agreed_folder::ProblemList as _,
        front::{self, SKILL_FILE},
        requirements,
    },
    project::FoundAgents,
};

/// Maximum number of skills, and of commands.
const MAX_PARTS: usize = 200;
/// Maximum size of a command, in bytes.
const MAX_COMMAND: usize = 64 << 10;
/// Maximum number of listed scripts per skill.
const MAX_SCRIPTS: usize = 100;
/// File extensions of scripts.
const PROGRAMS: [&str; 9] = [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"];

/// Parts of a plugin.
#[derive(Debug, Default)]
pub(super) struct PluginParts {
    pub(super) skills: Vec<PluginSkill>,
    /// Locations of the skills: parent folder relative to the plugin, and name in it.
    pub(super) locations: Vec<(String, String)>,
    pub(super) agents: Vec<AgentCard>,
    pub(super) commands: Vec<ProjectCommand>,
    pub(super) servers: Vec<ServerEntry>,
    pub(super) problems: Vec<ProjectProblem>,
}

impl PluginParts {
    pub(super) fn of(folder: &PluginFolder, manifest: &Manifest) -> Self {
        let mut parts = Self::default();
        for path in &manifest.skills {
            parts.skills_in(folder, path);
        }
        let mut agents = FoundAgents::new("plugin");
        for (name, file) in parts.markdown(folder, &manifest.agents) {
            match file.text() {
                Ok(text) => agents.of_markdown(&file.path, name, text),
                Err(reason) => parts.problems.refuse(&file.path, reason),
            }
        }
        for (name, file) in parts.markdown(folder, &manifest.commands) {
            parts.command(name, file);
        }
        let (agents, of_agents) = agents.sorted();
        let FoundServers { servers, problems } = FoundServers::of(folder, &manifest.servers);
        parts.problems.extend(of_agents.into_iter().chain(problems));
        Self { agents, servers, ..parts }
    }

    /// Returns true if the plugin has no usable part.
    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.agents.is_empty() && self.commands.is_empty() && self.servers.is_empty()
    }

    /// Adds the skill in a folder, or the skills in its subfolders.
    fn skills_in(&mut self, folder: &PluginFolder, path: &str) {
        if !path.is_empty() && folder.has(&format!("{path}/{SKILL_FILE}")) {
            return self.skill(folder, path);
        }
        let mut entries: Vec<String> = folder
            .below(path)
            .filter_map(|(below, _)| {
                let (entry, rest) = below.split_once('/')?;
                (rest == SKILL_FILE).then(|| if path.is_empty() { entry.to_owned() } else { format!("{path}/{entry}") })
            })
            .collect();
        entries.dedup();
        if entries.is_empty() {
            self.problems.refuse(path, format!("no skill found: no folder in it has a {SKILL_FILE}"));
        }
        for entry in entries {
            self.skill(folder, &entry);
        }
    }

    fn skill(&mut self, folder: &PluginFolder, path: &str) {
        let file = format!("{path}/{SKILL_FILE}");
        let (parent_folder, entry) = path.rsplit_once('/').unwrap_or(("", path));
        let location = (parent_folder.to_owned(), entry.to_owned());
        if self.locations.contains(&location) {
            return;
        }
        let front = match folder.text(&file) {
            Some(Ok(text)) => front::front(&text[..text.floor_char_boundary(front::MAX_FRONT)]),
            Some(Err(reason)) => return self.problems.refuse(&file, reason),
            None => return,
        };
        let front = match front {
            Ok(front) => front,
            Err(flaw) => return self.problems.refuse(&file, format!("line {}: {}", flaw.line, flaw.message)),
        };
        let Some(name) = front::name(&front, entry) else {
            return self.problems.refuse(&file, "neither its name nor the name of its folder is a valid skill name");
        };
        if self.skills.iter().any(|other| other.name.eq_ignore_ascii_case(&name)) {
            return self.problems.refuse(&file, format!("another skill of this plugin has the name {name}"));
        }
        if self.skills.len() >= MAX_PARTS {
            return self.problems.refuse(&file, format!("a plugin can have at most {MAX_PARTS} skills"));
        }
        let listed = folder.text(&format!("{path}/{}", requirements::PACKAGES_FILE)).and_then(Result::ok);
        let packages = match requirements::packages(&front, listed) {
            Ok(packages) => packages,
            Err((of, flaw)) => {
                let message = format!("{}; nothing is installed for this skill", flaw.message);
                self.problems.note(&format!("{path}/{of}"), &message);
                Vec::new()
            }
        };
        let is_program = |file: &PluginFile| file.runs || PROGRAMS.iter().any(|ending| file.path.ends_with(ending));
        let scripts = folder.below(path).filter(|(_, file)| is_program(file)).map(|(_, file)| file.path.clone());
        let scripts = scripts.take(MAX_SCRIPTS).collect();
        let description = front.description;
        self.skills.push(PluginSkill { name, description, scripts, packages });
        self.locations.push(location);
    }

    /// Returns the Markdown files at these paths, or directly in folders at these paths.
    fn markdown<'a>(&mut self, folder: &'a PluginFolder, paths: &[String]) -> Vec<(&'a str, &'a PluginFile)> {
        let mut found: Vec<(&str, &PluginFile)> = Vec::new();
        for path in paths {
            let before = found.len();
            for file in &folder.files {
                let below = file.path.strip_prefix(path.as_str()).and_then(|rest| rest.strip_prefix('/'));
                let is_meant = file.path == *path || below.is_some_and(|below| !below.contains('/'));
                let name = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".md"));
                let is_known = found.iter().any(|(_, other)| other.path == file.path);
                // Such folders often contain a README.
                if let Some(name) = name.filter(|name| is_meant && !is_known && !name.eq_ignore_ascii_case("readme")) {
                    found.push((name, file));
                }
            }
            if found.len() == before && !folder.has_folder(path) {
                self.problems
                    .refuse(path, "the manifest lists it, but it is neither a Markdown file nor a folder of them");
            }
        }
        found
    }

    fn command(&mut self, name: &str, file: &PluginFile) {
        match file.text() {
            Ok(_) if self.commands.iter().any(|other| other.name == name) => {
                self.problems.refuse(&file.path, format!("another command of this plugin has the name {name}"));
            }
            Ok(_) if self.commands.len() >= MAX_PARTS => {
                self.problems.refuse(&file.path, format!("a plugin can have at most {MAX_PARTS} commands"));
            }
            Ok(text) if text.len() > MAX_COMMAND => self.problems.refuse(&file.path, "it is larger than 64 KiB"),
            Ok(text) => self.commands.push(ProjectCommand { name: name.to_owned(), text: text.to_owned() }),
            Err(reason) => self.problems.refuse(&file.path, reason),
        }
    }
}
