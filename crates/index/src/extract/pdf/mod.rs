//! PDF: page by page, in reading order, with headings and tables.
//!
//! Libraries read the file and its fonts. What is drawn, and what it makes, is told here:
//!
//! - [`content`]: what is drawn on a page. [`drawing`]: the operators, with those of [`setting`] and [`path`]; [`font`]: their fonts,
//!   [`glyph`]: the letters as they are drawn. [`layer`]: what is switched off.
//! - [`letter`]: the letters. [`turn`]: which of them stand upright together. [`direction`]: scripts that are not read from the left.
//! - [`line`](mod@line): pieces of lines, with [`accent`]s on their letters. [`column`](mod@column): in which order they are read.
//! - [`pages`]: page by page, with those that are pictures. `recognised`: letters that were recognised, laid out.
//! - [`field`]: what was filled in, comments and attached files. [`string`]: their texts. [`stream`]: what is packed. [`ruled`]: tables that are drawn with lines. [`text`]: paragraphs, headings, lists and listings.

mod accent;
mod column;
mod content;
mod direction;
mod drawing;
mod field;
mod font;
mod glyph;
mod layer;
mod letter;
mod line;
mod pages;
mod path;
#[cfg(feature = "ocr")]
mod recognised;
mod ruled;
mod setting;
mod stream;
mod string;
mod text;
mod turn;

use hayro_syntax::{DecryptionError, LoadPdfError, Pdf, PdfData};
use memchr::memmem;

#[cfg(feature = "ocr")]
pub(super) use self::recognised::recognised;
use super::{Teller, broken, clean};
use crate::{failure::Failure, kind::Kind};

/// Mark that must stand near the end of every PDF that came whole.
const END_MARK: &[u8] = b"%%EOF";
const END_MARK_WITHIN: usize = 4096;

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let tail = &bytes[bytes.len().saturating_sub(END_MARK_WITHIN)..];
    let is_whole = tail.windows(END_MARK.len()).any(|window| window == END_MARK);
    const CUT_OFF: &str = "it ends early, as if it was not copied whole";
    let cut_off = || broken(Kind::Pdf, CUT_OFF);
    // Many are encrypted without a password, only to forbid things to programs that ask.
    let data = PdfData::from(bytes);
    let is_locked = |opened: &Result<Pdf, LoadPdfError>| {
        match opened {
            Err(LoadPdfError::Decryption(DecryptionError::PasswordProtected)) => true,
            // Where its table is damaged, too, nothing else tells that a password is missing.
            Err(LoadPdfError::Invalid) => memmem::find(data.as_ref(), b"/Encrypt").is_some(),
            _ => false,
        }
    };
    let mut opened = Pdf::new(data.clone());
    if let (true, Some(password)) = (is_locked(&opened), teller.password()) {
        opened = Pdf::new_with_password(data.clone(), password);
    }
    if is_locked(&opened) {
        return Err(Failure::Encrypted(Kind::Pdf));
    }
    let document = opened.map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::UnsupportedAlgorithm) => {
            Failure::Protected { kind: Kind::Pdf, how: "its encryption is not supported".to_owned() }
        }
        LoadPdfError::Decryption(_) => broken(Kind::Pdf, "its encryption is damaged"),
        LoadPdfError::Invalid if is_whole => broken(Kind::Pdf, "it is damaged, and no pages can be found in it"),
        LoadPdfError::Invalid => cut_off(),
    })?;
    let pages = document.pages().len();
    if pages == 0 {
        return Err(if is_whole { broken(Kind::Pdf, "it has no pages") } else { cut_off() });
    }
    let title = document.metadata().title.as_deref().map(string::text);
    teller.head(title.as_deref(), Some(pages))?;
    let read = pages::tell(&document, teller)?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let is_cut_off = !is_whole && !read.is_partial;
    let damage = if is_cut_off { Some(CUT_OFF.to_owned()) } else { read.first_error };
    // Those of pages that were not looked at are not known; each one that is told says so itself.
    match (read.unread.filter(|_| teller.first() == 1 && !read.is_partial), damage) {
        (Some(unread), damage) => {
            let besides = damage.map(|damage| clean::line(&format!("it is damaged, too ({damage})"), 200));
            Err(Failure::Scanned { kind: Kind::Pdf, unread, pages, besides })
        }
        (None, Some(damage)) => Err(broken(Kind::Pdf, &damage)),
        (None, None) => Ok(()),
    }
}
