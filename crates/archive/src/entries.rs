//! The members of a tar, read strictly: regular files, one after the other, with names that are bounded. Nothing is
//! allocated by a size that the tar only declares.

use std::io::{self, Read};

use tar::{Entries, Entry, EntryType};

use crate::ArchiveError;

/// Maximum length of a name, in bytes.
const MAX_NAME: u64 = 5000;

/// The next regular file and its name; none at the end of the tar.
pub(crate) fn next<'t, R: Read>(entries: &mut Entries<'t, R>) -> Result<Option<(String, Entry<'t, R>)>, ArchiveError> {
    let mut long_name = None;
    loop {
        let Some(entry) = entries.next() else {
            return if long_name.is_some() { Err(ArchiveError::Cut) } else { Ok(None) };
        };
        let mut entry = entry.map_err(broken)?;
        match entry.header().entry_type() {
            EntryType::Regular => {
                let name = match long_name {
                    Some(name) => name,
                    None => text(entry.path_bytes().into_owned())?,
                };
                return Ok(Some((name, entry)));
            }
            EntryType::GNULongName if long_name.is_none() && entry.size() <= MAX_NAME => {
                let mut name = Vec::new();
                (&mut entry).take(MAX_NAME).read_to_end(&mut name).map_err(broken)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                long_name = Some(text(name)?);
            }
            EntryType::GNULongName => return Err(ArchiveError::Hostile("a name in it is too long".to_owned())),
            EntryType::Symlink | EntryType::Link => {
                return Err(ArchiveError::Hostile("it holds a link, and links lead elsewhere".to_owned()));
            }
            _ => return Err(ArchiveError::Hostile("it holds something that is no regular file".to_owned())),
        }
    }
}

fn text(name: Vec<u8>) -> Result<String, ArchiveError> {
    String::from_utf8(name).map_err(|_| ArchiveError::Hostile("a name in it is no plain text".to_owned()))
}

/// Meaning of an error of the readers below.
pub(crate) fn broken(error: io::Error) -> ArchiveError {
    if let Some(inner) = error.get_ref()
        && let Some(told) = inner.downcast_ref::<SourceBroke>()
    {
        return ArchiveError::Io(io::Error::new(error.kind(), told.0.clone()));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Cut,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ArchiveError::Changed(plain(&error)),
        // The readers of tars and gzip streams put their own complaints into this kind.
        io::ErrorKind::Other if error.raw_os_error().is_none() => ArchiveError::Changed(plain(&error)),
        _ => ArchiveError::Io(error),
    }
}

/// The message in one line of bounded length: it may quote the archive.
fn plain(error: &io::Error) -> String {
    error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// Failure of the source itself, which is no fault of the archive.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SourceBroke(String);

/// A source whose own failures can be told from those of the archive.
pub(crate) struct Source<R>(pub(crate) R);

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, SourceBroke(error.to_string())),
        })
    }
}

/// Hexadecimal digits of a hash.
pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
