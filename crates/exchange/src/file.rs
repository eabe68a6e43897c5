//! Files of one session: `trace.jsonl` and numbered older files.

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agentd_core::{exchange::StoredRequest, ids::SessionId};
use nix::fcntl::OFlag;
use serde::Deserialize;

use crate::{
    line::{Delta, Line, RequestLine, VERSION, delta},
    writer::SentExchange,
};

/// Maximum number of bodies that later bodies can refer to.
const MAX_BASES: usize = 6;
/// Maximum total size of the base bodies, in bytes.
const MAX_BASE_BYTES: usize = 8 << 20;

/// Maximum length of a line that is read, in bytes.
pub(crate) const MAX_LINE: u64 = 128 << 20;

/// Limits for a session's files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLimits {
    pub(crate) bytes: u64,
    pub(crate) files: u32,
}

/// The current file of a session.
pub(crate) struct TraceFile {
    pub(crate) session: SessionId,
    folder: PathBuf,
    limits: FileLimits,
    file: File,
    size: u64,
    /// Number of the next request.
    next: u64,
    bases: VecDeque<(u64, String)>,
}

impl TraceFile {
    /// Opens the file of a session and creates it if missing. A line cut off by a crash gets a newline, so that it
    /// stays separate from the next line.
    pub(crate) fn open(folder: PathBuf, session: SessionId, limits: FileLimits) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let next =
            [path_of(&folder, 0), path_of(&folder, 1)].iter().find_map(|path| last_number(path)).unwrap_or(0) + 1;
        let mut file = open_private(&path_of(&folder, 0))?;
        let mut size = file.metadata()?.len();
        if size > 0 {
            let mut last = [0];
            file.seek(SeekFrom::Start(size - 1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                size += 1;
            }
        }
        let mut opened = Self { session, folder, limits, file, size, next, bases: VecDeque::new() };
        if size == 0 {
            opened.write_header()?;
        }
        Ok(opened)
    }

    /// Writes a request and returns its number.
    pub(crate) fn request(&mut self, sent: SentExchange) -> io::Result<u64> {
        let SentExchange { source, at, mut request, .. } = sent;
        let body = request.body.take().unwrap_or_default();
        let number = self.next;
        let line = |body: Delta, request: &StoredRequest| {
            let (source, request) = (source.clone(), request.clone());
            Line::Request(Box::new(RequestLine { number, at, source, request, body })).to_bytes()
        };
        // Most requests continue the latest request, so it is tried first.
        let bases = self.bases.iter().rev().map(|(number, base)| (*number, base.as_str()));
        let mut bytes = line(delta(&body, bases), &request)?;
        if self.is_full(bytes.len()) {
            self.rotate()?;
            // A file must not refer to bodies in another file.
            bytes = line(Delta { text: body.clone(), ..Delta::default() }, &request)?;
        }
        self.append(&bytes)?;
        self.next += 1;
        self.bases.push_back((number, body));
        let total_bytes = |bases: &VecDeque<(u64, String)>| bases.iter().map(|(_, body)| body.len()).sum::<usize>();
        while self.bases.len() > MAX_BASES || (self.bases.len() > 1 && total_bytes(&self.bases) > MAX_BASE_BYTES) {
            self.bases.pop_front();
        }
        Ok(number)
    }

    /// Writes any line except a request.
    pub(crate) fn write(&mut self, line: &Line) -> io::Result<()> {
        let bytes = line.to_bytes()?;
        if self.is_full(bytes.len()) {
            self.rotate()?;
        }
        self.append(&bytes)
    }

    fn is_full(&self, more: usize) -> bool {
        self.size > 0 && self.size.saturating_add(more as u64) > self.limits.bytes
    }

    /// Starts a new file and renumbers the older files; the oldest is removed.
    fn rotate(&mut self) -> io::Result<()> {
        let limit = self.limits.files.max(1);
        for number in (0..limit).rev() {
            let path = path_of(&self.folder, number);
            let moved = if number + 1 == limit {
                fs::remove_file(&path)
            } else {
                fs::rename(&path, path_of(&self.folder, number + 1))
            };
            match moved {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = open_private(&path_of(&self.folder, 0))?;
        self.size = 0;
        self.bases.clear();
        self.write_header()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let header = Line::Trace { version: VERSION, session_id: self.session, first: self.next };
        self.append(&header.to_bytes()?)
    }

    /// Appends a complete line, or nothing.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        if let Err(error) = written {
            // A partial line would be read as a truncated line and would only waste space.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += line.len() as u64;
        Ok(())
    }
}

/// Returns the path of a session's file; number 0 is the current file.
pub(crate) fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(if number == 0 { "trace.jsonl".to_owned() } else { format!("trace.{number}.jsonl") })
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = options.open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Returns the number of the last request in a file, or the number before its first request if it has none.
fn last_number(path: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbers {
        number: Option<u64>,
        first: Option<u64>,
    }
    let mut reader = BufReader::new(File::open(path).ok()?);
    let (mut last, mut line) = (None, Vec::new());
    loop {
        line.clear();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {
                let Ok(Numbers { number, first }) = serde_json::from_slice(&line) else { continue };
                last = last.max(number).max(first.map(|first| first.saturating_sub(1)));
            }
        }
    }
}
