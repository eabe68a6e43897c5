//! Spread of a map over the rooms of a folder: what all lean on comes first, but one room does not fill the map.

use std::collections::{HashMap, HashSet};

use super::graph::RankedDefinition;
use crate::index::CodeIndex;

/// Factor on each further file of one room.
const CROWDED: f32 = 0.5;
/// Folder of a package that holds its sources.
const SOURCES: &str = "src";
/// Folders that say nothing of what is in them.
const PLAIN: [&str; 4] = [SOURCES, "lib", "main", "java"];

/// Lets each further file of a room count less, and sorts again.
pub(super) fn spread(index: &CodeIndex, mut ranked: Vec<RankedDefinition>) -> Vec<RankedDefinition> {
    let mut crowds: HashMap<String, i32> = HashMap::new();
    let mut factors: HashMap<u32, f32> = HashMap::new();
    let mut seen = HashSet::new();
    for definition in &ranked {
        if let Some(file) = index.file(definition.file).filter(|_| seen.insert(definition.file)) {
            let crowd = crowds.entry(room(&file.path)).or_default();
            factors.insert(definition.file, CROWDED.powi(*crowd));
            *crowd += 1;
        }
    }
    for definition in &mut ranked {
        definition.rank *= factors.get(&definition.file).copied().unwrap_or(1.0);
    }
    ranked.sort_by(|a, b| b.rank.total_cmp(&a.rank));
    ranked
}

/// Room of a file: its package, or else the first two folders on its path that say something.
fn room(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    let folders = folders.split_last().map_or(&[][..], |(_, folders)| folders);
    let package = folders.iter().position(|folder| *folder == SOURCES).and_then(|at| folders.get(..at));
    if let Some(package) = package.filter(|package| !package.is_empty()) {
        return package.join("/");
    }
    let telling = folders.iter().filter(|folder| !PLAIN.contains(folder));
    telling.take(2).copied().collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_packages_or_the_first_folders_that_say_something() {
        for (path, expected) in [
            ("crates/engine/src/session/load.rs", "crates/engine"),
            ("agentd/src/boot.rs", "agentd"),
            ("agentd/src/rpc/turns.rs", "agentd"),
            ("src/main/java/org/shop/Cart.java", "org/shop"),
            ("django/db/models/base.py", "django/db"),
            ("src/net/http/client.go", "net/http"),
            ("main.py", ""),
        ] {
            assert_eq!(room(path), expected, "{path}");
        }
    }
}
