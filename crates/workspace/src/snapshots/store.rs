//! Storage for all sessions: contents, and the last scan of each project. Tracks which contents are needed, and by
//! whom; unneeded ones are removed.
//!
//! Needed are, in this order: what calls hold that are under way, what sessions' changes go between, and what the last
//! looks saw, which would have to be read again. Nothing is counted: each user of contents has a file that lists them,
//! and all of these files are read before anything is removed. So leftovers of a crash are unneeded, and
//! goes with the next time.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    blobs::{Blobs, Hash},
    manifest,
    projects::Projects,
    record,
    tree::Content,
};

/// The endings of looks before calls that have ended, for as long as their results may not be in the journal.
pub(super) const ENDED: &str = "ended";
pub(super) const ENDED_OF_PROJECT: &str = "ended-project";

/// Returns whether the look with that ending is of a call that has ended.
pub(super) fn has_ended(ending: &str) -> bool {
    ending == ENDED || ending.starts_with(ENDED_OF_PROJECT)
}

/// The folder of contents.
const CONTENTS: &str = "contents";
/// The folder of looks at projects.
const PROJECTS: &str = "projects";

/// Share of unneeded contents above which a pack is rewritten, in percent.
const WORTH_IT: u64 = 25;

/// For so long the result of a call that has ended may turn out to be lost, in seconds.
const LOST: i64 = 7 * 24 * 60 * 60;

/// The contents that are needed, by their reasons.
#[derive(Debug, Default)]
struct Needs {
    /// By calls that are running, or whose end was not seen.
    calls: HashSet<Hash>,
    /// By changes, of the session that has changed something last first, and of each the last first.
    changes: Vec<(Hash, u64)>,
    /// By looks.
    looks: Vec<(Hash, u64)>,
}

/// The contents and looks that are kept for all sessions.
#[derive(Debug)]
pub(super) struct Store {
    base: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) projects: Projects,
}

impl Store {
    /// Opens the folder of all sessions, making it where it is missing.
    pub(super) fn open(base: PathBuf, limit: u64) -> io::Result<Self> {
        let blobs = Blobs::open(base.join(CONTENTS), limit)?;
        let projects = Projects::open(base.join(PROJECTS))?;
        Ok(Self { base, blobs, projects })
    }

    /// Removes unneeded contents. Returns the number of freed bytes.
    pub(super) fn collect(&self) -> io::Result<u64> {
        let _alone = self.blobs.alone();
        let needs = Needs::read(&self.base, &self.projects)?;
        let mut wanted = needs.calls;
        wanted.extend(needs.changes.iter().chain(&needs.looks).map(|(hash, _)| *hash));
        self.blobs.sift(|hash| wanted.contains(hash), WORTH_IT)
    }

    /// Makes room: of the contents not needed at this moment, what was recorded last stays until nine tenths of all
    /// room are full. Old turns can then no longer be undone whole, but new ones can. `needed` is what the caller
    /// holds.
    pub(super) fn make_room(&self, needed: HashSet<Hash>) -> io::Result<()> {
        let _alone = self.blobs.alone();
        let needs = Needs::read(&self.base, &self.projects)?;
        let mut wanted = needed;
        wanted.extend(needs.calls);
        let mut room = self.blobs.limit() - self.blobs.limit() / 10;
        for hash in &wanted {
            room = room.saturating_sub(self.blobs.size(hash).unwrap_or_default());
        }
        for (hash, size) in needs.changes.into_iter().chain(needs.looks) {
            if wanted.contains(&hash) {
                continue;
            }
            let Some(left) = room.checked_sub(size) else { break };
            room = left;
            wanted.insert(hash);
        }
        self.blobs.sift(|hash| wanted.contains(hash), 1).map(drop)
    }
}

impl Needs {
    fn read(base: &Path, projects: &Projects) -> io::Result<Self> {
        let mut needs = Self::default();
        let mut known: BTreeSet<PathBuf> = BTreeSet::new();
        let mut sessions = Vec::new();
        for entry in fs::read_dir(base)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() && name != CONTENTS && name != PROJECTS {
                sessions.push((manifest::age(&entry.path()), entry.path()));
            }
        }
        sessions.sort();
        for (_, session) in sessions.into_iter().rev() {
            needs.changes.extend(manifest::read(&session)?.into_iter().rev());
            known.extend(needs.look(&session.join("look"))?.iter().map(|project| projects.file(project)));
            let calls = match fs::read_dir(session.join("calls")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                calls => calls?,
            };
            for call in calls {
                needs.call(&call?.path())?;
            }
        }
        for (file, of_use) in projects.files(|file| known.contains(file))? {
            if of_use {
                needs.look(&file)?;
            } else {
                fs::remove_file(file)?;
            }
        }
        Ok(needs)
    }

    /// Takes in the look before a call. Where the call has ended, it is of use only if a crash lost its result.
    fn call(&mut self, file: &Path) -> io::Result<()> {
        let has_ended = file.extension().and_then(OsStr::to_str).is_some_and(has_ended);
        if !has_ended {
            let trees = record::read(file)?.into_iter().flat_map(|record| record.trees);
            self.calls.extend(trees.flat_map(|tree| tree.hashes().collect::<Vec<_>>()));
            return Ok(());
        }
        let age = fs::metadata(file).ok().map(|metadata| jiff::Timestamp::now().as_second() - metadata.ctime());
        if age.is_some_and(|age| age > LOST) {
            return fs::remove_file(file);
        }
        self.look(file).map(drop)
    }

    /// Takes in what a look saw. Returns the projects that it names.
    fn look(&mut self, file: &Path) -> io::Result<Vec<PathBuf>> {
        let mut named = Vec::new();
        for tree in record::read(file)?.into_iter().flat_map(|record| record.trees) {
            self.looks.extend(tree.entries.values().filter_map(|entry| match entry.content {
                Content::Kept(hash, size) => Some((hash, size)),
                _ => None,
            }));
            if tree.place.is_mounted() {
                named.push(tree.path);
            }
        }
        Ok(named)
    }
}
