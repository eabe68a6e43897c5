//! The user's folders that git ignores, and `.git`. Their contents are not stored, so deletions in them are only
//! counted.
//!
//! Only names are read, level by level and up to a limit, so that a large `node_modules` adds little to the cost of a
//! call.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    sync::Arc,
};

use agentd_core::{
    guarded,
    tool::{FileChange, FileChangeKind},
};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;

use super::{
    root::{self, Kind, Root, SafePath},
    tree::Tree,
};
use crate::{exact::split, failure::fail_if, text};

/// Name of an ignore file, and the maximum number of bytes read from it.
pub(super) const IGNORE_FILE: &[u8] = b".gitignore";
const MAX_IGNORE_FILE: u64 = 256 * 1024;

/// Number of names above which no further folder is read.
const MAX_NAMES: usize = 20_000;
/// Maximum number of deleted paths that are listed; the others are only counted.
const MAX_LISTED: usize = 20;

/// Names in the ignored folders that were read.
#[derive(Debug, Default)]
pub(super) struct IgnoredFolders {
    tops: Vec<SafePath>,
    /// Names in the folders; the value is true for folders. Includes the ignored folders themselves.
    names: HashMap<SafePath, bool>,
    /// Folders that were read.
    read: HashSet<SafePath>,
}

impl IgnoredFolders {
    /// Reads the names before a call.
    pub(super) fn before(roots: &[Root], tops: Vec<SafePath>) -> Self {
        let is_git = |folder: &SafePath| guarded::is_git(split(&folder.below).1);
        Self::of(roots, tops, |folder, count| count < MAX_NAMES && !is_git(folder))
    }

    /// Reads the names in the folders that `reads` accepts, given the number of names so far.
    fn of(roots: &[Root], tops: Vec<SafePath>, reads: impl Fn(&SafePath, usize) -> bool) -> Self {
        let (mut names, mut read) = (HashMap::new(), HashSet::new());
        let root_of = |path: &SafePath| roots.iter().find(|root| root.place == path.place);
        let is_readable = |top: &&SafePath| root_of(top).is_some_and(|root| root.folder(&top.below).is_ok());
        let mut due: VecDeque<SafePath> = tops.iter().filter(is_readable).cloned().collect();
        names.extend(due.iter().map(|top| (top.clone(), true)));
        while let Some(folder) = due.pop_front() {
            let root = root_of(&folder).filter(|_| reads(&folder, names.len()));
            let Some(Ok(found)) = root.map(|root| entries(root, &folder)) else { continue };
            due.extend(found.iter().filter(|(_, is_folder)| *is_folder).map(|(path, _)| path.clone()));
            names.extend(found);
            read.insert(folder);
        }
        Self { tops, names, read }
    }

    /// Creates the value from the shown paths of the folders. The names in these folders are unknown.
    pub(super) fn unread(tops: &[String]) -> Self {
        let tops: Vec<SafePath> = tops.iter().filter_map(|top| SafePath::read(top)).collect();
        Self { names: tops.iter().map(|top| (top.clone(), true)).collect(), read: HashSet::new(), tops }
    }

    /// Returns true if a path may have existed in one of these folders. Repositories are checked separately.
    pub(super) fn may_have_held(&self, path: &SafePath) -> bool {
        let mut ancestors = path.folders().chain([path.clone()]).skip_while(|part| !self.names.contains_key(part));
        let Some(mut above) = ancestors.next().filter(|top| !guarded::is_git(split(&top.below).1)) else {
            return false;
        };
        for part in ancestors {
            if !self.read.contains(&above) || !self.names.contains_key(&part) {
                return !self.read.contains(&above);
            }
            above = part;
        }
        true
    }

    /// Returns the shown paths of the ignored folders.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        self.tops.iter().map(|top| top.shown(true))
    }

    /// Returns the deletions since the names were read, except those in the `recorded` trees. Deleted ignored folders
    /// and their direct entries are returned as changes; all deletions are counted in the note.
    pub(super) fn deletions(&self, roots: &[Root], recorded: &[Arc<Tree>]) -> (Vec<FileChange>, Option<String>) {
        let now = Self::of(roots, self.tops.clone(), |folder, _| self.read.contains(folder));
        let (mut changes, mut counts) = (Vec::new(), BTreeMap::<usize, (usize, bool)>::new());
        let mut missing_names: Vec<_> = self.names.iter().filter(|(path, _)| !now.names.contains_key(path)).collect();
        missing_names.sort();
        for (path, is_folder) in missing_names {
            let mut above = path.folders().chain([path.clone()]);
            let Some(top) = above.find_map(|path| self.tops.iter().position(|top| *top == path)) else { continue };
            let parent = SafePath { place: path.place, below: split(&path.below).0.to_vec() };
            let (is_top, parent_stays) = (*path == self.tops[top], now.names.contains_key(&parent));
            if !is_top && recorded.iter().any(|tree| tree.place == path.place && tree.entries.contains_key(&path.below))
            {
                // Not counted: the recorded trees contain these guarded files, which can be restored.
                continue;
            }
            if !is_top && parent_stays && !now.read.contains(&parent) {
                // The parent is unreadable now, so the entry may still exist.
                continue;
            }
            let (files, is_more) = counts.entry(top).or_default();
            *files += usize::from(!is_folder);
            *is_more |= *is_folder && !self.read.contains(path);
            if (is_top || parent_stays && parent == self.tops[top]) && changes.len() < MAX_LISTED {
                let project = roots.iter().find(|root| root.place == path.place).map(|root| root.path.clone());
                changes
                    .push(FileChange { project, ..FileChange::new(path.shown(*is_folder), FileChangeKind::Deleted) });
            }
        }
        let counted = counts.into_iter().map(|(top, count)| {
            let folder = self.tops[top].shown(true);
            match count {
                (0, _) => folder,
                (files, false) => format!("{} in {folder}", text::count(files, "file")),
                (files, true) => format!("at least {} in {folder}", text::count(files, "file")),
            }
        });
        let counted = counted.collect::<Vec<_>>().join(", ");
        (changes, (!counted.is_empty()).then(|| format!("deleted files that git ignores: {counted}")))
    }
}

/// Lists the paths in a folder, with true for folders.
fn entries(root: &Root, folder: &SafePath) -> io::Result<Vec<(SafePath, bool)>> {
    let mut found = Vec::new();
    for entry in root::entries(&root.folder(&folder.below)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            let below = [&folder.below, b"/".as_slice(), name].concat();
            found.push((SafePath { place: folder.place, below }, entry.file_type() == FileType::Directory));
        }
        fail_if(found.len() > 10 * MAX_NAMES, || io::ErrorKind::FileTooLarge)?;
    }
    Ok(found)
}

/// Returns true for a user's folder that is a git repository, or was one in the last scan.
pub(super) fn is_store(known: &Tree, folder: &OwnedFd, path: &[u8], is_plain: bool) -> bool {
    let is = |name: &[u8], kind: Kind| root::stamp_in(folder, name).is_ok_and(|stamp| stamp.kind == kind);
    known.place.is_mounted()
        && (is_plain || path.ends_with(b".bare"))
        && (known.stores.contains(path)
            || is(b"HEAD", Kind::File)
                && (is(b"commondir", Kind::File) || is(b"objects", Kind::Folder) && is(b"refs", Kind::Folder)))
}

/// Returns true for entries that git stores directly in a repository, except those that decide which programs git runs.
/// A new `HEAD` does not count, because it turns the folder into a repository.
pub(super) fn is_stored(name: &[u8], kind: Kind, is_new: bool) -> bool {
    const FOLDERS: &str = "branches lfs logs modules objects rebase-apply rebase-merge refs sequencer worktrees";
    const FILES: &str = "HEAD description gc.log gc.pid index packed-refs shallow";
    let is_in = |names: &str| names.split(' ').any(|known| known.as_bytes() == name);
    // Such as `COMMIT_EDITMSG` and `ORIG_HEAD`.
    let is_note = || name.contains(&b'_') && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    if kind == Kind::Folder { is_in(FOLDERS) } else { is_in(FILES) && !(is_new && name == b"HEAD") || is_note() }
}

/// Parses the ignore file of a folder at `path` in the tree.
pub(super) fn read_ignores(folder: &OwnedFd, path: &[u8]) -> Option<Gitignore> {
    let content = root::small_in(folder, IGNORE_FILE, MAX_IGNORE_FILE)?;
    // Ignore files need absolute paths, with the tree as their root.
    let absolute = [b"/", path].concat();
    let mut builder = GitignoreBuilder::new(std::ffi::OsStr::from_bytes(&absolute));
    for line in String::from_utf8_lossy(&content).lines() {
        // Invalid lines are ignored, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// Keys that are harmless in a new configuration, and keys that are harmless for branches.
const OF_CORE: &str =
    "autocrlf bare filemode ignorecase logallrefupdates precomposeunicode repositoryformatversion symlinks";
const OF_BRANCH: [&str; 3] = ["remote", "merge", "rebase"];
const OF_REMOTE: [&str; 2] = ["url", "fetch"];

/// Returns true if the new configuration makes git run nothing that the old one did not. The new configuration may
/// differ in the upstream branches, or be a first configuration that only states the origin of the repository. Returns
/// false if a configuration cannot be parsed with certainty.
pub(super) fn runs_no_more(before: Option<&[u8]>, after: &[u8]) -> bool {
    let is_new = before.is_none();
    let rest = |content: &[u8]| {
        let mut entries = config_entries(content)?;
        entries.retain(|(section, line)| !is_plain(section, line, is_new));
        Some(entries)
    };
    match (rest(before.unwrap_or_default()), rest(after)) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    }
}

/// Returns the lines with their sections, or `None` if a line may continue, or a section and a key share a line.
fn config_entries(content: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(content).ok()?;
    let (mut section, mut entries) = (String::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.contains('\\') || line.contains('\r') {
            return None;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').filter(|name| !name.contains(']'))?.to_owned();
        } else {
            entries.push((section.clone(), line.to_owned()));
        }
    }
    Some(entries)
}

fn is_plain(section: &str, line: &str, is_new: bool) -> bool {
    let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else { return false };
    let is_word = |value: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+*:@~%".contains(c));
    let of = |kind: &str| {
        let name = section.strip_prefix(kind)?.trim().strip_prefix('"')?.strip_suffix('"')?;
        (!name.contains('"')).then_some(())
    };
    if is_new && section == "user" && matches!(key, "name" | "email") {
        return true;
    }
    if !is_word(value) {
        return false;
    }
    if of("branch").is_some() {
        return OF_BRANCH.contains(&key) && (key == "merge" || !value.contains(['/', ':']));
    }
    // A URL of the form `name::…` names a program.
    let of_remote =
        of("remote").is_some() && OF_REMOTE.contains(&key) && !value.contains("::") && !value.starts_with('-');
    let is_unsigned = section == "commit" && key == "gpgsign" && value == "false";
    is_new && (of_remote || is_unsigned || section == "core" && OF_CORE.split(' ').any(|plain| plain == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = git@x.org:a/b.git\n\
                       \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

    #[track_caller]
    fn check(before: Option<&str>, after: &str, expected: bool) {
        assert_eq!(runs_no_more(before.map(str::as_bytes), after.as_bytes()), expected, "{after}");
    }

    #[test]
    fn git_config_that_names_programs_is_not_harmless() {
        check(None, NEW, true);
        check(None, &format!("{NEW}[user]\n\tname = A B\n\temail = a@b.c\n[commit]\n\tgpgsign = false\n"), true);
        check(Some(NEW), &format!("{NEW}[branch \"topic\"]\n\tremote = .\n\tmerge = refs/heads/main\n"), true);
        check(Some(&format!("{NEW}[user]\n\tname = A\n")), &format!("[user]\n\tname = A\n{NEW}"), false);
        for more in [
            "[core]\n\tfsmonitor = ./x\n",
            "[core] fsmonitor = ./x\n",
            "[core]\n\tbare = false \\\n",
            "[branch \"x\"]\n\tremote = ext::sh\n",
            "[branch \"x\"]\n\tremote = ../evil\n",
            "[branch \"x\"]\n\tmergeoptions = -sx\n",
            "[include]\n\tpath = x\n",
            "[init]\n\ttemplateDir = tpl\n",
            "[alias]\n\tst = !x\n",
            "[remote \"origin\"]\n\tuploadpack = ./x\n",
        ] {
            check(Some(NEW), &format!("{NEW}{more}"), false);
            check(None, &format!("{NEW}{more}"), false);
        }
        check(Some(NEW), &NEW.replace("a/b.git", "c/d.git"), false);
    }
}
