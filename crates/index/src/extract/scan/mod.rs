//! Pages that are pictures: their letters are recognised, within a budget for the whole document.
//!
//! - [`Scanner`]: what is left of the budget, and the models, which are loaded for the first page that needs them.
//! - `drawing`: a page of a PDF as a picture, in builds with recognition only.
//! - `tiff`: pictures with several pages.

#[cfg(feature = "ocr")]
mod drawing;
#[cfg(feature = "ocr")]
mod present;
pub(super) mod tiff;

#[cfg(feature = "ocr")]
pub(crate) use self::present::Scanner;

use super::{Teller, broken, clean};
#[cfg(not(feature = "ocr"))]
use crate::failure::UnreadReason;
use crate::{
    document::DocumentPlace,
    failure::{Failure, UnreadPages},
    kind::Kind,
};

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

/// Tells of a picture what it says, page by page where it has some.
pub(super) fn picture(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let pages: Vec<Option<u32>> = match tiff::is_tiff(bytes) {
        true => tiff::pages(bytes).into_iter().map(Some).collect(),
        false => vec![None],
    };
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    teller.head(None, Some(pages.len()))?;
    if pages.is_empty() {
        return Err(broken(Kind::Picture, "it has no pages"));
    }
    let (mut unread, mut damage, mut is_partial) = (None, None, false);
    let first = usize::try_from(teller.first - 1).unwrap_or(usize::MAX);
    for (page, number) in pages.into_iter().zip(1..).skip(first) {
        if count > 1 && teller.last_page.is_some_and(|last| number > last) {
            is_partial = true;
            break;
        }
        match teller.scanner.photo(number, bytes, page) {
            Ok(Ok(RecognisedText { text, is_cut })) => {
                if is_cut {
                    let which = if count > 1 { format!("page {number}") } else { "it".to_owned() };
                    teller.leave_out(format!("{which} has {MORE_TEXT}"));
                }
                teller.text(DocumentPlace::ScannedPage(number), text, None)?;
            }
            Ok(Err(why)) => {
                let page = UnreadPages::one(why, false);
                unread = Some(unread.map_or(page, |before: UnreadPages| before.and(page)));
                teller.page(DocumentPlace::Page(number), String::new(), Some(why))?;
            }
            Err(failure) if count == 1 || failure == Failure::NeedsRecognition => return Err(failure),
            // The others are read all the same.
            Err(failure) => {
                damage.get_or_insert(failure);
                teller.page(DocumentPlace::Page(number), String::new(), None)?;
            }
        }
    }
    match (unread.filter(|_| teller.first == 1 && !is_partial), damage) {
        (Some(unread), damage) => {
            let besides = damage.map(|failure| clean::line(&failure.to_string(), 200));
            Err(Failure::Scanned { kind: Kind::Picture, unread, pages: count, besides })
        }
        (None, damage) => damage.map_or(Ok(()), Err),
    }
}

/// Recognition in a build that has none.
#[cfg(not(feature = "ocr"))]
#[derive(Debug)]
pub(crate) struct Scanner(UnreadReason);

#[cfg(not(feature = "ocr"))]
impl Scanner {
    pub(crate) fn new(recognition: crate::recognition::Recognition) -> Self {
        match recognition {
            crate::recognition::Recognition::Missing(why) => Self(why),
            _ => Self(UnreadReason::NotBuilt),
        }
    }

    pub(super) const fn is_wanted(&self) -> bool {
        false
    }

    pub(super) fn page(
        &mut self,
        _number: u32,
        _page: &hayro_syntax::page::Page<'_>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        Ok(Err(self.0))
    }

    fn photo(
        &mut self,
        _number: u32,
        _bytes: &[u8],
        _page: Option<u32>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        Ok(Err(self.0))
    }
}

#[cfg(not(feature = "ocr"))]
impl Default for Scanner {
    fn default() -> Self {
        Self(UnreadReason::NotBuilt)
    }
}
