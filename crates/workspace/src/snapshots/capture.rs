//! Stores the contents of new entries in a tree since its last scan.

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::fstat;

use super::{
    blobs::{Blobs, Full, Intake},
    config::SnapshotConfig,
    root::{Kind, Root, Stamp, is_missing},
    scan::ScanResult,
    tree::{Content, Entry, Tree, Why},
};
use crate::text;

/// From so many contents on, two threads read them.
const WORTH_TWO: usize = 64;

/// Number of paths that a note names.
const NAMED: usize = 3;

/// Maximum number of reads of a file that changes while it is read.
const TRIES: usize = 3;

/// The times of files go by a clock that ticks this seldom at the worst: a change within a tick may leave no trace in
/// them.
const TICK_NANOS: i128 = 20_000_000;
/// The same where a file system knows only seconds, and some only every second one.
const COARSE_TICK_NANOS: i128 = 2_000_000_000;

/// A tree as it is now.
pub(super) struct CapturedTree {
    pub(super) tree: Arc<Tree>,
    /// Set if anything is other than it was known.
    pub(super) changed: bool,
}

/// Keeps what is new of what was seen.
pub(super) fn capture(
    root: &Root,
    seen: ScanResult,
    known: &Arc<Tree>,
    blobs: &Blobs,
    max_file: u64,
) -> io::Result<CapturedTree> {
    let digest = seen.digest();
    if seen.tree.unseen.is_none() && known.unseen.is_none() && known.seen == Some(digest) {
        return Ok(CapturedTree { tree: Arc::clone(known), changed: false });
    }
    let ScanResult { entries: paths, mut tree, .. } = seen;
    let mut changed = tree.unseen != known.unseen || paths.len() != known.entries.len();
    let mut entries: HashMap<Vec<u8>, Entry> = HashMap::with_capacity(paths.len());
    let (mut new, all) = (Vec::new(), paths.len());
    for (path, stamp) in paths {
        match known.entries.get(&path) {
            Some(entry) if entry.stamp == stamp && !needs_a_look(entry) => {
                entries.insert(path, entry.clone());
            }
            _ if stamp.kind == Kind::Folder => {
                changed = true;
                entries.insert(path, Entry::folder(stamp));
            }
            _ => new.push((path, stamp)),
        }
    }
    let taker = FileCapture { root, blobs, max_file };
    // Where all is as it was seen, and none of it needs another look, a look that sees the same has the same outcome.
    let stamps: HashMap<Vec<u8>, Stamp> = new.iter().cloned().collect();
    let mut is_settled = true;
    for (path, entry) in taker.take_all(new)? {
        is_settled &= stamps.get(&path) == Some(&entry.stamp);
        changed |= known
            .entries
            .get(&path)
            .is_none_or(|known| (&known.stamp, &known.content) != (&entry.stamp, &entry.content));
        entries.insert(path, entry);
    }
    is_settled &= entries.len() == all && !entries.values().any(needs_a_look);
    tree.seen = is_settled.then_some(digest);
    tree.entries = entries;
    Ok(CapturedTree { tree: Arc::new(tree), changed })
}

/// State of a single path, as an entry of its own where there is nothing.
pub(super) fn capture_one(root: &Root, path: &[u8], blobs: &Blobs, max_file: u64) -> io::Result<Entry> {
    let taken = match root.look(path)? {
        Some(stamp) if stamp.kind == Kind::Folder => Some(Entry::folder(stamp)),
        Some(stamp) if stamp.kind != Kind::Special => {
            FileCapture { root, blobs, max_file }.take(path, stamp, &mut blobs.intake(false))?
        }
        _ => None,
    };
    Ok(taken.unwrap_or_else(Entry::absent))
}

/// Returns whether a look at the content may tell more than the stamp, which is as it was.
fn needs_a_look(entry: &Entry) -> bool {
    entry.fresh || matches!(entry.content, Content::Unkept(Why::Full | Why::Busy))
}

struct FileCapture<'a> {
    root: &'a Root,
    blobs: &'a Blobs,
    max_file: u64,
}

type TakenTree = Vec<(Vec<u8>, Entry)>;

impl FileCapture<'_> {
    fn take_all(&self, new: Vec<(Vec<u8>, Stamp)>) -> io::Result<TakenTree> {
        if new.len() < WORTH_TWO {
            return self.take_some(&new, false);
        }
        let (left, right) = new.split_at(new.len() / 2);
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().name("snapshot".to_owned());
            let other = other.spawn_scoped(scope, || self.take_some(right, true))?;
            let mut taken = self.take_some(left, true)?;
            taken.extend(other.join().map_err(|_| io::Error::other("the thread that reads files broke"))??);
            Ok(taken)
        })
    }

    fn take_some(&self, new: &[(Vec<u8>, Stamp)], many: bool) -> io::Result<TakenTree> {
        let mut taken = Vec::with_capacity(new.len());
        let mut intake = self.blobs.intake(many);
        for (path, stamp) in new {
            if let Some(entry) = self.take(path, *stamp, &mut intake)? {
                taken.push((path.clone(), entry));
            }
        }
        intake.finish()?;
        Ok(taken)
    }

    /// State of a path; nothing where it is gone by now.
    fn take(&self, path: &[u8], stamp: Stamp, intake: &mut Intake<'_>) -> io::Result<Option<Entry>> {
        let taken = match stamp.kind {
            Kind::Link => self.take_link(path, stamp, intake),
            _ => self.take_file(path, stamp, intake),
        };
        match taken {
            Ok(entry) => Ok(entry),
            Err(Miss::Gone) => Ok(None),
            Err(Miss::Unkept(why)) => Ok(Some(Entry { stamp, content: Content::Unkept(why), fresh: false })),
            Err(Miss::Broken(error)) => Err(error),
        }
    }

    fn take_file(&self, path: &[u8], stamp: Stamp, intake: &mut Intake<'_>) -> Result<Option<Entry>, Miss> {
        if stamp.size > self.max_file {
            return Err(Miss::Unkept(Why::Large));
        }
        for _ in 0..TRIES {
            let began = SystemTime::now();
            let (mut file, before) = self.root.file(path).map_err(Miss::of_reading)?;
            if before.size > self.max_file {
                return Ok(Some(Entry { stamp: before, content: Content::Unkept(Why::Large), fresh: false }));
            }
            let kept = intake.keep_file(&mut file, before.size).map_err(Miss::Broken)?;
            let (hash, size) = kept.map_err(|Full| Miss::Unkept(Why::Full))?;
            let after = fstat(&file).map_err(|error| Miss::Broken(error.into()))?;
            if before == Stamp::of(&after) && size == before.size {
                let fresh = is_fresh(&before, began);
                return Ok(Some(Entry { stamp: before, content: Content::Kept(hash, size), fresh }));
            }
        }
        Err(Miss::Unkept(Why::Busy))
    }

    fn take_link(&self, path: &[u8], stamp: Stamp, intake: &mut Intake<'_>) -> Result<Option<Entry>, Miss> {
        let began = SystemTime::now();
        let leads = self.root.link(path).map_err(Miss::of_reading)?;
        let kept = intake.keep(&leads).map_err(Miss::Broken)?;
        let hash = kept.map_err(|Full| Miss::Unkept(Why::Full))?;
        let content = Content::Kept(hash, leads.len() as u64);
        Ok(Some(Entry { stamp, content, fresh: is_fresh(&stamp, began) }))
    }
}

/// Reason why a path could not be captured.
enum Miss {
    Gone,
    Unkept(Why),
    /// The place where contents are kept cannot be written: nothing more can be recorded.
    Broken(io::Error),
}

impl Miss {
    fn of_reading(error: io::Error) -> Self {
        if is_missing(&error) { Self::Gone } else { Self::Unkept(Why::Unreadable) }
    }
}

impl SnapshotConfig {
    /// Sentence on paths that are not recorded.
    pub(super) fn note(&self, why: Why, paths: &[&str]) -> String {
        let named = paths.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if paths.len() > NAMED { format!(" and {} more", paths.len() - NAMED) } else { String::new() };
        let because = match why {
            Why::Large => format!("larger than {}", text::size(self.max_file_bytes)),
            Why::Full => format!("there is no room beyond {}", text::size(self.max_total_bytes)),
            Why::Unreadable => "it may not be read".to_owned(),
            Why::Busy => "it was being written all the while".to_owned(),
        };
        format!("{named}{more} ({because})")
    }
}

/// Returns whether something may have changed after a look that began at that time, without another time to show for
/// it.
fn is_fresh(stamp: &Stamp, began: SystemTime) -> bool {
    let began = began.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos().cast_signed());
    let latest = stamp.modified.max(stamp.changed);
    let tick = if stamp.changed.1 == 0 { COARSE_TICK_NANOS } else { TICK_NANOS };
    i128::from(latest.0) * 1_000_000_000 + i128::from(latest.1) + tick >= began
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_changed_within_a_tick_is_looked_at_again() {
        let stamp = |changed| Stamp {
            kind: Kind::File,
            mode: 0o644,
            device: 1,
            inode: 1,
            size: 1,
            links: 1,
            modified: (0, 0),
            changed,
        };
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert!(!is_fresh(&stamp((100, 1)), at(100_021)));
        assert!(is_fresh(&stamp((100, 1)), at(100_019)));
        assert!(is_fresh(&stamp((100, 1)), at(90_000)), "a time in the future proves nothing");
        assert!(is_fresh(&stamp((100, 0)), at(101_999)), "whole seconds may be rounded");
        assert!(!is_fresh(&stamp((100, 0)), at(102_001)));
    }
}
