//! What a call starts from: the trees before it, and the paths that it names.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agentd_core::{guarded::GuardedNames, ids::CallId};

use super::{
    guard::CallGuard,
    ignored::IgnoredFolders,
    overlap::KeptStates,
    pulse::Heartbeat,
    root::{Kind, Root},
    spot::SafePath,
    tree::{Content, Difference, Tree, Why},
    unsaved::UnsavedContents,
};

/// The trees before a call. The call owns them, so that nothing drops them while it runs.
pub(super) struct Before {
    pub(super) call: CallId,
    pub(super) scoped: bool,
    pub(super) trees: Vec<Arc<Tree>>,
    pub(super) notes: Vec<String>,
    /// Unsaved texts that the call may change.
    pub(super) unsaved: UnsavedContents,
    /// Names in folders that git ignores.
    pub(super) ignored: IgnoredFolders,
    /// Names that others run or obey, as of the look.
    pub(super) names: GuardedNames,
    /// Guard of a call that is checked when it ends.
    pub(super) guard: Option<CallGuard>,
    /// States that people brought about in other sessions since.
    pub(super) kept: KeptStates,
    /// Guarded paths that it cannot change, and why there may be more.
    pub(super) closed: Vec<PathBuf>,
    pub(super) unchecked: Option<String>,
    /// While the call runs; the last sign comes when the last look is over.
    pub(super) pulse: Option<Heartbeat>,
}

impl Before {
    pub(super) fn new(call: &CallId, scoped: bool, trees: Vec<Arc<Tree>>, names: &GuardedNames) -> Self {
        let (call, names, notes) = (call.clone(), names.clone(), Vec::new());
        let (unsaved, ignored, closed) = (HashMap::new(), IgnoredFolders::default(), Vec::new());
        let (guard, kept, unchecked, pulse) = (None, KeptStates::new(), None, None);
        Self { call, scoped, trees, notes, unsaved, ignored, names, guard, kept, closed, unchecked, pulse }
    }

    /// Changes of a tree since. A path that only came into view, as when its folder is no longer ignored, is no new one.
    pub(super) fn differences(&self, tree: &Tree, now: &Tree) -> Vec<Difference> {
        let mut found = tree.differences(now);
        found.retain(|found| found.was.is_some() || self.is_new(tree, &found.below));
        found
    }

    /// Returns true if a path that a tree does not have was not there before the call.
    pub(super) fn is_new(&self, tree: &Tree, below: &[u8]) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.has_seen(tree, below, &self.names))
            || !self.ignored.may_have_held(&SafePath { place: tree.place, below: below.to_vec() })
    }

    /// The paths of which no contents are kept.
    pub(super) fn unkept(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.ignored.shown().chain(self.unkept_files().map(|(_, path)| path)).collect();
        // A question is compared with what it would be now.
        paths.sort();
        paths
    }

    /// The files among them, with the reasons.
    pub(super) fn unkept_files(&self) -> impl Iterator<Item = (Why, String)> {
        let entries = self.trees.iter().flat_map(|tree| tree.entries.iter().map(|entry| (tree.place, entry)));
        entries.filter_map(|(place, (below, entry))| match entry.content {
            Content::Unkept(why) => Some((why, SafePath { place, below: below.clone() }.shown(false))),
            _ => None,
        })
    }
}

/// The paths that a scoped look is of.
pub(super) fn spots_of(tree: &Tree) -> impl Iterator<Item = SafePath> {
    tree.entries.keys().map(|below| SafePath { place: tree.place, below: below.clone() })
}

/// The spots that these paths mean. None if one is a link, or below one, or cannot be read: then the changes may be
/// elsewhere, and everything is scanned.
pub(super) fn scope(roots: &[Root], paths: &[String]) -> Option<Vec<SafePath>> {
    let spots: Vec<SafePath> = paths.iter().map(|path| SafePath::read(path)).collect::<Option<_>>()?;
    let is_link = |spot: &SafePath| {
        let root = roots.iter().find(|root| root.place == spot.place)?;
        let mut on_the_way = spot.folders().chain([spot.clone()]);
        Some(on_the_way.any(
            |spot| !matches!(root.look(&spot.below), Ok(found) if found.is_none_or(|found| found.kind != Kind::Link)),
        ))
    };
    // A path in a tree that cannot be written cannot be changed either.
    spots.iter().all(|spot| is_link(spot) != Some(true)).then_some(spots)
}
