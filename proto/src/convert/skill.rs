//! Skills, and what is wrong with them.

use agentd_core::guide::{Skill, SkillListing, SkillOrigin, SkillProblem, SkillReport};

use super::{WireError, enum_to_wire, mirrored, optional_enum, required_enum};
use crate::v1;

mirrored!(SkillOrigin, "whose a skill is", [Person, Bundled, Project, Plugin]);

mirrored!(SkillListing, "how a skill is listed", [None, Name, Shortened, Whole]);

impl From<&SkillReport> for v1::SkillReport {
    fn from(report: &SkillReport) -> Self {
        let SkillReport { skill, .. } = report;
        Self {
            name: skill.name.clone(),
            description: skill.description.clone(),
            path: skill.path.clone(),
            folder: report.folder.clone(),
            plugin: report.plugin.clone(),
            origin: enum_to_wire(skill.origin),
            enabled: skill.enabled,
            file_types: skill.file_types.clone(),
            packages: skill.packages.clone(),
            installed: report.installed,
            usable: report.usable,
            shown: enum_to_wire(report.shown),
            license: report.license.clone().unwrap_or_default(),
            allowed_tools: report.allowed_tools.clone(),
            files: report.files,
            bytes: report.bytes,
            problems: report.problems.iter().map(Into::into).collect(),
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
                origin: required_enum(report.origin)?,
                enabled: report.enabled,
                file_types: report.file_types,
                packages: report.packages,
            },
            folder: report.folder,
            plugin: report.plugin,
            usable: report.usable,
            shown: optional_enum(report.shown)?.unwrap_or_default(),
            license: Some(report.license).filter(|license| !license.is_empty()),
            allowed_tools: report.allowed_tools,
            files: report.files,
            bytes: report.bytes,
            installed: report.installed,
            problems: report.problems.into_iter().map(Into::into).collect(),
            text: report.text,
        })
    }
}

impl From<&SkillProblem> for v1::SkillProblem {
    fn from(problem: &SkillProblem) -> Self {
        let SkillProblem { file, line, message, is_fatal } = problem.clone();
        Self { file, line, message, is_fatal }
    }
}

impl From<v1::SkillProblem> for SkillProblem {
    fn from(problem: v1::SkillProblem) -> Self {
        let v1::SkillProblem { file, line, message, is_fatal } = problem;
        Self { file, line, message, is_fatal }
    }
}
