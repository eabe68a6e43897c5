//! Copies of skills in a session's `skills/`, which tools and commands can read but not change.
//!
//! Skills are copied because sessions last for weeks: the files that a model has read stay unchanged until the skill is
//! requested again, and no link leads out of the session. A note next to the copy records its source.

use std::io::{self, Write as _};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    guide::{SkillOrigin, is_skill_name},
    ports::Workspace,
};
use agentd_workspace::{jail, private, remove};
use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use super::SkillStore;
use crate::files::{agreed_folder::lock, disk::DiskAccess, requirements, tree::Tree};

/// Folder for skills in a workspace.
const AREA: &str = "skills";
/// Suffix of the note next to a copy.
const NOTE: &str = ".skill.json";
/// Maximum size of a note, in bytes.
const MAX_NOTE: u64 = 256 << 10;

/// Source of a copy.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    digest: String,
    origin: SkillOrigin,
    packages: Vec<String>,
    /// Packages that were found to be missing, because a script imports one of their modules.
    found: Vec<String>,
}

/// Maximum number of packages in `found`.
const MAX_FOUND: usize = 20;

impl SkillStore {
    /// Copies a skill into a session, unless the session already has the current version. Returns false if there is no
    /// skill of that name.
    pub(super) fn copy_into(&self, workspace: &Workspace, name: &str) -> Result<bool, WorkspaceError> {
        let skills = self.skills(Some(workspace), DiskAccess::Blocking).unwrap_or_default();
        let Some((skill, candidate)) = skills.into_iter().find(|(skill, _)| skill.name == name) else {
            return Ok(false);
        };
        let failed = |error: io::Error| {
            let message = format!("could not add the skill {name} to the session: {error}");
            WorkspaceError::new(ErrorKind::Storage, message)
                .with_hint("check the skill's folder and the daemon's data folder")
        };
        let _guard = lock(&self.0.linking);
        let from = candidate.open().map_err(failed)?;
        let tree = Tree::of(&from).map_err(failed)?;
        if let Some(error) = unusable(name, &tree) {
            return Err(error);
        }
        let found = Vec::new();
        let note = Note { digest: tree.digest(), origin: skill.origin, packages: skill.packages, found };
        let area = area(workspace).map_err(failed)?;
        let is_there = jail::open_real_folder(&area, name).is_ok();
        let is_current = read_note(&area, name)
            .is_some_and(|previous| previous.digest == note.digest && previous.packages == note.packages);
        if !(is_there && is_current) {
            replace(&area, name, &from, &tree).and_then(|()| write_note(&area, name, &note)).map_err(failed)?;
        }
        Ok(true)
    }
}

/// Returns the error for a skill with problems in its files, if any.
pub(super) fn unusable(name: &str, tree: &Tree) -> Option<WorkspaceError> {
    if tree.problems.is_empty() {
        return None;
    }
    let reasons = tree.problems.iter().map(|(file, message)| match file.as_str() {
        "" => message.clone(),
        file => format!("{file}: {message}"),
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let error = WorkspaceError::new(ErrorKind::InvalidInput, format!("the skill {name} cannot be used: {reasons}"));
    Some(error.with_hint("run `agentctl skills check DIR` for details"))
}

fn area(workspace: &Workspace) -> io::Result<Dir> {
    jail::open_real_folder(&jail::session_root(&workspace.root)?, AREA)
}

/// Replaces a copy atomically: readers find either the old or the new copy.
pub(super) fn replace(area: &Dir, name: &str, from: &Dir, tree: &Tree) -> io::Result<()> {
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let (draft, old) = (format!(".draft-{mark}"), format!(".old-{mark}"));
    private::folder_in(area, &draft)?;
    let copied = jail::open_real_folder(area, &draft).and_then(|folder| tree.copy(from, &folder)).and_then(|()| {
        match area.rename(name, area, &old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => area.rename(&draft, area, name),
        }
    });
    // Removes the previous copy, or the failed draft.
    for left in [&old, &draft] {
        if let Ok(folder) = jail::open_real_folder(area, left) {
            remove::empty(&folder)?;
            area.remove_dir(left)?;
        }
    }
    copied
}

/// Returns the installable packages of a skill in a session, or `None` if there is no such skill.
pub(super) fn packages(workspace: &Workspace, name: &str) -> Option<Vec<String>> {
    let area = area(workspace).ok()?;
    // Without a sandbox, a command could have written the note. The packages in the note are therefore checked like
    // those of a skill.
    let Note { mut packages, found, .. } = read_note(&area, name)?;
    packages.extend(found);
    requirements::of_list(&packages).ok()
}

/// Returns true if a Python script of a skill in the session imports a module.
pub(super) fn imports(workspace: &Workspace, name: &str, module: &str) -> bool {
    let Ok(folder) = area(workspace).and_then(|area| jail::open_real_folder(&area, name)) else { return false };
    let Ok(tree) = Tree::of(&folder) else { return false };
    let mut imports = false;
    let read = tree.each(&folder, |path, _, content| {
        let is_script = path.extension().is_some_and(|ending| ending == "py");
        imports |= is_script && has_import(&String::from_utf8_lossy(&content), module);
        Ok(())
    });
    read.is_ok() && imports
}

/// Records a package that a skill was found to need. Returns false if the package is already recorded, or cannot be
/// recorded.
pub(super) fn note_package(workspace: &Workspace, name: &str, package: &str) -> bool {
    let Ok(area) = area(workspace) else { return false };
    let Some(mut note) = read_note(&area, name) else { return false };
    if note.found.len() >= MAX_FOUND || note.packages.iter().chain(&note.found).any(|other| other == package) {
        return false;
    }
    note.found.push(package.to_owned());
    write_note(&area, name, &note).is_ok()
}

/// Returns the skills in a session, sorted by name.
pub(super) fn linked_skills(workspace: &Workspace) -> Vec<String> {
    let Ok(entries) = area(workspace).and_then(|area| area.entries()) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_prefix('.')?.strip_suffix(NOTE)?.to_owned())).collect();
    names.retain(|name| is_skill_name(name));
    names.sort();
    names
}

fn read_note(area: &Dir, name: &str) -> Option<Note> {
    use std::io::Read as _;
    let file = jail::open_exact(area, format!(".{name}{NOTE}").as_ref()).ok()?;
    let mut text = String::new();
    file.take(MAX_NOTE).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_note(area: &Dir, name: &str, note: &Note) -> io::Result<()> {
    let draft = format!(".draft-{}", uuid::Uuid::new_v4().simple());
    let mut file = private::file_in(area, &draft, 0o600)?;
    file.write_all(&serde_json::to_vec(note)?)?;
    area.rename(&draft, area, format!(".{name}{NOTE}"))
}

/// Returns true if a Python script imports a module.
fn has_import(text: &str, module: &str) -> bool {
    text.lines().any(|line| python_modules(line.trim_start()).iter().any(|name| name == module))
}

/// Returns the top-level modules imported in a line.
fn python_modules(line: &str) -> Vec<String> {
    let top = |path: &str| {
        let name: String =
            path.trim().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        (!name.is_empty()).then_some(name)
    };
    let line = line.split('#').next().unwrap_or_default();
    if let Some(rest) = line.strip_prefix("from ") {
        let is_import = rest.split_whitespace().nth(1) == Some("import");
        return top(rest).filter(|_| is_import).into_iter().collect();
    }
    let Some(rest) = line.strip_prefix("import ") else { return Vec::new() };
    rest.split(',').filter_map(top).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_modules_of_an_import_line_are_found() {
        let check = |line: &str, expected: &[&str]| assert_eq!(python_modules(line), expected, "{line}");
        check("import numpy.linalg as l, pandas # import no", &["numpy", "pandas"]);
        check("from PIL import Image", &["PIL"]);
        check("from . import x", &[]);
        check("from x to y", &[]);
        check("important = 1", &[]);
        check("import ,,", &[]);
        assert!(has_import("try:\n    import yaml\n", "yaml") && !has_import("# import yaml\n", "yaml"));
    }
}
