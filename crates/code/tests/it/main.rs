//! Tests for the crate's public interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod chunks;
mod confinement;
mod hostile;
mod map;
mod search;
mod symbols;
mod updates;
mod worker;

use std::{fs, path::Path};

use agentd_code::{CodeFolder, FolderConfig};

/// Creates a folder with these files.
fn project<T: AsRef<str>>(files: &[(T, T)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path.as_ref(), text.as_ref().as_bytes());
    }
    folder
}

fn write(root: &Path, path: &str, bytes: &[u8]) {
    let file_path = root.join(path);
    fs::create_dir_all(file_path.parent().unwrap()).unwrap();
    fs::write(file_path, bytes).unwrap();
}

/// Returns settings that allow all files except those whose name indicates a secret.
fn test_config() -> FolderConfig {
    FolderConfig::new(|path| ![".env", "id_rsa", ".pem"].iter().any(|ending| path.ends_with(ending)))
}

/// Indexes a folder in its current state.
fn indexed(root: &Path) -> CodeFolder {
    let mut code = CodeFolder::new(root, test_config());
    code.refresh();
    code
}

fn paths(code: &CodeFolder) -> Vec<String> {
    let mut paths: Vec<String> = code.index().paths().map(str::to_owned).collect();
    paths.sort();
    paths
}

/// Returns the path and symbol of the first result.
fn first(code: &CodeFolder, query: &str) -> (String, String) {
    let answers = code.search(query, "", 5);
    let hit = answers.first().unwrap_or_else(|| panic!("nothing for {query}"));
    (hit.path.clone(), hit.symbol.as_ref().map(|symbol| symbol.name.clone()).unwrap_or_default())
}
