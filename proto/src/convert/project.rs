//! Projects, plugins, skills, agents and worktrees.

use agentd_core::{
    agent::AgentCard,
    guide::{Skill, SkillListing, SkillOrigin, SkillProblem, SkillReport},
    plugin::{PluginReport, PluginServer, PluginSkill, PluginState},
    project::{
        ProjectChange, ProjectChangeKind, ProjectCommand, ProjectFile, ProjectProblem, ProjectReport, ProjectTrust,
    },
    worktree::{SessionWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

use super::{Wire, WireError, mirrored, or_default};
use crate::v1::{self, agent_card::Names};

mirrored!(ProjectTrust, "the trust in a project", [Empty, Untrusted, Changed, Trusted]);
mirrored!(ProjectChangeKind, "a change of a project", [Added, Changed, Removed]);
mirrored!(PluginState, "the state of a plugin", [New, Update, Installed, Changed]);
mirrored!(SkillOrigin, "whose a skill is", [Person, Bundled, Project, Plugin]);
mirrored!(SkillListing, "how a skill is listed", [None, Name, Shortened, Whole]);

mirrored! {
    ProjectReport as v1::Project:
        path trust hash files instructions agents skills commands changes ignored problems,
        trusted_at = trusted_at "the time of a trust"
}
mirrored! { ProjectFile as v1::ProjectFile: path bytes sha256 }
mirrored! { ProjectCommand as v1::ProjectCommand: name text }
mirrored! { ProjectChange as v1::ProjectChange: path kind }
mirrored! { ProjectProblem as v1::ProjectProblem: file message is_fatal }
mirrored! {
    PluginReport as v1::Plugin:
        name version description license homepage state hash folder source files bytes skills agents commands servers
        unsupported installed_version changes problems, added_at = added_at "the time of an addition"
}
mirrored! { PluginSkill as v1::PluginSkill: name description scripts packages }
mirrored! { PluginServer as v1::PluginServer: name command url sets reads values steering cwd }
mirrored! { AgentCard as v1::AgentCard: id enabled description prompt tools skills slot max_steps }
mirrored! { SkillProblem as v1::SkillProblem: file line message is_fatal }
mirrored! { SessionWorktree as v1::SessionWorktree: name branch project left_out }
mirrored! {
    WorktreeReport as v1::Worktree: name branch session is_orphan folder project base changed ahead is_merged problem
}
mirrored! { WorktreeDiff as v1::WorktreeDiff: name base files text is_cut is_lossy }
mirrored! { WorktreeApplied as v1::AppliedWorktree: name commit onto files }

impl Wire<Names> for Vec<String> {
    fn to_wire(&self) -> Names {
        Names { names: self.clone() }
    }

    fn from_wire(wire: Names, _: &'static str) -> Result<Self, WireError> {
        Ok(wire.names)
    }
}

impl From<&SkillReport> for v1::SkillReport {
    fn from(report: &SkillReport) -> Self {
        let Skill { name, description, path, origin, enabled, file_types, packages, digest: _ } = report.skill.clone();
        Self {
            name,
            description,
            path,
            folder: report.folder.clone(),
            plugin: report.plugin.clone(),
            origin: origin.to_wire(),
            enabled,
            file_types,
            packages,
            installed: report.installed,
            usable: report.usable,
            shown: report.shown.to_wire(),
            license: report.license.to_wire(),
            allowed_tools: report.allowed_tools.clone(),
            files: report.files,
            bytes: report.bytes,
            problems: report.problems.to_wire(),
            text: report.text.clone(),
        }
    }
}

impl TryFrom<v1::SkillReport> for SkillReport {
    type Error = WireError;

    fn try_from(report: v1::SkillReport) -> Result<Self, WireError> {
        Ok(Self {
            skill: Skill {
                name: report.name,
                description: report.description,
                path: report.path,
                digest: String::new(),
                origin: Wire::from_wire(report.origin, "whose a skill is")?,
                enabled: report.enabled,
                file_types: report.file_types,
                packages: report.packages,
            },
            folder: report.folder,
            plugin: report.plugin,
            usable: report.usable,
            shown: or_default(report.shown, "how a skill is listed")?,
            license: Wire::from_wire(report.license, "the license")?,
            allowed_tools: report.allowed_tools,
            files: report.files,
            bytes: report.bytes,
            installed: report.installed,
            problems: super::all(report.problems)?,
            text: report.text,
        })
    }
}
