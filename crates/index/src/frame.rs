//! Protocol between daemon and worker: frames with a length prefix and JSON content.

use std::io::{self, Write};

use agentd_core::knowledge::Password;
use serde::{Deserialize, Serialize};

use crate::{
    document::{DocumentPlace, Part},
    failure::{Failure, Limits, fail_if},
    kind::Kind,
    recognition::Recognition,
};

/// Maximum size of the text in one frame, in bytes. Larger parts are split into several frames.
pub(crate) const PIECE_BYTES: usize = 512 * 1024;

/// Maximum size of a frame, in bytes. JSON leaves most characters unchanged; quotes, line ends and similar characters
/// take two bytes.
pub(crate) const FRAME_BYTES: usize = 4 * PIECE_BYTES;

/// Job of a worker, passed as its second argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Parts of the document to read.
    pub wanted: WantedParts,
    /// Limits on the cost of reading.
    pub limits: Limits,
    /// True if [`PrivateData`] precedes the document on standard input. Private data is never passed as an argument,
    /// because arguments are visible in the process list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Recognition of pages that are images.
    #[serde(default)]
    pub recognition: Recognition,
}

/// Private data before the document on standard input: its length in four bytes, then JSON.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct PrivateData {
    /// Password that may open the document.
    #[serde(default)]
    pub(super) password: Option<String>,
    #[serde(default)]
    pub(super) inner: Option<String>,
}

/// Maximum size of [`PrivateData`], in bytes.
pub(super) const PRIVATE_BYTES: usize = 64 * 1024;

/// Selection of the parts of a document. The private fields are not serialised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedParts {
    /// Kind by file name, see [`Kind::of_name`].
    pub named: Option<Kind>,
    /// First page or sheet, starting at 1; 0 is equivalent. Earlier pages of a PDF are not read. Other documents are
    /// read from the beginning, because the start of a part is only known after reading the preceding content.
    pub first: u32,
    /// Last page of a PDF, starting at 1. `None` for all pages.
    pub last: Option<u32>,
    /// Rows of sheets to return. `None` for all rows.
    pub window: Option<Window>,
    /// True if only the file names in an archive are requested.
    pub listing: bool,
    /// True if cells of a sheet are requested without their comments.
    pub values_only: bool,
    /// Path of the document inside the archive.
    #[serde(skip)]
    pub inner: Option<String>,
    /// Password that may open the document.
    #[serde(skip)]
    pub password: Option<Password>,
}

/// Selects a whole file, of this kind by its name.
impl From<Option<Kind>> for WantedParts {
    fn from(named: Option<Kind>) -> Self {
        Self { named, ..Self::default() }
    }
}

/// Window of sheet rows to return. Other rows are only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First row, in the first sheet.
    pub row: u32,
    /// Number of characters after which no more rows are returned.
    pub letters: usize,
}

/// Piece of a document, sent in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Properties of the document, sent once.
    Head(Head),
    /// A part or a fragment of one, see [`Part::join`].
    Part(Part),
    /// End of the document, sent once.
    End {
        /// Number of pages, sheets or slides.
        parts: u32,
    },
}

/// Properties of a document, sent before its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Type of the document.
    pub kind: Kind,
    /// Title in the document's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Number of pages, sheets or slides for progress reports, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
}

/// Counts the parts received so far and enforces the limits.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of pages, sheets or slides.
    pub(crate) parts: u32,
    bytes: u64,
    last: Option<DocumentPlace>,
}

impl Tally {
    /// Counts the next part or fragment. Fails if a limit is exceeded.
    pub(crate) fn take(&mut self, part: &Part, limits: &Limits) -> Result<(), Failure> {
        let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
        fail_if(is_new && self.parts == limits.parts, || Failure::too_many("the number of its parts", limits.parts))?;
        self.bytes = self.bytes.saturating_add(part.size());
        fail_if(self.bytes > limits.bytes_out, || Failure::too_large("its text", limits.bytes_out))?;
        self.parts += u32::from(is_new);
        self.last = Some(part.place.clone());
        Ok(())
    }
}

/// Frame from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Frame {
    /// Type of the document, sent before its content is parsed. If the worker dies, the daemon can report the format.
    Recognised(Kind),
    Piece(Piece),
    /// Error that ended the reading.
    Failed(Failure),
}

pub(super) fn write(out: &mut impl Write, frame: &Frame) -> io::Result<()> {
    out.write_all(&agentd_confine::frame(&serde_json::to_vec(frame)?, usize::MAX)?)
}
