//! Entries, for those who judge them again; and records: each call once, with its decision and what came of it. Files are read from
//! the newest to the oldest, and only as many as are needed.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use agentd_core::{
    audit::{AuditFact, AuditLine, AuditRecord, CallOutcome, RecordQuery, RecordedEnd},
    ids::{CallId, SessionId},
};

use crate::files::{self, LogLine};

/// Lines of one answer at the most.
const MOST_LINES: usize = 10_000;
/// Bytes of one answer at the most; a message of the wire holds twice as much.
const MOST_BYTES: usize = 8 << 20;

/// Shows every line of the log, oldest first, to whoever judges them again. What is no line is passed over: whether the
/// log holds is asked of [`crate::verify`].
///
/// # Errors
/// The folder or a file cannot be read.
pub fn each(folder: &Path, mut see: impl FnMut(AuditLine)) -> io::Result<()> {
    for (_, file) in files::opened(folder)? {
        each_of(file?, &mut |_, line| see(line))?;
    }
    Ok(())
}

fn each_of(file: File, see: &mut dyn FnMut(usize, AuditLine)) -> io::Result<()> {
    let mut lines = BufReader::new(file);
    while let Some(found) = files::next_line(&mut lines)? {
        if let LogLine::Line(bytes) = found
            && let Ok(line) = serde_json::from_slice(&bytes)
        {
            see(bytes.len(), line);
        }
    }
    Ok(())
}

/// Key that joins an end to its decision.
type Key = (Option<SessionId>, Option<CallId>);

/// The newest records that fit the query, oldest first; fewer where they would be too large to send at once.
///
/// # Errors
/// The folder or a file cannot be read.
pub(crate) fn newest(folder: &Path, query: &RecordQuery) -> io::Result<Vec<AuditRecord>> {
    let limit = query.limit.clamp(1, MOST_LINES);
    let mut found: VecDeque<FoundRecord> = VecDeque::new();
    // Ends whose decisions stand in a file that is older.
    let mut ends: HashMap<Key, RecordedEnd> = HashMap::new();
    let mut last_start = 0;
    for (_, file) in files::opened(folder)?.into_iter().rev() {
        let mut page = Page::new(query, limit - found.len());
        each_of(file?, &mut |size, line| page.take(size, line))?;
        last_start = last_start.max(page.last_start);
        // Nothing older can match.
        let reached = query.since.is_some_and(|since| page.first_at.is_some_and(|first| first < since));
        let mut of_file = page.close(&mut ends);
        of_file.append(&mut found);
        found = of_file;
        if reached || found.len() >= limit {
            break;
        }
    }
    let mut bytes = 0;
    let within = found.iter().rev().take_while(|found| {
        bytes += found.size;
        bytes <= MOST_BYTES
    });
    let skip = found.len() - within.count();
    Ok(found.into_iter().skip(skip).map(|found| found.settle(last_start)).collect())
}

/// A record on its way.
struct FoundRecord {
    size: usize,
    line: AuditLine,
    ended: Option<RecordedEnd>,
}

impl FoundRecord {
    /// The record, now that it is known when the daemon last began.
    fn settle(self, last_start: u64) -> AuditRecord {
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

/// One file, read from its first line to its last.
struct Page<'a> {
    query: &'a RecordQuery,
    room: usize,
    found: VecDeque<FoundRecord>,
    /// Number of records dropped at the front, for want of room.
    dropped: usize,
    /// Calls without an end so far; those that are wanted with their place among all records of the file.
    open: HashMap<Key, Option<usize>>,
    /// Ends without a decision in this file.
    strays: HashMap<Key, RecordedEnd>,
    last_start: u64,
    first_at: Option<agentd_core::Timestamp>,
}

impl<'a> Page<'a> {
    fn new(query: &'a RecordQuery, room: usize) -> Self {
        Self {
            query,
            room,
            found: VecDeque::new(),
            dropped: 0,
            open: HashMap::new(),
            strays: HashMap::new(),
            last_start: 0,
            first_at: None,
        }
    }

    fn take(&mut self, size: usize, line: AuditLine) {
        self.first_at.get_or_insert(line.entry.at);
        let key = (line.entry.session_id, line.entry.call_id.clone());
        match line.entry.fact {
            AuditFact::CallEnded(end) => {
                let ended = RecordedEnd { n: line.n, at: line.entry.at, end };
                match self.open.remove(&key) {
                    Some(place) => self.end(place, size, ended),
                    None => drop(self.strays.insert(key, ended)),
                }
                return;
            }
            AuditFact::DaemonStarted { .. } => self.last_start = line.n,
            _ => {}
        }
        let is_call = matches!(line.entry.fact, AuditFact::CallDecided(_));
        let wanted = self.query.wants(&line);
        if is_call {
            // A call that is decided again, after a restart, leaves its first decision without an end.
            self.open.insert(key, wanted.then_some(self.dropped + self.found.len()));
        }
        if wanted {
            self.found.push_back(FoundRecord { size, line, ended: None });
            if self.found.len() > self.room {
                self.found.pop_front();
                self.dropped += 1;
            }
        }
    }

    fn end(&mut self, place: Option<usize>, size: usize, ended: RecordedEnd) {
        let place = place.and_then(|place| place.checked_sub(self.dropped));
        if let Some(found) = place.and_then(|place| self.found.get_mut(place)) {
            found.size += size;
            found.ended = Some(ended);
        }
    }

    /// The records, with ends out of files that are newer. Ends for older files are left in `ends`.
    fn close(mut self, ends: &mut HashMap<Key, RecordedEnd>) -> VecDeque<FoundRecord> {
        for (key, place) in std::mem::take(&mut self.open) {
            if let Some(ended) = ends.remove(&key) {
                self.end(place, 0, ended);
            }
        }
        ends.extend(self.strays);
        self.found
    }
}
