//! What a worker is told, and what it tells: frames of a length and as much JSON.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::{document::Part, failure::Failure, kind::Kind, limits::Limits, recognition::Recognition};

/// Bytes of text that one frame carries at most. A larger part is told in several frames.
pub(crate) const PIECE_BYTES: usize = 512 * 1024;

/// Bytes of a frame. JSON writes most letters as they are; quotes, line ends and the like take two bytes.
pub(crate) const FRAME_BYTES: usize = 4 * PIECE_BYTES;

/// Job of a worker, as its second argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Kind by the file's name.
    pub named: Option<Kind>,
    /// Limits on the cost of reading it.
    pub limits: Limits,
    /// The first page or sheet of which something is told, counted from 1; documents of other parts are told from their
    /// beginning all the same.
    #[serde(default)]
    pub first: u32,
    /// The last page of a PDF of which something is told; all pages where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Rows that are told; all of them where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Set if of an archive only the names of its files are wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listing: bool,
    /// Set if on standard input, before the document, there is what the list of processes must not show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Recognition of pages that are pictures.
    #[serde(default)]
    pub recognition: Recognition,
}

/// Preface of the document on standard input: its length in four bytes, and as much JSON.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Private {
    /// The password that may open the document.
    #[serde(default)]
    pub(super) password: Option<String>,
    /// Path of the document in the archive that follows.
    #[serde(default)]
    pub(super) inner: Option<String>,
}

/// Bytes of it at the most.
pub(super) const PRIVATE_BYTES: u32 = 64 * 1024;

/// Rows of sheets that are told. Of the others it is told that they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first row of the first sheet.
    pub row: u32,
    /// Characters after which no more rows are told.
    pub letters: usize,
}

/// Piece of a document, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Its head, once.
    Head(Head),
    /// A part, or a piece of one: see [`Part::join`].
    Part(Part),
    /// That there is no more, once.
    End(Summary),
}

/// Properties of a document before its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its kind.
    pub kind: Kind,
    /// Its own title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Number of pages, sheets or slides, where that is known, for those who show progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
}

/// Properties of a document after its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of pages, sheets or slides.
    pub parts: u32,
}

/// Frame that a worker writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Frame {
    /// Kind of the document, before anything in it was looked at: should that end the worker, it is known what did.
    Recognised(Kind),
    /// A piece of the document.
    Piece(Piece),
    /// Why there are no more pieces.
    Failed(Failure),
}

/// Writes a frame whole.
pub(super) fn write(out: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    out.write_all(&bytes)?;
    out.flush()
}
