//! Whether the chain holds, and what can be known where it does not.
//!
//! A changed line does not fit its hash; a removed, moved or inserted one breaks the row of numbers and the hashes that
//! point back. That the end is missing shows only by somebody who remembers the last line: the witness beside the log,
//! the daemon while it runs, or a person who noted a hash. Without a key, a log that was written anew as a whole, the
//! witness with it, holds; only a hash that was noted elsewhere tells it from the true one.

use std::{
    fs,
    io::{self, BufReader},
    path::Path,
};

use agentd_core::audit::{AuditFact, AuditFinding, AuditHead, AuditLine, AuditProblem, AuditReport};

use crate::{
    chain::{self, NO_HASH, SealedLine},
    read::{self, LogLine, WITNESS},
};

/// Findings that are told; the rest is counted.
const MOST_FINDINGS: usize = 100;

/// Expectations of the log beside its files.
#[derive(Debug, Clone, Default)]
pub struct ExpectedLog {
    /// Lines that somebody remembers: the last one, as the daemon that writes it does, and others.
    pub heads: Vec<AuditHead>,
    /// A hash that was noted elsewhere.
    pub noted: Option<String>,
    /// Set if lines may be added meanwhile, so that the last may be seen half written.
    pub growing: bool,
}

/// Reads the whole log and tells whether it holds. Blocks, and changes nothing.
///
/// # Errors
/// The folder cannot be read. A file that cannot be read is a finding.
pub fn verify(folder: &Path, expect: &ExpectedLog) -> io::Result<AuditReport> {
    let witness = read_witness(folder);
    let mut walk = Walk::new(witness.iter().chain(&expect.heads).cloned().collect(), expect.noted.clone());
    let files = read::opened(folder)?;
    let newest = files.len();
    for (number, (name, file)) in (1..).zip(files) {
        walk.file.clone_from(&name);
        walk.line = 0;
        walk.report.files.push(name);
        let may_be_growing = expect.growing && number == newest;
        let read = file.and_then(|file| walk.read(file, may_be_growing));
        if let Err(error) = read {
            walk.line = 0;
            walk.find(AuditProblem::Unreadable, format!("the file cannot be read: {error}"));
        }
    }
    Ok(walk.end(witness.is_some()))
}

/// Adds that somebody else has written behind the last line.
pub(crate) fn add_foreign(report: &mut AuditReport, bytes: u64) {
    report.findings.push(AuditFinding {
        file: read::CURRENT.to_owned(),
        line: 0,
        problem: AuditProblem::Foreign,
        message: format!("the last {bytes} bytes were not written by the daemon"),
    });
}

fn read_witness(folder: &Path) -> Option<AuditHead> {
    let path = folder.join(WITNESS);
    let is_plain = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file() && about.len() < 256);
    is_plain.then(|| fs::read_to_string(path).ok()).flatten().and_then(|text| chain::read_witness(&text))
}

/// The way through the lines.
struct Walk {
    file: String,
    /// The line in the file.
    line: u64,
    /// The last line of the chain so far; none before the first.
    last: Option<AuditHead>,
    /// Lines that somebody remembers.
    remembered: Vec<AuditHead>,
    noted: Option<String>,
    /// Where the log begins, if not with its first line.
    begins: Option<Beginning>,
    /// The last lines of files that the log itself tells to have removed.
    trimmed: Vec<AuditHead>,
    report: AuditReport,
}

/// The first line of a log whose beginning is not there.
struct Beginning {
    file: String,
    line: u64,
    /// Head before it.
    before: AuditHead,
}

impl Walk {
    fn new(remembered: Vec<AuditHead>, noted: Option<String>) -> Self {
        let report =
            AuditReport { lines: 0, files: Vec::new(), head: chain::beginning(), findings: Vec::new(), more: 0 };
        Self {
            file: read::CURRENT.to_owned(),
            line: 0,
            last: None,
            remembered,
            noted,
            begins: None,
            trimmed: Vec::new(),
            report,
        }
    }

    fn find(&mut self, problem: AuditProblem, message: String) {
        if self.report.findings.len() < MOST_FINDINGS {
            let (file, line) = (self.file.clone(), self.line);
            self.report.findings.push(AuditFinding { file, line, problem, message });
        } else {
            self.report.more += 1;
        }
    }

    fn read(&mut self, file: fs::File, may_be_growing: bool) -> io::Result<()> {
        let mut lines = BufReader::with_capacity(1 << 16, file);
        while let Some(found) = read::next_line(&mut lines)? {
            self.line += 1;
            match found {
                LogLine::Line(line) => self.step(&line),
                LogLine::TooLong => {
                    self.find(AuditProblem::NotALine, "it is longer than any line of the log".to_owned())
                }
                LogLine::Torn(_) if may_be_growing => {}
                LogLine::Torn(bytes) => {
                    self.find(
                        AuditProblem::Torn,
                        format!("the last {bytes} bytes are no whole line, as after a crash"),
                    );
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, line: &[u8]) {
        self.report.lines += 1;
        let Some(sealed) = SealedLine::read(line) else {
            return self.find(AuditProblem::NotALine, "it has not the form of a line of the log".to_owned());
        };
        let n = sealed.n;
        if !sealed.holds() {
            self.find(AuditProblem::Changed, format!("line {n} was changed: its hash is another"));
            // The next line may still point to what this one was.
            self.last = Some(sealed.head());
            return;
        }
        if !self.follows(&sealed) {
            return;
        }
        if let Some(other) = self.remembered.iter().find(|head| head.n == n && head.hash != sealed.hash) {
            let message = format!("line {n} is not the one that was written: its hash was {}", other.hash);
            self.find(AuditProblem::Changed, message);
        }
        if self.noted.as_deref() == Some(sealed.hash) {
            self.noted = None;
        }
        self.hear(line);
        self.last = Some(sealed.head());
        self.report.head = sealed.head();
    }

    /// Takes note of what the log tells of itself.
    fn hear(&mut self, line: &[u8]) {
        let is_own = |kind: &[u8]| line.windows(kind.len()).any(|window| window == kind);
        if !is_own(b"\"kind\":\"log_damaged\"") && !is_own(b"\"kind\":\"log_trimmed\"") {
            return;
        }
        let Ok(AuditLine { entry, .. }) = serde_json::from_slice(line) else { return };
        match entry.fact {
            AuditFact::LogDamaged { found, problem, .. } => {
                let message = format!("the log tells, at {}: {found}", entry.at);
                self.find(problem.unwrap_or(AuditProblem::Recorded), message);
            }
            AuditFact::LogTrimmed { through, .. } => self.trimmed.push(through),
            _ => {}
        }
    }

    /// Returns whether the chain continues with this line; a line that does not belong here is passed over.
    fn follows(&mut self, sealed: &SealedLine<'_>) -> bool {
        let n = sealed.n;
        let (wanted, before) = match &self.last {
            Some(last) => (last.n.saturating_add(1), last.hash.clone()),
            None if n > 1 => {
                let before = AuditHead { n: n - 1, hash: sealed.previous.to_owned() };
                self.begins = Some(Beginning { file: self.file.clone(), line: self.line, before });
                return true;
            }
            None => (1, NO_HASH.to_owned()),
        };
        if n < wanted {
            let message = format!("line {n} is where line {wanted} belongs: it was moved or inserted");
            self.find(AuditProblem::OutOfOrder, message);
            return false;
        }
        if n > wanted {
            let gone =
                if n - wanted == 1 { format!("line {wanted} is") } else { format!("lines {wanted} to {} are", n - 1) };
            self.find(AuditProblem::Missing, format!("{gone} gone"));
        } else if sealed.previous != before {
            let message = format!("line {n} does not follow the line before it: that one was changed, or put in");
            self.find(AuditProblem::Changed, message);
        }
        true
    }

    fn end(mut self, has_witness: bool) -> AuditReport {
        self.tell_beginning();
        let last = self.last.as_ref().map_or(0, |last| last.n);
        if let Some(expected) = self.remembered.iter().map(|head| head.n).max().filter(|n| *n > last) {
            let message = format!("the log ends with line {last}; lines up to {expected} were written");
            self.find(AuditProblem::EndMissing, message);
        }
        if !has_witness && last > 0 {
            let message = format!("{WITNESS} is gone or damaged: whether the end is missing cannot be known");
            self.find(AuditProblem::NoWitness, message);
        }
        if let Some(noted) = self.noted.take() {
            let message = format!("no line has the hash {noted}: the log was rewritten or truncated before it");
            self.find(AuditProblem::NotedHashMissing, message);
        }
        self.report
    }

    /// Reports whether the lines before the first were removed as the log tells, or are missing.
    fn tell_beginning(&mut self) {
        let Some(Beginning { file, line, before }) = self.begins.take() else { return };
        let first = before.n + 1;
        let (problem, message) = if self.trimmed.contains(&before) {
            let message = format!(
                "the log begins with line {first}: the log records that it removed the earlier ones by age or size"
            );
            (AuditProblem::Recorded, message)
        } else {
            let message = format!("the log begins with line {first}: the lines before it are gone");
            (AuditProblem::BeginningMissing, message)
        };
        self.report.findings.insert(0, AuditFinding { file, line, problem, message });
    }
}
