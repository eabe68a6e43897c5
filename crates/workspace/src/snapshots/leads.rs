//! Targets of guarded names: targets of links, repositories named by a `.git` file, and hooks and files named by git
//! configurations.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
};

use agentd_core::guarded::{self, GitEntry, GuardedNames};
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use super::{
    config::SnapshotConfig,
    root::{Root, link_in, small_in},
};
use crate::exact::split;

/// Maximum number of links followed for one path, the same as in the kernel.
const MAX_LINKS: usize = 40;
/// Maximum number of bytes read from a `.git` file or a git configuration.
const MAX_POINTER: u64 = 1 << 20;
/// Maximum number of git configuration lines read in one scan.
const MAX_LINES: usize = 500_000;
/// Maximum number of files included by one configuration.
const MAX_INCLUDED: usize = 200;
/// Suffix of sample hooks, which git never runs.
pub(super) const SAMPLE: &[u8] = b".sample";
/// File that identifies a git repository.
pub(super) const HEAD: &str = "HEAD";
/// Maximum number of entries per folder around a tree that are checked for guarded links.
const MAX_ENTRIES: usize = 20_000;
/// Git configuration keys whose values do not name anything that git runs.
const HARMLESS_KEYS: &str = "description template name email url pushurl fetch push merge excludesfile file signingkey";

/// Path that is guarded because a guarded name leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Lead {
    pub(super) path: PathBuf,
    /// True for a git repository.
    pub(super) is_git: bool,
    /// True if git itself runs or obeys the path.
    pub(super) by_git: bool,
}

impl Lead {
    /// Returns true if this lead guards the path. With `of_git`, only considers targets that git itself runs or obeys.
    pub(super) fn covers(&self, path: &Path, of_git: bool) -> bool {
        match path.strip_prefix(&self.path) {
            Err(_) => false,
            Ok(_) if !self.is_git => self.by_git || !of_git,
            Ok(below) => decides_what_runs(below),
        }
    }
}

/// Returns true if a folder has a valid `HEAD`, which identifies a git repository. Other files may be written later.
pub(super) fn has_head(folder: &OwnedFd) -> bool {
    let link = link_in(folder, HEAD.as_bytes());
    let content = small_in(folder, HEAD.as_bytes(), 100).unwrap_or_default();
    link.is_ok_and(|target| target.starts_with(b"refs/"))
        || content.starts_with(b"ref:")
        || content.len() >= 40 && content[..40].iter().all(u8::is_ascii_hexdigit)
}

/// Returns true if a `HEAD` at this path turns its folder into a repository, because the folder has a configuration or
/// hooks, or because the same call creates them.
pub(super) fn makes_repository(path: &Path, written: &[PathBuf]) -> bool {
    let exists_in_folder = |name: &str| {
        let part = path.with_file_name(name);
        part.exists() || written.iter().any(|path| path.starts_with(&part))
    };
    path.ends_with(HEAD)
        && ["config", "config.worktree", "commondir", "hooks", "info"].into_iter().any(exists_in_folder)
}

/// Returns true if a path below a repository decides what git runs.
pub(super) fn decides_what_runs(below: &Path) -> bool {
    if below.as_os_str().as_bytes().ends_with(SAMPLE) {
        return false;
    }
    let count = below.components().count();
    for (at, part) in below.components().enumerate() {
        match guarded::git_entry(part.as_os_str().as_bytes(), at + 1 < count) {
            GitEntry::Guarded => return true,
            GitEntry::Repositories => {}
            GitEntry::Store => return guarded::git_entry(part.as_os_str().as_bytes(), true) == GitEntry::Guarded,
        }
    }
    false
}

/// Returns true if a link leads to a folder in a cache of its tree. Through such a link, editors and git can reach
/// files that no check has scanned.
pub(super) fn leads_to_cache(root: &Root, below: &[u8], names: &GuardedNames) -> bool {
    let end = real_path(&root.path.join(OsStr::from_bytes(below)));
    let inner = end.strip_prefix(&root.path).map(|end| end.join(".git"));
    end.is_dir() && inner.is_ok_and(|inner| !names.covers_outside_caches(inner.as_os_str().as_bytes()))
}

/// Returns the paths in these trees to which a guarded link leads, including intermediate links.
pub(super) fn leads_of(roots: &[Root], root: &Root, below: &[u8], by_git: bool) -> Vec<Lead> {
    if root.link(below).is_err() {
        return Vec::new();
    }
    let own = root.path.join(OsStr::from_bytes(below));
    let by_git = by_git || below.split(|byte| *byte == b'/').any(guarded::is_git);
    let mut leads = leads_to(&own, guarded::is_git(split(below).1), by_git);
    // A link to a parent folder would guard that whole folder.
    leads.retain(|lead| is_in(roots, &lead.path) && !own.starts_with(&lead.path));
    leads
}

fn is_in(roots: &[Root], path: &Path) -> bool {
    roots.iter().any(|root| path.starts_with(&root.path))
}

/// Returns the final target of a path, and the links on the way.
fn leads_to(start: &Path, is_git: bool, by_git: bool) -> Vec<Lead> {
    let mut links = Vec::new();
    let end = follow(start, &mut { MAX_LINKS }, &mut links);
    let links = links.into_iter().map(|path| Lead { path, is_git: false, by_git });
    links.chain([Lead { path: end, is_git, by_git }]).collect()
}

/// Git configurations that apply in the trees, with the hooks, programs and included files that they name. Also
/// includes guarded links in the folders around the trees.
#[derive(Debug, Default)]
pub(super) struct GitConfigs {
    home: Option<PathBuf>,
    /// Home folder and settings folder.
    of_user: Vec<PathBuf>,
    /// Configurations of the user and the host, which apply in every repository.
    everywhere: ConfigNames,
    /// Top folders of repositories, with the names in their configurations.
    repositories: BTreeMap<PathBuf, ConfigNames>,
    /// Repositories whose files are stored elsewhere, and guarded links around the trees.
    leads: Vec<Lead>,
    around: BTreeSet<PathBuf>,
    lines: usize,
}

/// Names in the configurations of one repository, or of the user.
#[derive(Debug, Default, Clone)]
struct ConfigNames {
    files: BTreeSet<PathBuf>,
    hooks: BTreeSet<String>,
    programs: BTreeSet<String>,
    tops: BTreeSet<PathBuf>,
}

impl GitConfigs {
    /// Reads the configurations of the user and the host.
    pub(super) fn of_user(config: &SnapshotConfig) -> Self {
        let of_user = config.home.iter().chain(&config.settings).cloned().collect();
        let mut configs = Self { home: config.home.clone(), of_user, ..Self::default() };
        let mut everywhere = ConfigNames::default();
        config.git_configs.iter().for_each(|file| configs.read(file.clone(), &mut everywhere));
        Self { everywhere, ..configs }
    }

    /// Returns the hook folders that a user's configuration names for every existing or future repository.
    pub(super) fn hooks_anywhere(&self) -> Vec<PathBuf> {
        let is_plain = |hooks: &PathBuf| hooks.components().all(|part| matches!(part, Component::Normal(_)));
        let hooks =
            self.everywhere.hooks.iter().map(|hooks| Path::new(hooks.trim_start_matches("./")).components().collect());
        hooks
            .filter(|hooks: &PathBuf| is_plain(hooks) && !hooks.as_os_str().is_empty() && !hooks.starts_with("~"))
            .collect()
    }

    /// Returns true if some configurations were not read.
    pub(super) fn is_partial(&self) -> bool {
        self.lines >= MAX_LINES
    }

    /// Adds the repositories of a folder and its parents, and guarded links in these folders and in the home and
    /// settings folders.
    pub(super) fn add_around(&mut self, start: &Path, names: &GuardedNames) {
        let of_user = self.of_user.clone();
        for folder in start.ancestors().chain(of_user.iter().map(PathBuf::as_path)) {
            if !self.around.insert(folder.to_path_buf()) {
                continue;
            }
            if folder.join(".git").exists() {
                self.add_repository(folder);
            }
            let parent = folder.file_name().unwrap_or_default();
            for entry in fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES) {
                let is_guarded = || names.covers(Path::new(parent).join(entry.file_name()).as_os_str().as_bytes());
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) && is_guarded() {
                    let is_git = guarded::is_git(entry.file_name().as_bytes());
                    self.leads.extend(leads_to(&entry.path(), is_git, is_git));
                }
            }
        }
    }

    /// Adds the repository of a guarded file: a configuration or a `.git` file.
    pub(super) fn add(&mut self, root: &Root, below: &[u8]) {
        let path = root.path.join(OsStr::from_bytes(below));
        let is_git = |path: &Path| path.file_name().is_some_and(|name| guarded::is_git(name.as_bytes()));
        match path.parent() {
            Some(top) if is_git(&path) => self.add_repository(top),
            Some(folder) if is_git(folder) => self.add_repository(folder.parent().unwrap_or(folder)),
            Some(folder) if folder.join(HEAD).exists() => self.add_repository(folder),
            _ => {}
        }
    }

    /// Adds the repository whose top folder is `top`, or that is `top` itself.
    pub(super) fn add_repository(&mut self, top: &Path) {
        if self.repositories.contains_key(top) {
            return;
        }
        let pointer = |file: PathBuf| {
            let text = String::from_utf8(read_small(&file)?).ok()?;
            Some(text.trim_start_matches("gitdir:").trim().to_owned())
        };
        let dot = top.join(".git");
        let path_of = if dot.is_dir() { Some(dot) } else { pointer(dot).map(|folder| top.join(folder)) };
        let git = path_of.unwrap_or_else(|| top.to_path_buf());
        let common = pointer(git.join("commondir")).map_or(git.clone(), |folder| git.join(folder));
        let mut names = self.everywhere.clone();
        self.read(common.join("config"), &mut names);
        self.read(git.join("config.worktree"), &mut names);
        self.leads.extend(leads_to(&common, true, true));
        for top in names.tops.iter().chain([&top.to_path_buf()]) {
            self.repositories.entry(top.clone()).or_insert_with(|| names.clone());
        }
    }

    /// Reads a configuration and its included files.
    fn read(&mut self, file: PathBuf, names: &mut ConfigNames) {
        if !names.files.insert(file.clone()) {
            return;
        }
        let (content, folder) = (read_small(&real_path(&file)).unwrap_or_default(), file.parent().unwrap_or(&file));
        if content.len() as u64 == MAX_POINTER || names.files.len() > MAX_INCLUDED {
            self.lines = MAX_LINES;
        }
        let mut section = String::new();
        for line in String::from_utf8_lossy(&content).lines().map(str::trim) {
            self.lines += 1;
            if self.is_partial() {
                return;
            }
            let line = line.strip_prefix('[').map_or(line, |head| {
                section = head.split(['"', ']', '.']).next().unwrap_or_default().trim().to_ascii_lowercase();
                head.rsplit_once(']').map_or("", |(_, line)| line)
            });
            let (key, value) = line.split_once('=').unwrap_or(("", line));
            let key = key.trim().rsplit([' ', '\t', ']']).next().unwrap_or_default().to_ascii_lowercase();
            let quoted = Some(value.replace('"', "")).filter(|unquoted| unquoted != value);
            let whole = quoted.unwrap_or_else(|| value.split(['#', ';']).next().unwrap_or_default().to_owned());
            match (key.as_str(), whole.trim()) {
                ("hookspath", folder) => drop(names.hooks.insert(folder.to_owned())),
                ("templatedir", folder) => {
                    names.hooks.extend(["hooks", "config"].map(|part| format!("{folder}/{part}")))
                }
                ("worktree", top) => drop(names.tops.insert(real_path(&folder.join(top)))),
                ("path", included) if section.starts_with("include") => {
                    self.read(self.path_of(included, folder), names)
                }
                (key, _)
                    if section == "alias"
                        || section != "pager" && HARMLESS_KEYS.split(' ').any(|harmless| harmless == key) => {}
                _ => {
                    let parts = value.split(|c: char| c.is_whitespace() || "'\"\\;()=&|!`$<>".contains(c));
                    names.programs.extend(parts.filter(|word| word.contains(['/', '.'])).map(str::to_owned));
                }
            }
        }
    }

    /// Returns the path named by a configuration, relative to a folder or to the user's home.
    fn path_of(&self, path_of: &str, folder: &Path) -> PathBuf {
        let of_home = self.home.as_ref().zip(path_of.strip_prefix("~/"));
        of_home.map_or_else(|| folder.join(path_of), |(home, below)| home.join(below))
    }

    /// Returns the named files and folders that are in these trees.
    pub(super) fn leads(&self, roots: &[Root]) -> Vec<Lead> {
        // A link to a whole tree, or to a parent of it, would guard the whole tree.
        let is_around = |lead: &&Lead| roots.iter().any(|root| root.path.starts_with(&lead.path));
        let mut all: Vec<Lead> = self.leads.iter().filter(|lead| !is_around(lead)).cloned().collect();
        let root_folder = PathBuf::from("/");
        for (top, names) in self.repositories.iter().chain([(&root_folder, &self.everywhere)]) {
            let is_program = |(word, path): &(&String, PathBuf)| word.contains('/') && !path.is_dir() || path.is_file();
            let programs = names.programs.iter().map(|word| (word, self.path_of(word, top))).filter(is_program);
            let included = names.files.iter().filter(|file| !file.is_dir()).cloned();
            // A hook folder that contains the top folder would guard the whole repository.
            let hooks = names.hooks.iter().map(|hooks| self.path_of(hooks, top));
            let hooks = hooks.filter(|hooks| !top.starts_with(real_path(hooks)));
            let paths = programs.map(|(_, program)| program).chain(included).chain(hooks);
            all.extend(paths.flat_map(|path| leads_to(&path, false, true)));
        }
        let is_of_git = |path: &Path| path.components().any(|part| guarded::is_git(part.as_os_str().as_bytes()));
        all.retain(|lead| is_in(roots, &lead.path) && !is_of_git(&lead.path));
        all
    }
}

/// Reads a small file at any path.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    let folder = open(path.parent()?, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    small_in(&folder, path.file_name()?.as_bytes(), MAX_POINTER)
}

/// Returns the path with all links resolved.
fn real_path(path: &Path) -> PathBuf {
    follow(path, &mut { MAX_LINKS }, &mut Vec::new())
}

/// Resolves a path as the kernel does, and collects the links on the way. Missing parts are retained.
fn follow(path: &Path, left: &mut usize, links: &mut Vec<PathBuf>) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::Normal(name) => {
                let next = real.join(name);
                match fs::read_link(&next) {
                    Ok(target) if *left > 0 => {
                        *left -= 1;
                        let link_target = real.join(target);
                        links.push(next);
                        real = follow(&link_target, left, links);
                    }
                    _ => real = next,
                }
            }
            other => real.push(other),
        }
    }
    real
}
