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
const MAX_OPEN: usize = 32;

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
    /// Those that came last, of whatever version.
    last: Option<Findings>,
    used: Instant,
}

/// Notification about a text that a server needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Nothing,
    Open,
    Change,
}

/// The files that are open in a server, by their path below the folder of the person.
#[derive(Debug, Default)]
pub(super) struct Documents {
    open: HashMap<PathBuf, Document>,
}

impl Documents {
    /// Takes in a text of a file as it is now.
    pub(super) fn set(&mut self, below: &Path, text: &Arc<str>, stamp: Option<Stamp>, now: Instant) -> Telling {
        let telling = match self.open.get_mut(below) {
            Some(document) => {
                (document.used, document.stamp) = (now, stamp);
                if document.text == *text {
                    return Telling::Nothing;
                }
                document.version += 1;
                (document.text, document.told_at) = (Arc::clone(text), now);
                Telling::Change
            }
            None => {
                let document = Document {
                    text: Arc::clone(text),
                    version: 1,
                    stamp,
                    told_at: now,
                    published: None,
                    pulled: None,
                    last: None,
                    used: now,
                };
                self.open.insert(below.to_path_buf(), document);
                Telling::Open
            }
        };
        // What was found elsewhere may be another thing by now; what a server publishes it publishes again.
        self.forget_pulled();
        telling
    }

    /// Forgets what was found when the server was asked: it would find something else by now.
    pub(super) fn forget_pulled(&mut self) {
        self.open.values_mut().for_each(|document| document.pulled = None);
    }

    pub(super) fn get(&self, below: &Path) -> Option<&Document> {
        self.open.get(below)
    }

    /// Forgets a file. True if it was open.
    pub(super) fn close(&mut self, below: &Path) -> bool {
        self.open.remove(below).is_some()
    }

    /// The file to be closed, where too many are open.
    pub(super) fn surplus(&self) -> Option<PathBuf> {
        let oldest = || self.open.iter().min_by_key(|(_, document)| document.used);
        if self.open.len() > MAX_OPEN { oldest().map(|(below, _)| below.clone()) } else { None }
    }

    /// The open files, with the signs that they had.
    pub(super) fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        self.open.iter().map(|(below, document)| (below.clone(), document.stamp)).collect()
    }

    /// Last findings in all open files.
    pub(super) fn last_findings(&self) -> Vec<(PathBuf, Findings)> {
        let found = self.open.iter().filter_map(|(below, document)| Some((below.clone(), document.last_findings()?)));
        found.collect()
    }

    /// Takes in findings that the server published.
    pub(super) fn publish(&mut self, below: &Path, version: Option<i32>, findings: Findings, now: Instant) {
        if let Some(document) = self.open.get_mut(below) {
            document.last = Some(Arc::clone(&findings));
            document.published = Some((version, now, findings));
        }
    }

    /// Takes in findings that the server was asked for, if they are about the newest text.
    pub(super) fn pull(&mut self, below: &Path, version: i32, findings: Findings) {
        if let Some(document) = self.open.get_mut(below).filter(|document| document.version == version) {
            document.last = Some(Arc::clone(&findings));
            document.pulled = Some(findings);
        }
    }
}

impl Document {
    /// Findings in its newest text, once they are whole.
    pub(super) fn findings(&self, is_pulled: bool, now: Instant) -> Option<Findings> {
        let published = self.published.as_ref().filter(|(version, at, _)| match version {
            Some(version) => *version >= self.version,
            None => *at >= self.told_at,
        });
        if !is_pulled {
            return published.filter(|(_, at, _)| now >= *at + SETTLING).map(|(_, _, findings)| Arc::clone(findings));
        }
        let pulled = self.pulled.as_ref()?;
        // Some publish what a compiler says, and tell the rest when they are asked.
        let others = published.iter().flat_map(|(_, _, findings)| findings.iter());
        let mut all: Vec<_> = pulled.iter().chain(others).cloned().collect();
        all.sort();
        all.dedup();
        Some(all.into())
    }

    /// Findings that were known last, of whatever text.
    pub(super) fn last_findings(&self) -> Option<Findings> {
        self.last.clone()
    }

    /// When published findings are whole.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        self.published.as_ref().map(|(_, at, _)| *at + SETTLING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Findings {
        Arc::from(Vec::new())
    }

    #[test]
    fn findings_are_those_of_the_newest_text() {
        let (mut documents, begun) = (Documents::default(), Instant::now());
        let later = |ms| begun + Duration::from_millis(ms);
        let path = Path::new("a.py");
        let found =
            |documents: &Documents, pulled, ms| documents.get(path).unwrap().findings(pulled, later(ms)).is_some();
        assert_eq!(documents.set(path, &"1".into(), None, begun), Telling::Open);
        documents.publish(path, Some(1), none(), later(10));
        assert!(!found(&documents, false, 20) && found(&documents, false, 200));
        assert_eq!(documents.set(path, &"1".into(), None, later(300)), Telling::Nothing);
        assert!(found(&documents, false, 300));
        assert_eq!(documents.set(path, &"2".into(), None, later(300)), Telling::Change);
        assert!(!found(&documents, false, 900));
        // One without a version counts from when the text was told.
        documents.publish(path, None, none(), later(400));
        assert!(found(&documents, false, 900));
        documents.pull(path, 1, none());
        assert!(!found(&documents, true, 900));
        documents.pull(path, 2, none());
        assert!(found(&documents, true, 900));
        documents.set(Path::new("b.py"), &"1".into(), None, later(900));
        assert!(!found(&documents, true, 900), "another file has changed");
    }

    #[test]
    fn the_file_that_was_not_used_for_longest_is_closed() {
        let (mut documents, begun) = (Documents::default(), Instant::now());
        for number in 0..=MAX_OPEN {
            let now = begun + Duration::from_millis(number as u64);
            documents.set(Path::new(&format!("{number}")), &"".into(), None, now);
        }
        assert_eq!(documents.surplus(), Some("0".into()));
        assert!(documents.close(Path::new("0")));
        assert_eq!(documents.surplus(), None);
    }
}
