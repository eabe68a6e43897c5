//! Recognition of pages that are images, within a budget for the whole document.
//!
//! - [`Scanner`]: remaining budget, and the models, which are loaded for the first page that requires recognition.
//! - `drawing`: rendering of the images of a PDF page, only in builds with recognition; `page`: of a whole page, for models.
//!
//! TIFF files may have several pages, but the library only reads the first one. This module finds the others.

#[cfg(feature = "ocr")]
mod drawing;
#[cfg(feature = "ocr")]
mod page;
#[cfg(feature = "ocr")]
mod present;

use super::{Emitter, broken, clean};
use crate::{
    document::DocumentPlace,
    failure::{Failure, UnreadReason, fail_if},
    kind::Kind,
};

#[cfg(feature = "ocr")]
pub(crate) use self::{page::render as render_page, present::Scanner};

/// Placeholder in builds without recognition.
#[cfg(not(feature = "ocr"))]
pub(crate) fn render_page(_document: Vec<u8>, _number: u32) -> Result<image::RgbImage, String> {
    Err("this agentd was built without drawing of pages".to_owned())
}

/// Text recognised on a page.
#[derive(Debug)]
#[cfg_attr(not(feature = "ocr"), allow(dead_code, reason = "not constructed in builds without recognition"))]
pub(super) struct RecognisedText {
    pub(super) text: String,
    /// True if the page may have more lines than the limit.
    pub(super) is_cut: bool,
}

/// Recognised text, or the reason why there is none. An error if recognition is deferred or the page cannot be read.
type RecognitionResult = Result<Result<RecognisedText, UnreadReason>, Failure>;

/// Description of a page with more text than the limit.
pub(super) const MORE_TEXT: &str = "more text than the limit for one page (5000 lines)";

/// Reads an image, page by page if it has several.
pub(super) fn picture(mut bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let pages: Vec<Option<u32>> = match is_tiff(&bytes) {
        true => pages(&bytes).into_iter().map(Some).collect(),
        false => vec![None],
    };
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    emitter.head(None, Some(pages.len()))?;
    fail_if(pages.is_empty(), || broken(Kind::Picture, "it has no pages"))?;
    let mut damage = None;
    for (page, number) in pages.into_iter().zip(1..).skip(emitter.before()) {
        if count > 1 && emitter.is_past_last_page(number) {
            break;
        }
        match emitter.scanner.photo(number, &mut bytes, page) {
            Ok(Ok(RecognisedText { text, is_cut })) => {
                if is_cut {
                    let which = if count > 1 { format!("page {number}") } else { "it".to_owned() };
                    emitter.leave_out(format!("{which} has {MORE_TEXT}"));
                }
                emitter.text(DocumentPlace::ScannedPage(number), text, None, None)?;
            }
            Ok(Err(reason)) => emitter.text(DocumentPlace::Page(number), String::new(), None, Some(reason))?,
            Err(failure) if count == 1 || failure == Failure::NeedsRecognition => return Err(failure),
            // Continue with the other pages.
            Err(failure) => {
                damage.get_or_insert(failure);
                emitter.text(DocumentPlace::Page(number), String::new(), None, None)?;
            }
        }
    }
    match (emitter.unread(), damage) {
        (Some(unread), damage) => {
            let besides = damage.map(|failure| clean::line(&failure.to_string(), 200));
            Err(Failure::Scanned { kind: Kind::Picture, unread, pages: count, besides })
        }
        (None, damage) => damage.map_or(Ok(()), Err),
    }
}

/// Placeholder in builds without recognition.
#[cfg(not(feature = "ocr"))]
#[derive(Debug, Default)]
pub(crate) struct Scanner(UnreadReason);

#[cfg(not(feature = "ocr"))]
impl Scanner {
    pub(crate) fn new(recognition: crate::recognition::Recognition) -> Self {
        match recognition {
            crate::recognition::Recognition::Missing(reason) => Self(reason),
            _ => Self::default(),
        }
    }

    pub(super) const fn is_wanted(&self) -> bool {
        false
    }

    pub(super) fn page(&mut self, _number: u32, _page: &hayro_syntax::page::Page<'_>) -> RecognitionResult {
        Ok(Err(self.0))
    }

    fn photo(&mut self, _number: u32, _bytes: &mut [u8], _page: Option<u32>) -> RecognitionResult {
        Ok(Err(self.0))
    }
}

const MAX_PAGES: usize = 10_000;
/// Maximum number of fields per page.
const MAX_FIELDS: usize = 4096;

/// Returns true for a TIFF file that is not a raw photograph of a camera.
pub(in crate::extract) fn is_tiff(bytes: &[u8]) -> bool {
    let is_camera = bytes.get(8..10) == Some(b"CR");
    (bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*")) && !is_camera
}

/// Returns the offsets of the page directories in order, without previews. Empty if there are no pages.
pub(super) fn pages(bytes: &[u8]) -> Vec<u32> {
    let file = File(bytes);
    let (mut pages, mut seen) = (Vec::new(), Vec::new());
    let mut next = file.long(4).filter(|next| *next > 0);
    while let Some(at) = next.filter(|at| !seen.contains(at) && seen.len() < MAX_PAGES) {
        seen.push(at);
        let Some(is_preview) = file.is_preview(at) else { break };
        if !is_preview {
            pages.push(at);
        }
        next = file.next(at).filter(|next| *next > 0);
    }
    pages
}

/// Reader for numbers in a TIFF file.
struct File<'a>(&'a [u8]);

impl File<'_> {
    fn short(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.0.starts_with(b"II") { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn long(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.0.starts_with(b"II") { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// Returns true if a page is a preview of another page, or `None` if the file has no such page.
    fn is_preview(&self, page: u32) -> Option<bool> {
        let page = usize::try_from(page).ok()?;
        let count = usize::from(self.short(page)?).min(MAX_FIELDS);
        let is_sign = |number: usize| {
            let start = page + 2 + number * 12;
            let value = match self.short(start + 2)? {
                3 => u32::from(self.short(start + 8)?),
                4 => self.long(start + 8)?,
                _ => return None,
            };
            let tag = self.short(start)?;
            Some(tag == 254 && value & 1 == 1 || tag == 255 && value == 2)
        };
        Some((0..count).filter_map(is_sign).any(|is_sign| is_sign))
    }

    /// Returns the offset of the next page directory, or 0 after the last one.
    fn next(&self, page: u32) -> Option<u32> {
        let page = usize::try_from(page).ok()?;
        self.long(page + 2 + usize::from(self.short(page)?) * 12)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    /// Builds a file with pages without fields. Each entry is the offset of the next page.
    fn file(pages: &[u32]) -> Vec<u8> {
        let mut bytes = b"II*\0\x08\0\0\0".to_vec();
        for next in pages {
            bytes.extend([0, 0]);
            bytes.extend(next.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn tiff_pages_are_in_order_without_repeats() {
        assert_eq!(pages(&file(&[14, 20, 0])), [8, 14, 20]);
        assert_eq!(pages(&file(&[14, 8])), [8, 14]);
        assert_eq!(pages(&file(&[4000])), [8]);
        assert_eq!(pages(b"II*\0"), [0; 0]);
        assert!(is_tiff(&file(&[0])) && !is_tiff(b"II*\0\x10\0\0\0CR\x02\0"));
    }

    proptest! {
        #[test]
        fn any_tiff_header_is_read_or_rejected(bytes in vec(any::<u8>(), 0..400), is_small in any::<bool>()) {
            let start: &[u8] = if is_small { b"II*\0\x08\0\0\0" } else { b"MM\0*\0\0\0\x08" };
            let bytes = [start, &bytes].concat();
            let _ = pages(&bytes);
        }
    }
}
