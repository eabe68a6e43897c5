//! Tests for archives of documents.

use std::io::{Cursor, Write as _};

use agentd_core::{knowledge::OpenDocument, ports::Knowledge as _};
use agentd_index::{DocumentPlace, Limits};
use flate2::{Compression, write::GzEncoder};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    bench::{extractor, fixture_bytes, read, variant},
    library::{TestLibrary, first, named},
};

pub(crate) type Files = Vec<(&'static str, Vec<u8>)>;

fn files() -> Files {
    vec![
        ("papers/latin.pdf", fixture_bytes("latin.pdf")),
        ("sheets\\sales.xlsx", fixture_bytes("sales.xlsx")),
        ("notes.md", b"# Barn\n\nfirst\n\nThe barn is vermilion.\n".to_vec()),
        ("__MACOSX/._notes.md", b"junk".to_vec()),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()),
    ]
}

pub(crate) fn zip_of(files: &Files) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        // PDFs are stored uncompressed, so that the archive starts with the bytes of another format.
        let is_stored = name.ends_with(".pdf");
        let method = if is_stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn tar_of(files: &Files) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Written without the library, which would reject the names that an attacker may use.
        let field = &mut header.as_gnu_mut().unwrap().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, content.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn archived_documents_are_found_and_read_by_path() {
    let test_library = TestLibrary::new();
    for (name, bytes) in
        [("all.zip", zip_of(&files())), ("all.tar", tar_of(&files())), ("all.tar.gz", gzip(&tar_of(&files())))]
    {
        let path = test_library.put(name, bytes);
        let archive = || named(&path, &format!("uploads/{name}"));
        for (text, document, place) in [
            ("QUARTZ-2", "papers/latin.pdf", "p. 2"),
            ("苹果", "sheets/sales.xlsx", "'销售 2024'!C6:D6"),
            ("vermilion", "notes.md", ":1-5"),
            ("picture.png", "", ""),
        ] {
            let finds = test_library.search(vec![archive()], text).await;
            assert_eq!(finds.broken, [], "{name}: a picture is not a failure");
            let hit = finds.hits.first().unwrap_or_else(|| panic!("{name} {text}: {finds:?}"));
            let expected =
                if document.is_empty() { format!("uploads/{name}") } else { format!("uploads/{name}!/{document}") };
            assert_eq!((hit.document.as_str(), hit.place.as_str()), (expected.as_str(), place), "{}", first(&finds));
        }
        let list = test_library.read(archive()).await.unwrap().parts.remove(0).text;
        assert!(list.contains("- papers/latin.pdf (") && list.contains("4 in all"), "{list}");
        let within = |inner: &str| OpenDocument { inner: Some(inner.to_owned()), ..archive() };
        let page = test_library.read(within("papers/latin.pdf")).await.unwrap();
        assert!(page.format == "PDF" && page.parts[1].text.contains("QUARTZ-2"), "{page:?}");
        let finds = test_library.search(vec![within("papers/latin.pdf")], "QUARTZ-3").await;
        assert_eq!(finds.hits[0].place, "p. 3");
        let missing = test_library.read(within("none.pdf")).await.unwrap_err();
        assert!(missing.to_string().contains("no such file in the archive: none.pdf"));
        let states = test_library.library.states(vec![archive()]).await.unwrap();
        assert!(states[0].chunks.is_some() && states[0].problem.is_none(), "{states:?}");
    }
}

#[tokio::test]
async fn document_with_odd_spaces_opens_by_its_cited_name() {
    let test_library = TestLibrary::new();
    let files: Files = vec![
        ("minutes/May\u{a0} 3.md", b"The barn is vermilion.".to_vec()),
        ("minutes/May 3.md", b"The barn is ochre.".to_vec()),
        ("minutes/a  b.md", b"The barn is teal.".to_vec()),
    ];
    let path = test_library.put("all.zip", zip_of(&files));
    let hit = test_library.search(vec![named(&path, "uploads/all.zip")], "teal").await.hits.remove(0);
    let cited = hit.document.strip_prefix("uploads/all.zip!/").unwrap();
    // An exact name takes precedence over other names with the same display form.
    for (inner, expected) in [(cited, "teal"), ("minutes/May 3.md", "ochre"), ("minutes/May\u{a0} 3.md", "vermilion")] {
        let document = OpenDocument { inner: Some(inner.to_owned()), ..named(&path, "uploads/all.zip") };
        let reading = test_library.read(document).await.unwrap();
        assert!(reading.parts[0].text.contains(expected), "{inner}: {reading:?}");
    }
}

#[tokio::test]
async fn oversized_archive_is_not_reported_as_damaged() {
    let limits = Limits { bytes_in: 1 << 20, ..Limits::default() };
    let large = (0..5).map(|_| ("large.txt", b"barn ".repeat(200_000)));
    let many: Files = [("first.txt", b"vermilion".to_vec())].into_iter().chain(large).collect();
    let (document, failure) = read(&extractor(limits), "all.tgz", &gzip(&tar_of(&many))).await;
    let message = failure.unwrap().to_string();
    assert_eq!(message, "could not read the file to its end: its content exceeds 4 MiB");
    assert!(document.unwrap().markdown().contains("vermilion"));
}

#[tokio::test]
async fn unread_archive_entries_are_reported() {
    let mut hostile_files = files();
    hostile_files.push(("../../etc/evil.txt", b"out".to_vec()));
    hostile_files.push(("deep.zip", zip_of(&files())));
    hostile_files.push(("locked.pdf", fixture_bytes("password.pdf")));
    hostile_files.push(("bomb.txt", vec![b'0'; 40 << 20]));
    let limits = Limits { bytes_in: 20 << 20, ..Limits::default() };
    for (name, bytes) in [("all.zip", zip_of(&hostile_files)), ("all.tgz", gzip(&tar_of(&hostile_files)))] {
        let (document, failure) = read(&extractor(limits), name, &bytes).await;
        let (document, failure) = (document.unwrap(), failure.unwrap());
        assert_eq!(variant(&failure), "Entries", "{failure}");
        let message = failure.to_string();
        for reason in ["is outside the archive", "deep.zip", "locked.pdf", "password", "bomb.txt"] {
            let listing = document.parts.last().unwrap().markdown();
            assert!(message.contains(reason) || listing.contains(reason), "{name} {reason}: {message} {listing}");
        }
        let is_of = |part: &agentd_index::Part, wanted: &str| matches!(&part.place, DocumentPlace::Inner { path, .. } if path == wanted);
        assert!(document.parts.iter().any(|part| is_of(part, "papers/latin.pdf")), "{name}");
        let refused =
            |part: &agentd_index::Part| ["bomb.txt", "deep.zip", "etc/evil.txt"].iter().any(|name| is_of(part, name));
        assert!(!document.parts.iter().any(refused), "{name}");
    }
    // Files that are not archives, regardless of their names.
    for (name, bytes) in [("a.tgz", b"plain text".to_vec()), ("a.zip", b"PK\x03\x04 cut".to_vec())] {
        let (_, failure) = read(&extractor(limits), name, &bytes).await;
        assert!(failure.is_some_and(|failure| ["Mismatch", "Broken"].contains(&variant(&failure).as_str())), "{name}");
    }
}

/// Builds a message with these attachments.
fn mail(files: &[(&str, &str, Vec<u8>)]) -> Vec<u8> {
    let mut text = "From: Anna <anna@example.org>\r\nTo: otto@example.org\r\nSubject: Papers\r\nMIME-Version: 1.0\r\n\
                    Content-Type: multipart/mixed; boundary=\"x\"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n\
                    The papers are attached.\r\n"
        .to_owned();
    for (name, head, content) in files {
        use base64::Engine as _;
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        text.push_str(&format!(
            "--x\r\nContent-Disposition: attachment; filename=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\n{head}\r\n\r\n\
             {content}\r\n"
        ));
    }
    text.push_str("--x--\r\n");
    text.into_bytes()
}

#[tokio::test]
async fn mail_attachments_are_found_and_read_by_name() {
    const BINARY: &str = "Content-Type: application/octet-stream";
    let test_library = TestLibrary::new();
    let inner = mail(&[("deep.txt", BINARY, b"a cobalt anchor".to_vec())]);
    let bytes = mail(&[
        ("latin.pdf", BINARY, fixture_bytes("latin.pdf")),
        ("notes.md", BINARY, b"The barn is vermilion.".to_vec()),
        ("notes.md", BINARY, b"The barn is ochre.".to_vec()),
        ("all.zip", BINARY, zip_of(&files())),
        ("before.eml", BINARY, inner),
        ("logo.png", "Content-Type: image/png\r\nContent-ID: <logo@x>", fixture_bytes("scan.png")),
    ]);
    let path = test_library.put("papers.eml", &bytes);
    let letter = || named(&path, "uploads/papers.eml");
    for (text, document, place) in [
        ("papers attached", "uploads/papers.eml", ""),
        ("QUARTZ-2", "uploads/papers.eml!/latin.pdf", "p. 2"),
        ("vermilion", "uploads/papers.eml!/notes.md", ":1"),
        ("ochre", "uploads/papers.eml!/notes (2).md", ":1"),
        ("deep.txt", "uploads/papers.eml!/before.eml", ""),
    ] {
        let finds = test_library.search(vec![letter()], text).await;
        let hit = finds.hits.first().unwrap_or_else(|| panic!("{text}: {finds:?}"));
        assert_eq!((hit.document.as_str(), hit.place.as_str()), (document, place), "{text}");
        assert_eq!(finds.broken, [], "an archive in a mail is not a failure");
    }
    // Attachments of an attached message are listed but not read.
    assert_eq!(test_library.search(vec![letter()], "cobalt").await.hits, []);
    let within = |inner: &str| OpenDocument { inner: Some(inner.to_owned()), ..letter() };
    let message_parts = test_library.read(letter()).await.unwrap();
    assert!(
        message_parts.parts.len() == 1 && message_parts.parts[0].text.contains("Attached file: notes (2).md"),
        "{message_parts:?}"
    );
    let page = test_library.read(within("latin.pdf")).await.unwrap();
    assert!(page.format == "PDF" && page.parts[0].text.contains("QUARTZ-1"), "{page:?}");
    assert!(
        test_library
            .read(within("none.pdf"))
            .await
            .unwrap_err()
            .to_string()
            .contains("no such file in the archive: none.pdf")
    );
    // A locked attachment is reported.
    let locked = mail(&[("locked.pdf", BINARY, fixture_bytes("password.pdf"))]);
    let (document, failure) = read(&extractor(Limits::default()), "a.eml", &locked).await;
    let failure = failure.unwrap().to_string();
    assert!(failure.contains("1 of its 1 files were not read (locked.pdf"), "{failure}");
    assert!(document.unwrap().markdown().contains("The papers are attached."));
}

#[tokio::test]
async fn mails_of_a_mailbox_are_found_and_read_by_name() {
    let test_library = TestLibrary::new();
    let text = "From anna@example.org Fri Mar  1 10:00:00 2024\nFrom: Anna <anna@example.org>\nDate: Fri, 1 Mar 2024 10:00:00 +0000\n\
                Subject: The barn/roof\n\nThe barn is vermilion.\n>From here it is far.\n\n\
                From otto Sat Mar  2 10:00:00 2024\nFrom: Otto <otto@example.org>\nDate: Sat, 2 Mar 2024 10:00:00 +0000\n\
                Subject: =?utf-8?B?5ZCI5ZCM?=\nMIME-Version: 1.0\nContent-Type: text/plain; charset=gbk\n\
                Content-Transfer-Encoding: base64\n\nus/NrA==\n\n\
                From nobody\nno header at all\n\nThe shed is teal.\n";
    let path = test_library.put("old.mbox", text);
    let mailbox = || named(&path, "uploads/old.mbox");
    let list = test_library.read(mailbox()).await.unwrap();
    assert_eq!(list.format, "mailbox");
    let list = &list.parts[0].text;
    for line in ["3 in all", "- 0001 2024-03-01 The barn_roof.eml (", "- 0002 2024-03-02 合同.eml (", "- 0003 "] {
        assert!(list.contains(line), "{line}: {list}");
    }
    let finds = test_library.search(vec![mailbox()], "vermilion").await;
    assert_eq!(finds.hits[0].document, "uploads/old.mbox!/0001 2024-03-01 The barn_roof.eml", "{finds:?}");
    assert_eq!(finds.broken, []);
    assert!(test_library.search(vec![mailbox()], "teal").await.hits[0].document.contains("!/0003 "));
    let within = |inner: &str| {
        let name = format!("uploads/old.mbox!/{inner}");
        OpenDocument { inner: Some(inner.to_owned()), ..named(&path, &name) }
    };
    let first = test_library.read(within("0001 2024-03-01 The barn_roof.eml")).await.unwrap();
    let text = &first.parts[0].text;
    assert!(text.contains("From: Anna") && text.contains("vermilion") && text.contains("\nFrom here"), "{text}");
    assert!(!text.contains("Otto"), "{text}");
    let missing = test_library.read(within("0009 none.eml")).await.unwrap_err();
    assert!(missing.to_string().contains("no such file in the archive"), "{missing}");
    // A mailbox in an archive stays text, and a single mail that begins like a mailbox stays a mail.
    let zip = test_library
        .put("all.zip", zip_of(&vec![("in.mbox", b"From me\nSubject: x\n\nThe silo is ochre.\n".to_vec())]));
    assert_eq!(test_library.search(vec![named(&zip, "all.zip")], "ochre").await.hits[0].document, "all.zip!/in.mbox");
    let letter =
        [b"From me\n".to_vec(), mail(&[("notes.md", "Content-Type: text/plain", b"an ochre barn".to_vec())])].concat();
    let letter = test_library.put("one.eml", letter);
    let attached = OpenDocument { inner: Some("notes.md".to_owned()), ..named(&letter, "one.eml!/notes.md") };
    assert!(test_library.read(attached).await.unwrap().parts[0].text.contains("an ochre barn"));
}

/// Names in archives of Chinese Windows are in GBK, without a flag.
#[tokio::test]
async fn names_of_chinese_windows_are_decoded() {
    let test_library = TestLibrary::new();
    for name in ["合同.txt", "财务/二零二四年采购清单（终稿）.txt"] {
        let encoded = encoding_rs::GBK.encode(name).0;
        let placeholder: &'static str = "x".repeat(encoded.len()).leak();
        let mut archive = zip_of(&vec![(placeholder, b"The barn is vermilion.".to_vec())]);
        for at in 0..archive.len() - encoded.len() {
            if archive[at..].starts_with(placeholder.as_bytes()) {
                archive[at..at + encoded.len()].copy_from_slice(&encoded);
            }
        }
        let path = test_library.put("all.zip", archive);
        let list = test_library.read(named(&path, "uploads/all.zip")).await.unwrap().parts.remove(0).text;
        assert!(list.contains(&format!("- {name} (")), "{list}");
        let hit = test_library.search(vec![named(&path, "uploads/all.zip")], "vermilion").await.hits.remove(0);
        assert_eq!(hit.document, format!("uploads/all.zip!/{name}"));
        let document = OpenDocument { inner: Some(name.to_owned()), ..named(&path, "uploads/all.zip") };
        assert!(test_library.read(document).await.unwrap().parts[0].text.contains("vermilion"));
    }
}
