//! What a worker is told, and what it tells: frames of a length and as much JSON.

use std::io::{self, Write};

use agentd_core::knowledge::Password;
use serde::{Deserialize, Serialize};

use crate::{
    document::{DocumentPlace, Part},
    failure::{Failure, Limits},
    kind::Kind,
    recognition::Recognition,
};

/// Bytes of text that one frame carries at most. A larger part is told in several frames.
pub(crate) const PIECE_BYTES: usize = 512 * 1024;

/// Bytes of a frame. JSON writes most letters as they are; quotes, line ends and the like take two bytes.
pub(crate) const FRAME_BYTES: usize = 4 * PIECE_BYTES;

/// Job of a worker, as its second argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Wanted parts of it.
    pub wanted: WantedParts,
    /// Limits on the cost of reading it.
    pub limits: Limits,
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
pub(super) const PRIVATE_BYTES: usize = 64 * 1024;

/// Parts of a document that are wanted, and in which form. What is private is not written with the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedParts {
    /// Kind by its name: [`Kind::of_name`].
    pub named: Option<Kind>,
    /// The first page or sheet, counted from 1; 0 the same. Pages of a PDF before it are not read. Other documents are told
    /// from their beginning, as nothing but reading them tells where a part of them begins.
    pub first: u32,
    /// The last page of a PDF, counted from 1; all pages where it is not said.
    pub last: Option<u32>,
    /// Rows that are told; all of them where it is not said.
    pub window: Option<Window>,
    /// Set if of an archive only the names of its files are wanted.
    pub listing: bool,
    /// Path of the document in the archive that the file is.
    #[serde(skip)]
    pub inner: Option<String>,
    /// The password that may open it.
    #[serde(skip)]
    pub password: Option<Password>,
}

/// All of a file of this kind by its name.
impl From<Option<Kind>> for WantedParts {
    fn from(named: Option<Kind>) -> Self {
        Self { named, ..Self::default() }
    }
}

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
    End {
        /// Number of pages, sheets or slides.
        parts: u32,
    },
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

/// Parts of a document so far, within limits.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of pages, sheets or slides.
    pub(crate) parts: u32,
    bytes: u64,
    last: Option<DocumentPlace>,
}

impl Tally {
    /// Counts the next part, or piece of one.
    pub(crate) fn take(&mut self, part: &Part, limits: &Limits) -> Result<(), Failure> {
        let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
        if is_new && self.parts == limits.parts {
            return Err(Failure::too_many("the number of its parts", limits.parts));
        }
        self.bytes = self.bytes.saturating_add(part.size());
        if self.bytes > limits.bytes_out {
            return Err(Failure::too_large("its text", limits.bytes_out));
        }
        self.parts += u32::from(is_new);
        self.last = Some(part.place.clone());
        Ok(())
    }
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
    out.write_all(&agentd_confine::frame(&serde_json::to_vec(frame)?, usize::MAX)?)
}
