//! Names of files that other programs execute or follow automatically. Content written to such a file takes effect
//! later, outside the sandbox and with the user's rights.
//!
//! One embedded table is shared by the tools that edit files, the modes, the rules and the sandbox. No list of such
//! names can be complete, so names with a leading dot are guarded unless the table lists them as harmless. Users can
//! add names but not remove any. Matching is pure: paths are bytes relative to the root of a folder.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, LazyLock},
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

const TEXT: &str = include_str!("guarded_names.txt");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(TEXT));

/// Files in a git repository that determine the programs that git runs. All other files are data.
const GIT_FILES: [&[u8]; 4] = [b"config", b"config.worktree", b"commondir", b"gitdir"];
/// Folders of a repository in which every file can determine the programs that git runs.
const GIT_FOLDERS: [&[u8]; 2] = [b"hooks", b"info"];
/// Folders of a repository that contain other repositories.
const GIT_REPOSITORY_FOLDERS: [&[u8]; 2] = [b"modules", b"worktrees"];
/// Folders of a repository that contain objects and references, at any depth.
const GIT_STORES: [&[u8]; 4] = [b"objects", b"refs", b"logs", b"lfs"];

/// Guarded names from the table and from the user's configuration.
#[derive(Debug, Clone, Default)]
pub struct GuardedNames {
    added: Arc<[String]>,
    globs: GlobSet,
}

/// Classification of a name during a walk through a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// Neither executed nor followed automatically.
    Plain,
    /// Executed or followed automatically. A guarded folder includes everything inside it.
    Guarded,
    /// A folder with build output, downloads or caches, which is skipped by checks.
    Cache,
}

/// Classification of an entry in a git repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitEntry {
    /// Determines the programs that git runs. A guarded folder includes everything inside it.
    Guarded,
    /// A folder that may contain guarded entries.
    Repositories,
    /// Data that git never executes.
    Store,
}

impl GuardedNames {
    /// Creates the set from the embedded table and additional names.
    ///
    /// # Errors
    /// Returns the first invalid name: an empty or absolute name, a name with `..`, or an invalid pattern.
    pub fn with(names: &[String]) -> Result<Self, String> {
        let globs = globs(names.iter().map(String::as_str), true)?;
        Ok(Self { added: names.into(), globs })
    }

    /// Iterates over the additional names in the form that the user wrote.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.added.iter().map(String::as_str)
    }

    /// Returns true if a file at this path would be executed or followed automatically, at any depth.
    pub fn covers(&self, path: &[u8]) -> bool {
        self.guarded_end(path, false).is_some()
    }

    /// Like [`Self::covers`], but ignores caches. Used for the check after a command.
    pub fn covers_outside_caches(&self, path: &[u8]) -> bool {
        self.guarded_end(path, true).is_some()
    }

    /// Returns true if the table or the user lists a part of this path. A leading dot does not suffice.
    pub fn names(&self, path: &[u8]) -> bool {
        ends(path).any(|end| self.is_named(&path[..end]))
    }

    /// Returns the length of the outermost guarded part of a path. Everything inside that part is also guarded.
    pub fn topmost(&self, path: &[u8]) -> Option<usize> {
        self.guarded_end(path, true)
    }

    /// Classifies the last name of a path, regardless of its parent folders.
    pub fn kind(&self, path: &[u8]) -> NameKind {
        if self.is_named(path) {
            return NameKind::Guarded;
        }
        if ends_in(&TABLE.caches, path) {
            return NameKind::Cache;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_hidden = name.first() == Some(&b'.') && !matches!(name, b"." | b"..");
        if is_hidden && !ends_in(&TABLE.harmless, path) { NameKind::Guarded } else { NameKind::Plain }
    }

    fn is_named(&self, path: &[u8]) -> bool {
        let lowercase_path = path.to_ascii_lowercase();
        ends_in(&self.globs, &lowercase_path) || ends_in(&TABLE.guarded, &lowercase_path)
    }

    fn guarded_end(&self, path: &[u8], skip_caches: bool) -> Option<usize> {
        for end in ends(path) {
            match self.kind(&path[..end]) {
                NameKind::Guarded => return Some(end),
                NameKind::Cache if skip_caches => return None,
                NameKind::Cache | NameKind::Plain => {}
            }
        }
        None
    }
}

/// Iterates over the end offsets of the parts of a path.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()])
}

/// Returns true for a path in a folder whose files agents read regardless of their names. For example,
/// `.claude/skills/target` is a skill, not a cache. Rules, agents and commands are read at any depth.
pub fn is_in_agent_folder(path: &[u8]) -> bool {
    let mut folders = path.split(|byte| *byte == b'/').rev().skip(1);
    folders.clone().next().is_some_and(|folder| matches!(folder, b"skills" | b"hooks"))
        || folders.any(|folder| matches!(folder, b"agents" | b"commands" | b"rules"))
}

/// Returns true if the name is `.git`, ignoring case.
pub fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Classifies a name in a git repository. `folder` is true if the entry is a folder.
pub fn git_entry(name: &[u8], folder: bool) -> GitEntry {
    let is = |names: &[&[u8]]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if !folder {
        // Files with the extension `.sample` are hooks that git never runs.
        return if is(&GIT_FILES) { GitEntry::Guarded } else { GitEntry::Store };
    }
    if is(&GIT_FOLDERS) {
        GitEntry::Guarded
    } else if is(&GIT_REPOSITORY_FOLDERS) || !is(&GIT_STORES) {
        GitEntry::Repositories
    } else {
        GitEntry::Store
    }
}

/// Sections of the table.
#[derive(Debug, Default)]
struct Table {
    guarded: GlobSet,
    harmless: GlobSet,
    caches: GlobSet,
}

impl Table {
    fn parse(text: &str) -> Self {
        let section = |name: &str, ignore_case: bool| {
            let lines = text.lines().map(str::trim).skip_while(|line| *line != name).skip(1);
            let lines = lines.take_while(|line| !line.starts_with('['));
            globs(lines.filter(|line| !line.is_empty() && !line.starts_with('#')), ignore_case).unwrap_or_default()
        };
        Self {
            guarded: section("[guarded]", true),
            harmless: section("[harmless]", false),
            caches: section("[caches]", false),
        }
    }
}

/// Compiles patterns for the last names of paths. With `ignore_case`, the patterns ignore the case of ASCII letters and
/// must be matched against lowercase paths.
fn globs<'a>(names: impl Iterator<Item = &'a str>, ignore_case: bool) -> Result<GlobSet, String> {
    let mut globs = GlobSetBuilder::new();
    for name in names {
        let is_valid =
            name.trim_end_matches('/').split('/').all(|part| !matches!(part.trim(), "" | "." | ".." | "*" | "**"));
        // Only `*` is a wildcard, because there are files with names such as `[id].ts`.
        let escaped: Vec<String> = name.trim().trim_end_matches('/').split('*').map(globset::escape).collect();
        let pattern = format!("**/{}", escaped.join("*"));
        let pattern = if ignore_case { pattern.to_ascii_lowercase() } else { pattern };
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build().ok().filter(|_| is_valid);
        globs.add(glob.ok_or_else(|| name.to_owned())?);
    }
    globs.build().map_err(|error| error.to_string())
}

fn ends_in(globs: &GlobSet, path: &[u8]) -> bool {
    globs.is_match(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn guarded_table_is_parsed_completely() {
        let entries = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
        assert_eq!(TABLE.guarded.len() + TABLE.harmless.len() + TABLE.caches.len(), entries.count());
    }

    #[test]
    fn executed_or_followed_files_are_guarded_at_any_depth() {
        let names =
            GuardedNames::with(&["Tiltfile".to_owned(), "ops/*.hcl".to_owned(), "conf[1].yml".to_owned()]).unwrap();
        for path in [
            ".git/hooks/pre-commit",
            "a/b/.GIT/config",
            ".git",
            "x.code-workspace",
            "a/AGENTS.md",
            "a/agents.MD",
            ".devcontainer.json",
            ".zed/tasks.json",
            ".envrc.local",
            ".unheard-of",
            "a/.unheard-of/b",
            "mise.toml",
            "tiltfile",
            "ops/x.hcl",
            "conf[1].yml",
            ".yarn/releases/yarn.cjs",
            ".hg/hgrc",
            "lefthook.yml",
            "Jenkinsfile",
            ".env",
            ".gitignore.exe",
            ".GITIGNORE",
            ".husky/_/h",
            "GIT~1/config",
        ] {
            assert!(names.covers(path.as_bytes()), "{path}");
            assert!(names.covers_outside_caches(path.as_bytes()), "{path}");
        }
        for path in [
            "src/main.rs",
            ".gitignore",
            "a/.editorconfig",
            "Makefile",
            "package.json",
            "notes.md",
            "x.hcl",
            ".pytest_cache/v/cache/lastfailed",
            ".coverage",
            ".coverage.host.1",
            "a/git",
            "mise",
            ".hg/dirstate",
        ] {
            assert!(!names.covers(path.as_bytes()), "{path}");
        }
        for path in ["node_modules/x/.eslintrc", ".venv/lib/x.pth", "target/debug/.fingerprint/x"] {
            assert!(!names.covers_outside_caches(path.as_bytes()), "{path}");
        }
        assert!(names.covers(b"node_modules/x/.npmrc"), "a tool call that names the file requires approval");
        assert_eq!(names.topmost(b"a/.git/hooks/x"), Some(6));
        for bad in ["", "/x", "../x", "*", "a/*/b", "a/**", "a//b"] {
            assert!(GuardedNames::with(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn unlisted_dot_names_are_guarded(
            folders in proptest::collection::vec("[a-z]{1,6}", 0..6),
            name in "\\.[a-zA-Z0-9_-]{1,12}",
            below in proptest::option::of("[a-z]{1,6}"),
        ) {
            prop_assume!(!ends_in(&TABLE.harmless, name.as_bytes()) && !ends_in(&TABLE.caches, name.as_bytes()));
            prop_assume!(!folders.iter().any(|folder| ends_in(&TABLE.caches, folder.as_bytes())));
            let parts: Vec<String> = folders.into_iter().chain([name]).chain(below).collect();
            prop_assert!(GuardedNames::default().covers_outside_caches(parts.join("/").as_bytes()));
        }
    }
}
