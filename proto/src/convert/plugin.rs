//! Plugins.

use agentd_core::plugin::{PluginReport, PluginServer, PluginSkill, PluginState};

use super::{WireError, all, enum_to_wire, mirrored, optional_moment, required_enum, to_moment};
use crate::v1;

mirrored!(PluginState, "the state of a plugin", [New, Update, Installed, Changed]);

impl From<&PluginReport> for v1::Plugin {
    fn from(report: &PluginReport) -> Self {
        Self {
            name: report.name.clone(),
            version: report.version.clone(),
            description: report.description.clone(),
            license: report.license.clone(),
            homepage: report.homepage.clone(),
            state: enum_to_wire(report.state),
            hash: report.hash.clone(),
            folder: report.folder.to_string_lossy().into_owned(),
            source: report.source.clone(),
            added_at: report.added_at.map(to_moment),
            files: report.files,
            bytes: report.bytes,
            skills: report.skills.iter().map(Into::into).collect(),
            agents: report.agents.iter().map(Into::into).collect(),
            commands: report.commands.iter().map(Into::into).collect(),
            servers: report.servers.iter().map(Into::into).collect(),
            unsupported: report.unsupported.clone(),
            installed_version: report.installed_version.clone(),
            changes: report.changes.iter().map(Into::into).collect(),
            problems: report.problems.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Plugin> for PluginReport {
    type Error = WireError;

    fn try_from(plugin: v1::Plugin) -> Result<Self, WireError> {
        Ok(Self {
            name: plugin.name,
            version: plugin.version,
            description: plugin.description,
            license: plugin.license,
            homepage: plugin.homepage,
            state: required_enum(plugin.state)?,
            hash: plugin.hash,
            folder: plugin.folder.into(),
            source: plugin.source,
            added_at: optional_moment(plugin.added_at, "the time of an addition")?,
            files: plugin.files,
            bytes: plugin.bytes,
            skills: plugin.skills.into_iter().map(Into::into).collect(),
            agents: all(plugin.agents)?,
            commands: plugin.commands.into_iter().map(Into::into).collect(),
            servers: plugin.servers.into_iter().map(Into::into).collect(),
            unsupported: plugin.unsupported,
            installed_version: plugin.installed_version,
            changes: all(plugin.changes)?,
            problems: plugin.problems.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<&PluginSkill> for v1::PluginSkill {
    fn from(skill: &PluginSkill) -> Self {
        let PluginSkill { name, description, scripts, packages } = skill.clone();
        Self { name, description, scripts, packages }
    }
}

impl From<v1::PluginSkill> for PluginSkill {
    fn from(skill: v1::PluginSkill) -> Self {
        let v1::PluginSkill { name, description, scripts, packages } = skill;
        Self { name, description, scripts, packages }
    }
}

impl From<&PluginServer> for v1::PluginServer {
    fn from(server: &PluginServer) -> Self {
        let PluginServer { name, command, url, sets, reads, values, steering, cwd } = server.clone();
        Self { name, command, url, sets, reads, values, steering, cwd }
    }
}

impl From<v1::PluginServer> for PluginServer {
    fn from(server: v1::PluginServer) -> Self {
        let v1::PluginServer { name, command, url, sets, reads, values, steering, cwd } = server;
        Self { name, command, url, sets, reads, values, steering, cwd }
    }
}
