//! Rules of git above a folder: a project may be a part of a repository. The daemon reads them, since the worker of the folder
//! cannot.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};

/// Folders above that are looked at.
const MAX_LEVELS: usize = 16;
/// Bytes of rules that are read of each.
const MAX_RULES: u64 = 64 * 1024;

/// Rules of one folder above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterRules {
    /// The folder that they are about.
    pub folder: PathBuf,
    /// The rules, as git writes them.
    pub rules: String,
}

/// Reads the rules above a folder, up to the root of its repository; none for a folder that is a root or is in none.
pub(crate) fn outer_rules(folder: &Path) -> Vec<OuterRules> {
    let is_root = |folder: &Path| folder.join(".git").exists();
    let mut found = Vec::new();
    if is_root(folder) {
        return found;
    }
    for above in folder.ancestors().skip(1).take(MAX_LEVELS) {
        let files = [above.join(".gitignore"), above.join(".git/info/exclude")];
        let rules: Vec<String> = files.iter().filter_map(|file| read(file)).collect();
        if !rules.is_empty() {
            found.push(OuterRules { folder: above.to_owned(), rules: rules.join("\n") });
        }
        if is_root(above) {
            return found;
        }
    }
    // It is in no repository, so that what lies above is about something else.
    Vec::new()
}

fn read(file: &Path) -> Option<String> {
    let is_plain = file.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let mut rules = Vec::new();
    File::open(file).ok().filter(|_| is_plain)?.take(MAX_RULES).read_to_end(&mut rules).ok()?;
    Some(String::from_utf8_lossy(&rules).into_owned())
}

/// Rules above a folder, ready to be asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct OuterIgnore(Vec<Gitignore>);

impl OuterIgnore {
    pub(crate) fn new(rules: &[OuterRules]) -> Self {
        let build = |rules: &OuterRules| {
            let mut builder = GitignoreBuilder::new(&rules.folder);
            for line in rules.rules.lines() {
                // One that makes no sense is passed over, as git does.
                let _ = builder.add_line(None, line);
            }
            builder.build().ok()
        };
        Self(rules.iter().filter_map(build).collect())
    }

    /// Returns whether an entry is ignored: the nearest rules that say something decide.
    pub(crate) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let verdicts = self.0.iter().map(|rules| rules.matched(path, is_folder));
        verdicts.into_iter().find(|verdict| !verdict.is_none()).is_some_and(|verdict| verdict.is_ignore())
    }
}
