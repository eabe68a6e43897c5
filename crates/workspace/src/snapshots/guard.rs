//! Finds files that other programs run or obey, under any name.
//!
//! A guarded link leads to a file, and a `.git` file to a repository. The targets are guarded like the names that lead
//! to them, and so is every link on the way. The guard for a call is written to disk before the call starts, so that
//! the check can be made at the next start of the daemon if a crash prevented it.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guarded::{self, GuardedNames},
    policy::Confinement,
    ports::ToolContext,
    tool::FileChange,
};
use serde::{Deserialize, Serialize};

use super::{
    config::SnapshotConfig,
    leads::{GitConfigs, HEAD, Lead, decides_what_runs, leads_of, leads_to_cache},
    record::replace,
    root::{Kind, Root, SafePath},
    scan::{ScanResult, scan_more},
    tree::Tree,
};
use crate::{failure::if_there, path::PathPlace};

const TOO_MANY: &str = "the project has too many git-ignored folders, or folders that are nested too deeply";
/// Maximum number of guarded paths that are protected before a command. Further paths are only checked when the command
/// ends.
const MAX_CLOSED: usize = 2000;

/// Guard for one call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CallGuard {
    /// True if the effects of the call are not checked. The guard then only stores the names, for the scan after a
    /// crash.
    #[serde(default)]
    only_names: bool,
    /// True if only git repositories are guarded.
    of_git: bool,
    /// Names added by the user.
    names: Vec<String>,
    /// Targets of guarded links and files before the call.
    leads: Vec<Lead>,
    /// Folders that could not be opened before the call.
    #[serde(default)]
    unopened: Vec<PathBuf>,
    /// Folders that git ignored before the call.
    #[serde(default)]
    pub(super) left_out: Vec<String>,
    /// Changes that restore the files that were set aside, once the call has ended.
    pub(super) set_aside: Vec<FileChange>,
}

/// Guarded files in the user's folders at the last scan.
#[derive(Debug, Default)]
pub(super) struct GuardedPaths {
    leads: Vec<Lead>,
    /// Topmost guarded paths, as real paths.
    closed: Vec<PathBuf>,
    /// Relative hook folders from the user's configuration. They apply in every folder, since any folder can become a
    /// repository.
    hooks: Vec<PathBuf>,
    /// New links to folders in caches.
    cache_links: Vec<PathBuf>,
    /// True if there may be more guarded files.
    pub(super) is_partial: bool,
    /// True if some git configurations were not read.
    pub(super) is_unread: bool,
    /// Folders that could not be opened.
    unopened: Vec<PathBuf>,
}

impl CallGuard {
    /// Creates the guard for a call. A call that names its paths is checked before it runs, not afterwards.
    pub(super) fn of(call: &ToolContext, names_paths: bool) -> Self {
        Self {
            only_names: names_paths || !call.confinement.is_checked(),
            of_git: call.confinement == Confinement::GuardedGit,
            names: call.guarded.added().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Returns true if the call must be checked. A call that was already checked is skipped, because the user may have
    /// accepted some of its changes since then.
    pub(super) fn is_due(&self) -> bool {
        !self.only_names && self.set_aside.is_empty()
    }

    /// Adds the state before the call: guarded paths, and ignored folders.
    pub(super) fn with(self, guarded: &GuardedPaths, left_out: &[SafePath]) -> Self {
        let left_out = left_out.iter().map(|folder| folder.shown(true)).collect();
        Self { leads: guarded.leads.clone(), unopened: guarded.unopened.clone(), left_out, ..self }
    }

    /// Corrects the state before this call by that before a call that already runs, in the trees of that call. It may
    /// have removed a guarded link, created a repository for the time of the scan, or closed a folder.
    pub(super) fn correct(&mut self, earlier: &Self, trees: &[Arc<Tree>]) {
        let is_of_earlier = |path: &Path| trees.iter().any(|tree| path.starts_with(&tree.path));
        self.leads.retain(|lead| !lead.is_git || earlier.leads.contains(lead) || !is_of_earlier(&lead.path));
        self.unopened.retain(|path| earlier.unopened.contains(path) || !is_of_earlier(path));
        let missing = earlier.leads.iter().filter(|lead| !self.leads.contains(lead)).cloned();
        let missing: Vec<Lead> = missing.collect();
        self.leads.extend(missing);
    }

    pub(super) fn names(&self) -> GuardedNames {
        GuardedNames::with(&self.names).unwrap_or_default()
    }

    /// Returns true if other programs run or obey the file at this path below the root of a tree.
    pub(super) fn covers(&self, tree: &Tree, below: &[u8], names: &GuardedNames, now: &GuardedPaths) -> bool {
        let path = tree.path.join(OsStr::from_bytes(below));
        let is_lead_target =
            || self.is_lead_target(&self.leads, tree, below) || self.is_lead_target(&now.leads, tree, below);
        if !tree.place.is_mounted() {
            return is_lead_target();
        }
        let by_name = if self.of_git {
            below.split(|byte| *byte == b'/').any(guarded::is_git)
        } else {
            names.covers_outside_caches(below)
        };
        // An added folder can be a repository, or part of one.
        let is_of_repository = || {
            let mut parts = tree.path.components();
            let is_part = parts.any(|part| guarded::is_git(part.as_os_str().as_bytes()));
            let is_whole = tree.path.join(HEAD).is_file();
            (is_part || is_whole) && decides_what_runs(&parts.as_path().join(OsStr::from_bytes(below)))
        };
        // Everything in an added folder that is hidden, or in a hidden folder, is guarded.
        let is_hidden = || !self.of_git && matches!(tree.place, PathPlace::Folder(_)) && is_hidden(&tree.path);
        let makes_repository = |lead: &Lead| lead.is_git && lead.path.join(HEAD) == path;
        by_name
            || is_hidden()
            || is_of_repository()
            || is_lead_target()
            || now.hooks.iter().any(|hooks| path.ancestors().skip(1).any(|folder| folder.ends_with(hooks)))
            || now.leads.iter().any(|lead| makes_repository(lead) && !self.leads.contains(lead))
            || !self.of_git && now.cache_links.contains(&path)
    }

    /// Returns true if the scan before the call included this path, even in folders that git ignores.
    pub(super) fn has_seen(&self, tree: &Tree, below: &[u8], names: &GuardedNames) -> bool {
        let is_of_git = || below.split(|byte| *byte == b'/').any(guarded::is_git);
        names.covers_outside_caches(below) && (!self.of_git || is_of_git())
            || self.is_lead_target(&self.leads, tree, below)
    }

    fn is_lead_target(&self, leads: &[Lead], tree: &Tree, below: &[u8]) -> bool {
        let path = tree.path.join(OsStr::from_bytes(below));
        leads.iter().any(|lead| lead.covers(&path, self.of_git))
    }

    /// Returns the folder that the call made unreadable, so that its contents are unknown.
    pub(super) fn closed_by_call<'a>(&self, now: &'a GuardedPaths) -> Option<&'a Path> {
        now.unopened.iter().find(|path| !self.unopened.contains(path)).map(PathBuf::as_path)
    }

    /// Stores the guard next to the scan before the call, unless it is not needed for a scan after a crash.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        if self.only_names && self.names.is_empty() && self.left_out.is_empty() {
            return Ok(());
        }
        replace(file, &serde_json::to_vec(self)?)
    }

    /// Reads the guard. A call without a guard is not checked.
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        match if_there(fs::read(file))? {
            Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
            None => Ok(Self { only_names: true, ..Self::default() }),
        }
    }
}

/// Returns true if a part of the path begins with a dot.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_bytes().starts_with(b"."))
}

impl GuardedPaths {
    /// Finds the targets of guarded names in the user's trees, and the links in the folders `around`.
    pub(super) fn add_scan(
        &mut self,
        roots: &[Root],
        seen: &mut [ScanResult],
        around: &[PathBuf],
        (config, names): (&SnapshotConfig, &GuardedNames),
    ) -> io::Result<()> {
        if !roots.iter().any(|root| root.place.is_mounted()) {
            return Ok(());
        }
        let (mut due, mut configs) = (Vec::new(), GitConfigs::of_user(config));
        let (mut followed, mut known) = (vec![(0, 0); roots.len()], HashSet::new());
        let mut links: BTreeMap<PathBuf, (&Root, Vec<u8>)> = BTreeMap::new();
        let is_scanned = |root: &Root, seen: &ScanResult| root.place.is_mounted() && seen.tree.skip_reason.is_none();
        around.iter().for_each(|folder| configs.add_around(folder, names));
        for (root, seen) in roots.iter().zip(&mut *seen).filter(|(root, _)| root.place.is_mounted()) {
            let absolute = |below: &Vec<u8>| root.path.join(OsStr::from_bytes(below));
            configs.add_around(&root.path, names);
            self.is_partial |= seen.is_partial;
            self.closed.extend(seen.guarded.iter().map(absolute));
            self.unopened.extend(seen.unopened.iter().map(absolute));
            seen.guarded.iter().for_each(|below| configs.add(root, below));
            for folder in std::mem::take(&mut seen.bare).iter().map(absolute) {
                configs.add_repository(&folder);
                due.push(Lead { path: folder, is_git: true, by_git: true });
            }
        }
        loop {
            let all = roots.iter().zip(&*seen).zip(&mut followed).filter(|((root, seen), _)| is_scanned(root, seen));
            for ((root, seen), (leads, entries)) in all {
                for below in &seen.leads[std::mem::replace(leads, seen.leads.len())..] {
                    configs.add(root, below);
                    if names.covers(below) {
                        due.extend(leads_of(roots, root, below, false));
                    } else if leads_to_cache(root, below, names) {
                        self.cache_links.push(root.path.join(OsStr::from_bytes(below)));
                    }
                }
                let new = &seen.entries[std::mem::replace(entries, seen.entries.len())..];
                for (below, _) in new.iter().filter(|(_, stamp)| stamp.kind == Kind::Link) {
                    links.insert(root.path.join(OsStr::from_bytes(below)), (root, below.clone()));
                }
            }
            if due.is_empty() {
                due = configs.leads(roots);
                due.retain(|lead| !known.contains(lead));
            }
            let Some(lead) = due.pop() else { break };
            if !known.insert(lead.clone()) {
                continue;
            }
            for (root, seen) in roots.iter().zip(&mut *seen).filter(|(root, seen)| is_scanned(root, seen)) {
                let below = lead.path.strip_prefix(&root.path).map(|below| below.as_os_str().as_bytes());
                if let Ok(below) = below
                    && !below.is_empty()
                {
                    scan_more(root, seen, below, lead.is_git, (config.max_files, names))?;
                }
            }
            let inner = links.range(lead.path.clone()..).take_while(|(path, _)| path.starts_with(&lead.path));
            for (_, (root, below)) in inner.filter(|(path, _)| lead.covers(path, false)) {
                due.extend(leads_of(roots, root, below, lead.by_git));
            }
            self.leads.push(lead);
        }
        self.hooks = configs.hooks_anywhere();
        self.is_unread = configs.is_partial();
        let is_too_deep = |(root, seen): (&Root, &ScanResult)| root.place.is_mounted() && seen.too_deep > 0;
        self.is_partial |= self.is_unread || roots.iter().zip(&*seen).any(is_too_deep);
        Ok(())
    }

    /// Returns the guarded paths to close before a command, and the reason why more may exist.
    pub(super) fn found(&self) -> (Vec<PathBuf>, Option<String>) {
        // Topmost paths first; for links, their targets.
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
        let leads = self.leads.iter().map(|lead| &lead.path);
        let mut closed: Vec<PathBuf> = self.closed.iter().chain(leads).filter(exists).cloned().collect();
        closed.sort();
        closed.dedup_by(|below, above| below.starts_with(above));
        closed.sort_by_key(|path| path.components().count());
        closed.truncate(MAX_CLOSED);
        (closed, self.is_partial.then(|| format!("its changes cannot be checked completely: {TOO_MANY}")))
    }
}
