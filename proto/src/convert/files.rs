//! Files of a session.

use agentd_core::files::{EntryKind, FileEntry, FileListing, FilePiece, Picture, UploadReceipt};

use super::{WireError, all, enum_to_wire, mirrored, optional_moment, required_enum, to_moment};
use crate::v1;

mirrored!(EntryKind, "the kind of a file", [File, Folder, Link, Other]);

impl From<&FileListing> for v1::ListFilesResponse {
    fn from(listing: &FileListing) -> Self {
        Self { entries: listing.entries.iter().map(Into::into).collect(), cut: listing.cut }
    }
}

impl TryFrom<v1::ListFilesResponse> for FileListing {
    type Error = WireError;

    fn try_from(listing: v1::ListFilesResponse) -> Result<Self, WireError> {
        Ok(Self { entries: all(listing.entries)?, cut: listing.cut })
    }
}

impl From<&Picture> for v1::Picture {
    fn from(picture: &Picture) -> Self {
        let Picture { path, media_type, width, height, bytes } = picture.clone();
        Self { path, media_type, width, height, bytes }
    }
}

impl From<v1::Picture> for Picture {
    fn from(picture: v1::Picture) -> Self {
        let v1::Picture { path, media_type, width, height, bytes } = picture;
        Self { path, media_type, width, height, bytes }
    }
}

impl From<&UploadReceipt> for v1::UploadResponse {
    fn from(uploaded: &UploadReceipt) -> Self {
        Self {
            path: uploaded.path.clone(),
            picture: uploaded.picture.as_ref().map(Into::into),
            problem: uploaded.problem.clone(),
        }
    }
}

impl From<v1::UploadResponse> for UploadReceipt {
    fn from(uploaded: v1::UploadResponse) -> Self {
        Self { path: uploaded.path, picture: uploaded.picture.map(Into::into), problem: uploaded.problem }
    }
}

impl From<&FileEntry> for v1::FileEntry {
    fn from(entry: &FileEntry) -> Self {
        Self {
            path: entry.path.clone(),
            kind: enum_to_wire(entry.kind),
            size: entry.size,
            modified: entry.modified.map(to_moment),
        }
    }
}

impl TryFrom<v1::FileEntry> for FileEntry {
    type Error = WireError;

    fn try_from(entry: v1::FileEntry) -> Result<Self, WireError> {
        Ok(Self {
            path: entry.path,
            kind: required_enum(entry.kind)?,
            size: entry.size,
            modified: optional_moment(entry.modified, "the time of a file")?,
        })
    }
}

impl From<FilePiece> for v1::ReadFileResponse {
    fn from(piece: FilePiece) -> Self {
        Self { content: piece.content, size: piece.size, modified: piece.modified.map(to_moment) }
    }
}

impl TryFrom<v1::ReadFileResponse> for FilePiece {
    type Error = WireError;

    fn try_from(piece: v1::ReadFileResponse) -> Result<Self, WireError> {
        Ok(Self {
            content: piece.content,
            size: piece.size,
            modified: optional_moment(piece.modified, "the time of a file")?,
        })
    }
}
