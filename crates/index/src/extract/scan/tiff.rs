//! Pages of a TIFF file, as scanners and faxes write it. The library reads the first only, and of faxes one kind of three.

#[cfg(feature = "ocr")]
use std::{
    borrow::Cow,
    io::{self, Read, Seek, SeekFrom},
};

#[cfg(feature = "ocr")]
use hayro_ccitt::{DecodeSettings, Decoder, DecoderContext, EncodingMode};
#[cfg(feature = "ocr")]
use image::GrayImage;

/// Pages that are looked at.
const MOST_PAGES: usize = 10_000;
/// Fields of a page that are looked at.
const MOST_FIELDS: usize = 4096;
/// Pixels of a fax at the most, of which each takes a byte.
#[cfg(feature = "ocr")]
const MOST_PIXELS: u64 = 200_000_000;
/// Bytes of the header, which names the first page in its second half.
#[cfg(feature = "ocr")]
const HEADER: usize = 8;

/// Returns whether bytes begin as a TIFF file does that is no photograph as a camera keeps it.
pub(in crate::extract) fn is_tiff(bytes: &[u8]) -> bool {
    let is_camera = bytes.get(8..10) == Some(b"CR");
    (bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*")) && !is_camera
}

/// Places at which the pages of a file are described, in order; previews are no pages. Empty where nothing is.
pub(super) fn pages(bytes: &[u8]) -> Vec<u32> {
    let file = File(bytes);
    let (mut pages, mut seen) = (Vec::new(), Vec::new());
    let mut next = file.long(4).filter(|next| *next > 0);
    while let Some(at) = next.filter(|at| !seen.contains(at) && seen.len() < MOST_PAGES) {
        seen.push(at);
        let Some(fields) = file.fields(at) else { break };
        let is_preview =
            file.number(&fields, 254).is_some_and(|kind| kind & 1 == 1) || file.number(&fields, 255) == Some(2);
        if !is_preview {
            pages.push(at);
        }
        next = file.next(at).filter(|next| *next > 0);
    }
    pages
}

/// The bytes of a file.
struct File<'a>(&'a [u8]);

/// A field of a page: its number, the form of its values, how many there are, and where they stand.
struct Field {
    tag: u16,
    form: u16,
    count: u32,
    at: usize,
}

impl File<'_> {
    fn short(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.0.starts_with(b"II") { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn long(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.0.starts_with(b"II") { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn fields(&self, page: u32) -> Option<Vec<Field>> {
        let page = usize::try_from(page).ok()?;
        let count = usize::from(self.short(page)?).min(MOST_FIELDS);
        let field = |number: usize| {
            let start = page + 2 + number * 12;
            let (tag, form, count) = (self.short(start)?, self.short(start + 2)?, self.long(start + 4)?);
            let size = count.checked_mul(if form == 3 { 2 } else { 4 })?;
            let at = if size <= 4 { start + 8 } else { usize::try_from(self.long(start + 8)?).ok()? };
            Some(Field { tag, form, count, at })
        };
        Some((0..count).filter_map(field).collect())
    }

    /// Place at which the page behind this one is described; 0 behind the last.
    fn next(&self, page: u32) -> Option<u32> {
        let page = usize::try_from(page).ok()?;
        self.long(page + 2 + usize::from(self.short(page)?) * 12)
    }

    /// The whole numbers of a field, at most so many.
    fn numbers(&self, fields: &[Field], tag: u16, most: usize) -> Vec<u32> {
        let Some(field) = fields.iter().find(|field| field.tag == tag) else { return Vec::new() };
        let count = usize::try_from(field.count).unwrap_or(usize::MAX).min(most);
        let number = |number: usize| match field.form {
            3 => self.short(field.at.checked_add(number * 2)?).map(u32::from),
            4 => self.long(field.at.checked_add(number * 4)?),
            _ => None,
        };
        (0..count).map_while(number).collect()
    }

    fn number(&self, fields: &[Field], tag: u16) -> Option<u32> {
        self.numbers(fields, tag, 1).first().copied()
    }
}

/// The file with another page as its first.
#[cfg(feature = "ocr")]
pub(super) struct FromPage<'a> {
    bytes: &'a [u8],
    header: [u8; HEADER],
    position: u64,
}

#[cfg(feature = "ocr")]
impl<'a> FromPage<'a> {
    pub(super) fn new(bytes: &'a [u8], page: u32) -> Self {
        let mut header = [0; HEADER];
        let known = bytes.len().min(HEADER);
        header[..known].copy_from_slice(&bytes[..known]);
        header[4..].copy_from_slice(&if bytes.starts_with(b"II") { page.to_le_bytes() } else { page.to_be_bytes() });
        Self { bytes, header, position: 0 }
    }
}

#[cfg(feature = "ocr")]
impl Read for FromPage<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(self.position).unwrap_or(usize::MAX);
        let rest = if at < HEADER { self.header.get(at..) } else { self.bytes.get(at..) };
        let read = rest.unwrap_or_default().read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(feature = "ocr")]
impl Seek for FromPage<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.bytes.len() as u64, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let at = from.checked_add_signed(by).ok_or_else(|| io::Error::other("before the beginning"))?;
        self.position = at;
        Ok(at)
    }
}

/// A page that is packed as faxes are, of at most so many pixels to a side. None of one that is packed otherwise.
///
/// # Errors
/// When it is larger, or not a single row can be unpacked.
#[cfg(feature = "ocr")]
pub(super) fn fax(bytes: &[u8], page: u32, most: u32) -> Result<Option<GrayImage>, String> {
    const TILE_WIDTH: u16 = 322;
    let file = File(bytes);
    let Some(fields) = file.fields(page) else { return Ok(None) };
    let number = |tag| file.number(&fields, tag);
    let Some(packed @ 2..=4) = number(259) else { return Ok(None) };
    let (Some(width), Some(height)) = (number(256), number(257)) else { return Ok(None) };
    if number(TILE_WIDTH).is_some() || number(258).unwrap_or(1) != 1 || number(277).unwrap_or(1) != 1 {
        return Ok(None);
    }
    let is_large = u64::from(width) * u64::from(height) > MOST_PIXELS;
    if width == 0 || height == 0 || width > most || height > most || is_large {
        return Err(format!("it has {width} × {height} pixels"));
    }
    let encoding = match packed {
        4 => EncodingMode::Group4,
        3 if number(292).is_some_and(|options| options & 1 == 1) => EncodingMode::Group3_2D,
        _ => EncodingMode::Group3_1D,
    };
    let strip_rows = number(278).unwrap_or(height).clamp(1, height);
    let count = usize::try_from(height.div_ceil(strip_rows)).unwrap_or(usize::MAX);
    let (starts, sizes) = (file.numbers(&fields, 273, count), file.numbers(&fields, 279, count));
    let is_black_zero = number(262) == Some(1);
    let mut rows =
        FaxRows { image: GrayImage::from_pixel(width, height, image::Luma([u8::MAX])), row: 0, is_black_zero };
    let mut has_row = false;
    // Strips do not overlap, so that together they are no longer than the file.
    let mut left = bytes.len();
    let is_reversed = number(266) == Some(2);
    for ((strip, start), size) in (0..).zip(starts).zip(sizes) {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(left);
        let Some(data) = bytes.get(start..start.saturating_add(size).min(bytes.len())) else { continue };
        left -= data.len();
        // Some programs write the bits of a byte from the other end.
        let data: Cow<'_, [u8]> = match is_reversed {
            true => data.iter().map(|byte| byte.reverse_bits()).collect(),
            false => Cow::Borrowed(data),
        };
        rows.row = strip_rows.saturating_mul(strip);
        let settings = DecodeSettings {
            columns: width,
            rows: strip_rows.min(height - rows.row.min(height)),
            end_of_block: packed != 2,
            end_of_line: packed == 3,
            rows_are_byte_aligned: packed == 2,
            encoding,
            strict: false,
        };
        // Of a damaged strip the rows before the damage are there.
        let _ = hayro_ccitt::decode(&data, &mut rows, &mut DecoderContext::new(settings));
        has_row |= rows.row > strip_rows.saturating_mul(strip);
    }
    if has_row { Ok(Some(rows.image)) } else { Err("its page cannot be unpacked".to_owned()) }
}

/// Rows of a fax as they are unpacked, on a white page.
#[cfg(feature = "ocr")]
struct FaxRows {
    image: GrayImage,
    row: u32,
    is_black_zero: bool,
}

#[cfg(feature = "ocr")]
impl Decoder for FaxRows {
    fn push_row(&mut self, changes: &[u32]) {
        let (row, width) = (self.row, self.image.width());
        self.row = row.saturating_add(1);
        if row >= self.image.height() {
            return;
        }
        let mut from = 0;
        for (end, is_dark) in changes.iter().copied().chain([width]).zip([false, true].into_iter().cycle()) {
            let end = end.min(width);
            if is_dark != self.is_black_zero {
                (from..end).for_each(|column| self.image.put_pixel(column, row, image::Luma([0])));
            }
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    /// A file with as many pages without fields as there are of these, each where it says.
    fn file(pages: &[u32]) -> Vec<u8> {
        let mut bytes = b"II*\0\x08\0\0\0".to_vec();
        for next in pages {
            bytes.extend([0, 0]);
            bytes.extend(next.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn pages_follow_each_other_and_no_page_comes_twice() {
        assert_eq!(pages(&file(&[14, 20, 0])), [8, 14, 20]);
        assert_eq!(pages(&file(&[14, 8])), [8, 14]);
        assert_eq!(pages(&file(&[4000])), [8]);
        assert_eq!(pages(b"II*\0"), [0; 0]);
        assert!(is_tiff(&file(&[0])) && !is_tiff(b"II*\0\x10\0\0\0CR\x02\0"));
    }

    proptest! {
        #[test]
        fn whatever_bytes_say_is_read_or_refused(bytes in vec(any::<u8>(), 0..400), is_small in any::<bool>()) {
            let start: &[u8] = if is_small { b"II*\0\x08\0\0\0" } else { b"MM\0*\0\0\0\x08" };
            let bytes = [start, &bytes].concat();
            for page in pages(&bytes) {
                #[cfg(feature = "ocr")]
                drop(fax(&bytes, page, 500));
                #[cfg(not(feature = "ocr"))]
                let _ = page;
            }
        }
    }
}
