//! Suggests existing paths for a path that does not exist.

use agentd_core::path::{looks_like, spelled};
use cap_std::fs::Dir;

use crate::{
    failure::Failure,
    jail::Jail,
    path::{PathPlace, ToolPath},
    text,
};

impl Jail {
    /// Creates an error for a missing path, with a suggestion.
    pub(super) fn missing(&self, path: &ToolPath) -> Failure {
        let lookalikes = self.lookalikes(path);
        let hint = match &*lookalikes {
            [] => match self.near(path) {
                Some(near) => format!("did you mean {near}?"),
                None => "list_workspace_files lists all files".to_owned(),
            },
            [one] => format!("did you mean {}?", spelled_out(one)),
            several => {
                let several: Vec<String> = several.iter().map(spelled_out).collect();
                format!("several names look like it; use one exactly as shown: {}", several.join(", "))
            }
        };
        Failure::path(format!("{path} does not exist; {hint}"))
    }

    /// Returns entries whose paths look the same as this one.
    fn lookalikes(&self, path: &ToolPath) -> Vec<ToolPath> {
        const MAX_FOUND: usize = 8;
        let Ok(root) = self.root(path.place()) else { return Vec::new() };
        path.rest().split('/').fold(vec![ToolPath::root(path.place())], |folders, name| {
            let entries = folders.iter().flat_map(|folder| {
                let names = names(&root, folder).into_iter();
                names.filter(|entry| looks_like(entry, name)).map(|entry| folder.entry(&entry)).collect::<Vec<_>>()
            });
            entries.take(MAX_FOUND).collect()
        })
    }

    /// Finds an entry with a similar name in the same folder, in the project's root, or among the session's own files,
    /// or else the only file of that name in the project.
    fn near(&self, path: &ToolPath) -> Option<ToolPath> {
        let project = self.project().ok().map(|_| ToolPath::root(PathPlace::Project));
        let areas = crate::path::WRITABLE.iter().map(|area| ToolPath::root(PathPlace::Own).entry(area));
        let mut folders = path.parent().into_iter().chain(project.clone()).chain(areas);
        let in_same_folder = folders.find_map(|folder| {
            let root = self.root(folder.place()).ok()?;
            let mut names = names(&root, &folder);
            names.retain(|name| !name.starts_with('.'));
            let near = text::nearest(path.name(), names.iter().map(String::as_str))?;
            Some(folder.entry(near))
        });
        in_same_folder.or_else(|| self.find_unique(&project?, path.name()))
    }

    /// Finds the only file of this name below a folder. Returns `None` if there are several such files, or too many
    /// entries.
    fn find_unique(&self, folder: &ToolPath, name: &str) -> Option<ToolPath> {
        const MAX_ENTRIES: usize = 5000;
        let root = self.root(folder.place()).ok()?;
        let (mut folders, mut found, mut left) = (vec![folder.clone()], None, MAX_ENTRIES);
        while let Some(folder) = folders.pop() {
            let Ok(entries) = root.read_dir(folder.below_place()) else { continue };
            for entry in entries.flatten() {
                left = left.checked_sub(1)?;
                let Ok(entry_name) = entry.file_name().into_string() else { continue };
                let Ok(kind) = entry.file_type() else { continue };
                let is_shown = !entry_name.starts_with('.');
                if kind.is_dir() && is_shown && !matches!(entry_name.as_str(), "node_modules" | "target") {
                    folders.push(folder.entry(&entry_name));
                } else if kind.is_file() && entry_name == name && found.replace(folder.entry(&entry_name)).is_some() {
                    return None;
                }
            }
        }
        found
    }
}

/// Formats a path with unusual white space characters spelled out.
fn spelled_out(path: &ToolPath) -> String {
    let spelled = spelled(&path.whole()).map(|spelled| format!(" (also read as {spelled})"));
    format!("{path}{}", spelled.unwrap_or_default())
}

/// Returns the first names in a folder; empty if the folder cannot be read.
fn names(root: &Dir, folder: &ToolPath) -> Vec<String> {
    const MAX_NAMES: usize = 2000;
    let entries = root.read_dir(folder.below_place()).into_iter().flatten().take(MAX_NAMES);
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}
