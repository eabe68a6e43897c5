//! Projects and the trust in them.

use agentd_core::project::{
    ProjectChange, ProjectChangeKind, ProjectCommand, ProjectFile, ProjectProblem, ProjectReport, ProjectTrust,
};

use super::{WireError, all, enum_to_wire, mirrored, optional_moment, required_enum, to_moment};
use crate::v1;

mirrored!(ProjectTrust, "the trust in a project", [Empty, Untrusted, Changed, Trusted]);
mirrored!(ProjectChangeKind, "a change of a project", [Added, Changed, Removed]);

impl From<&ProjectReport> for v1::Project {
    fn from(report: &ProjectReport) -> Self {
        Self {
            path: report.path.to_string_lossy().into_owned(),
            trust: enum_to_wire(report.trust),
            hash: report.hash.clone(),
            trusted_at: report.trusted_at.map(to_moment),
            files: report.files.iter().map(Into::into).collect(),
            instructions: report.instructions,
            agents: report.agents.iter().map(Into::into).collect(),
            skills: report.skills.clone(),
            commands: report.commands.iter().map(Into::into).collect(),
            changes: report.changes.iter().map(Into::into).collect(),
            ignored: report.ignored.clone(),
            problems: report.problems.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Project> for ProjectReport {
    type Error = WireError;

    fn try_from(project: v1::Project) -> Result<Self, WireError> {
        Ok(Self {
            path: project.path.into(),
            trust: required_enum(project.trust)?,
            hash: project.hash,
            trusted_at: optional_moment(project.trusted_at, "the time of a trust")?,
            files: project.files.into_iter().map(Into::into).collect(),
            instructions: project.instructions,
            agents: all(project.agents)?,
            skills: project.skills,
            commands: project.commands.into_iter().map(Into::into).collect(),
            changes: all(project.changes)?,
            ignored: project.ignored,
            problems: project.problems.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<&ProjectFile> for v1::ProjectFile {
    fn from(file: &ProjectFile) -> Self {
        let ProjectFile { path, bytes, sha256 } = file.clone();
        Self { path, bytes, sha256 }
    }
}

impl From<v1::ProjectFile> for ProjectFile {
    fn from(file: v1::ProjectFile) -> Self {
        let v1::ProjectFile { path, bytes, sha256 } = file;
        Self { path, bytes, sha256 }
    }
}

impl From<&ProjectCommand> for v1::ProjectCommand {
    fn from(command: &ProjectCommand) -> Self {
        let ProjectCommand { name, text } = command.clone();
        Self { name, text }
    }
}

impl From<v1::ProjectCommand> for ProjectCommand {
    fn from(command: v1::ProjectCommand) -> Self {
        let v1::ProjectCommand { name, text } = command;
        Self { name, text }
    }
}

impl From<&ProjectChange> for v1::ProjectChange {
    fn from(difference: &ProjectChange) -> Self {
        Self { path: difference.path.clone(), kind: enum_to_wire(difference.kind) }
    }
}

impl TryFrom<v1::ProjectChange> for ProjectChange {
    type Error = WireError;

    fn try_from(difference: v1::ProjectChange) -> Result<Self, WireError> {
        Ok(Self { path: difference.path, kind: required_enum(difference.kind)? })
    }
}

impl From<&ProjectProblem> for v1::ProjectProblem {
    fn from(problem: &ProjectProblem) -> Self {
        let ProjectProblem { file, message, is_fatal } = problem.clone();
        Self { file, message, is_fatal }
    }
}

impl From<v1::ProjectProblem> for ProjectProblem {
    fn from(problem: v1::ProjectProblem) -> Self {
        let v1::ProjectProblem { file, message, is_fatal } = problem;
        Self { file, message, is_fatal }
    }
}
