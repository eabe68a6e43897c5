//! What is kept of one session: contents, the last look at its trees, and what they were before the call that runs.
//!
//! ```text
//! {session}/blobs/{hash}     contents
//! {session}/look             the last look before a call
//! {session}/calls/{call}     the look before that call: another name of `look`, or a file of its own
//! {session}/alive            its time is the last sign of life while a call ran
//! ```
//!
//! A call's look is removed when a later call has been seen to its end: by then its result is in the journal.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    ids::CallId,
    ports::{Changes, Workspace},
    tool::FileChange,
    undo::Undone,
};

use super::{
    super::path::Place,
    SnapshotConfig,
    blobs::{Blobs, Hash},
    capture::{capture, capture_one},
    pulse::{LastSign, Pulse},
    record, restore,
    root::{Kind, Root},
    scan::scan,
    spot::Spot,
    surplus,
    tree::{Content, Tree, Why},
};
use crate::text;

/// How many paths a note names.
const NAMED: usize = 3;

/// What is kept of one session.
pub(super) struct Kept {
    folder: PathBuf,
    config: SnapshotConfig,
    blobs: Blobs,
    /// The trees as they were last looked at.
    trees: Vec<Arc<Tree>>,
    /// Whether the file `look` tells of these trees.
    saved: bool,
    /// The trees before the call that runs.
    before: Option<Before>,
    /// While a call runs.
    pulse: Option<Pulse>,
}

struct Before {
    call: CallId,
    scoped: bool,
    trees: Vec<Arc<Tree>>,
    notes: Vec<String>,
}

impl Kept {
    /// Opens what is kept, making the folder where it is missing.
    pub(super) fn open(folder: PathBuf, config: SnapshotConfig) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("calls"))?;
        let blobs = Blobs::open(folder.join("blobs"), config.max_total_bytes)?;
        let look = record::read(&folder.join("look"))?;
        let saved = look.is_some();
        let trees = look.map(|look| look.trees).unwrap_or_default().into_iter().map(Arc::new).collect();
        Ok(Self { folder, config, blobs, trees, saved, before: None, pulse: None })
    }

    /// Looks at what a call may change, and writes down what there is.
    pub(super) fn before(&mut self, workspace: &Workspace, call: &CallId, paths: Option<&[String]>) -> io::Result<()> {
        (self.before, self.pulse) = (None, None);
        let roots = Root::all(workspace)?;
        let marker = self.marker(call);
        let scoped = paths.and_then(|paths| scope(&roots, paths));
        let before = if let Some(spots) = scoped {
            let trees = self.look_at(&roots, &spots)?;
            self.blobs.settle()?;
            record::write(&marker, true, trees.iter().map(Arc::as_ref))?;
            Before { call: call.clone(), scoped: true, trees, notes: Vec::new() }
        } else {
            let notes = self.look(&Root::of_commands(roots))?;
            self.blobs.settle()?;
            let look = self.folder.join("look");
            if !self.saved {
                record::write(&look, false, self.trees.iter().map(Arc::as_ref))?;
                self.saved = true;
            }
            match fs::hard_link(&look, &marker) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    record::write(&marker, false, self.trees.iter().map(Arc::as_ref))?;
                }
                _ => {}
            }
            Before { call: call.clone(), scoped: false, trees: self.trees.clone(), notes }
        };
        File::open(self.folder.join("calls"))?.sync_all()?;
        self.before = Some(before);
        self.pulse = Some(Pulse::start(&self.alive())?);
        Ok(())
    }

    /// Looks again, and says what has changed.
    pub(super) fn after(&mut self, workspace: &Workspace, call: &CallId) -> io::Result<Changes> {
        // The last sign comes when the last look is over.
        let _pulse = self.pulse.take();
        let before = self.before.take().filter(|before| before.call == *call);
        let before = before.ok_or_else(|| io::Error::other("nothing was looked at before the call"))?;
        let changes = self.changes_since(&before, workspace, None)?;
        self.forget_markers(call);
        Ok(changes)
    }

    /// What has changed since a call began of which nobody saw the end. What may be somebody else's is marked as late.
    pub(super) fn unfinished(&mut self, workspace: &Workspace, call: &CallId) -> io::Result<Changes> {
        let Some(record) = record::read(&self.marker(call))? else { return Ok(Changes::default()) };
        let trees = record.trees.into_iter().map(Arc::new).collect();
        let before = Before { call: call.clone(), scoped: record.scoped, trees, notes: Vec::new() };
        self.changes_since(&before, workspace, Some(&LastSign::read(&self.alive())))
    }

    /// After a crash with the last sign of life before it.
    fn changes_since(
        &mut self,
        before: &Before,
        workspace: &Workspace,
        sign: Option<&LastSign>,
    ) -> io::Result<Changes> {
        let mut roots = Root::all(workspace)?;
        let mut notes = before.notes.clone();
        let now = if before.scoped {
            let spots: Vec<Spot> = before.trees.iter().flat_map(|tree| spots_of(tree)).collect();
            self.look_at(&roots, &spots)?
        } else {
            // What was seen before must be looked at again, also where a crash has lost what was known.
            roots = Root::of_commands(roots);
            self.trees = self.trees_for(&roots, &before.trees);
            notes.extend(self.look(&roots)?);
            self.trees.clone()
        };
        notes.sort();
        notes.dedup();
        let mut differences = Vec::new();
        for tree in &before.trees {
            if let Some(now) = now.iter().find(|now| now.place == tree.place && now.path == tree.path) {
                if Arc::ptr_eq(tree, now) {
                    continue;
                }
                let mut found = tree.differences(now);
                if let (Some(sign), Some(root)) = (sign, roots.iter().find(|root| root.place == tree.place)) {
                    for difference in &mut found {
                        difference.change.late = sign.is_before(root, difference);
                    }
                }
                differences.extend(found);
            }
        }
        let mut unkept: BTreeMap<Why, Vec<&str>> = BTreeMap::new();
        for difference in &differences {
            if let Some(why) = difference.unkept {
                unkept.entry(why).or_default().push(&difference.change.path);
            }
        }
        notes.extend(unkept.into_iter().map(|(why, paths)| self.note(why, &paths)));
        let mut files: Vec<FileChange> = differences.into_iter().map(|difference| difference.change).collect();
        notes.extend(surplus::cut(&mut files, self.config.max_changes));
        Ok(Changes { files, notes })
    }

    /// Keeps the contents of changes that another session recorded below that folder.
    pub(super) fn adopt(&self, folder: &Path, changes: Vec<FileChange>) -> io::Result<Vec<FileChange>> {
        let contents = folder.join("blobs");
        let take = |change: FileChange| {
            let states = [&change.before, &change.after].into_iter().flatten();
            let hashes: Vec<&str> = states.map(|state| state.hash.as_str()).filter(|hash| !hash.is_empty()).collect();
            let mut is_kept = true;
            for hash in hashes {
                is_kept &= self.blobs.take(&contents, hash)?;
            }
            Ok(if is_kept { change } else { FileChange::new(change.path, change.change) })
        };
        let adopted = changes.into_iter().map(take).collect::<io::Result<_>>()?;
        self.blobs.settle()?;
        Ok(adopted)
    }

    /// Takes changes back, or foresees it.
    pub(super) fn undo(
        &mut self,
        workspace: &Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> io::Result<Undone> {
        let roots = Root::all(workspace)?;
        Ok(restore::undo(workspace, &roots, &self.blobs, changes, preview))
    }

    /// Brings the trees up to date with what there is, and says what is not seen of them.
    fn look(&mut self, roots: &[Root]) -> io::Result<Vec<String>> {
        let mut notes = Vec::new();
        let mut trees = Vec::with_capacity(roots.len());
        let mut all_same = roots.len() == self.trees.len();
        for root in roots {
            let known = self.known(root);
            all_same &= known.is_some();
            let known = known.unwrap_or_else(|| Arc::new(Tree::new(root.place, root.path.clone())));
            let (tree, changed) = self.look_again(root, &known, &mut notes)?;
            all_same &= !changed;
            trees.push(tree);
        }
        self.trees = trees;
        self.saved &= all_same;
        Ok(notes)
    }

    fn look_again(&self, root: &Root, known: &Arc<Tree>, notes: &mut Vec<String>) -> io::Result<(Arc<Tree>, bool)> {
        let place = match root.place {
            Place::Own => "the workspace",
            Place::Project => "/project",
            Place::Memories => "/memories",
            Place::State => "/state",
        };
        if let Some(why) = &known.unseen {
            // It does not become small again while a session goes on, and finding out costs more than all else.
            notes.push(format!("changes of {place} are not recorded, because {why}"));
            return Ok((Arc::clone(known), false));
        }
        let mut known = Arc::clone(known);
        let mut changed = false;
        for is_last in [false, true] {
            let seen = scan(root, &known, self.config.max_files)?;
            if seen.too_deep > 0 && !is_last {
                notes.push(format!("what lies very deep in {place} is not recorded"));
            }
            let captured = capture(root, seen, &known, &self.blobs, self.config.max_file_bytes)?;
            changed |= captured.changed;
            let is_full = captured.tree.entries.values().any(|entry| entry.content == Content::Unkept(Why::Full));
            let was_full = known.entries.values().any(|entry| entry.content == Content::Unkept(Why::Full));
            known = captured.tree;
            if !is_full || was_full {
                break;
            }
            self.blobs.make_room(&self.needed(&known))?;
        }
        if let Some(why) = &known.unseen {
            notes.push(format!("changes of {place} are not recorded, because {why}"));
        }
        Ok((known, changed))
    }

    /// The contents that must stay, whatever else goes.
    fn needed(&self, current: &Tree) -> HashSet<Hash> {
        let before = self.before.iter().flat_map(|before| &before.trees);
        let known = self.trees.iter().chain(before).flat_map(|tree| tree.hashes());
        known.chain(current.hashes()).collect()
    }

    fn known(&self, root: &Root) -> Option<Arc<Tree>> {
        self.trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
    }

    /// What is known of the trees at these roots; what was known before where there is nothing newer.
    fn trees_for(&self, roots: &[Root], before: &[Arc<Tree>]) -> Vec<Arc<Tree>> {
        let of = |trees: &[Arc<Tree>], root: &Root| {
            trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
        };
        roots.iter().filter_map(|root| of(before, root).or_else(|| of(&self.trees, root))).collect()
    }

    /// Looks at single paths and the folders that they are in.
    fn look_at(&self, roots: &[Root], spots: &[Spot]) -> io::Result<Vec<Arc<Tree>>> {
        let mut trees = Vec::new();
        for root in roots {
            let mut entries = HashMap::new();
            let meant = spots.iter().filter(|spot| spot.place == root.place);
            for spot in meant.flat_map(|spot| spot.folders().chain([spot.clone()])) {
                if let Entry::Vacant(vacant) = entries.entry(spot.below) {
                    let entry = capture_one(root, vacant.key(), &self.blobs, self.config.max_file_bytes)?;
                    vacant.insert(entry);
                }
            }
            trees.push(Arc::new(Tree { entries, ..Tree::new(root.place, root.path.clone()) }));
        }
        Ok(trees)
    }

    fn note(&self, why: Why, paths: &[&str]) -> String {
        let named = paths.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if paths.len() > NAMED { format!(" and {} more", paths.len() - NAMED) } else { String::new() };
        let because = match why {
            Why::Large => format!("larger than {}", text::size(self.config.max_file_bytes)),
            Why::Full => format!("there is no room beyond {}", text::size(self.config.max_total_bytes)),
            Why::Unreadable => "it may not be read".to_owned(),
            Why::Busy => "it was being written all the while".to_owned(),
        };
        format!("{named}{more} ({because})")
    }

    fn marker(&self, call: &CallId) -> PathBuf {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let name: String = call.as_str().chars().filter(|letter| plain(*letter)).take(100).collect();
        self.folder.join("calls").join(format!("{name}.look"))
    }

    fn alive(&self) -> PathBuf {
        self.folder.join("alive")
    }

    /// Removes the looks of earlier calls. One that stays does no harm: its call has its result.
    fn forget_markers(&self, but: &CallId) {
        let kept = self.marker(but);
        let Ok(markers) = fs::read_dir(self.folder.join("calls")) else { return };
        for marker in markers.flatten().filter(|marker| marker.path() != kept) {
            let _ = fs::remove_file(marker.path());
        }
    }
}

/// The paths that a scoped look is of.
fn spots_of(tree: &Tree) -> impl Iterator<Item = Spot> {
    tree.entries.keys().map(|below| Spot { place: tree.place, below: below.clone() })
}

/// The spots that these paths mean. None where one is a link, or stands below one, or cannot be read: then what is
/// changed may be elsewhere, and all is looked at.
fn scope(roots: &[Root], paths: &[String]) -> Option<Vec<Spot>> {
    let spots: Vec<Spot> = paths.iter().map(|path| Spot::read(path)).collect::<Option<_>>()?;
    let is_link = |spot: &Spot| {
        let root = roots.iter().find(|root| root.place == spot.place)?;
        let mut on_the_way = spot.folders().chain([spot.clone()]);
        Some(on_the_way.any(
            |spot| !matches!(root.look(&spot.below), Ok(found) if found.is_none_or(|found| found.kind != Kind::Link)),
        ))
    };
    // A path in a tree that cannot be written cannot be changed either.
    spots.iter().all(|spot| is_link(spot) != Some(true)).then_some(spots)
}
