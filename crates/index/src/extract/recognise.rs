//! Type detection by content. Names are often wrong, so the bytes decide first.

use std::io::{Cursor, Read as _};

use infer::MatcherType;
use office_oxide::cfb::CfbReader;

use super::{broken, clean, scan};
use crate::{failure::Failure, kind::Kind};

/// Maximum offset of the PDF header. In some files, a mail header precedes it.
const MAX_PDF_HEADER_OFFSET: usize = 1024;

/// Number of bytes of an OLE file that are searched for stream names.
const CFB_SEARCH_BYTES: usize = 4 * 1024 * 1024;

/// Stream names that identify an OLE file. `None` marks an encrypted package.
const CFB_STREAMS: [(&str, Option<Kind>); 6] = [
    ("EncryptedPackage", None),
    ("Workbook", Some(Kind::Xls)),
    ("Book", Some(Kind::Xls)),
    ("WordDocument", Some(Kind::Doc)),
    ("PowerPoint Document", Some(Kind::Ppt)),
    ("__properties_version1.0", Some(Kind::Msg)),
];

/// Kinds by the media type that an archive declares.
const MEDIA_TYPES: [(&str, Kind); 4] = [
    ("application/vnd.oasis.opendocument.spreadsheet", Kind::Ods),
    ("application/vnd.oasis.opendocument.text", Kind::Odt),
    ("application/vnd.oasis.opendocument.presentation", Kind::Odp),
    ("application/epub+zip", Kind::Epub),
];

/// Beginning of each message in a mailbox.
pub(super) const FROM_LINE: &[u8] = b"From ";

/// Name of the content type list in an Office package.
const CONTENT_TYPES: &str = "[Content_Types].xml";

/// Detects the type of these bytes.
///
/// # Errors
/// Fails if the format is unsupported, contradicts the file name, or is encrypted.
pub fn recognise(bytes: &[u8], named: Option<Kind>) -> Result<Kind, Failure> {
    if bytes.is_empty() {
        return match named {
            Some(kind) if !kind.is_text() => Err(broken(kind, "it is empty")),
            named => Ok(named.unwrap_or(Kind::Plain)),
        };
    }
    // Checked before PDF, because the first file in the archive may be a PDF.
    if named == Some(Kind::Tar) && (bytes.starts_with(b"\x1f\x8b") || bytes.get(257..262) == Some(b"ustar")) {
        return Ok(Kind::Tar);
    }
    if named == Some(Kind::Mbox) && bytes.starts_with(FROM_LINE) {
        return Ok(Kind::Mbox);
    }
    let start = &bytes[..bytes.len().min(MAX_PDF_HEADER_OFFSET)];
    // Archives can store a PDF uncompressed, and texts can mention the header.
    let is_zip = bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06");
    let may_hold = is_zip || named.is_some_and(Kind::is_text);
    if contains(start, b"%PDF-") && (start.starts_with(b"%PDF-") || !may_hold) {
        return Ok(Kind::Pdf);
    }
    if is_zip {
        return recognise_zip(bytes, named);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        return recognise_ole(bytes, named);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Ok(Kind::Rtf);
    }
    if is_picture(bytes) && named.is_none_or(|named| named == Kind::Picture || named.is_text()) {
        return Ok(Kind::Picture);
    }
    if let Some(description) = named_by_its_bytes(bytes) {
        return Err(unsupported(named, &description));
    }
    if clean::is_text(bytes) {
        return text(bytes, named);
    }
    Err(unsupported(named, "its content is neither text nor a known format"))
}

/// Returns true if the bytes are an image in a format that can be recognised.
fn is_picture(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"];
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    // The two-letter signature is not sufficient. The header length after it confirms a bitmap.
    let is_bitmap =
        bytes.starts_with(b"BM") && matches!(bytes.get(14..18), Some([12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0]));
    starts.iter().any(|start| bytes.starts_with(start)) || is_webp || is_bitmap || scan::is_tiff(bytes)
}

/// Returns the name of the binary format that the first bytes indicate.
fn named_by_its_bytes(bytes: &[u8]) -> Option<String> {
    // PDF was checked before, with its allowed offsets.
    let found = infer::get(bytes).filter(|found| found.mime_type() != "application/pdf")?;
    // The library checks very little for these two types.
    let is_doubtful = match found.mime_type() {
        "image/bmp" => !is_picture(bytes),
        _ => found.matcher_type() == MatcherType::Font && !is_font(bytes),
    };
    if is_doubtful {
        return None;
    }
    let description = match found.matcher_type() {
        MatcherType::Text => return None,
        MatcherType::Image => "a picture",
        MatcherType::Audio => "a recording",
        MatcherType::Video => "a film",
        MatcherType::Font => "a font",
        MatcherType::Archive => "an archive",
        MatcherType::App => "a program",
        MatcherType::Book | MatcherType::Doc | MatcherType::Custom => "a file",
    };
    Some(format!("it is {description} ({})", found.mime_type()))
}

/// Returns true if a table follows the font header. The library only checks five bytes, most of which are zero.
fn is_font(bytes: &[u8]) -> bool {
    const MAX_TABLES: u8 = 64;
    let is_web = bytes.starts_with(b"wOF");
    let has_count = matches!(bytes.get(4..6), Some([0, count]) if (1..=MAX_TABLES).contains(count));
    let tag = bytes.get(12..16).unwrap_or_default();
    is_web || has_count && !tag.is_empty() && tag.iter().all(|byte| (b' '..=b'~').contains(byte))
}

fn unsupported(named: Option<Kind>, found: &str) -> Failure {
    match named {
        Some(named) => Failure::Mismatch { named, found: found.to_owned() },
        None => Failure::Foreign { found: found.to_owned() },
    }
}

pub(super) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns the kind that the file name indicates for a text, unless the name indicates a binary format.
fn text(bytes: &[u8], named: Option<Kind>) -> Result<Kind, Failure> {
    match named {
        Some(Kind::Eml) if is_mail(bytes) => Ok(Kind::Eml),
        Some(Kind::Ipynb) if is_notebook(bytes) => Ok(Kind::Ipynb),
        // Written by hand, or another format with this extension.
        Some(Kind::Eml | Kind::Ipynb | Kind::Rtf | Kind::Mbox) => Ok(Kind::Plain),
        Some(named) if !named.is_text() => {
            Err(Failure::Mismatch { named, found: "its bytes are plain text".to_owned() })
        }
        Some(Kind::Plain) | None if is_html(bytes) => Ok(Kind::Html),
        named => Ok(named.unwrap_or(Kind::Plain)),
    }
}

/// Returns true if the text starts with header lines, including at least one header that every message has.
fn is_mail(bytes: &[u8]) -> bool {
    const SAMPLE: usize = 16 * 1024;
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(SAMPLE)]);
    let head = start.lines().take_while(|line| !line.trim().is_empty());
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_graphic());
    let mut has_known = false;
    for line in head.filter(|line| !line.starts_with([' ', '\t']) && !line.starts_with("From ")) {
        let Some((name, _)) = line.split_once(':').filter(|(name, _)| is_name(name)) else { return false };
        has_known |=
            ["from", "to", "date", "subject", "received", "mime-version"].contains(&&*name.to_ascii_lowercase());
    }
    has_known
}

/// Returns true if the text starts like a notebook. Only the beginning of the text may be available.
fn is_notebook(bytes: &[u8]) -> bool {
    let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

fn is_html(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).to_ascii_lowercase();
    let start = start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

fn recognise_zip(bytes: &[u8], named: Option<Kind>) -> Result<Kind, Failure> {
    let mut archive = match zip::ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => {
            use Kind::{Docx, Epub, Odp, Ods, Odt, Pptx, Xlsb, Xlsx, Zip};
            let is_zip = |kind: &Kind| matches!(kind, Docx | Xlsx | Xlsb | Pptx | Ods | Odt | Odp | Epub | Zip);
            let named = named.filter(is_zip);
            return Err(match named {
                Some(kind) => broken(kind, &format!("its parts cannot be listed: {error}")),
                None => unsupported(None, &format!("it is a damaged ZIP archive ({error})")),
            });
        }
    };
    // Some programs write backslashes as separators.
    let is_below = |name: &str, start: &str| name.trim_start_matches(['/', '\\']).replace('\\', "/").starts_with(start);
    let has = |start: &str| archive.file_names().flatten().any(|name| is_below(&name, start));
    // Other archives may have folders with these names. The content type list exists in every Office package.
    let is_types = |name: &str| name.trim_start_matches(['/', '\\']).eq_ignore_ascii_case(CONTENT_TYPES);
    let is_named = named.is_some_and(|kind| matches!(kind, Kind::Docx | Kind::Xlsx | Kind::Xlsb | Kind::Pptx));
    let is_package = is_named || archive.file_names().flatten().any(|name| is_types(&name));
    if is_package && has("xl/workbook.bin") {
        return Ok(Kind::Xlsb);
    }
    for (folder, kind) in [("word/", Kind::Docx), ("xl/", Kind::Xlsx), ("ppt/", Kind::Pptx)] {
        if is_package && has(folder) {
            return Ok(kind);
        }
    }
    let mut media_type = String::new();
    if let Ok(file) = archive.by_name("mimetype") {
        // Content that is not text is not a media type.
        let _ = file.take(100).read_to_string(&mut media_type);
    }
    let types = MEDIA_TYPES.iter().find(|(known, _)| *known == media_type.trim().trim_end_matches("-template"));
    match types {
        Some((_, kind)) => Ok(*kind),
        None if named == Some(Kind::Zip) => Ok(Kind::Zip),
        None => Err(unsupported(named, "it is a ZIP archive")),
    }
}

/// Detects the content of an OLE container, which may also be an encrypted newer document. Stream names are in UTF-16.
fn recognise_ole(whole: &[u8], named: Option<Kind>) -> Result<Kind, Failure> {
    let bytes = &whole[..whole.len().min(CFB_SEARCH_BYTES)];
    let holds = |name: &str| {
        let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        contains(bytes, &name)
    };
    // Attachments embedded in a message contain their own stream names, so the root entries are checked first. The
    // directory is not read if no name is given: the daemon then only checks the head of a file.
    let folder = named.and_then(|_| CfbReader::new(Cursor::new(whole)).ok());
    let is_root = |name: &str| folder.as_ref().is_some_and(|folder| folder.has_root_entry(name));
    let found = CFB_STREAMS.iter().find(|(name, _)| is_root(name));
    match found.or_else(|| CFB_STREAMS.iter().find(|(name, _)| holds(name))) {
        Some((_, Some(kind))) => Ok(*kind),
        Some((_, None)) => Err(Failure::Encrypted(named.filter(|kind| !kind.is_text()).unwrap_or(Kind::Docx))),
        None => Err(unsupported(named, "it is an Office file before 2007 that contains no document")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zip_of(names: &[&str]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in names {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn zip_with_office_folder_names_is_an_archive() {
        let zip = Some(Kind::Zip);
        for folder in ["word/a.txt", "xl/a.csv", "ppt/a.md", "xl/workbook.bin"] {
            assert_eq!(recognise(&zip_of(&[folder]), zip).ok(), zip, "{folder}");
            assert!(recognise(&zip_of(&[folder]), None).is_err(), "{folder}");
        }
        for (name, kind) in
            [("word/document.xml", Kind::Docx), ("xl/a.xml", Kind::Xlsx), ("xl/workbook.bin", Kind::Xlsb)]
        {
            assert_eq!(recognise(&zip_of(&["[Content_Types].xml", name]), zip).ok(), Some(kind), "{name}");
        }
    }

    #[test]
    fn font_is_recognised_by_its_tables() {
        let message = |bytes: &[u8]| recognise(bytes, None).unwrap_err().to_string();
        let font = [b"\0\x01\0\0\0\x0c\0\x80\0\x03\0\x40".as_slice(), b"GDEF", &[0; 200]].concat();
        assert!(message(&font).contains("a font"), "{}", message(&font));
        let other = [b"\0\x01\0\0".as_slice(), &[0; 200]].concat();
        assert!(message(&other).contains("nor a known format"), "{}", message(&other));
    }

    #[test]
    fn content_takes_precedence_over_the_name() {
        let check = |bytes: &[u8], name: &str, expected: Result<Kind, &str>| {
            let outcome = recognise(bytes, Kind::of_name(name));
            let message = outcome.as_ref().map(|kind| *kind).map_err(|failure| match failure {
                Failure::Mismatch { .. } => "mismatch",
                Failure::Foreign { .. } => "foreign",
                Failure::Broken { .. } => "broken",
                other => panic!("{other}"),
            });
            assert_eq!(message, expected, "{name}: {outcome:?}");
        };
        check(b"%PDF-1.7\n", "letter.docx", Ok(Kind::Pdf));
        check(b"From: someone\n\n%PDF-1.7\n", "letter", Ok(Kind::Pdf));
        check(b"A file starts with %PDF-1.7\n", "note.txt", Ok(Kind::Plain));
        check(b"a,b\n1,2\n", "t.csv", Ok(Kind::Csv));
        check(b"a,b\n1,2\n", "t.pdf", Err("mismatch"));
        check(b"<!DOCTYPE html><p>x", "page", Ok(Kind::Html));
        check(b"<!DOCTYPE html><p>x", "page.md", Ok(Kind::Markdown));
        check(b"fn main() {}", "main.rs", Ok(Kind::Plain));
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a.pdf", Err("mismatch"));
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a", Ok(Kind::Picture));
        check(b"GIF89a\x01\0\x01\0", "a", Ok(Kind::Picture));
        check(b"RIFF\x10\0\0\0WEBPVP8 ", "a.webp", Ok(Kind::Picture));
        check(b"II*\0\x08\0\0\0\0\0\0\0\0\0", "fax.TIF", Ok(Kind::Picture));
        check(b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0", "a.bmp", Ok(Kind::Picture));
        check(b"BM is short for a mark", "a.txt", Ok(Kind::Plain));
        check(b"\0\0\0\x18ftypavif\0\0\0\0", "a", Err("foreign"));
        check(b"a note", "a.png", Err("mismatch"));
        check(b"", "a.pdf", Err("broken"));
        check(b"", "a.txt", Ok(Kind::Plain));
        check(b"\0\x01\x02\x03\xff\xfe\xfd", "a.bin", Err("foreign"));
        check(b"PK\x03\x04 and no more", "a.docx", Err("broken"));
        check(b"{\\rtf1 hello}", "a", Ok(Kind::Rtf));
        check(b"hello", "a.rtf", Ok(Kind::Plain));
        check(b"Received: x\n  y\nSubject: Barn\n\ntext", "a.eml", Ok(Kind::Eml));
        check(b"Hello: this is\nno mail.\n", "a.eml", Ok(Kind::Plain));
        check(b"Subject: Barn\n\ntext", "a.txt", Ok(Kind::Plain));
        check(b"From me Fri Mar  1 10:00:00 2024\nSubject: Barn\n\n\xc4\xe3\x00", "a.mbox", Ok(Kind::Mbox));
        check(b"a list of boxes", "a.mbox", Ok(Kind::Plain));
        check(b"{\"cells\": []}", "a.ipynb", Ok(Kind::Ipynb));
        check("h\0i\0".repeat(40).as_bytes(), "a.txt", Ok(Kind::Plain));
    }
}
