//! Reading the log: raw entries for replaying decisions, and records that join each call's decision with its outcome.
//! Records are read from the newest file backwards. Only the necessary files are read.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use agentd_core::{
    audit::{AuditFact, AuditLine, AuditRecord, CallOutcome, RecordQuery, RecordedEnd},
    ids::{CallId, SessionId},
};
use nix::fcntl::OFlag;

use crate::chain::SealedLine;

/// Maximum number of records in one answer.
const MAX_RECORDS: usize = 10_000;
/// Maximum size of the records in one answer, in bytes: half the protocol's message size limit.
const MAX_BYTES: usize = 8 << 20;

/// Calls `visit` for every line of the log, oldest first. Malformed lines are skipped; [`crate::verify`] reports them.
///
/// # Errors
/// Fails if the folder or a file cannot be read.
pub fn each(folder: &Path, mut visit: impl FnMut(AuditLine)) -> io::Result<()> {
    for (_, file) in opened(folder)? {
        visit_lines(file?, &mut |_, line| visit(line))?;
    }
    Ok(())
}

fn visit_lines(file: File, visit: &mut dyn FnMut(usize, AuditLine)) -> io::Result<()> {
    let mut lines = BufReader::new(file);
    while let Some(found) = next_line(&mut lines)? {
        if let LogLine::Line(bytes) = found
            && let Ok(line) = serde_json::from_slice(&bytes)
        {
            visit(bytes.len(), line);
        }
    }
    Ok(())
}

/// Key that joins the end of a call to its decision.
type Key = (Option<SessionId>, Option<CallId>);

/// Returns the newest records that match `query`, oldest first. Returns fewer records if they would exceed the size
/// limit.
///
/// # Errors
/// Fails if the folder or a file cannot be read.
pub(crate) fn newest(folder: &Path, query: &RecordQuery) -> io::Result<Vec<AuditRecord>> {
    let limit = query.limit.clamp(1, MAX_RECORDS);
    let mut found: VecDeque<FoundRecord> = VecDeque::new();
    // Ends of calls whose decisions are in an older file.
    let mut ends: HashMap<Key, RecordedEnd> = HashMap::new();
    let mut last_start = 0;
    for (_, file) in opened(folder)?.into_iter().rev() {
        let mut records = FileRecords::new(query, limit - found.len());
        visit_lines(file?, &mut |size, line| records.add(size, line))?;
        last_start = last_start.max(records.last_start);
        // Older files have no matching records.
        let is_done = query.since.is_some_and(|since| records.first_at.is_some_and(|first| first < since));
        let mut of_file = records.close(&mut ends);
        of_file.append(&mut found);
        found = of_file;
        if is_done || found.len() >= limit {
            break;
        }
    }
    let mut bytes = 0;
    let within = found.iter().rev().take_while(|found| {
        bytes += found.size;
        bytes <= MAX_BYTES
    });
    let skip = found.len() - within.count();
    Ok(found.into_iter().skip(skip).map(|found| found.with_outcome(last_start)).collect())
}

/// Record whose outcome has not been determined yet.
struct FoundRecord {
    size: usize,
    line: AuditLine,
    ended: Option<RecordedEnd>,
}

impl FoundRecord {
    /// Determines the outcome. An unfinished call from before `last_start`, the daemon's last start, has an unknown
    /// outcome.
    fn with_outcome(self, last_start: u64) -> AuditRecord {
        let Self { line, ended, .. } = self;
        let outcome = match &line.entry.fact {
            AuditFact::CallDecided(decision) => {
                let end = ended.as_ref().map(|ended| &ended.end);
                Some(CallOutcome::of(decision.allowed, end, line.n < last_start))
            }
            _ => None,
        };
        AuditRecord { line, outcome, ended }
    }
}

/// Records of one file, which is read from start to end.
struct FileRecords<'a> {
    query: &'a RecordQuery,
    capacity: usize,
    found: VecDeque<FoundRecord>,
    /// Number of the file's records that were dropped because of the limit.
    dropped: usize,
    /// Calls that have no end yet. For matching calls, the value is the index among all records of the file.
    open: HashMap<Key, Option<usize>>,
    /// Ends without a decision in this file.
    unmatched_ends: HashMap<Key, RecordedEnd>,
    last_start: u64,
    first_at: Option<agentd_core::Timestamp>,
}

impl<'a> FileRecords<'a> {
    fn new(query: &'a RecordQuery, capacity: usize) -> Self {
        Self {
            query,
            capacity,
            found: VecDeque::new(),
            dropped: 0,
            open: HashMap::new(),
            unmatched_ends: HashMap::new(),
            last_start: 0,
            first_at: None,
        }
    }

    fn add(&mut self, size: usize, line: AuditLine) {
        self.first_at.get_or_insert(line.entry.at);
        let key = (line.entry.session_id, line.entry.call_id.clone());
        match line.entry.fact {
            AuditFact::CallEnded(end) => {
                let ended = RecordedEnd { n: line.n, at: line.entry.at, end };
                match self.open.remove(&key) {
                    Some(index) => self.end(index, size, ended),
                    None => drop(self.unmatched_ends.insert(key, ended)),
                }
                return;
            }
            AuditFact::DaemonStarted { .. } => self.last_start = line.n,
            _ => {}
        }
        let is_call = matches!(line.entry.fact, AuditFact::CallDecided(_));
        let is_match = self.query.matches(&line);
        if is_call {
            // If a call is decided again after a restart, its first decision never gets an end.
            self.open.insert(key, is_match.then_some(self.dropped + self.found.len()));
        }
        if is_match {
            self.found.push_back(FoundRecord { size, line, ended: None });
            if self.found.len() > self.capacity {
                self.found.pop_front();
                self.dropped += 1;
            }
        }
    }

    fn end(&mut self, index: Option<usize>, size: usize, ended: RecordedEnd) {
        let index = index.and_then(|index| index.checked_sub(self.dropped));
        if let Some(found) = index.and_then(|index| self.found.get_mut(index)) {
            found.size += size;
            found.ended = Some(ended);
        }
    }

    /// Returns the records, joined with ends from newer files. Adds ends of calls from older files to `ends`.
    fn close(mut self, ends: &mut HashMap<Key, RecordedEnd>) -> VecDeque<FoundRecord> {
        for (key, index) in std::mem::take(&mut self.open) {
            if let Some(ended) = ends.remove(&key) {
                self.end(index, 0, ended);
            }
        }
        ends.extend(self.unmatched_ends);
        self.found
    }
}

/// Name of the current file.
pub(crate) const CURRENT: &str = "audit.jsonl";
/// Name of the witness file, which records the last line to detect truncation.
pub(crate) const WITNESS: &str = "audit.head";

/// Maximum length of a line in bytes. Lines written by the log are far shorter.
pub(crate) const MAX_LINE: u64 = 1 << 20;

/// Maximum number of attempts to open all files while their list is changing.
const MAX_ATTEMPTS: u32 = 100;

/// Opens a regular file for reading. Rejects links, which could point elsewhere, and pipes, which never end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Returns the names of all log files: rotated files in the order of their lines, then the current file if it exists.
pub(crate) fn all(folder: &Path) -> io::Result<Vec<String>> {
    let mut rotated = Vec::new();
    let mut current = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name == CURRENT {
            current = Some(name);
        } else if name.starts_with("audit-") && name.ends_with(".jsonl") {
            rotated.push((first_number(&entry.path()), name));
        }
    }
    // If the first line of a file is unreadable, the file is sorted by the rotation time in its name.
    rotated.sort_by(|(a, one), (b, other)| match (a, b) {
        (Some(a), Some(b)) => (a, one).cmp(&(b, other)),
        _ => one.cmp(other),
    });
    Ok(rotated.into_iter().map(|(_, name)| name).chain(current).collect())
}

/// Name of a log file and the result of opening it.
pub(crate) type OpenLogFile = (String, io::Result<File>);

/// Opens all log files as one consistent set. A rotation renames the current file and a trim removes the oldest files,
/// so lines could appear missing if the files were opened one by one.
pub(crate) fn opened(folder: &Path) -> io::Result<Vec<OpenLogFile>> {
    let mut listed = all(folder)?;
    for _ in 0..MAX_ATTEMPTS {
        let opened = listed.iter().map(|name| (name.clone(), open(&folder.join(name)))).collect();
        let now = all(folder)?;
        if now == listed {
            return Ok(opened);
        }
        listed = now;
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the files change faster than they can be opened; try again"))
}

fn first_number(path: &Path) -> Option<u64> {
    let mut line = Vec::new();
    BufReader::new(open(path).ok()?).take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
    Some(SealedLine::read(line.strip_suffix(b"\n")?)?.n)
}

/// Result of reading one line from a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogLine {
    /// Complete line without its newline.
    Line(Vec<u8>),
    /// Line that exceeds the maximum length.
    TooLong,
    /// Incomplete last line, with its size in bytes.
    Torn(u64),
}

/// Reads the next line of a file. Returns `None` at the end.
pub(crate) fn next_line(from: &mut impl io::BufRead) -> io::Result<Option<LogLine>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(LogLine::Line(line)));
    }
    match line.len() as u64 {
        0 => Ok(None),
        MAX_LINE => skip_line(from, MAX_LINE).map(Some),
        torn => Ok(Some(LogLine::Torn(torn))),
    }
}

/// Skips to the byte after the next newline without storing the skipped bytes.
fn skip_line(from: &mut impl io::BufRead, mut skipped: u64) -> io::Result<LogLine> {
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            return Ok(LogLine::Torn(skipped));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        from.consume(used);
        skipped += used as u64;
        if end.is_some() {
            return Ok(LogLine::TooLong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newlines_end_lines() {
        let check = |text: Vec<u8>, expected: &[LogLine]| {
            let mut lines = BufReader::new(text.as_slice());
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut lines).unwrap() {
                found.push(line);
            }
            assert_eq!(found, expected);
        };
        let longest = usize::try_from(MAX_LINE).unwrap();
        let line = |text: &str| LogLine::Line(text.as_bytes().to_vec());
        check(b"".to_vec(), &[]);
        check(b"a\n\nb\n".to_vec(), &[line("a"), line(""), line("b")]);
        check(b"a\nb".to_vec(), &[line("a"), LogLine::Torn(1)]);
        check([vec![b'x'; longest + 5], b"\nb\n".to_vec()].concat(), &[LogLine::TooLong, line("b")]);
        check(vec![b'x'; longest + 5], &[LogLine::Torn(MAX_LINE + 5)]);
    }
}
