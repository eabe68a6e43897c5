//! Lists, reads and writes a session's files for the user. Paths, access checks and errors are the same as for the
//! tools, without the limits that protect a model's context.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    sync::Arc,
    time::SystemTime,
};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    files::{EntryKind, FileEntry, FileListing, FilePiece, FileWritten, SessionTree},
    tool::ToolErrorCode,
};

use crate::{
    backend::{Backend as _, Entry, Files, ListedEntry},
    encoding::Document,
    failure::Failure,
    path::{PathPlace, ToolPath},
};

/// Hint for the error about a missing path.
const LISTING: &str = "`agentctl files ls SESSION` lists the files";

/// Maximum number of entries in the listing of one folder.
const MAX_ENTRIES: usize = 10_000;

pub(super) fn open(tree: &SessionTree, now: Timestamp) -> Files {
    Files::new(Arc::clone(&tree.workspace), &tree.state, now)
}

/// Parses a path for reading and follows its links.
pub(super) fn locate(files: &Files, path: &str) -> Result<ToolPath, Failure> {
    files.follow(&files.locate(path)?)
}

/// Lists a folder. For a file, the listing contains only the file.
pub fn list(tree: &SessionTree, path: &str) -> Result<FileListing, WorkspaceError> {
    let files = open(tree, Timestamp::UNIX_EPOCH);
    let top = locate(&files, path)?;
    if !files.is_folder(&top)? {
        let opened = files.open_file(&top)?;
        let modified = opened.modified.and_then(timestamp);
        let entry = FileEntry { path: top.to_string(), kind: EntryKind::File, size: opened.size, modified };
        return Ok(FileListing { entries: vec![entry], cut: false });
    }
    let mut listing = FileListing::default();
    for listed in files.entries(&top)? {
        match listed {
            ListedEntry::Hidden(_) => {}
            ListedEntry::Entry(found) if listing.entries.len() < MAX_ENTRIES => {
                listing.entries.push(entry(&top, found))
            }
            ListedEntry::Entry(_) | ListedEntry::Unreadable => listing.cut = true,
        }
    }
    if top == ToolPath::root(PathPlace::Own) {
        let mounts = files.places(&top).into_iter().filter(|place| *place != top);
        let others = mounts.chain([PathPlace::Memories, PathPlace::State].map(ToolPath::root));
        let existing = others.filter(|place| files.is_folder(place).is_ok_and(|is| is));
        listing.entries.extend(existing.map(|place| {
            let (path, kind) = (place.to_string(), EntryKind::Folder);
            FileEntry { path, kind, size: 0, modified: None }
        }));
    }
    listing.entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(listing)
}

fn entry(folder: &ToolPath, Entry { name, kind, size, modified }: Entry) -> FileEntry {
    FileEntry { path: folder.entry(&name).to_string(), kind, size, modified: modified.and_then(timestamp) }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

/// Reads up to `limit` bytes of a file from `offset`.
pub fn read(tree: &SessionTree, path: &str, offset: u64, limit: usize) -> Result<FilePiece, WorkspaceError> {
    let files = open(tree, Timestamp::UNIX_EPOCH);
    let path = locate(&files, path)?;
    let mut opened = files.open_file(&path)?;
    let mut content = Vec::new();
    let seek_result = opened.content.seek(SeekFrom::Start(offset));
    let read = seek_result.and_then(|_| opened.content.take(limit as u64).read_to_end(&mut content));
    read.map_err(|error| Failure::io(&format!("read {path}"), &error))?;
    Ok(FilePiece { content, size: opened.size, modified: opened.modified.and_then(timestamp) })
}

/// Returns the text of a file of fewer than `limit` bytes, or `None` if the file is larger or not text.
pub fn text(tree: &SessionTree, path: &str, limit: usize) -> Option<String> {
    let piece = read(tree, path, 0, limit).ok()?;
    // A longer file fills the piece completely.
    let whole = piece.content.len() < limit && piece.content.len() as u64 == piece.size;
    let document = Document::read(piece.content).ok().filter(|_| whole)?;
    Some(document.text().to_owned())
}

/// Writes a whole file, creating missing folders. Only paths that tools may write to are accepted.
pub fn write(tree: &SessionTree, path: &str, content: &[u8], now: Timestamp) -> Result<FileWritten, WorkspaceError> {
    let files = open(tree, now);
    let path = files.locate(path)?;
    files.target(&path, 0)?.replace(content)?;
    Ok(FileWritten { path: path.to_string(), state: files.state_changes().pop() })
}

/// Converts a failure to an error for the user. The text after the first semicolon becomes the hint.
impl From<Failure> for WorkspaceError {
    fn from(failure: Failure) -> Self {
        let kind = match failure.code {
            ToolErrorCode::Path if failure.text.contains("does not exist") => ErrorKind::NotFound,
            ToolErrorCode::Path | ToolErrorCode::InvalidArgs => ErrorKind::InvalidInput,
            _ => ErrorKind::Storage,
        };
        let (message, hint) = failure.text.split_once("; ").unwrap_or((&failure.text, LISTING));
        // A model lists files with a tool, a user with a command.
        let hint = if hint.starts_with("list_workspace_files") { LISTING } else { hint };
        Self::new(kind, message).with_hint(hint)
    }
}
