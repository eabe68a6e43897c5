//! The groups `reading` and `index` of `agentd.yaml`: how much of a file is read at once, and how documents are indexed.

use serde::Deserialize;

use super::{
    ConfigError, ErrorPlace,
    group::group,
    origin::{Origin, Origins},
    value::{Span, Within},
};

group! {
    /// Amounts of a file that are read at once where nobody says how much.
    ReadingSettings, ReadingLayer {
        /// Size up to which a text file is read whole, in bytes.
        whole_file_bytes: Within<1024, 10_485_760>,
        /// Characters of a larger one.
        page_chars: Within<1000, 1_000_000>,
        /// Pages of a document.
        document_pages: Within<1, 1000>,
        /// Characters of them.
        document_chars: Within<1000, 1_000_000>,
        /// Sheets of a workbook.
        workbook_sheets: Within<1, 1000>,
        /// Characters of them.
        workbook_chars: Within<1000, 1_000_000>,
        /// Slides of a presentation.
        presentation_slides: Within<1, 1000>,
        /// Characters of them.
        presentation_chars: Within<1000, 1_000_000>,
        /// Scanned pages of a document whose letters are recognised at once; 0 switches recognition off.
        recognised_pages: Within<0, 1000>,
    }
}

group! {
    /// The index of documents.
    IndexSettings, IndexLayer {
        /// Characters of a chunk.
        chunk_chars: Within<100, 4000>,
        /// Characters that it shares with the one before.
        chunk_overlap: Within<0, 2000>,
        /// Rows of a chunk of a sheet.
        chunk_rows: Within<1, 500>,
        /// Rows that it shares with the one before.
        row_overlap: Within<0, 250>,
        /// Time without use after which a document may go early.
        stale_after: Span,
        /// Time without use after which it goes.
        keep: Span,
        /// Size of the index above which stale documents go early, in bytes.
        max_bytes: Within<10_485_760, 1_099_511_627_776>,
    }
}

impl IndexSettings {
    /// Makes sure that chunks move on, and that nothing goes before it is stale.
    pub(super) fn checked(self, origins: &Origins) -> Result<Self, ConfigError> {
        let refuse = |key: &str, why: &str| {
            let place = match origins.get(key) {
                Some(origin @ (Origin::User(_) | Origin::System(_))) => ErrorPlace::File(origin.path(), None),
                _ => ErrorPlace::Setting(key.to_owned()),
            };
            Err(ConfigError::new(place, format!("{key} {why}")))
        };
        if self.chunk_overlap.0 * 2 > self.chunk_chars.0 {
            return refuse("index.chunk_overlap", "is at most half of index.chunk_chars");
        }
        if self.row_overlap.0 * 2 > self.chunk_rows.0 {
            return refuse("index.row_overlap", "is at most half of index.chunk_rows");
        }
        if self.keep.0 < self.stale_after.0 {
            return refuse("index.keep", "is at least index.stale_after");
        }
        Ok(self)
    }
}
