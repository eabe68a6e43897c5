//! Reads exchanges from the files of a session. Unreadable lines are skipped and counted in the remarks.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use agentd_core::exchange::{Exchange, StoredAnswer, StoredExchanges};
use nix::fcntl::OFlag;

use crate::{
    file::{MAX_LINE, path_of},
    line::{Delta, Line, RequestLine, apply},
};

/// Maximum number of files per session.
const MAX_FILES: u32 = 1000;

/// Reason why exchanges could not be read.
#[derive(Debug)]
pub enum ReadFailure {
    /// Nothing is stored for the session.
    NothingStored,
    /// No exchange has this number.
    NoSuchNumber {
        /// Number that was requested.
        number: u64,
        /// First and last stored number.
        stored: (u64, u64),
    },
    /// The files cannot be read.
    Io(io::Error),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads exchanges of the session in `folder`: the given numbers, or all of them without bodies if `numbers` is empty.
/// Blocks.
///
/// # Errors
/// Fails if nothing is stored, a number does not exist, or the files cannot be read.
pub fn read(folder: &Path, numbers: &[u64]) -> Result<StoredExchanges, ReadFailure> {
    let mut trace = Trace::open(folder)?;
    let (Some((&first, _)), Some((&last, _))) = (trace.entries.first_key_value(), trace.entries.last_key_value())
    else {
        return Err(ReadFailure::NothingStored);
    };
    let mut exchanges = Vec::new();
    for number in numbers {
        let exchange = trace.load(*number)?;
        exchanges.push(exchange.ok_or(ReadFailure::NoSuchNumber { number: *number, stored: (first, last) })?);
    }
    if numbers.is_empty() {
        exchanges = trace.entries.into_values().map(|entry| entry.exchange).collect();
    }
    Ok(StoredExchanges { exchanges, remarks: trace.remarks })
}

/// Position of a line in the files.
#[derive(Debug, Clone, Copy)]
struct LinePosition {
    file: usize,
    offset: u64,
}

struct Entry {
    exchange: Exchange,
    request: LinePosition,
    answer: Option<LinePosition>,
}

/// Index of all lines of a session, without bodies.
struct Trace {
    files: Vec<BufReader<File>>,
    entries: BTreeMap<u64, Entry>,
    remarks: Vec<String>,
}

/// Counts of missing or unreadable lines.
#[derive(Default)]
struct Gaps {
    cut: u64,
    damaged: u64,
    lost: u64,
}

impl Trace {
    fn open(folder: &Path) -> Result<Self, ReadFailure> {
        let mut files = Vec::new();
        // The oldest file has the highest number.
        let count = (0..MAX_FILES).take_while(|number| *number == 0 || path_of(folder, *number).exists()).count();
        for number in (0..count).rev() {
            let number = u32::try_from(number).unwrap_or_default();
            let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
            match OpenOptions::new().read(true).custom_flags(flags).open(path_of(folder, number)) {
                Ok(file) if file.metadata()?.is_file() => files.push(BufReader::new(file)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut trace = Self { files, entries: BTreeMap::new(), remarks: Vec::new() };
        trace.index()?;
        Ok(trace)
    }

    fn index(&mut self) -> io::Result<()> {
        let mut gaps = Gaps::default();
        let mut latest = HashMap::new();
        for file in 0..self.files.len() {
            let mut offset = 0;
            while let Some(line) = read_line(&mut self.files[file])? {
                let position = LinePosition { file, offset };
                offset += line.len() as u64;
                // A line that was cut off ends with the newline that the next writer added.
                match serde_json::from_slice(line.trim_ascii_end()) {
                    Ok(Line::Request(line)) => {
                        let RequestLine { number, at, source, request, .. } = *line;
                        let before = latest.insert((source.session_id, source.purpose.as_str()), number);
                        let exchange = Exchange { number, source, at, before, request, answer: None };
                        self.entries.insert(number, Entry { exchange, request: position, answer: None });
                    }
                    Ok(Line::Answer { number, answer }) => {
                        if let Some(entry) = self.entries.get_mut(&number) {
                            entry.exchange.answer = Some(StoredAnswer { body: None, ..answer });
                            entry.answer = Some(position);
                        }
                    }
                    Ok(Line::Lost { count }) => gaps.lost = gaps.lost.saturating_add(count),
                    Ok(Line::Trace { .. }) => {}
                    Err(error) if error.is_eof() => gaps.cut += 1,
                    Err(_) => gaps.damaged += 1,
                }
            }
        }
        self.remarks = gaps.remarks(self.entries.keys().next().copied());
        Ok(())
    }

    /// Loads an exchange with its bodies.
    fn load(&mut self, number: u64) -> io::Result<Option<Exchange>> {
        let Some(entry) = self.entries.get(&number) else { return Ok(None) };
        let (mut exchange, position) = (entry.exchange.clone(), entry.answer);
        exchange.request.body = self.body(number)?;
        if let Some(position) = position
            && let Some(Line::Answer { answer, .. }) = self.line(position)?
        {
            exchange.answer = Some(answer);
        }
        Ok(Some(exchange))
    }

    /// Rebuilds the body of a request from its chain of deltas. Returns `None` if one of the deltas cannot be read.
    fn body(&mut self, number: u64) -> io::Result<Option<String>> {
        let mut deltas: Vec<Delta> = Vec::new();
        let mut next = Some(number);
        while let Some(number) = next {
            let Some(position) = self.entries.get(&number).map(|entry| entry.request) else { return Ok(None) };
            let Some(Line::Request(line)) = self.line(position)? else { return Ok(None) };
            // A body only refers to earlier bodies, so the loop ends.
            next = line.body.base.filter(|base| *base < number);
            if next != line.body.base {
                return Ok(None);
            }
            deltas.push(line.body);
        }
        let mut body = None;
        for delta in deltas.into_iter().rev() {
            body = match &body {
                None => Some(delta.text),
                Some(base) => match apply(base, &delta) {
                    Some(body) => Some(body),
                    None => return Ok(None),
                },
            };
        }
        Ok(body)
    }

    fn line(&mut self, position: LinePosition) -> io::Result<Option<Line>> {
        let Some(file) = self.files.get_mut(position.file) else { return Ok(None) };
        file.seek(SeekFrom::Start(position.offset))?;
        Ok(read_line(file)?.and_then(|line| serde_json::from_slice(&line).ok()))
    }
}

impl Gaps {
    fn remarks(&self, first: Option<u64>) -> Vec<String> {
        let lines = |count: u64| if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
        let mut remarks = Vec::new();
        if let Some(first) = first.filter(|first| *first > 1) {
            remarks.push(format!("requests before {first} are no longer stored"));
        }
        if self.cut > 0 {
            remarks.push(format!("{} of the trace: truncated when the daemon stopped, skipped", lines(self.cut)));
        }
        if self.damaged > 0 {
            remarks.push(format!("{} of the trace: unreadable, skipped", lines(self.damaged)));
        }
        if self.lost > 0 {
            remarks.push(format!("{} missing: not written, or dropped because of a full queue", lines(self.lost)));
        }
        remarks
    }
}

/// Reads the next line with its newline. Returns `None` at the end.
fn read_line(file: &mut BufReader<File>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}
