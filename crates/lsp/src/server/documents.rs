//! Files that are open in a server, their findings, and the checks that wait for findings.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{CheckPurpose, Findings, Reply, ServerError};
use crate::source::Stamp;

/// Maximum number of files that are open in a server. To stay within the limit, the least recently used file is closed.
pub(crate) const MAX_OPEN: usize = 32;

/// Time for which published findings may still be replaced by newer ones.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Settle time for findings without a version. Servers that omit versions publish in parts, and findings for an earlier
/// text may arrive after a change.
const SETTLE_TIME_UNVERSIONED: Duration = Duration::from_secs(1);
/// Time after which the last findings without a version are considered valid if the server stays silent, because some
/// servers publish nothing if nothing changed.
const UNCHANGED_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which findings are considered valid if the server stays silent after changes on disk.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Findings published by a server.
#[derive(Debug)]
struct PublishedFindings {
    /// Version of the text, or `None` if the server does not report it.
    version: Option<i32>,
    at: Instant,
    findings: Findings,
}

/// File that is open in a server.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) text: Arc<str>,
    pub(super) version: i32,
    pub(super) stamp: Option<Stamp>,
    /// Time at which this version was sent.
    sent_at: Instant,
    /// Findings published by the server.
    published: Option<PublishedFindings>,
    /// Requested findings of this version.
    pulled: Option<Findings>,
    /// Last requested findings, of any version.
    last_pulled: Option<Findings>,
    used: Instant,
}

/// Sources of findings, by the method with which a server reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingSources {
    /// Findings that the server publishes by itself.
    Published,
    /// Findings that are requested.
    Pulled,
    /// Both: some servers publish compiler findings late, and return the others on request.
    All,
}

/// Change of a text, as reported to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextChange {
    Unchanged,
    Opened,
    Changed,
}

/// Open files of a server, by their path relative to the project.
#[derive(Debug, Default)]
pub(super) struct Documents {
    open: HashMap<PathBuf, Document>,
    /// Number of events so far that made findings outdated. An answer to a request belongs to the generation in which
    /// the request was sent.
    pub(super) generation: u64,
    /// Time at which the last changes on disk were reported to the server.
    changed_at: Option<Instant>,
}

impl Documents {
    /// Sets the current text of a file.
    pub(super) fn set(&mut self, below: &Path, text: &Arc<str>, stamp: Option<Stamp>, now: Instant) -> TextChange {
        let change = match self.open.get_mut(below) {
            Some(document) => {
                (document.used, document.stamp) = (now, stamp);
                if document.text == *text {
                    return TextChange::Unchanged;
                }
                document.version += 1;
                (document.text, document.sent_at) = (Arc::clone(text), now);
                TextChange::Changed
            }
            None => {
                let document = Document {
                    text: Arc::clone(text),
                    version: 1,
                    stamp,
                    sent_at: now,
                    published: None,
                    pulled: None,
                    last_pulled: None,
                    used: now,
                };
                self.open.insert(below.to_path_buf(), document);
                TextChange::Opened
            }
        };
        // Requested findings for all files may be outdated. Published findings are published again.
        self.forget_pulled();
        change
    }

    /// Records that changes on disk have been reported to the server. Earlier findings are outdated from now on.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed_at = Some(now);
        self.forget_pulled();
    }

    /// Drops requested findings, which are now outdated.
    pub(super) fn forget_pulled(&mut self) {
        self.generation += 1;
        self.open.values_mut().for_each(|document| document.pulled = None);
    }

    pub(super) fn get(&self, below: &Path) -> Option<&Document> {
        self.open.get(below)
    }

    /// Closes a file. Returns true if it was open.
    pub(super) fn close(&mut self, below: &Path) -> bool {
        self.open.remove(below).is_some()
    }

    /// Returns a file to close if too many are open, but never a file that a check waits for.
    pub(super) fn excess_document(&self, waited_for: &[PathBuf]) -> Option<PathBuf> {
        if self.open.len() <= MAX_OPEN {
            return None;
        }
        let free = self.open.iter().filter(|(below, _)| !waited_for.contains(below));
        free.min_by_key(|(_, document)| document.used).map(|(below, _)| below.clone())
    }

    /// Returns the open files with their stamps.
    pub(super) fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        self.open.iter().map(|(below, document)| (below.clone(), document.stamp)).collect()
    }

    /// Returns the last findings for all open files.
    pub(super) fn last_findings(&self, sources: FindingSources) -> Vec<(PathBuf, Findings)> {
        let last = |document: &Document| document.last_findings(sources);
        self.open.iter().filter_map(|(below, document)| Some((below.clone(), last(document)?))).collect()
    }

    /// Stores published findings. Returns true if the file is open.
    pub(super) fn publish(&mut self, below: &Path, version: Option<i32>, findings: Findings, now: Instant) -> bool {
        let document = self.open.get_mut(below);
        document.map(|document| document.published = Some(PublishedFindings { version, at: now, findings })).is_some()
    }

    /// Stores requested findings. Returns false if the findings are outdated.
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
    /// Returns the findings for the current text once they are complete.
    pub(super) fn findings(&self, sources: FindingSources, changed: Option<Instant>, now: Instant) -> Option<Findings> {
        let is_whole = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match sources {
            FindingSources::Published if is_whole(self.complete_at(changed)) => self.last_findings(sources),
            FindingSources::Published => None,
            FindingSources::Pulled => self.pulled.clone(),
            FindingSources::All => {
                let published = self.published.as_ref().filter(|published| match published.version {
                    Some(version) => version >= self.version,
                    None => published.at >= self.sent_at,
                });
                Some(merge_findings(self.pulled.as_ref()?, published))
            }
        }
    }

    /// Returns the last findings, for any text.
    pub(super) fn last_findings(&self, sources: FindingSources) -> Option<Findings> {
        let published = self.published.as_ref();
        match sources {
            FindingSources::Published => published.map(|published| Arc::clone(&published.findings)),
            FindingSources::Pulled => self.last_pulled.clone(),
            FindingSources::All => self.last_pulled.as_ref().map(|pulled| merge_findings(pulled, published)),
        }
    }

    /// Returns the time at which published findings are complete, or `None` if unknown. Findings published before
    /// `changed` may still be replaced by newer ones.
    pub(super) fn complete_at(&self, changed: Option<Instant>) -> Option<Instant> {
        let PublishedFindings { version, at, .. } = self.published.as_ref()?;
        let settled_at = changed.filter(|changed| at < changed).map(|changed| changed + SILENCE_TIMEOUT);
        let whole = match version {
            Some(version) => (*version >= self.version).then(|| *at + SETTLE_TIME),
            None if *at >= self.sent_at => Some(*at + SETTLE_TIME_UNVERSIONED),
            None => Some(self.sent_at + UNCHANGED_TIMEOUT),
        };
        whole.max(settled_at.filter(|_| whole.is_some()))
    }
}

fn merge_findings(pulled: &Findings, published: Option<&PublishedFindings>) -> Findings {
    let published = published.into_iter().flat_map(|published| published.findings.iter());
    let mut all: Vec<_> = pulled.iter().chain(published).cloned().collect();
    all.sort();
    all.dedup();
    all.into()
}

/// Caller that waits for the findings in files.
pub(super) struct Check {
    pub(super) files: Vec<PathBuf>,
    pub(super) purpose: CheckPurpose,
    pub(super) deadline: Instant,
    pub(super) reply: Reply<Vec<Findings>>,
}

#[derive(Default)]
pub(super) struct Checks(pub(super) Vec<Check>);

impl CheckPurpose {
    /// Returns the sources of findings for this purpose.
    pub(super) fn sources(self, is_pulled: bool) -> FindingSources {
        match self {
            _ if !is_pulled => FindingSources::Published,
            // Published findings arrive too late for a comparison.
            Self::Baseline | Self::Comparison => FindingSources::Pulled,
            Self::Question => FindingSources::All,
        }
    }

    /// Returns the time of changes on disk after which findings must be published. For a comparison, the edited text is
    /// sent along with the change.
    fn changes(self, documents: &Documents) -> Option<Instant> {
        documents.changed_at.filter(|_| self == Self::Question)
    }
}

impl Checks {
    /// Returns the files that a check waits for.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.0.iter().flat_map(|check| check.files.clone()).collect()
    }

    /// Drops checks whose callers are gone.
    pub(super) fn forget_closed(&mut self) {
        self.0.retain(|check| !check.reply.is_closed());
    }

    /// Returns true if texts must not be changed, because a check waits for the findings in an earlier text.
    pub(super) fn locks_texts(&self) -> bool {
        self.0.iter().any(|check| check.purpose == CheckPurpose::Baseline)
    }

    /// Answers checks whose findings are complete.
    pub(super) fn answer(&mut self, documents: &Documents, is_pulled: bool, now: Instant, closed: &ServerError) {
        for check in std::mem::take(&mut self.0) {
            let sources = check.purpose.sources(is_pulled);
            let open: Option<Vec<_>> = check.files.iter().map(|below| documents.get(below)).collect();
            // A closed file has no findings, but must not be mistaken for a clean file.
            let Some(open) = open else {
                let _ = check.reply.send(Err(closed.clone()));
                continue;
            };
            let changed = check.purpose.changes(documents);
            match open.into_iter().map(|document| document.findings(sources, changed, now)).collect() {
                Some(findings) => drop(check.reply.send(Ok(findings))),
                None => self.0.push(check),
            }
        }
    }

    /// Fails checks that have reached their deadline. Returns true if there were any such checks.
    pub(super) fn expire(&mut self, now: Instant, error: &ServerError) -> bool {
        let before = self.0.len();
        for check in self.0.extract_if(.., |check| check.deadline <= now) {
            drop(check.reply.send(Err(error.clone())));
        }
        self.0.len() < before
    }

    /// Fails all checks with this error.
    pub(super) fn fail(&mut self, error: &ServerError) {
        self.0.drain(..).for_each(|check| drop(check.reply.send(Err(error.clone()))));
    }

    /// Returns the time of the next timer, which may be in the past.
    pub(super) fn next_timer(&self, documents: &Documents, is_pulled: bool, now: Instant) -> Option<Instant> {
        let deadlines = self.0.iter().map(|check| check.deadline);
        let answers = self.0.iter().filter_map(|check| check.ready_at(documents, is_pulled, now));
        deadlines.chain(answers).min()
    }
}

impl Check {
    /// Returns the time at which the check can be answered, or `None` if unknown. A time that has just passed also
    /// counts, since otherwise nothing would wake the loop before the deadline.
    fn ready_at(&self, documents: &Documents, is_pulled: bool, now: Instant) -> Option<Instant> {
        let Some(open) = self.files.iter().map(|below| documents.get(below)).collect::<Option<Vec<_>>>() else {
            // A closed file ends the check.
            return Some(now);
        };
        // Requested findings arrive as an answer, which triggers the check.
        let open = (!is_pulled).then_some(open)?;
        let changed = self.purpose.changes(documents);
        open.into_iter().map(|document| document.complete_at(changed)).collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn none() -> Findings {
        Arc::from(Vec::new())
    }

    #[test]
    fn diagnostics_belong_to_the_newest_text() {
        const PUBLISHED: FindingSources = FindingSources::Published;
        const PULLED: FindingSources = FindingSources::Pulled;
        let (mut documents, start) = (Documents::default(), Instant::now());
        let later = |ms| start + Duration::from_millis(ms);
        let path = Path::new("a.py");
        let found = |documents: &Documents, sources, ms| {
            documents.get(path).unwrap().findings(sources, documents.changed_at, later(ms)).is_some()
        };
        assert_eq!(documents.set(path, &"1".into(), None, start), TextChange::Opened);
        documents.publish(path, Some(1), none(), later(10));
        assert!(!found(&documents, PUBLISHED, 20) && found(&documents, PUBLISHED, 200));
        assert_eq!(documents.set(path, &"1".into(), None, later(300)), TextChange::Unchanged);
        assert!(found(&documents, PUBLISHED, 300));
        // After a change elsewhere, findings may differ. New findings are valid immediately, and silence is considered
        // valid after a while.
        documents.changed(later(300));
        assert!(!found(&documents, PUBLISHED, 2200) && found(&documents, PUBLISHED, 2300));
        documents.publish(path, Some(1), none(), later(400));
        assert!(!found(&documents, PUBLISHED, 450) && found(&documents, PUBLISHED, 500));
        let old = documents.generation;
        assert_eq!(documents.set(path, &"2".into(), None, later(300)), TextChange::Changed);
        assert!(!found(&documents, PUBLISHED, 900));
        // Findings without a version are considered current from the time when the text was sent.
        documents.publish(path, None, none(), later(400));
        assert!(!found(&documents, PUBLISHED, 900) && found(&documents, PUBLISHED, 1400));
        documents.set(path, &"3".into(), None, later(2000));
        assert!(!found(&documents, PUBLISHED, 11900) && found(&documents, PUBLISHED, 12000), "nothing changed");
        assert!(!documents.pull(path, old, none()) && !found(&documents, PULLED, 900));
        assert!(documents.pull(path, documents.generation, none()) && found(&documents, PULLED, 900));
        let old = documents.generation;
        documents.set(Path::new("b.py"), &"1".into(), None, later(900));
        assert!(!found(&documents, PULLED, 900), "another file changed");
        assert!(!documents.pull(path, old, none()), "requested before the change");
    }

    #[test]
    fn least_recently_used_file_is_closed_unless_awaited() {
        let (mut documents, start) = (Documents::default(), Instant::now());
        for number in 0..=MAX_OPEN {
            let now = start + Duration::from_millis(number as u64);
            documents.set(Path::new(&format!("{number}")), &"".into(), None, now);
        }
        assert_eq!(documents.excess_document(&[]), Some("0".into()));
        assert_eq!(documents.excess_document(&["0".into()]), Some("1".into()));
        assert!(documents.close(Path::new("0")));
        assert_eq!(documents.excess_document(&[]), None);
    }

    #[test]
    fn closed_file_is_not_reported_as_error_free() {
        let (mut checks, mut documents, now) = (Checks::default(), Documents::default(), Instant::now());
        let (reply, mut answer) = oneshot::channel();
        let (purpose, deadline) = (CheckPurpose::Baseline, now + Duration::from_secs(9));
        checks.0.push(Check { files: vec!["a".into(), "b".into()], purpose, deadline, reply });
        for name in ["a", "b"] {
            documents.set(Path::new(name), &"".into(), None, now);
            documents.publish(Path::new(name), Some(1), none(), now);
        }
        let closed = ServerError { message: "closed".to_owned(), given_up: false };
        checks.answer(&documents, false, now, &closed);
        assert!(checks.locks_texts() && answer.try_recv().is_err(), "findings are incomplete");
        documents.close(Path::new("a"));
        checks.answer(&documents, false, now + Duration::from_secs(1), &closed);
        assert_eq!(answer.try_recv().unwrap(), Err(closed));
        assert!(!checks.locks_texts());
    }

    #[test]
    fn check_completes_when_all_files_are_ready() {
        let (mut checks, mut documents, start) = (Checks::default(), Documents::default(), Instant::now());
        let later = |ms| start + Duration::from_millis(ms);
        let (reply, _answer) = oneshot::channel();
        let (purpose, deadline) = (CheckPurpose::Comparison, later(60_000));
        checks.0.push(Check { files: vec!["a".into(), "b".into()], purpose, deadline, reply });
        for name in ["a", "b"] {
            documents.set(Path::new(name), &"".into(), None, start);
        }
        documents.publish(Path::new("a"), Some(1), none(), start);
        assert_eq!(checks.next_timer(&documents, false, later(10)), Some(deadline), "b has no findings yet");
        documents.publish(Path::new("b"), Some(1), none(), later(50));
        let whole = later(150);
        assert_eq!(documents.get(Path::new("b")).unwrap().complete_at(None), Some(whole));
        for now in [later(60), later(120), whole, later(151), later(9_000)] {
            assert_eq!(checks.next_timer(&documents, false, now), Some(whole), "{:?}", now - start);
        }
        assert_eq!(
            checks.next_timer(&documents, true, later(120)),
            Some(deadline),
            "pulled findings have only the deadline"
        );
        documents.close(Path::new("a"));
        assert_eq!(checks.next_timer(&documents, true, later(120)), Some(later(120)));
    }

    #[test]
    fn dropped_check_is_removed() {
        let (mut checks, now) = (Checks::default(), Instant::now());
        let (reply, answer) = oneshot::channel();
        checks.0.push(Check { files: Vec::new(), purpose: CheckPurpose::Baseline, deadline: now, reply });
        drop(answer);
        checks.forget_closed();
        assert!(checks.0.is_empty());
    }
}
