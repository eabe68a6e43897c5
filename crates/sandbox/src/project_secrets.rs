//! Files of secrets in a project: known by their names, at any depth, to be hidden from programs that run unasked.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use agentd_core::ports::SecretFile;

use super::secrets::{SecretName, named};

/// Entries of a project that are searched. Nothing runs unasked in a larger one.
const ENTRIES: usize = 1_000_000;
/// Folders of packages, which came from somewhere else.
const PACKAGES: [&str; 3] = ["__pycache__", "node_modules", "site-packages"];

/// The files and folders of secrets below a folder, by path. Files whose names are secret by this predicate are among them.
/// It waits for the disk.
///
/// # Errors
/// The reason why the folder cannot be searched as a whole.
pub(crate) fn project_secrets(folder: &Path, is_secret: fn(&str) -> bool) -> Result<Vec<SecretFile>, String> {
    let (mut found, mut waiting, mut left) = (Vec::new(), vec![folder.to_path_buf()], ENTRIES);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            left = left.checked_sub(1).ok_or_else(|| {
                format!("its folder has more than {ENTRIES} files, so those of secrets cannot be found and hidden")
            })?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_hidden = match named(&path, is_folder) {
                SecretName::Secret => true,
                SecretName::Key if path.extension().is_none() => true,
                _ => !is_folder && (is_secret(&name) || path.ends_with(".git/config")),
            };
            if is_hidden {
                // A link that leads nowhere hides nothing.
                let inode = fs::metadata(&path).map(|found| (found.dev(), found.ino()));
                found.extend(inode.ok().map(|inode| SecretFile { path, inode }));
            } else if is_folder && !PACKAGES.contains(&name.as_str()) {
                waiting.push(path);
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}
