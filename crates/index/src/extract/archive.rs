//! Archives and mailboxes: each document inside is read as its own type. Nested archives are not opened.

use std::{
    io::{self, Cursor, Read},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use agentd_core::{charset, knowledge::Password};
use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};
use flate2::read::MultiGzDecoder;
use mail_parser::mailbox::mbox::MessageIterator;
use zip::{ZipArchive, result::ZipError};

use super::{Emitter, broken, clean, mail, recognise::FROM_LINE};
use crate::{
    document::DocumentPlace,
    failure::{Failure, Limits, MIB, UnreadReason, fail_if},
    kind::Kind,
};

/// Maximum number of files in an archive.
const MAX_FILES: usize = 10_000;
/// Maximum total size of unpacked files, as a multiple of the file size limit.
const MAX_TOTAL_FACTOR: u64 = 4;
/// Maximum compression ratio. Protects against decompression bombs.
const MAX_RATIO: u64 = 200;
/// Unpacked size in bytes up to which the ratio is not checked.
const RATIO_FREE_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum length of a path in bytes.
const NAME_BYTES: usize = 1000;
/// Maximum number of unread files named in the failure.
const MAX_LISTED: usize = 5;

struct File<'a> {
    /// Path with slashes, or the reason why it is not allowed.
    path: Result<String, String>,
    size: u64,
    is_encrypted: bool,
    /// Content, or the reason why it cannot be read.
    content: Result<&'a mut dyn Read, UnpackError>,
    /// Compressed size in bytes, if known.
    compressed_size: Option<u64>,
}

/// Reason why a file was not unpacked.
#[derive(thiserror::Error, Debug)]
enum UnpackError {
    /// The password is missing or wrong.
    #[error("it is encrypted and requires a password")]
    Locked,
    /// Any other reason, as a message.
    #[error("{0}")]
    Other(String),
}

type Visitor<'a> = dyn FnMut(File<'_>) -> Result<ControlFlow<()>, Failure> + 'a;

/// Emits all documents of an archive followed by a listing, or only the listing if requested.
pub(super) fn extract(bytes: Vec<u8>, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let limits = *emitter.limits;
    let lists_only = emitter.wanted.listing;
    // A listing needs no password, since names are never encrypted.
    let password = emitter.wanted.password.clone().filter(|_| !lists_only);
    let password = password.as_ref().map(Password::reveal);
    fail_if(kind == Kind::Zip && !lists_only && is_locked(&bytes, password, &limits), || Failure::Encrypted(kind))?;
    emitter.head(None, None)?;
    let mut lines: Vec<String> = Vec::new();
    let mut failed = UnreadFiles::default();
    let mut left = limits.bytes_in.saturating_mul(MAX_TOTAL_FACTOR);
    let mut files = 0;
    let visited = visit(bytes, kind, &limits, password, &mut |file| {
        files += 1;
        let size = size(file.size);
        let path = match &file.path {
            Ok(path) => clean::line(path, NAME_BYTES),
            Err(reason) => {
                lines.push(format!("- ({reason})"));
                failed.0.push(reason.clone());
                return Ok(ControlFlow::Continue(()));
            }
        };
        if lists_only {
            let locked = if file.is_encrypted { ", requires a password" } else { "" };
            lines.push(format!("- {path} ({size}){locked}"));
            return Ok(ControlFlow::Continue(()));
        }
        let unpacked = unpack(file, &limits, left);
        left = left.saturating_sub(unpacked.as_ref().map_or(0, |bytes| bytes.len() as u64));
        let reason = match unpacked {
            Ok(bytes) => emit(&path, bytes, emitter)?.map(|failure| failed.add(&path, &failure)),
            Err(reason) => {
                failed.0.push(format!("{path}: {reason}"));
                Some(reason.to_string())
            }
        };
        let reason = reason.map(|reason| format!(", not read: {reason}")).unwrap_or_default();
        lines.push(format!("- {path} ({size}){reason}"));
        Ok(ControlFlow::Continue(()))
    });
    let heading = format!("Files in the {kind}, {files} in all:\n\n");
    emitter.text(DocumentPlace::Whole, format!("{heading}{}", lines.join("\n")), None, None)?;
    visited?;
    failed.into_result(kind, files)
}

/// Files in a container that were not read, each with a reason.
#[derive(Debug, Default)]
pub(super) struct UnreadFiles(Vec<String>);

impl UnreadFiles {
    /// Adds a file and returns the reason. Files of unsupported types are not recorded.
    pub(super) fn add(&mut self, name: &str, failure: &Failure) -> String {
        let reason = failure.to_string().trim_start_matches("could not read ").to_owned();
        if is_incomplete(failure) {
            self.0.push(format!("{name}: {reason}"));
        }
        reason
    }

    /// Converts to a failure if any file was not read. `entries` is the number of all files.
    pub(super) fn into_result(mut self, kind: Kind, entries: u32) -> Result<(), Failure> {
        let failed = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if failed == 0 {
            return Ok(());
        }
        let more = self.0.len().saturating_sub(MAX_LISTED);
        self.0.truncate(MAX_LISTED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let reason = clean::line(&format!("{}{more}", self.0.join("; ")), 300);
        Err(Failure::Entries { kind, failed, entries, why: reason })
    }
}

/// Returns true if an unread file makes the result incomplete. Unsupported types are only marked in the listing, and so
/// are images if recognition is disabled or missing.
const fn is_incomplete(failure: &Failure) -> bool {
    use UnreadReason::{NotBuilt, Off};
    let is_foreign = matches!(failure, Failure::Foreign { .. } | Failure::Mismatch { .. });
    let is_unwanted =
        matches!(failure, Failure::Scanned { kind: Kind::Picture, unread, .. } if matches!(unread.why, Off | NotBuilt));
    !is_foreign && !is_unwanted
}

/// Emits a document inside another document. Returns the inner document's failure; an error ends the outer document.
pub(super) fn emit(path: &str, bytes: Vec<u8>, outer: &mut Emitter<'_>) -> Result<Option<Failure>, Failure> {
    let limits = *outer.limits;
    let (named, password) = (Kind::of_inner_name(path), outer.wanted.password.clone());
    let opened = super::decrypt_office(bytes, named, password.as_ref().map(Password::reveal));
    let recognised = opened.and_then(|bytes| Ok((super::recognise(&bytes, named)?, bytes)));
    let (kind, bytes) = match recognised {
        Ok((kind, _)) if kind.is_archive() => return Ok(Some(nested_archive())),
        Ok(recognised) => recognised,
        Err(failure) => return Ok(Some(failure)),
    };
    let (mut stopped, scanner) = (None, std::mem::take(&mut outer.scanner));
    let mut listener = |piece| {
        let crate::frame::Piece::Part(mut part) = piece else { return Ok(()) };
        part.place = DocumentPlace::Inner { path: path.to_owned(), place: Box::new(part.place) };
        outer.part(part).inspect_err(|failure| stopped = Some(failure.clone()))
    };
    let mut inner = Emitter::new(kind, &limits, &mut listener);
    (inner.wanted.password, inner.wanted.inner, inner.scanner) = (password, Some(path.to_owned()), scanner);
    let outcome = catch_unwind(AssertUnwindSafe(|| super::extract(bytes, kind, &mut inner)));
    let scanner = std::mem::take(&mut inner.scanner);
    outer.scanner = scanner;
    let outcome = outcome.unwrap_or_else(|_| Err(broken(kind, "its reader panicked")));
    match (stopped, outcome) {
        (Some(failure), _) | (None, Err(failure @ Failure::NeedsRecognition)) => Err(failure),
        (None, outcome) => Ok(outcome.err()),
    }
}

/// Returns the bytes of a file in an archive, or of an attachment in a mail. If no path is exactly `wanted`, the first
/// file whose path is displayed as `wanted` is returned.
pub(crate) fn entry(bytes: Vec<u8>, wanted: &str, password: Option<&str>, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let missing = || Failure::NoEntry { path: clean::line(wanted, NAME_BYTES) };
    // A single mail may begin like a mailbox.
    let from_mailbox = messages(&bytes).find(|(name, _)| name == wanted).map(|(_, message)| message);
    let content = match (from_mailbox, super::recognise(&bytes, Some(Kind::Eml))) {
        (Some(message), _) => message,
        (None, Ok(kind @ (Kind::Eml | Kind::Msg))) => mail::entry(bytes, kind, wanted)?.ok_or_else(missing)?,
        (None, _) => find_entry(bytes, wanted, password, limits)?.ok_or_else(missing)?,
    };
    match super::recognise(&content, Kind::of_inner_name(wanted)) {
        Ok(kind) if kind.is_archive() => Err(nested_archive()),
        _ => Ok(content),
    }
}

fn find_entry(
    bytes: Vec<u8>,
    wanted: &str,
    password: Option<&str>,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, Failure> {
    let kind = if bytes.starts_with(b"PK") { Kind::Zip } else { Kind::Tar };
    let (mut found, cited) = (None, clean::line(wanted, NAME_BYTES));
    visit(bytes, kind, limits, password, &mut |file| {
        let Ok(path) = &file.path else { return Ok(ControlFlow::Continue(())) };
        let is_it = path == wanted;
        if is_it || (found.is_none() && clean::line(path, NAME_BYTES) == cited) {
            found = Some(unpack(file, limits, limits.bytes_in));
        }
        Ok(if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    found.transpose().map_err(|reason| match reason {
        UnpackError::Locked => Failure::Encrypted(kind),
        UnpackError::Other(reason) => broken(kind, &format!("{wanted}: {reason}")),
    })
}

fn nested_archive() -> Failure {
    Failure::Foreign { found: "nested archives and mails are not opened".to_owned() }
}

fn unpack(file: File<'_>, limits: &Limits, left: u64) -> Result<Vec<u8>, UnpackError> {
    let content = file.content?;
    let most = limits.bytes_in.min(left);
    let by_ratio = file
        .compressed_size
        .map_or(u64::MAX, |compressed_size| compressed_size.saturating_mul(MAX_RATIO).max(RATIO_FREE_BYTES));
    let mut bytes = Vec::new();
    let read = content.take(most.min(by_ratio).saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| match file.is_encrypted {
        // One in 256 wrong passwords passes the check and is only detected by damaged output.
        true => UnpackError::Locked,
        false => UnpackError::Other(format!("it cannot be unpacked ({error})")),
    })?;
    let size = bytes.len() as u64;
    let too_much = if size > by_ratio {
        format!("it unpacks to more than {MAX_RATIO} times its size")
    } else if size > most {
        format!("the files so far unpack to more than {} MiB", limits.bytes_in.saturating_mul(MAX_TOTAL_FACTOR) / MIB)
    } else {
        return Ok(bytes);
    };
    Err(UnpackError::Other(too_much))
}

fn visit(
    bytes: Vec<u8>,
    kind: Kind,
    limits: &Limits,
    password: Option<&str>,
    visitor: &mut Visitor<'_>,
) -> Result<(), Failure> {
    match kind {
        Kind::Zip => visit_zip(bytes, password, visitor),
        Kind::Mbox => visit_mailbox(&bytes, visitor),
        _ if bytes.starts_with(b"\x1f\x8b") => {
            let most = limits.bytes_in.saturating_mul(MAX_TOTAL_FACTOR);
            // For the archive reader, the limit looks like a truncated archive.
            let mut unpacked = MultiGzDecoder::new(Cursor::new(bytes)).take(most.saturating_add(1));
            let visited = visit_tar(&mut unpacked, visitor);
            if visited.is_err() && unpacked.limit() == 0 {
                Err(Failure::too_large("its content", most))
            } else {
                visited
            }
        }
        _ => visit_tar(Cursor::new(bytes), visitor),
    }
}

/// Returns true if all files in a ZIP archive are encrypted and the password does not open them. Tests the smallest
/// file.
fn is_locked(bytes: &[u8], password: Option<&str>, limits: &Limits) -> bool {
    let Ok(mut archive) = ZipArchive::new(Cursor::new(bytes)) else { return false };
    let mut smallest = None;
    for index in 0..archive.len().min(MAX_FILES) {
        let Ok(raw) = archive.by_index_raw(index) else { continue };
        if raw.name().is_ok_and(|name| is_metadata(&name)) {
            continue;
        }
        if !raw.encrypted() {
            return false;
        }
        // Prefer non-empty files, since empty ones do not reveal a wrong password.
        smallest = smallest.into_iter().chain([(raw.size() == 0, raw.compressed_size(), index)]).min();
    }
    let Some((.., index)) = smallest else { return false };
    let Some(password) = password else { return true };
    match archive.by_index_decrypt(index, password.as_bytes()) {
        Ok(file) => io::copy(&mut file.take(limits.bytes_in), &mut io::sink()).is_err(),
        Err(error) => matches!(error, ZipError::InvalidPassword),
    }
}

/// Returns the messages of a mailbox, each with its name: number, day and subject. Empty for other files.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    let mailbox = if bytes.starts_with(FROM_LINE) { bytes } else { &[] };
    (1_u32..).zip(MessageIterator::new(mailbox).flatten()).map(|(number, message)| {
        let message = message.unwrap_contents();
        (format!("{number:04} {}.eml", mail::summary(&message)), message)
    })
}

fn visit_mailbox(bytes: &[u8], visitor: &mut Visitor<'_>) -> Result<(), Failure> {
    for (index, (name, message)) in messages(bytes).enumerate() {
        fail_if(index >= MAX_FILES, || Failure::too_many("the number of mails in it", MAX_FILES))?;
        let (size, mut content) = (message.len() as u64, message.as_slice());
        let content = Ok(&mut content as &mut dyn Read);
        let file = File { path: Ok(name), size, is_encrypted: false, content, compressed_size: None };
        if visitor(file)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the encoding of names that are not UTF-8, one per line, or `None` for the encoding of DOS. Windows in East Asia
/// writes names in the encoding of the country.
fn name_encoding(names: &[u8]) -> Option<&'static Encoding> {
    // Pairs of these bytes are typical of East Asia. In the encoding of DOS, they are mostly parts of frames.
    let is_pairs = |run: &[u8]| run.len().is_multiple_of(2) && run.iter().all(|byte| *byte >= 0xa1);
    let is_paired = names.split(u8::is_ascii).all(is_pairs);
    let found = charset::detect(names, true).ok()?;
    let is_eastern = [GBK, GB18030, BIG5, SHIFT_JIS, EUC_JP, EUC_KR].contains(&found.encoding);
    let encoding = match is_eastern && (found.sure || is_paired) {
        true => found.encoding,
        // A few characters are not sufficient for statistics.
        false if is_paired => GBK,
        false => return None,
    };
    // The letters of these languages have no case, unlike those of a wrong guess.
    let text = encoding.decode_without_bom_handling_and_without_replacement(names)?;
    let is_expected = |letter: char| letter.is_ascii() || !(letter.is_lowercase() || letter.is_uppercase());
    text.chars().all(is_expected).then_some(encoding)
}

fn visit_zip(bytes: Vec<u8>, password: Option<&str>, visitor: &mut Visitor<'_>) -> Result<(), Failure> {
    const SYMLINK: u32 = 0o120_000;
    const FILE_TYPE_MASK: u32 = 0o170_000;
    let failed = |error: ZipError| broken(Kind::Zip, &error.to_string());
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(failed)?;
    fail_if(archive.len() > MAX_FILES, || Failure::too_many("the number of files in it", MAX_FILES))?;
    let names = (0..archive.len()).filter_map(|index| Some(archive.by_index_raw(index).ok()?.name_raw().to_vec()));
    let names: Vec<Vec<u8>> = names.filter(|name| str::from_utf8(name).is_err()).collect();
    let encoding = name_encoding(&names.join(&b'\n'));
    for index in 0..archive.len() {
        let (name, size, compressed_size, is_link, is_encrypted) = {
            let raw = archive.by_index_raw(index).map_err(failed)?;
            let is_link = raw.unix_mode().is_some_and(|mode| mode & FILE_TYPE_MASK == SYMLINK);
            let name = match encoding.filter(|_| str::from_utf8(raw.name_raw()).is_err()) {
                Some(encoding) => Ok(encoding.decode_without_bom_handling(raw.name_raw()).0.into_owned()),
                None => raw.name().map(|name| name.to_string()),
            };
            (name, raw.size(), raw.compressed_size(), is_link, raw.encrypted())
        };
        let path = name.map_err(|_| "a name that is not text".to_owned()).and_then(|name| normalised_path(&name));
        if is_metadata(path.as_deref().unwrap_or_default()) {
            continue;
        }
        let mut opened = match password.filter(|_| is_encrypted) {
            Some(password) => archive.by_index_decrypt(index, password.as_bytes()),
            None => archive.by_index(index),
        };
        let content = match &mut opened {
            _ if is_link => Err(UnpackError::Other("it is a link".to_owned())),
            Ok(file) => Ok(file as &mut dyn Read),
            Err(ZipError::InvalidPassword | ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                Err(UnpackError::Locked)
            }
            Err(error) => Err(UnpackError::Other(error.to_string())),
        };
        if visitor(File { path, size, is_encrypted, content, compressed_size: Some(compressed_size) })?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

fn visit_tar(from: impl Read, visitor: &mut Visitor<'_>) -> Result<(), Failure> {
    let failed = |error: io::Error| broken(Kind::Tar, &error.to_string());
    let mut archive = tar::Archive::new(from);
    let mut files = 0;
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        files += 1;
        fail_if(files > MAX_FILES, || Failure::too_many("the number of files in it", MAX_FILES))?;
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path = path.map_err(|_| "a name that is not text".to_owned()).and_then(|name| normalised_path(&name));
        if is_metadata(path.as_deref().unwrap_or_default()) {
            continue;
        }
        let size = entry.size();
        let content = match kind.is_file() || kind.is_contiguous() {
            true => Ok(&mut entry as &mut dyn Read),
            false => Err(UnpackError::Other("it is a link or a device".to_owned())),
        };
        if visitor(File { path, size, is_encrypted: false, content, compressed_size: None })?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the normalised path of a file. Rejects paths that lead out of the archive.
fn normalised_path(name: &str) -> Result<String, String> {
    let shown = || clean::line(name, 100);
    let path = name.replace('\\', "/");
    let path = path.strip_prefix("./").unwrap_or(&path);
    let is_absolute = path.starts_with('/') || path.get(1..2) == Some(":");
    if is_absolute || path.split('/').any(|part| part == "..") {
        return Err(format!("{:?} is outside the archive and is not read", shown()));
    }
    if path.is_empty() || path.len() > NAME_BYTES || path.chars().any(char::is_control) {
        return Err(format!("{:?} is not a file name and is not read", shown()));
    }
    Ok(path.to_owned())
}

/// Returns true for folders and metadata files of operating systems.
fn is_metadata(path: &str) -> bool {
    path.ends_with('/') || path.starts_with("__MACOSX/") || path.ends_with(".DS_Store")
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KB", bytes / 1024),
        _ => format!("{} MB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_eastern_windows_are_decoded() {
        let check = |encoding: &'static Encoding, names: &str, expected: Option<&'static Encoding>| {
            let bytes = encoding.encode(names).0;
            assert_eq!(name_encoding(&bytes), expected, "{names}");
        };
        check(GBK, "合同.pdf\n", Some(GBK));
        check(GBK, "财务报表/二零二四年度销售合同（终稿）.xlsx\n采购清单.docx\n", Some(GBK));
        check(BIG5, "採購合約與財務報表/銷售統計資料.xlsx\n臺灣市場調查報告.pdf\n", Some(BIG5));
        check(SHIFT_JIS, "見積書のひな形/売上データの一覧.xlsx\nお客様へのお知らせ.pdf\n", Some(SHIFT_JIS));
        for dos in ["Pr\u{81}fung \u{84}u\u{e1}erst.pdf\n", "\u{82}t\u{82}.pdf\n", "a\u{a4}o Canci\u{a2}n.pdf\n"] {
            let bytes: Vec<u8> = dos.chars().filter_map(|letter| u8::try_from(letter).ok()).collect();
            assert_eq!(name_encoding(&bytes), None, "{dos:?}");
        }
    }

    #[test]
    fn entry_paths_cannot_leave_the_archive() {
        for (name, expected) in [
            ("a/b.pdf", Some("a/b.pdf")),
            ("./a.pdf", Some("a.pdf")),
            ("a\\b.pdf", Some("a/b.pdf")),
            ("../a.pdf", None),
            ("a/../../b.pdf", None),
            ("..\\a.pdf", None),
            ("/etc/passwd", None),
            ("C:\\a.pdf", None),
            ("a\nb.pdf", None),
            ("", None),
        ] {
            assert_eq!(normalised_path(name).ok().as_deref(), expected, "{name:?}");
        }
    }
}
