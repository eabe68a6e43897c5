//! Reads untrusted archives in one pass with bounded memory. Members of the tar must be regular files with bounded
//! names. Sizes declared by the tar never determine an allocation.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, BufReader, Read},
};

use agentd_core::{
    archive::{MAX_TREE_BYTES, MAX_TREE_FILES, TreeFile, check_tree_path},
    event::Event,
    ids::SessionId,
};
use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256};
use tar::{Archive, Entries, Entry, EntryType};

use crate::{
    ArchiveError, FILES, JOURNAL, MANIFEST, Manifest, SUMS,
    writer::{Hashing, hex},
};

/// Maximum size of the manifest in bytes.
const MAX_MANIFEST: u64 = 8 << 20;
/// Maximum size of the hash list in bytes.
const MAX_SUMS: u64 = 64 << 20;
/// Maximum size of a journal part in bytes.
const MAX_PART: u64 = 64 << 20;
/// Maximum size of an event in bytes. Larger events cannot be sent to clients.
const MAX_EVENT: usize = 16 << 20;
/// Maximum total size of all events in bytes.
const MAX_EVENTS: u64 = 4 << 30;
const MAX_MEMBERS: usize = 40_000;

/// Receives the content of an archive while it is read. The content must not be used before [`unpack`] returns, because
/// the archive may still turn out to be incomplete.
pub trait Unpack {
    /// Error of the receiver.
    type Error: From<ArchiveError>;

    /// Receives the manifest.
    ///
    /// # Errors
    /// Fails if the receiver rejects the manifest.
    fn manifest(&mut self, manifest: &Manifest) -> Result<(), Self::Error>;

    /// Receives the next events of a session, at least one.
    ///
    /// # Errors
    /// Fails if the receiver rejects the events.
    fn events(&mut self, session: SessionId, events: Vec<Event>) -> Result<(), Self::Error>;

    /// Receives a file. The implementation must read all of `content`.
    ///
    /// # Errors
    /// Fails if the receiver rejects the file.
    fn file(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), Self::Error>;
}

/// Reads an archive and verifies that it is complete.
///
/// # Errors
/// Returns the reason to reject the archive, or the first error from `into`.
pub fn unpack<U: Unpack>(source: impl Read, into: &mut U) -> Result<(), U::Error> {
    let mut source = BufReader::new(Source(source));
    let head = source.fill_buf().map_err(read_error)?;
    if head.is_empty() {
        return Err(ArchiveError::Foreign("it is empty").into());
    }
    if !head.starts_with(&[0x1f, 0x8b]) {
        return Err(ArchiveError::Foreign("it is not a gzip file").into());
    }
    let mut archive = Archive::new(GzDecoder::new(source));
    let mut entries = archive.entries().map_err(read_error)?.raw(true);
    let mut members = Members::default();
    loop {
        let next = next(&mut entries).map_err(|error| members.classify_first(error))?;
        let Some((name, entry)) = next else {
            return Err(members.classify_first(ArchiveError::Cut).into());
        };
        if members.take(&name, entry, into)? {
            return Ok(());
        }
    }
}

/// State of an archive that is being read.
#[derive(Default)]
struct Members {
    /// Hash of each member by name.
    hashes: BTreeMap<String, String>,
    /// Sessions in the manifest, each with the number of its last part.
    parts: BTreeMap<SessionId, u32>,
    event_bytes: u64,
    files: u64,
    file_bytes: u64,
}

impl Members {
    /// Processes the next member. Returns true if this was the last member.
    fn take<U: Unpack>(&mut self, name: &str, mut entry: Entry<'_, impl Read>, into: &mut U) -> Result<bool, U::Error> {
        if self.hashes.is_empty() && name != MANIFEST {
            return Err(ArchiveError::Foreign("it does not start with a manifest").into());
        }
        if self.hashes.len() >= MAX_MEMBERS {
            return Err(ArchiveError::TooLarge(format!("it has more than {MAX_MEMBERS} members")).into());
        }
        if self.hashes.contains_key(name) {
            return Err(ArchiveError::Hostile(format!("it contains {} twice", display_name(name))).into());
        }
        let size = entry.size();
        if name == SUMS {
            self.verify(&read_member(&mut entry, size, MAX_SUMS, name)?)?;
            return Ok(true);
        }
        let (mode, modified) = (entry.header().mode().unwrap_or(0), entry.header().mtime().unwrap_or(0));
        let mut content = Hashing { content: entry, hash: Sha256::new() };
        if name == MANIFEST {
            let manifest = Manifest::read(&read_member(&mut content, size, MAX_MANIFEST, name)?)?;
            self.parts = manifest.sessions.iter().map(|session| (session.id, 0)).collect();
            into.manifest(&manifest)?;
        } else if let Some(part) = name.strip_prefix(JOURNAL) {
            let session = self.part(part).ok_or_else(|| unexpected_member(name))?;
            self.event_bytes = self.event_bytes.saturating_add(size);
            if self.event_bytes > MAX_EVENTS {
                return Err(ArchiveError::TooLarge(format!("its events have more than {MAX_EVENTS} bytes")).into());
            }
            let events = events(&read_member(&mut content, size, MAX_PART, name)?, name)?;
            if !events.is_empty() {
                into.events(session, events)?;
            }
        } else if let Some(path) = name.strip_prefix(FILES) {
            let executable = mode & 0o100 != 0;
            let modified = Some(modified).filter(|modified| *modified > 0);
            self.file(&TreeFile { path: path.to_owned(), executable, modified, bytes: size }, &mut content, into)?;
        } else {
            return Err(unexpected_member(name).into());
        }
        self.hashes.insert(name.to_owned(), hex(&content.hash.finalize()));
        Ok(false)
    }

    /// Returns the session whose next part has this name, if there is one.
    fn part(&mut self, name: &str) -> Option<SessionId> {
        let (session, number) = name.strip_suffix(".jsonl")?.split_once('/')?;
        let session: SessionId = session.parse().ok()?;
        let last = self.parts.get_mut(&session).filter(|_| self.files == 0)?;
        *last += 1;
        (number == format!("{last:06}")).then_some(session)
    }

    fn file<U: Unpack>(&mut self, file: &TreeFile, content: &mut dyn Read, into: &mut U) -> Result<(), U::Error> {
        check_tree_path(&file.path).map_err(|reason| {
            ArchiveError::Hostile(format!("the path of a file {reason}: {}", display_name(&file.path)))
        })?;
        self.files += 1;
        self.file_bytes = self.file_bytes.saturating_add(file.bytes);
        if self.files > MAX_TREE_FILES || self.file_bytes > MAX_TREE_BYTES {
            let limit = MAX_TREE_BYTES >> 20;
            return Err(
                ArchiveError::TooLarge(format!("it has more than {MAX_TREE_FILES} files or {limit} MiB")).into()
            );
        }
        let mut counted = CountedReader { content, read: 0, failure: None };
        let received = into.file(file, &mut counted);
        // A truncated archive is reported in preference to an error of the receiver.
        if let Some(error) = counted.failure {
            return Err(read_error(error).into());
        }
        received?;
        if counted.read == file.bytes { Ok(()) } else { Err(ArchiveError::Cut.into()) }
    }

    /// Compares all members with the hash list.
    fn verify(&self, sums: &[u8]) -> Result<(), ArchiveError> {
        let changed = |what: String| ArchiveError::Changed(what);
        let sums = std::str::from_utf8(sums).map_err(|_| changed("its list of hashes is not text".to_owned()))?;
        let mut named = BTreeSet::new();
        for line in sums.lines() {
            let (hash, name) =
                line.split_once("  ").ok_or_else(|| changed("its list of hashes is invalid".to_owned()))?;
            match self.hashes.get(name) {
                None => return Err(changed(format!("{} is missing", display_name(name)))),
                Some(found) if found != hash => return Err(changed(format!("{} was changed", display_name(name)))),
                Some(_) => named.insert(name),
            };
        }
        match self.hashes.keys().find(|name| !named.contains(name.as_str())) {
            Some(name) => Err(changed(format!("{} has no hash", display_name(name)))),
            None => Ok(()),
        }
    }

    /// Converts an error that occurs before the first member is complete into "not an archive".
    fn classify_first(&self, error: ArchiveError) -> ArchiveError {
        match error {
            ArchiveError::Changed(_) | ArchiveError::Cut if self.hashes.is_empty() => {
                ArchiveError::Foreign("its content is not a tar, or is truncated at the start")
            }
            error => error,
        }
    }
}

/// Counts the bytes read, and stores a read error.
struct CountedReader<'a> {
    content: &'a mut dyn Read,
    read: u64,
    failure: Option<io::Error>,
}

impl Read for CountedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.content.read(buffer) {
            Ok(read) => {
                self.read += read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let reported = io::Error::new(error.kind(), error.to_string());
                self.failure = Some(error);
                Err(reported)
            }
        }
    }
}

/// Reads a whole member of bounded size.
fn read_member(content: &mut impl Read, size: u64, limit: u64, name: &str) -> Result<Vec<u8>, ArchiveError> {
    if size > limit {
        return Err(ArchiveError::TooLarge(format!("{} has {size} bytes; the limit is {limit}", display_name(name))));
    }
    let mut bytes = Vec::new();
    content.take(limit).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(ArchiveError::Cut) }
}

fn events(lines: &[u8], name: &str) -> Result<Vec<Event>, ArchiveError> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // The message only contains the position, because events may be private.
    let event = |(number, line): (usize, &[u8])| {
        if line.len() > MAX_EVENT {
            let (name, line) = (display_name(name), number + 1);
            return Err(ArchiveError::TooLarge(format!("line {line} of {name} has more than {MAX_EVENT} bytes")));
        }
        serde_json::from_slice(line).map_err(|error: serde_json::Error| {
            let (name, line, column) = (display_name(name), number + 1, error.column());
            ArchiveError::Changed(format!("line {line} of {name} is invalid at character {column}"))
        })
    };
    lines.enumerate().map(event).collect()
}

fn unexpected_member(name: &str) -> ArchiveError {
    ArchiveError::Hostile(format!("unexpected member: {}", display_name(name)))
}

/// Shortens a name and makes invisible characters visible.
fn display_name(name: &str) -> String {
    agentd_core::visible::line(&name.chars().take(120).collect::<String>())
}

/// Maximum length of a name in bytes.
const MAX_NAME: u64 = 5000;

/// Returns the name and the entry of the next regular file, or `None` at the end of the tar.
fn next<'t, R: Read>(entries: &mut Entries<'t, R>) -> Result<Option<(String, Entry<'t, R>)>, ArchiveError> {
    let mut long_name = None;
    loop {
        let Some(entry) = entries.next() else {
            return if long_name.is_some() { Err(ArchiveError::Cut) } else { Ok(None) };
        };
        let mut entry = entry.map_err(read_error)?;
        match entry.header().entry_type() {
            EntryType::Regular => {
                let name = long_name.map_or_else(|| text(entry.path_bytes().into_owned()), Ok)?;
                return Ok(Some((name, entry)));
            }
            EntryType::GNULongName if long_name.is_none() && entry.size() <= MAX_NAME => {
                let mut name = Vec::new();
                (&mut entry).take(MAX_NAME).read_to_end(&mut name).map_err(read_error)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                long_name = Some(text(name)?);
            }
            EntryType::GNULongName => return Err(ArchiveError::Hostile("a name in it is too long".to_owned())),
            EntryType::Symlink | EntryType::Link => return Err(ArchiveError::Hostile("it contains a link".to_owned())),
            _ => return Err(ArchiveError::Hostile("it contains a non-regular file".to_owned())),
        }
    }
}

fn text(name: Vec<u8>) -> Result<String, ArchiveError> {
    String::from_utf8(name).map_err(|_| ArchiveError::Hostile("a name in it is not plain text".to_owned()))
}

/// Converts an error from the underlying readers.
fn read_error(error: io::Error) -> ArchiveError {
    if let Some(inner) = error.get_ref()
        && let Some(reported) = inner.downcast_ref::<SourceFailure>()
    {
        return ArchiveError::Io(io::Error::new(error.kind(), reported.0.clone()));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Cut,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ArchiveError::Changed(message_line(&error)),
        // The tar and gzip readers use this kind for their own errors.
        io::ErrorKind::Other if error.raw_os_error().is_none() => ArchiveError::Changed(message_line(&error)),
        _ => ArchiveError::Io(error),
    }
}

/// Formats an error as one line of bounded length, because the message may quote the archive.
fn message_line(error: &io::Error) -> String {
    error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// Failure of the underlying source rather than of the archive.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SourceFailure(String);

/// Reader that marks errors of the source, so that they can be distinguished from archive errors.
struct Source<R>(R);

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, SourceFailure(error.to_string())),
        })
    }
}
