//! Corrects the first scan of a call by the states before the calls that run already.
//!
//! A call that is checked when it ends may have changed guarded files before the first scan of a later call, and may
//! change them back afterwards. Without the correction, the check of the later call would restore a planted file, or
//! accept that a file of the user is missing.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::guarded::GuardedNames;

use super::{
    base::BaseState,
    guard::{CallGuard, GuardedPaths},
    ignored_folders::IgnoredFolders,
    leads::leads_to_cache,
    root::{Kind, Root, SafePath},
    tree::{Content, Tree},
};

/// State before a running call that is checked when it ends.
#[derive(Debug)]
pub(super) struct Baseline {
    pub(super) trees: Vec<Arc<Tree>>,
    ignored: Arc<IgnoredFolders>,
    names: GuardedNames,
    pub(super) guard: CallGuard,
}

/// Calls that may have changed guarded files before the first scan of a call.
#[derive(Debug, Default, Clone)]
pub(super) struct EarlierCalls {
    pub(super) baselines: Vec<Arc<Baseline>>,
    /// Real paths whose states users have decided since. The scanned states of these paths remain.
    pub(super) decided: HashSet<PathBuf>,
}

impl Baseline {
    /// Returns `None` for a call that is not checked: its changes are allowed.
    pub(super) fn of(before: &BaseState) -> Option<Arc<Self>> {
        let guard = before.guard.clone()?;
        let (trees, ignored, names) = (before.trees.clone(), Arc::clone(&before.ignored), before.names.clone());
        Some(Arc::new(Self { trees, ignored, names, guard }))
    }

    /// Returns true if the check of this call covers a path.
    pub(super) fn checks(&self, path: &Path, guarded: &GuardedPaths) -> bool {
        self.trees.iter().filter(|tree| tree.skip_reason.is_none()).any(|tree| {
            let below = path.strip_prefix(&tree.path).ok().map(|below| below.as_os_str().as_bytes());
            below.is_some_and(|below| self.guard.covers(tree, below, &self.names, guarded))
        })
    }

    /// Returns true if a path that is missing in a tree did not exist before the call.
    fn is_new(&self, tree: &Tree, below: &[u8]) -> bool {
        self.guard.has_seen(tree, below, &self.names)
            || !self.ignored.may_have_held(&SafePath { place: tree.place, below: below.to_vec() })
    }
}

impl EarlierCalls {
    /// Returns the tree with the guarded entries as they were before these calls.
    pub(super) fn corrected(
        &self,
        tree: &Arc<Tree>,
        roots: &[Root],
        (guard, names, guarded): (&CallGuard, &GuardedNames, &GuardedPaths),
    ) -> Arc<Tree> {
        let is_recorded = |tree: &&Arc<Tree>| tree.place.is_mounted() && tree.skip_reason.is_none();
        let mut corrected = Arc::clone(tree);
        for earlier in self.baselines.iter().filter(|_| is_recorded(&tree)) {
            for was in earlier.trees.iter().filter(is_recorded).filter(|was| !Arc::ptr_eq(tree, was)) {
                let Some(moved) = was.below(&tree.path) else { continue };
                for found in tree.differences(&moved) {
                    let real = tree.path.join(OsStr::from_bytes(&found.below));
                    // A path outside the earlier tree, or its root.
                    let Some(below) = real.strip_prefix(&was.path).ok().map(|below| below.as_os_str().as_bytes())
                    else {
                        continue;
                    };
                    let entry = moved.entries.get(&found.below).filter(|entry| entry.content != Content::Absent);
                    let is_known = match entry {
                        Some(entry) => !matches!(entry.content, Content::Unstored(_)),
                        None => !below.is_empty() && earlier.is_new(was, below),
                    };
                    let is_checked = guard.covers(tree, &found.below, names, guarded) && earlier.checks(&real, guarded);
                    let is_new_link = entry.is_none() && found.was.is_some_and(|stamp| stamp.kind == Kind::Link);
                    let leads_to_cache = |root: &Root| leads_to_cache(root, &found.below, names);
                    let root = roots.iter().find(|root| root.place == tree.place).filter(|_| is_new_link);
                    if !is_known || !is_checked && !root.is_some_and(leads_to_cache) || self.decided.contains(&real) {
                        continue;
                    }
                    let tree = Arc::make_mut(&mut corrected);
                    // The tree differs from the disk, so that the next scan must not reuse it as a whole.
                    tree.seen = None;
                    match entry {
                        Some(entry) => tree.entries.insert(found.below, entry.clone()),
                        None => tree.entries.remove(&found.below),
                    };
                }
            }
        }
        corrected
    }
}
