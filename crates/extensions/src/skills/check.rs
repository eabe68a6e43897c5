//! Reports on skill folders for the user, and adds folders to the user's own skills.

use std::{io, path::Path};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    guide::{Skill, SkillOrigin, SkillProblem, SkillReport},
    ports::Workspace,
};
use agentd_workspace::private;
use cap_std::fs::Dir;

use super::{
    SkillStore,
    environment::Environments,
    link,
    source::{self, Candidate, Source},
};
use crate::files::{
    disk::{DiskAccess, shown},
    front::{self, Flaw, SKILL_FILE},
    requirements,
    tree::Tree,
};

/// Maximum number of `SKILL.md` bytes in a report.
const MAX_TEXT: usize = 256 << 10;

impl SkillStore {
    /// Reports on all possible skill folders, sorted by name. If several skills have one name, the first in the order
    /// of sources is usable.
    pub(super) fn all_reports(&self, workspace: Option<&Workspace>) -> Vec<SkillReport> {
        let sources = self.sources(workspace, DiskAccess::Blocking).unwrap_or_default();
        let mut reports: Vec<SkillReport> = Vec::new();
        for candidate in source::candidates(&sources, &self.0.cache, DiskAccess::Blocking).unwrap_or_default() {
            // Folders without a `SKILL.md` are not skills, and not an error.
            if !candidate.folder.join(SKILL_FILE).exists() {
                continue;
            }
            let mut report = self.report(&candidate);
            let same = |other: &&SkillReport| other.usable && other.skill.name.eq_ignore_ascii_case(&report.skill.name);
            if let Some(first) = reports.iter().find(same) {
                let shadow = match (first.skill.origin, first.plugin.as_str()) {
                    (SkillOrigin::Plugin, plugin) => format!("the plugin {plugin}"),
                    (SkillOrigin::Bundled, _) => "a bundled skill".to_owned(),
                    _ => first.folder.clone(),
                };
                let message = format!("{shadow} already has this name, and is used instead");
                report.problems.push(fatal("", 0, message));
                report.usable = false;
            }
            reports.push(report);
        }
        reports.sort_by(|left, right| left.skill.name.cmp(&right.skill.name));
        reports
    }

    /// Reports on a folder that may become a skill.
    pub fn check(&self, folder: &Path) -> SkillReport {
        let entry = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let parent = folder.parent().unwrap_or(folder).to_path_buf();
        let source = Source::new(parent, SkillOrigin::Person);
        let candidate = Candidate { source, folder: folder.to_path_buf(), entry, is_sound: true };
        self.report(&candidate)
    }

    /// Describes a folder as a skill, with its problems.
    fn report(&self, candidate: &Candidate) -> SkillReport {
        let home = self.0.config.home.as_deref();
        let mut report = SkillReport {
            skill: Skill {
                name: candidate.entry.clone(),
                path: shown(&candidate.source.display_path(&candidate.folder.join(SKILL_FILE)), home),
                origin: candidate.source.origin,
                ..Skill::default()
            },
            folder: shown(&candidate.source.display_path(&candidate.folder), home),
            plugin: candidate.source.plugin.clone().unwrap_or_default(),
            ..SkillReport::default()
        };
        let opened = candidate.open().map_err(|error| fatal("", 0, format!("the folder cannot be opened: {error}")));
        let result = opened.and_then(|folder| self.inspect(&folder, candidate, &mut report));
        report.problems.extend(result.err());
        report.usable = !report.problems.iter().any(|problem| problem.is_fatal);
        report
    }

    fn inspect(&self, folder: &Dir, candidate: &Candidate, report: &mut SkillReport) -> Result<(), SkillProblem> {
        match Tree::of(folder) {
            Ok(tree) => {
                (report.files, report.bytes) = (tree.count() as u64, tree.bytes);
                report.problems.extend(tree.problems.iter().map(|(file, message)| fatal(file, 0, message.clone())));
            }
            Err(error) => report.problems.push(fatal("", 0, format!("it cannot be scanned: {error}"))),
        }
        let text = folder.read_to_string(SKILL_FILE).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => fatal("", 0, format!("missing {SKILL_FILE}")),
            _ => fatal(SKILL_FILE, 0, format!("it cannot be read as UTF-8 text: {error}")),
        })?;
        text[..text.floor_char_boundary(MAX_TEXT)].clone_into(&mut report.text);
        let front = front::front(&text[..text.floor_char_boundary(front::MAX_FRONT)])
            .map_err(|Flaw { line, message }| fatal(SKILL_FILE, line, message))?;
        report.problems.extend(front.notes.iter().map(|note| warning(SKILL_FILE, note.line, note.message.clone())));
        match (front::name(&front, &candidate.entry), &front.name) {
            (None, _) => {
                let message = "neither `name` nor the folder is a valid skill name; use letters, digits, `-`, `_` and \
                               `.`, at most 64";
                report.problems.push(fatal(SKILL_FILE, 2, message.to_owned()));
            }
            (Some(name), own) => {
                let complaint = match own {
                    Some(own) if *own != name => {
                        Some(format!("`name` is not a plain folder name, so the skill is named {name}"))
                    }
                    Some(own) if *own != candidate.entry => {
                        let entry = &candidate.entry;
                        Some(format!("`name` is {own} and the folder is {entry:?}; the skill is named {own}"))
                    }
                    _ => None,
                };
                report.problems.extend(complaint.map(|message| warning(SKILL_FILE, 2, message)));
                report.skill.name = name;
            }
        }
        let setting = self.settings();
        let setting = setting.get(&report.skill.name);
        report.skill.description = setting.and_then(|set| set.description.clone()).unwrap_or(front.description.clone());
        report.skill.enabled =
            setting.and_then(|set| set.enabled).unwrap_or_else(|| source::is_listed(candidate.source.origin));
        report.skill.file_types = setting.map(|set| set.file_types.clone()).unwrap_or_default();
        (report.license, report.allowed_tools) = (front.license.clone(), front.allowed_tools.clone());
        let listed = folder.read_to_string(requirements::PACKAGES_FILE).ok();
        match requirements::packages(&front, listed.as_deref()) {
            Ok(packages) => {
                let name = Environments::name(&report.skill.name, &packages);
                report.installed = packages.is_empty() || self.0.environments.ready(&name).is_some();
                report.skill.packages = packages;
            }
            // The instructions are still usable; only the packages are not installed.
            Err((file, Flaw { line, message })) => {
                report.problems.push(warning(file, line, format!("{message}; nothing is installed for this skill")));
            }
        }
        Ok(())
    }

    /// Copies a folder into the user's own skills, and returns its report.
    ///
    /// # Errors
    /// Fails if the folder is not a usable skill, or a skill of that name exists and must not be replaced.
    pub fn add(&self, folder: &Path, replace: bool) -> Result<SkillReport, WorkspaceError> {
        let report = self.check(folder);
        let invalid = |message: String| WorkspaceError::new(ErrorKind::InvalidInput, message);
        if let Some(problem) = report.problems.iter().find(|problem| problem.is_fatal) {
            return Err(invalid(format!("{} is not a usable skill: {problem}", folder.display()))
                .with_hint("`agentctl skills check DIR` shows all problems"));
        }
        let name = report.skill.name.clone();
        let failed = |error: io::Error| {
            WorkspaceError::new(ErrorKind::Storage, format!("could not add the skill {name}: {error}"))
                .with_hint("check your configuration folder")
        };
        private::folder(&self.0.config.person).map_err(failed)?;
        let own = Dir::open_ambient_dir(&self.0.config.person, cap_std::ambient_authority()).map_err(failed)?;
        if own.symlink_metadata(&name).is_ok() && !replace {
            return Err(WorkspaceError::new(ErrorKind::Conflict, format!("a skill {name} already exists"))
                .with_hint("add --replace to replace it"));
        }
        if own.symlink_metadata(&name).is_ok_and(|found| !found.is_dir()) {
            let path = self.0.config.person.join(&name);
            return Err(WorkspaceError::new(ErrorKind::Conflict, format!("{} is not a folder", path.display()))
                .with_hint("remove it first"));
        }
        let from = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).map_err(failed)?;
        let tree = Tree::of(&from).map_err(failed)?;
        if let Some(error) = link::unusable(&name, &tree) {
            return Err(error);
        }
        link::replace(&own, &name, &from, &tree).map_err(failed)?;
        Ok(self.check(&self.0.config.person.join(&name)))
    }
}

fn fatal(file: &str, line: usize, message: String) -> SkillProblem {
    SkillProblem { is_fatal: true, ..warning(file, line, message) }
}

fn warning(file: &str, line: usize, message: String) -> SkillProblem {
    SkillProblem { file: file.to_owned(), line: u32::try_from(line).unwrap_or_default(), message, is_fatal: false }
}
