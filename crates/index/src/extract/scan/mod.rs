//! Pages that are pictures: their letters are recognised, within a budget for the whole document.
//!
//! - [`Scanner`]: what is left of the budget, and the models, which are loaded for the first page that needs them.
//! - `drawing`: a page of a PDF as a picture. `photo`: the picture that a file is. Both in builds with recognition only.

#[cfg(feature = "ocr")]
mod drawing;
#[cfg(feature = "ocr")]
mod photo;
#[cfg(feature = "ocr")]
mod present;

#[cfg(feature = "ocr")]
pub(crate) use self::present::Scanner;

use super::Teller;
#[cfg(not(feature = "ocr"))]
use crate::failure::UnreadReason;
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// Text that was recognised on a page.
#[derive(Debug)]
#[cfg_attr(not(feature = "ocr"), allow(dead_code, reason = "a build without recognition makes none"))]
pub(super) struct RecognisedText {
    /// As Markdown.
    pub(super) text: String,
    /// Set if there may be more lines than are recognised.
    pub(super) is_cut: bool,
}

/// Words for a page on which there may be more.
pub(super) const MORE_TEXT: &str = "more text than is recognised on one page (5000 lines)";

/// Tells of a picture what it says.
pub(super) fn picture(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    teller.head(None, Some(1))?;
    match teller.scanner().photo(bytes)? {
        Ok(RecognisedText { text, is_cut }) => {
            if is_cut {
                teller.leave_out(format!("it has {MORE_TEXT}"));
            }
            teller.text(DocumentPlace::ScannedPage(1), text, None)
        }
        Err(why) => {
            teller.page(DocumentPlace::Page(1), String::new(), Some(why))?;
            Err(Failure::Scanned { kind: Kind::Picture, pictures: 1, pages: 1, why, besides: None })
        }
    }
}

/// Recognition in a build that has none.
#[cfg(not(feature = "ocr"))]
#[derive(Debug)]
pub(crate) struct Scanner(UnreadReason);

#[cfg(not(feature = "ocr"))]
impl Scanner {
    pub(crate) fn new(opened: crate::recognition::OpenRecognition) -> Self {
        match opened {
            crate::recognition::OpenRecognition::Missing(why) => Self(why),
            crate::recognition::OpenRecognition::Deferred | crate::recognition::OpenRecognition::Ready { .. } => {
                Self(UnreadReason::NotBuilt)
            }
        }
    }

    pub(super) fn page(
        &mut self,
        _number: u32,
        _page: &hayro_syntax::page::Page<'_>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        Ok(Err(self.0))
    }

    fn photo(&mut self, _bytes: &[u8]) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        Ok(Err(self.0))
    }
}

#[cfg(not(feature = "ocr"))]
impl Default for Scanner {
    fn default() -> Self {
        Self(UnreadReason::NotBuilt)
    }
}
