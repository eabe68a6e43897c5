//! Verification of the chain.
//!
//! A changed line does not match its hash. A removed, moved or inserted line breaks the numbering and the links to
//! previous hashes. A missing end can only be detected with a known last line: from the witness file, from the running
//! daemon, or from a hash noted elsewhere. There is no key, so a log that was completely rewritten, including the
//! witness, verifies; only a hash noted elsewhere reveals this.

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

/// Maximum number of reported findings; further findings are only counted.
const MAX_FINDINGS: usize = 100;

/// Information from outside the log files against which the log is verified.
#[derive(Debug, Clone, Default)]
pub struct ExpectedLog {
    /// Known lines, such as the last line of the daemon that writes the log.
    pub heads: Vec<AuditHead>,
    /// Hash that was noted elsewhere.
    pub noted: Option<String>,
    /// True if the log is being written, so that the last line may be incomplete.
    pub growing: bool,
}

/// Reads the whole log and reports every break of the chain. Blocks and changes nothing.
///
/// # Errors
/// Fails if the folder cannot be read. A file that cannot be read is a finding.
pub fn verify(folder: &Path, expect: &ExpectedLog) -> io::Result<AuditReport> {
    let witness = read_witness(folder);
    let mut verifier = Verifier::new(witness.iter().chain(&expect.heads).cloned().collect(), expect.noted.clone());
    let files = read::opened(folder)?;
    let newest = files.len();
    for (number, (name, file)) in (1..).zip(files) {
        verifier.file.clone_from(&name);
        verifier.line = 0;
        verifier.report.files.push(name);
        let may_be_growing = expect.growing && number == newest;
        let read = file.and_then(|file| verifier.read(file, may_be_growing));
        if let Err(error) = read {
            verifier.line = 0;
            verifier.find(AuditProblem::Unreadable, format!("the file cannot be read: {error}"));
        }
    }
    Ok(verifier.end(witness.is_some()))
}

/// Adds a finding that another program appended `bytes` to the log.
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
    let is_plain = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() < 256);
    is_plain.then(|| fs::read_to_string(path).ok()).flatten().and_then(|text| chain::read_witness(&text))
}

/// State of one pass over all lines.
#[derive(Default)]
struct Verifier {
    file: String,
    /// Number of the current line within its file.
    line: u64,
    /// Last line of the chain so far. `None` before the first line.
    last: Option<AuditHead>,
    /// Known lines from outside the log files.
    remembered: Vec<AuditHead>,
    noted: Option<String>,
    /// First line of the log if its number is not 1.
    beginning: Option<Beginning>,
    /// Last lines of files whose removal is recorded in the log.
    trimmed: Vec<AuditHead>,
    report: AuditReport,
}

/// First line of a log whose beginning is missing.
struct Beginning {
    file: String,
    line: u64,
    /// Head before that line.
    before: AuditHead,
}

impl Verifier {
    fn new(remembered: Vec<AuditHead>, noted: Option<String>) -> Self {
        let report = AuditReport { head: chain::beginning(), ..AuditReport::default() };
        Self { file: read::CURRENT.to_owned(), remembered, noted, report, ..Self::default() }
    }

    fn find(&mut self, problem: AuditProblem, message: String) {
        if self.report.findings.len() < MAX_FINDINGS {
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
                LogLine::TooLong => self.find(AuditProblem::NotALine, "the line is too long".to_owned()),
                LogLine::Torn(_) if may_be_growing => {}
                LogLine::Torn(bytes) => {
                    self.find(
                        AuditProblem::Torn,
                        format!("the last {bytes} bytes are an incomplete line, as after a crash"),
                    );
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, line: &[u8]) {
        self.report.lines += 1;
        let Some(sealed) = SealedLine::read(line) else {
            return self.find(AuditProblem::NotALine, "invalid line".to_owned());
        };
        let n = sealed.n;
        if !sealed.hash_matches() {
            self.find(AuditProblem::Changed, format!("line {n} was changed: its hash does not match"));
            // The next line may still link to the original version of this line.
            self.last = Some(sealed.head());
            return;
        }
        if !self.continues_chain(&sealed) {
            return;
        }
        if let Some(other) = self.remembered.iter().find(|head| head.n == n && head.hash != sealed.hash) {
            let message = format!("line {n} differs from the one that was written: its hash was {}", other.hash);
            self.find(AuditProblem::Changed, message);
        }
        if self.noted.as_deref() == Some(sealed.hash) {
            self.noted = None;
        }
        self.record_line(line);
        self.last = Some(sealed.head());
        self.report.head = sealed.head();
    }

    /// Records damage and removed files that the log itself reports.
    fn record_line(&mut self, line: &[u8]) {
        let is_own = |kind: &[u8]| line.windows(kind.len()).any(|window| window == kind);
        if !is_own(b"\"kind\":\"log_damaged\"") && !is_own(b"\"kind\":\"log_trimmed\"") {
            return;
        }
        let Ok(AuditLine { entry, .. }) = serde_json::from_slice(line) else { return };
        match entry.fact {
            AuditFact::LogDamaged { found, problem, .. } => {
                let message = format!("the log records, at {}: {found}", entry.at);
                self.find(problem.unwrap_or(AuditProblem::Recorded), message);
            }
            AuditFact::LogTrimmed { through, .. } => self.trimmed.push(through),
            _ => {}
        }
    }

    /// Returns true if the line continues the chain. A line that does not continue the chain is skipped.
    fn continues_chain(&mut self, sealed: &SealedLine<'_>) -> bool {
        let n = sealed.n;
        let (expected, before) = match &self.last {
            Some(last) => (last.n.saturating_add(1), last.hash.clone()),
            None if n > 1 => {
                let before = AuditHead { n: n - 1, hash: sealed.previous.to_owned() };
                self.beginning = Some(Beginning { file: self.file.clone(), line: self.line, before });
                return true;
            }
            None => (1, NO_HASH.to_owned()),
        };
        if n < expected {
            let message = format!("found line {n} in place of line {expected}: it was moved or inserted");
            self.find(AuditProblem::OutOfOrder, message);
            return false;
        }
        if n > expected {
            let subject = if n - expected == 1 {
                format!("line {expected} is")
            } else {
                format!("lines {expected} to {} are", n - 1)
            };
            self.find(AuditProblem::Missing, format!("{subject} missing"));
        } else if sealed.previous != before {
            let message = format!("line {n} does not follow the previous line, which was changed or inserted");
            self.find(AuditProblem::Changed, message);
        }
        true
    }

    fn end(mut self, has_witness: bool) -> AuditReport {
        self.report_beginning();
        let last = self.last.as_ref().map_or(0, |last| last.n);
        if let Some(expected) = self.remembered.iter().map(|head| head.n).max().filter(|n| *n > last) {
            let message = format!("the log ends with line {last}; lines up to {expected} were written");
            self.find(AuditProblem::EndMissing, message);
        }
        if !has_witness && last > 0 {
            let message = format!("{WITNESS} is missing or damaged: lines at the end may be missing");
            self.find(AuditProblem::NoWitness, message);
        }
        if let Some(noted) = self.noted.take() {
            let message = format!("no line has the hash {noted}: the log was rewritten or truncated before it");
            self.find(AuditProblem::NotedHashMissing, message);
        }
        self.report
    }

    /// Reports whether the lines before the first were trimmed, as recorded in the log, or are missing.
    fn report_beginning(&mut self) {
        let Some(Beginning { file, line, before }) = self.beginning.take() else { return };
        let first = before.n + 1;
        let (problem, message) = if self.trimmed.contains(&before) {
            let message =
                format!("the log begins with line {first}: it records that earlier lines were removed by age or size");
            (AuditProblem::Recorded, message)
        } else {
            let message = format!("the log begins with line {first}: earlier lines are missing");
            (AuditProblem::BeginningMissing, message)
        };
        self.report.findings.insert(0, AuditFinding { file, line, problem, message });
    }
}
