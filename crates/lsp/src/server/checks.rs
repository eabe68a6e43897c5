//! Those who wait for findings.

use std::path::PathBuf;

use tokio::time::Instant;

use super::{Findings, Reply, ServerError, documents::Documents};

/// One who waits for findings in files.
pub(super) struct Check {
    pub(super) files: Vec<PathBuf>,
    pub(super) deadline: Instant,
    pub(super) reply: Reply<Vec<Findings>>,
}

/// All who wait.
#[derive(Default)]
pub(super) struct Checks {
    waiting: Vec<Check>,
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

    /// Answers those whose findings are whole. True if there were any.
    pub(super) fn answer(&mut self, documents: &Documents, is_pulled: bool, now: Instant) -> bool {
        let findings = |check: &Check| -> Option<Vec<Findings>> {
            // One that was closed meanwhile has none.
            let of = |below: &PathBuf| match documents.get(below) {
                Some(document) => document.findings(is_pulled, now),
                None => Some(Findings::from(Vec::new())),
            };
            check.files.iter().map(of).collect()
        };
        let before = self.waiting.len();
        for check in std::mem::take(&mut self.waiting) {
            match findings(&check) {
                // One who has stopped waiting hears nothing.
                Some(findings) => drop(check.reply.send(Ok(findings))),
                None => self.waiting.push(check),
            }
        }
        self.waiting.len() < before
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

    /// When the next of them has to be looked at.
    pub(super) fn next_look(&self, documents: &Documents, is_pulled: bool, now: Instant) -> Option<Instant> {
        let deadlines = self.waiting.iter().map(|check| check.deadline);
        let files = self.waiting.iter().flat_map(|check| &check.files).filter(|_| !is_pulled);
        let settling = files.filter_map(|below| documents.get(below)?.settles_at()).filter(|at| *at > now);
        deadlines.chain(settling).min()
    }
}
