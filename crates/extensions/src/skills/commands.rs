//! Skills that a command refers to: those whose folders it names.

use std::{path::PathBuf, sync::PoisonError};

use agentd_core::{
    guide::skills_named,
    ports::{SkillPackages, Workspace},
};

use super::{Shelf, environment::Environments, imports, link};

/// Words in a command that runs something of a skill with Python.
const RUNS: [&str; 3] = ["python", ".py", "pip"];

/// Folders in which a command finds the programs of a skill.
#[derive(Debug)]
pub struct Programs {
    /// The Python environment.
    pub environment: PathBuf,
    /// The folder of its interpreters, which precedes all others.
    pub first: PathBuf,
    /// The folder of its packages' programs, which follows all others: a package must not decide what `ls` is.
    pub last: PathBuf,
}

/// Returns whether a command could need packages of a skill at all.
pub(super) fn may_need(command: &str) -> bool {
    command.contains("skills") && RUNS.iter().any(|word| command.contains(word))
}

impl Shelf {
    /// Packages that the command needs and that are not installed.
    pub(super) fn missing(&self, workspace: &Workspace, command: &str) -> Vec<SkillPackages> {
        let wanted = skills_named(command).into_iter().filter_map(|name| wanted(workspace, name));
        wanted.filter(|wanted| self.environments.ready(&wanted.environment).is_none()).collect()
    }

    /// Notes the package of a module that a command lacked, for the skill that it names and that imports it. What the
    /// command has printed alone would let anybody have anything asked for.
    pub(super) fn import_failed(&self, workspace: &Workspace, command: &str, module: &str) -> Option<String> {
        let _alone = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        let package = imports::package_of(module);
        let noted =
            |name: &&str| link::imports(workspace, name, module) && link::note_package(workspace, name, package);
        skills_named(command).into_iter().find(noted).map(|_| package.to_owned())
    }

    /// Fallback folder with `python`, for a command that runs something of a skill.
    pub(super) fn plain_python(&self, command: &str) -> Option<PathBuf> {
        (may_need(command) && !skills_named(command).is_empty()).then(|| self.environments.plain())?
    }

    /// The environments that it runs in. A command that names no skill has the packages of the session's only one that
    /// needs any.
    pub(super) fn programs(&self, workspace: &Workspace, command: &str) -> Vec<Programs> {
        let mut about: Vec<SkillPackages> =
            skills_named(command).into_iter().filter_map(|name| wanted(workspace, name)).collect();
        if about.is_empty() {
            let all = link::linked(workspace);
            about = all.iter().filter_map(|name| wanted(workspace, name)).collect();
            about.truncate(if about.len() == 1 { 1 } else { 0 });
        }
        let ready = about.iter().filter_map(|wanted| self.environments.ready(&wanted.environment));
        let programs = ready.filter_map(|environment| {
            Some(Programs { first: self.environments.front(&environment)?, last: environment.join("bin"), environment })
        });
        programs.collect()
    }
}

/// The packages of a skill that the session has.
fn wanted(workspace: &Workspace, name: &str) -> Option<SkillPackages> {
    let packages = link::packages(workspace, name).filter(|packages| !packages.is_empty())?;
    let environment = Environments::name(name, &packages);
    Some(SkillPackages { skill: name.to_owned(), packages, environment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_nothing_needs_nothing() {
        assert!(may_need("python skills/pdf/x.py") && !may_need("cat skills/pdf/x.md") && !may_need("python x.py"));
    }
}
