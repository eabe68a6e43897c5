//! Tests of the crate's public interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod chunks;
mod folder;
mod hostile;
mod map;
mod search;
mod symbols;
mod updates;

use std::{fs, path::Path};

use agentd_code::{CodeFolder, FolderConfig};

/// Writes files below a new folder.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text.as_bytes());
    }
    folder
}

fn write(root: &Path, path: &str, bytes: &[u8]) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, bytes).unwrap();
}

/// An index of a folder as it is now.
fn indexed(root: &Path) -> CodeFolder {
    let mut code = CodeFolder::new(root, FolderConfig::default());
    code.refresh();
    code
}

fn paths(code: &CodeFolder) -> Vec<String> {
    let mut paths: Vec<String> = code.index().paths().map(str::to_owned).collect();
    paths.sort();
    paths
}

/// Path and symbol of the first result.
fn first(code: &CodeFolder, query: &str) -> (String, String) {
    let answers = code.search(query, 5);
    let hit = &answers.first().unwrap_or_else(|| panic!("nothing for {query}")).hit;
    (hit.path.clone(), hit.symbol.as_ref().map(|symbol| symbol.name.clone()).unwrap_or_default())
}
