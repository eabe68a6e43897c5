//! Tests for password-protected documents.

use std::{
    io::{Cursor, Read as _},
    path::Path,
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{OpenDocument, Password, Reading},
};
use agentd_index::Limits;
use zip::ZipArchive;

use crate::{
    bench::{extractor, fixture, fixture_bytes, read, variant},
    hostile::replaced,
    library::{TestLibrary, named, open},
};

/// Documents with an encryption that is not supported, see `tests/fixtures/locked/make.py`.
const LOCKED: [&str; 7] = [
    "libreoffice.odt",
    "libreoffice.ods",
    "openoffice.odp",
    "cryptoapi.doc",
    "cryptoapi.ppt",
    "cryptoapi.xls",
    "xor.xls",
];

impl TestLibrary {
    /// Reads bytes as a file with this name, with a password.
    async fn read_bytes(&self, name: &str, bytes: &[u8], password: Option<&str>) -> Result<Reading, KnowledgeError> {
        self.read(with_password(&self.put(name, bytes), password)).await
    }
}

fn with_password(path: &Path, password: Option<&str>) -> OpenDocument {
    let name = format!("uploads/{}", path.file_name().unwrap().to_str().unwrap());
    OpenDocument { password: password.map(|word| Password::new(word.to_owned())), ..named(path, &name) }
}

fn locked(name: &str) -> Vec<u8> {
    fixture_bytes(&format!("locked/{name}"))
}

fn with(name: &str, password: &str) -> OpenDocument {
    OpenDocument { password: Some(Password::new(password.to_owned())), ..open(name) }
}

#[tokio::test]
async fn damaged_encrypted_pdf_still_asks_for_its_password() {
    let test_library = TestLibrary::new();
    let whole = locked("revision3.pdf");
    let at = whole.windows(9).rposition(|window| window == b"startxref").unwrap();
    let mut damaged = whole.clone();
    damaged[at + 10..at + 13].copy_from_slice(b"999");
    for bytes in [whole, damaged] {
        let read = async |password: Option<&str>| test_library.read_bytes("revision3.pdf", &bytes, password).await;
        for password in [None, Some("wrong")] {
            let refused = read(password).await.unwrap_err();
            assert!(refused.needs_password(), "{password:?}: {refused}");
        }
        let reading = read(Some("secret")).await.unwrap();
        assert!(reading.parts[1].text.contains("QUARTZ-2"), "{reading:?}");
    }
}

#[tokio::test]
async fn office_2007_encryption_is_supported() {
    let test_library = TestLibrary::new();
    let read = async |password: &str| test_library.read(with("more/standard.docx", password)).await;
    assert!(read("wrong").await.unwrap_err().needs_password());
    assert!(read("secret").await.unwrap().parts[0].text.contains("Doors are closed at ten"));
}

/// Returns a fixture with another encryption parameter, padded with spaces to the length of the old parameter.
fn with_parameter(name: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = fixture_bytes(name);
    let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
    bytes[at..at + old.len()].fill(b' ');
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

#[tokio::test]
async fn hostile_encryption_parameters_are_rejected() {
    const ROUNDS: &[u8] = b"spinCount=\"100000\" saltSize=\"16\"";
    const KEY_BITS: &[u8] = b"blockSize=\"16\" keyBits=\"256\"";
    const SALT: &[u8] = b"saltValue=\"7gIIiyOLCikAOnPUxfy+sQ==\"";
    // Cipher, hash and key length in the encryption header of Office 2007.
    const CIPHER: &[u8] = b"\x0e\x66\0\0\x04\x80\0\0\x80\0\0\0";
    let test_library = TestLibrary::new();
    let harmless = with_parameter("password.xlsx", ROUNDS, b"spinCount=\"100000\"");
    assert!(test_library.read_bytes("harmless.xlsx", &harmless, Some("secret")).await.is_ok());
    let (rounds, unknown) = ("too many hash rounds", "is not supported");
    let rows: [(&[u8], &[u8], &str); 9] = [
        (ROUNDS, b"spinCount=\"4294967295\"", rounds),
        (ROUNDS, b"spinCount=\"10000001\"", rounds),
        (ROUNDS, b"spinCount=\"many\"", unknown),
        // The key is encrypted for certain people, not with a password.
        (ROUNDS, b"x509Certificate=\"MIIB\"", unknown),
        (b"cipherAlgorithm=\"AES\"", b"cipherAlgorithm=\"DES\"", unknown),
        (b"hashAlgorithm=\"SHA512\"", b"hashAlgorithm=\"MD5\"", unknown),
        (KEY_BITS, b"keyBits=\"4294967296\"", unknown),
        (KEY_BITS, b"keyBits=\"0\"", unknown),
        (SALT, b"saltValue=\"\"", unknown),
    ];
    let agile = rows.map(|row| ("password.xlsx", row));
    // The first row changes the size of the header, the last row the size of the salt.
    let rows: [(&[u8], &[u8], &str); 5] = [
        (b"\x24\0\0\0\xa4\0\0\0", b"\x24\0\0\0\xff\xff\xff\xff", unknown),
        (CIPHER, b"\x01\x68\0\0\x04\x80\0\0\x80\0\0\0", unknown),
        (CIPHER, b"\x0e\x66\0\0\x04\x80\0\0\xff\xff\xff\xff", unknown),
        (CIPHER, b"\x0e\x66\0\0\x04\x80\0\0\0\0\0\0", unknown),
        (b"\x10\0\0\0\0\x01\x02\x03", b"\xff\xff\xff\xff\0\x01\x02\x03", unknown),
    ];
    let standard = rows.map(|row| ("more/standard.docx", row));
    for (fixture, (old, new, reason)) in agile.into_iter().chain(standard) {
        let name = fixture.trim_start_matches("more/");
        let bytes = with_parameter(fixture, old, new);
        let refused = test_library.read_bytes(name, &bytes, Some("secret")).await.unwrap_err();
        let row = String::from_utf8_lossy(new);
        assert!(!refused.needs_password() && refused.to_string().contains(reason), "{name} {row}: {refused}");
        assert!(refused.hint().unwrap().contains("passwords for this protection are not supported"), "{name} {row}");
    }
}

#[tokio::test]
async fn unsupported_encryption_is_reported_with_a_hint() {
    let test_library = TestLibrary::new();
    for name in LOCKED {
        let path = fixture("locked").join(name);
        for password in [None, Some("hello")] {
            let refused = test_library.read(with_password(&path, password)).await.unwrap_err();
            assert!(refused.to_string().contains("requires a password"), "{name}: {refused}");
            assert!(
                !refused.needs_password() && refused.hint().unwrap().contains("save it without a password"),
                "{name}"
            );
        }
        let finds = test_library.search(vec![named(&path, name)], "hello").await;
        assert_eq!((finds.hits.len(), finds.locked.len(), finds.broken.len()), (0, 0, 1), "{finds:?}");
    }
}

#[tokio::test]
async fn unencrypted_entries_of_a_mixed_archive_are_read() {
    let (document, failure) = read(&extractor(Limits::default()), "mixed.zip", &locked("mixed.zip")).await;
    let (text, failure) = (document.unwrap().markdown(), failure.unwrap());
    assert!(text.contains("The gate is cobalt.") && !text.contains("vermilion"), "{text}");
    assert_eq!(variant(&failure), "Entries");
    let expected = "1 of its 2 files were not read (notes.md: it is encrypted and requires a password)";
    assert!(failure.to_string().contains(expected), "{failure}");
    let test_library = TestLibrary::new();
    let finds =
        test_library.search(vec![with_password(&fixture("locked/mixed.zip"), Some("secret"))], "vermilion").await;
    assert_eq!((finds.hits.len(), finds.broken.len()), (1, 0), "{finds:?}");
}

#[tokio::test]
async fn wrong_zip_password_passing_the_check_byte_fails() {
    let bytes = locked("zipcrypto.zip");
    let mut archive = ZipArchive::new(Cursor::new(bytes.as_slice())).unwrap();
    let index = archive.index_for_name("notes.md").unwrap();
    // The check value of the old encryption has one byte.
    let collision = (0..10_000).map(|number| number.to_string()).find(|word| {
        let opened = archive.by_index_decrypt(index, word.as_bytes());
        opened.is_ok_and(|mut file| file.read_to_end(&mut Vec::new()).is_err())
    });
    let (test_library, collision) = (TestLibrary::new(), collision.unwrap());
    let path = fixture("locked/zipcrypto.zip");
    let document = OpenDocument { inner: Some("notes.md".to_owned()), ..with_password(&path, Some(&collision)) };
    assert!(test_library.read(document).await.unwrap_err().needs_password());
}

#[tokio::test]
async fn damaged_encrypted_document_has_a_clear_error() {
    let test_library = TestLibrary::new();
    let opened = fixture_bytes("password.xlsx");
    let refused = LOCKED.map(|name| (name, locked(name)));
    for (number, (name, whole)) in refused.into_iter().chain([("password.xlsx", opened)]).enumerate() {
        let cut = |tenths: usize| whole[..whole.len() * tenths / 10].to_vec();
        let mut changed = vec![cut(3), cut(7), cut(9)];
        for seed in 0..4 {
            let mut bytes = whole.clone();
            let mut random = fastrand::Rng::with_seed((number * 10 + seed) as u64);
            // The first bytes contain the offsets of all other data.
            let damaged_bytes = if seed < 2 { bytes.len().min(1200) } else { bytes.len() };
            (0..6).for_each(|_| bytes[random.usize(8..damaged_bytes)] = random.u8(..));
            changed.push(bytes);
        }
        for bytes in changed {
            if let Err(error) = test_library.read_bytes(name, &bytes, Some("secret")).await {
                let message = error.to_string();
                assert!(
                    error.kind() != ErrorKind::Internal && message.starts_with("could not read"),
                    "{name}: {message}"
                );
                assert!(message.len() < 400 && error.hint().is_some(), "{name}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn epub_with_obfuscated_fonts_is_read_and_drm_reported() {
    let book = fixture_bytes("more/harbour.epub");
    let encrypted = |algorithm: &str, path: &str| {
        let list = format!(
            "<encryption xmlns='urn:oasis:names:tc:opendocument:xmlns:container' xmlns:enc='http://www.w3.org/2001/04/xmlenc#'>\
             <enc:EncryptedData><enc:EncryptionMethod Algorithm='{algorithm}'/><enc:CipherData>\
             <enc:CipherReference URI='{path}'/></enc:CipherData></enc:EncryptedData></encryption>"
        );
        replaced(&book, "META-INF/encryption.xml", list.as_bytes())
    };
    const AES: &str = "http://www.w3.org/2001/04/xmlenc#aes128-cbc";
    for (algorithm, path) in [
        ("http://www.idpf.org/2008/embedding", "EPUB/font.otf"),
        ("http://ns.adobe.com/pdf/enc#RC", "EPUB/ch%201.xhtml"),
        (AES, "EPUB/film.mp4"),
    ] {
        let (document, failure) = read(&extractor(Limits::default()), "book.epub", &encrypted(algorithm, path)).await;
        assert_eq!(failure, None, "{path}");
        assert!(document.unwrap().markdown().contains("By A. Pilot"));
    }
    let (document, failure) =
        read(&extractor(Limits::default()), "book.epub", &encrypted(AES, "EPUB/ch%202.xhtml")).await;
    let failure = failure.unwrap();
    assert_eq!((variant(&failure).as_str(), failure.needs_password(), document), ("Protected", false, None));
    assert!(failure.to_string().contains("copy protection (DRM)"), "{failure}");
}
