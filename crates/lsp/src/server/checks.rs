//! Those who wait for findings.

use std::path::PathBuf;

use tokio::time::Instant;

use super::{
    CheckPurpose, Findings, Reply, ServerError,
    documents::{Documents, FindingSources},
};

/// One who waits for findings in files.
pub(super) struct Check {
    pub(super) files: Vec<PathBuf>,
    pub(super) purpose: CheckPurpose,
    pub(super) deadline: Instant,
    pub(super) reply: Reply<Vec<Findings>>,
}

/// All who wait.
#[derive(Default)]
pub(super) struct Checks {
    waiting: Vec<Check>,
}

impl CheckPurpose {
    /// Findings that count for it.
    pub(super) fn sources(self, is_pulled: bool) -> FindingSources {
        match self {
            _ if !is_pulled => FindingSources::Published,
            // What is published besides comes too late to be compared.
            Self::Baseline | Self::Comparison => FindingSources::Pulled,
            Self::Question => FindingSources::All,
        }
    }

    /// Time of changes on the disk that findings have to be younger than. Those after an edit come with the edited text.
    fn changes(self, documents: &Documents) -> Option<Instant> {
        documents.changed_at().filter(|_| self == Self::Question)
    }
}

impl Checks {
    pub(super) fn add(&mut self, check: Check) {
        self.waiting.push(check);
    }

    /// Files that somebody waits for.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.waiting.iter().flat_map(|check| check.files.clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets those who have stopped waiting.
    pub(super) fn forget_closed(&mut self) {
        self.waiting.retain(|check| !check.reply.is_closed());
    }

    /// Returns whether texts have to stay as they are: somebody waits for what was wrong with an earlier one.
    pub(super) fn hold_texts(&self) -> bool {
        self.waiting.iter().any(|check| check.purpose == CheckPurpose::Baseline)
    }

    /// Answers those whose findings are whole.
    pub(super) fn answer(&mut self, documents: &Documents, is_pulled: bool, now: Instant, closed: &ServerError) {
        for check in std::mem::take(&mut self.waiting) {
            let sources = check.purpose.sources(is_pulled);
            let open: Option<Vec<_>> = check.files.iter().map(|below| documents.get(below)).collect();
            // Nothing is known of a file that was closed meanwhile, and that is no good news.
            let Some(open) = open else {
                let _ = check.reply.send(Err(closed.clone()));
                continue;
            };
            let changed = check.purpose.changes(documents);
            match open.into_iter().map(|document| document.findings(sources, changed, now)).collect() {
                Some(findings) => drop(check.reply.send(Ok(findings))),
                None => self.waiting.push(check),
            }
        }
    }

    /// Tells those whose time is over. True if there were any.
    pub(super) fn expire(&mut self, now: Instant, error: &ServerError) -> bool {
        let (over, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|check| check.deadline <= now);
        self.waiting = waiting;
        let over: Vec<Check> = over;
        let any = !over.is_empty();
        over.into_iter().for_each(|check| drop(check.reply.send(Err(error.clone()))));
        any
    }

    /// Tells all of them.
    pub(super) fn fail(&mut self, error: &ServerError) {
        self.waiting.drain(..).for_each(|check| drop(check.reply.send(Err(error.clone()))));
    }

    /// Moment at which the next of them has to be looked at. It may have passed.
    pub(super) fn next_look(&self, documents: &Documents, is_pulled: bool, now: Instant) -> Option<Instant> {
        let deadlines = self.waiting.iter().map(|check| check.deadline);
        let answers = self.waiting.iter().filter_map(|check| check.answerable_at(documents, is_pulled, now));
        deadlines.chain(answers).min()
    }
}

impl Check {
    /// Moment from which it can be answered, as far as that is known. One that passed since it was looked at last counts like
    /// one to come: else nothing would wake the loop before the deadline.
    fn answerable_at(&self, documents: &Documents, is_pulled: bool, now: Instant) -> Option<Instant> {
        let Some(open) = self.files.iter().map(|below| documents.get(below)).collect::<Option<Vec<_>>>() else {
            // A file that was closed ends the wait.
            return Some(now);
        };
        // What is asked for comes with an answer, which is looked at then.
        let open = (!is_pulled).then_some(open)?;
        let changed = self.purpose.changes(documents);
        open.into_iter().map(|document| document.whole_at(changed)).collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc, time::Duration};

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_file_that_was_closed_is_no_file_without_errors() {
        let (mut checks, mut documents, now) = (Checks::default(), Documents::default(), Instant::now());
        let (reply, mut answer) = oneshot::channel();
        let (purpose, deadline) = (CheckPurpose::Baseline, now + Duration::from_secs(9));
        checks.add(Check { files: vec!["a".into(), "b".into()], purpose, deadline, reply });
        for name in ["a", "b"] {
            documents.set(Path::new(name), &"".into(), None, now);
            documents.publish(Path::new(name), Some(1), Arc::from(Vec::new()), now);
        }
        let closed = ServerError { message: "closed".to_owned(), given_up: false };
        checks.answer(&documents, false, now, &closed);
        assert!(checks.hold_texts() && answer.try_recv().is_err(), "not whole yet");
        documents.close(Path::new("a"));
        checks.answer(&documents, false, now + Duration::from_secs(1), &closed);
        assert_eq!(answer.try_recv().unwrap(), Err(closed));
        assert!(!checks.hold_texts());
    }

    #[test]
    fn a_check_is_looked_at_once_all_its_files_are_whole_also_when_that_moment_has_passed() {
        let (mut checks, mut documents, begun) = (Checks::default(), Documents::default(), Instant::now());
        let later = |ms| begun + Duration::from_millis(ms);
        let (reply, _answer) = oneshot::channel();
        let (purpose, deadline) = (CheckPurpose::Comparison, later(60_000));
        checks.add(Check { files: vec!["a".into(), "b".into()], purpose, deadline, reply });
        for name in ["a", "b"] {
            documents.set(Path::new(name), &"".into(), None, begun);
        }
        documents.publish(Path::new("a"), Some(1), Arc::from(Vec::new()), begun);
        assert_eq!(checks.next_look(&documents, false, later(10)), Some(deadline), "nothing is known of b");
        documents.publish(Path::new("b"), Some(1), Arc::from(Vec::new()), later(50));
        let whole = later(150);
        assert_eq!(documents.get(Path::new("b")).unwrap().whole_at(None), Some(whole));
        for now in [later(60), later(120), whole, later(151), later(9_000)] {
            assert_eq!(checks.next_look(&documents, false, now), Some(whole), "{:?}", now - begun);
        }
        assert_eq!(checks.next_look(&documents, true, later(120)), Some(deadline), "it is asked");
        documents.close(Path::new("a"));
        assert_eq!(checks.next_look(&documents, true, later(120)), Some(later(120)));
    }

    #[test]
    fn one_who_has_stopped_waiting_is_forgotten() {
        let (mut checks, now) = (Checks::default(), Instant::now());
        let (reply, answer) = oneshot::channel();
        checks.add(Check { files: Vec::new(), purpose: CheckPurpose::Baseline, deadline: now, reply });
        drop(answer);
        checks.forget_closed();
        assert!(checks.is_empty());
    }
}
