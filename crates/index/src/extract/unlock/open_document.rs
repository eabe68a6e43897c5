//! OpenDocument: files of the archive are encrypted one by one (with Blowfish, or AES since LibreOffice 3.5), or all of them as one
//! ("encrypted-package", since LibreOffice 24.8). A list in the archive says how.

use std::io::{Cursor, Read as _, Write as _};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{
    super::{broken, encoding, recognise, too_large, xml},
    unknown,
};
use crate::{failure::Failure, kind::Kind, limits::Limits};
use encryption::{Encryption, EncryptionError};

mod encryption;

const MANIFEST: &str = "META-INF/manifest.xml";
/// Bytes of the list.
const MANIFEST_BYTES: u64 = 16 * 1024 * 1024;
/// The file that holds all others.
const WHOLE: &str = "encrypted-package";
/// Files that are read of a document. The first tells whether a password is the right one.
const FILES: [&str; 3] = ["content.xml", "styles.xml", "meta.xml"];
/// Bytes of one file as a multiple of those of a document's text.
const MARKUP: u64 = 4;

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// The document without its encryption, or the bytes as they are.
pub(super) fn unlocked(
    bytes: Vec<u8>,
    named: Option<Kind>,
    password: Option<&str>,
    limits: &Limits,
) -> Result<Vec<u8>, Failure> {
    let kind = match recognise(&bytes, named) {
        Ok(kind @ (Kind::Odt | Kind::Ods | Kind::Odp)) => kind,
        _ => return Ok(bytes),
    };
    // What is wrong with the archive is for its reader to say.
    let Ok(mut archive) = ZipArchive::new(Cursor::new(bytes.as_slice())) else { return Ok(bytes) };
    let manifest = content(&mut archive, MANIFEST, MANIFEST_BYTES);
    let manifest = manifest.map(|text| encoding::decode(&text, None)).unwrap_or_default();
    if !manifest.contains("encryption-data") {
        drop(archive);
        return Ok(bytes);
    }
    let manifest = xml::parse(&manifest).map_err(|why| broken(kind, &why))?;
    Document { archive, manifest, kind, password, limits }.opened()
}

/// The bytes of a file, as they are in the archive; none where there is no such file, or it is too large.
fn content(archive: &mut Archive<'_>, name: &str, most: u64) -> Option<Vec<u8>> {
    let index = archive.index_for_name(name)?;
    let mut bytes = Vec::new();
    archive.by_index(index).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// A document that is encrypted.
struct Document<'a> {
    archive: Archive<'a>,
    manifest: xml::Node,
    kind: Kind,
    password: Option<&'a str>,
    limits: &'a Limits,
}

impl Document<'_> {
    fn opened(mut self) -> Result<Vec<u8>, Failure> {
        if let Some(whole) = self.file(WHOLE, self.limits.bytes_in)? {
            return Ok(whole);
        }
        let most = self.limits.bytes_out.saturating_mul(MARKUP);
        let mut files = Vec::new();
        for name in FILES {
            files.extend(self.file(name, most)?.map(|content| (name, content)));
        }
        let damaged = |why: &dyn std::fmt::Display| broken(self.kind, &why.to_string());
        let mut plain = ZipWriter::new(Cursor::new(Vec::new()));
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let list = "<manifest:manifest xmlns:manifest=\"urn:oasis:names:tc:opendocument:xmlns:manifest:1.0\"/>";
        let about = [("mimetype", media_type(self.kind).as_bytes()), (MANIFEST, list.as_bytes())];
        let files = files.iter().map(|(name, content)| (*name, content.as_slice()));
        for (name, content) in about.into_iter().chain(files) {
            plain.start_file(name, stored).map_err(|error| damaged(&error))?;
            plain.write_all(content).map_err(|error| damaged(&error))?;
        }
        Ok(plain.finish().map_err(|error| damaged(&error))?.into_inner())
    }

    /// A file as it was before it was encrypted; none where there is no such file.
    fn file(&mut self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Failure> {
        let kind = self.kind;
        let Some(bytes) = content(&mut self.archive, name, self.limits.bytes_in) else { return Ok(None) };
        let mut entries = Vec::new();
        self.manifest.all("file-entry", &mut entries);
        let entry = entries.into_iter().find(|entry| entry.attribute("full-path") == Some(name));
        let Some(about) = entry.and_then(|entry| entry.node("encryption-data")) else { return Ok(Some(bytes)) };
        let encryption = Encryption::read(about).map_err(|error| match error {
            EncryptionError::Unknown => unknown(kind),
            EncryptionError::OtherKeys => Failure::Protected {
                kind,
                how: "it is encrypted for the keys of certain people (OpenPGP), and not with a password".to_owned(),
            },
            EncryptionError::TooMuchWork => super::too_much_work(kind),
        })?;
        let wrong = || Failure::Encrypted(kind);
        let packed = self.password.and_then(|password| encryption.open(password, &bytes)).ok_or_else(wrong)?;
        drop(bytes);
        if packed.starts_with(b"PK\x03\x04") {
            return Ok(Some(packed));
        }
        let mut plain = Vec::new();
        let unpacked = DeflateDecoder::new(packed.as_slice()).take(most.saturating_add(1)).read_to_end(&mut plain);
        match unpacked {
            Ok(_) if plain.len() as u64 > most => Err(too_large(name, most)),
            Ok(_) => Ok(Some(plain)),
            Err(_) if encryption.is_checked() => Err(broken(kind, &format!("{name} cannot be decrypted to its end"))),
            Err(_) => Err(wrong()),
        }
    }
}

const fn media_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Ods => "application/vnd.oasis.opendocument.spreadsheet",
        Kind::Odp => "application/vnd.oasis.opendocument.presentation",
        _ => "application/vnd.oasis.opendocument.text",
    }
}
