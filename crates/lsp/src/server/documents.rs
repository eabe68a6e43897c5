//! Files that a server was told of, and what it found in them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::Findings;
use crate::source::Stamp;

/// Files that are open in a server at once; the one that was not used for longest is closed for another.
pub(crate) const MAX_OPEN: usize = 32;

/// Time for which what a server publishes by itself may still be followed by something better.
const SETTLING: Duration = Duration::from_millis(100);

/// A file that is open in a server.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) text: Arc<str>,
    pub(super) version: i32,
    pub(super) stamp: Option<Stamp>,
    /// When it was told of this version.
    told_at: Instant,
    /// Findings that the server published.
    published: Option<(Option<i32>, Instant, Findings)>,
    /// Findings that it was asked for, in this version.
    pulled: Option<Findings>,
    /// Those of them that came last, of whatever version.
    last_pulled: Option<Findings>,
    used: Instant,
}

/// Findings that count, by the way in which a server tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingSources {
    /// Those that it publishes by itself.
    Published,
    /// Those that it is asked for.
    Pulled,
    /// Both: some publish what a compiler says, late, and tell the rest when they are asked.
    All,
}

/// Change of a text as a server knows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextChange {
    Unchanged,
    Opened,
    Changed,
}

/// The files that are open in a server, by their path below the folder of the person.
#[derive(Debug, Default)]
pub(super) struct Documents {
    open: HashMap<PathBuf, Document>,
    /// Count of what has made findings old.
    generation: u64,
}

impl Documents {
    /// Takes in a text of a file as it is now.
    pub(super) fn set(&mut self, below: &Path, text: &Arc<str>, stamp: Option<Stamp>, now: Instant) -> TextChange {
        let change = match self.open.get_mut(below) {
            Some(document) => {
                (document.used, document.stamp) = (now, stamp);
                if document.text == *text {
                    return TextChange::Unchanged;
                }
                document.version += 1;
                (document.text, document.told_at) = (Arc::clone(text), now);
                TextChange::Changed
            }
            None => {
                let document = Document {
                    text: Arc::clone(text),
                    version: 1,
                    stamp,
                    told_at: now,
                    published: None,
                    pulled: None,
                    last_pulled: None,
                    used: now,
                };
                self.open.insert(below.to_path_buf(), document);
                TextChange::Opened
            }
        };
        // What was found elsewhere may be another thing by now; what a server publishes it publishes again.
        self.forget_pulled();
        change
    }

    /// Forgets what was found when the server was asked: it would find something else by now.
    pub(super) fn forget_pulled(&mut self) {
        self.generation += 1;
        self.open.values_mut().for_each(|document| document.pulled = None);
    }

    /// The count that an answer which is asked for now belongs to.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn get(&self, below: &Path) -> Option<&Document> {
        self.open.get(below)
    }

    /// Forgets a file. True if it was open.
    pub(super) fn close(&mut self, below: &Path) -> bool {
        self.open.remove(below).is_some()
    }

    /// The file to be closed, where too many are open. Nobody waits for it.
    pub(super) fn surplus(&self, waited_for: &[PathBuf]) -> Option<PathBuf> {
        if self.open.len() <= MAX_OPEN {
            return None;
        }
        let free = self.open.iter().filter(|(below, _)| !waited_for.contains(below));
        free.min_by_key(|(_, document)| document.used).map(|(below, _)| below.clone())
    }

    /// The open files, with the signs that they had.
    pub(super) fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        self.open.iter().map(|(below, document)| (below.clone(), document.stamp)).collect()
    }

    /// Last findings in all open files.
    pub(super) fn last_findings(&self, sources: FindingSources) -> Vec<(PathBuf, Findings)> {
        let last = |document: &Document| document.last_findings(sources);
        self.open.iter().filter_map(|(below, document)| Some((below.clone(), last(document)?))).collect()
    }

    /// Takes in findings that the server published. True if they are of an open file.
    pub(super) fn publish(&mut self, below: &Path, version: Option<i32>, findings: Findings, now: Instant) -> bool {
        let document = self.open.get_mut(below);
        document.map(|document| document.published = Some((version, now, findings))).is_some()
    }

    /// Takes in findings that the server was asked for. True if nothing has made them old meanwhile.
    pub(super) fn pull(&mut self, below: &Path, generation: u64, findings: Findings) -> bool {
        let is_new = generation == self.generation;
        match self.open.get_mut(below).filter(|_| is_new) {
            Some(document) => {
                document.last_pulled = Some(Arc::clone(&findings));
                document.pulled = Some(findings);
                true
            }
            None => false,
        }
    }
}

impl Document {
    /// Findings in its newest text, once they are whole.
    pub(super) fn findings(&self, sources: FindingSources, now: Instant) -> Option<Findings> {
        let published = self.published.as_ref().filter(|(version, at, _)| match version {
            Some(version) => *version >= self.version,
            None => *at >= self.told_at,
        });
        match sources {
            FindingSources::Published => {
                published.filter(|(_, at, _)| now >= *at + SETTLING).map(|(_, _, findings)| Arc::clone(findings))
            }
            FindingSources::Pulled => self.pulled.clone(),
            FindingSources::All => Some(merged(self.pulled.as_ref()?, published.map(|(_, _, findings)| findings))),
        }
    }

    /// Findings that were known last, of whatever text.
    pub(super) fn last_findings(&self, sources: FindingSources) -> Option<Findings> {
        let published = self.published.as_ref().map(|(_, _, findings)| findings);
        match sources {
            FindingSources::Published => published.cloned(),
            FindingSources::Pulled => self.last_pulled.clone(),
            FindingSources::All => self.last_pulled.as_ref().map(|pulled| merged(pulled, published)),
        }
    }

    /// When published findings are whole.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        self.published.as_ref().map(|(_, at, _)| *at + SETTLING)
    }
}

fn merged(pulled: &Findings, published: Option<&Findings>) -> Findings {
    let mut all: Vec<_> =
        pulled.iter().chain(published.into_iter().flat_map(|findings| findings.iter())).cloned().collect();
    all.sort();
    all.dedup();
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Findings {
        Arc::from(Vec::new())
    }

    #[test]
    fn findings_are_those_of_the_newest_text() {
        use FindingSources::{Published, Pulled};
        let (mut documents, begun) = (Documents::default(), Instant::now());
        let later = |ms| begun + Duration::from_millis(ms);
        let path = Path::new("a.py");
        let found =
            |documents: &Documents, sources, ms| documents.get(path).unwrap().findings(sources, later(ms)).is_some();
        assert_eq!(documents.set(path, &"1".into(), None, begun), TextChange::Opened);
        documents.publish(path, Some(1), none(), later(10));
        assert!(!found(&documents, Published, 20) && found(&documents, Published, 200));
        assert_eq!(documents.set(path, &"1".into(), None, later(300)), TextChange::Unchanged);
        assert!(found(&documents, Published, 300));
        let old = documents.generation();
        assert_eq!(documents.set(path, &"2".into(), None, later(300)), TextChange::Changed);
        assert!(!found(&documents, Published, 900));
        // One without a version counts from when the text was told.
        documents.publish(path, None, none(), later(400));
        assert!(found(&documents, Published, 900));
        assert!(!documents.pull(path, old, none()) && !found(&documents, Pulled, 900));
        assert!(documents.pull(path, documents.generation(), none()) && found(&documents, Pulled, 900));
        let old = documents.generation();
        documents.set(Path::new("b.py"), &"1".into(), None, later(900));
        assert!(!found(&documents, Pulled, 900), "another file has changed");
        assert!(!documents.pull(path, old, none()), "it was found before that");
    }

    #[test]
    fn the_file_that_was_not_used_for_longest_is_closed_unless_somebody_waits_for_it() {
        let (mut documents, begun) = (Documents::default(), Instant::now());
        for number in 0..=MAX_OPEN {
            let now = begun + Duration::from_millis(number as u64);
            documents.set(Path::new(&format!("{number}")), &"".into(), None, now);
        }
        assert_eq!(documents.surplus(&[]), Some("0".into()));
        assert_eq!(documents.surplus(&["0".into()]), Some("1".into()));
        assert!(documents.close(Path::new("0")));
        assert_eq!(documents.surplus(&[]), None);
    }
}
