//! Tests for malicious and damaged files: each fails with a clear message, and the next file is read.

use std::{
    io::{Cursor, Read as _},
    time::Duration,
};

use agentd_index::{Body, Extractor, Failure, Limits};
use futures_util::{StreamExt as _, stream};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::{
    bench::{Document, extractor, fixture_bytes, read, variant, worker},
    worker::until_gone,
};

const MIB: u64 = 1024 * 1024;

/// Returns tight limits, so that the tests are fast.
fn tight_limits() -> Limits {
    Limits { bytes_out: 8 * MIB, time: Duration::from_secs(10), memory: 512 * MIB, ..Limits::default() }
}

/// Asserts that a failure is helpful to users.
fn assert_clear(name: &str, failure: &Failure) {
    let message = failure.to_string();
    assert!(message.starts_with("could not read") && message.len() < 400, "{name}: {message}");
    assert!(!message.contains(char::is_control) && failure.hint().len() > 5, "{name}: {message:?}");
    // A failure of the worker itself would be our own defect, not a defect of the file.
    assert_ne!(variant(failure), "Worker", "{name}: {message}");
}

/// Returns the archive with one part replaced.
pub(crate) fn with_part(archive: &[u8], part: &str, content: impl FnOnce(&mut dyn std::io::Write)) -> Vec<u8> {
    let mut old = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut new = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let file = old.by_index_raw(index).unwrap();
        if file.name().unwrap() != part {
            new.raw_copy_file(file).unwrap();
        }
    }
    new.start_file(part, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
    content(&mut new);
    new.finish().unwrap().into_inner()
}

pub(crate) fn replaced(archive: &[u8], part: &str, content: &[u8]) -> Vec<u8> {
    with_part(archive, part, |out| out.write_all(content).unwrap())
}

pub(crate) fn part(archive: &[u8], part: &str) -> String {
    let mut text = String::new();
    ZipArchive::new(Cursor::new(archive)).unwrap().by_name(part).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn decompression_bombs_are_rejected() {
    let extractor = extractor(tight_limits());
    let write_zeros = |out: &mut dyn std::io::Write| {
        let block = vec![b' '; 1024 * 1024];
        (0..700).for_each(|_| out.write_all(&block).unwrap());
    };
    for (name, inner) in [
        ("handbook.docx", "word/document.xml"),
        ("deck.pptx", "ppt/slides/slide1.xml"),
        ("cached.xlsx", "xl/sharedStrings.xml"),
        ("open.ods", "content.xml"),
    ] {
        let bomb = with_part(&fixture_bytes(name), inner, write_zeros);
        assert!(bomb.len() < 2_000_000, "{name}: {}", bomb.len());
        let (_, failure) = read(&extractor, name, &bomb).await;
        assert_clear(name, &failure.unwrap_or_else(|| panic!("{name} was read")));
    }
    let (_, failure) = read(&extractor, "latin.pdf", &fixture_bytes("latin.pdf")).await;
    assert_eq!(failure, None);
}

#[tokio::test]
async fn xml_entity_bombs_do_not_expand() {
    let mut entities = String::from("<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY e0 \"ha\">");
    for level in 1..30 {
        entities += &format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10));
    }
    entities += "]>";
    for (name, inner, text) in [
        ("handbook.docx", "word/document.xml", "Doors are closed at ten."),
        ("cached.xlsx", "xl/sharedStrings.xml", "What"),
        ("open.ods", "content.xml", "Name"),
    ] {
        let old = part(&fixture_bytes(name), inner);
        let body = old.split_once("?>").map_or(old.as_str(), |(_, body)| body).replace(text, "&e29;");
        assert!(body.contains("&e29;"), "{name}");
        let bomb = replaced(&fixture_bytes(name), inner, format!("{entities}{body}").as_bytes());
        let (document, failure) = read(&extractor(tight_limits()), name, &bomb).await;
        failure.iter().for_each(|failure| assert_clear(name, failure));
        assert!(document.is_none_or(|document| document.markdown().len() < 20_000), "{name}");
    }
}

#[tokio::test]
async fn workbook_claiming_huge_size_reads_its_real_cells() {
    let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">\
                 <dimension ref=\"A1:XFD1048576\"/><sheetData>\
                 <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>first</t></is></c></row>\
                 <row r=\"1048576\"><c r=\"XFD1048576\"><v>7</v></c></row></sheetData></worksheet>";
    let bomb = replaced(&fixture_bytes("cached.xlsx"), "xl/worksheets/sheet1.xml", sheet.as_bytes());
    let (document, failure) = read(&extractor(tight_limits()), "claims.xlsx", &bomb).await;
    assert_eq!(failure, None);
    let sheet = &document.unwrap().parts[0];
    assert_eq!(sheet.place.to_string(), "Totals!A1:XFD1048576");
    let Body::Table(table) = &sheet.body else { panic!() };
    assert_eq!(table.rows.iter().map(|row| row.cells.last().unwrap().as_str()).collect::<Vec<_>>(), ["first", "7"]);

    let row = "<table:table-row table:number-rows-repeated=\"1048576\"><table:table-cell office:value-type=\"float\" \
               office:value=\"1\" table:number-columns-repeated=\"16384\"><text:p>1</text:p></table:table-cell></table:table-row>";
    let book = fixture_bytes("open.ods");
    let content = part(&book, "content.xml").replacen("</table:table>", &format!("{row}</table:table>"), 1);
    let bomb = replaced(&book, "content.xml", content.as_bytes());
    let (_, failure) = read(&extractor(tight_limits()), "claims.ods", &bomb).await;
    assert_clear("claims.ods", &failure.unwrap());
}

#[tokio::test]
async fn deep_nesting_terminates() {
    let depth = 200_000;
    let pdf = |objects: &str| format!("%PDF-1.4\n{objects}\ntrailer << /Root 1 0 R /Size 9 >>\n%%EOF\n").into_bytes();
    let page = "1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n";
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("divs.html", format!("<html><body>{}x", "<div>".repeat(depth)).into_bytes()),
        ("lists.html", format!("<html><body>{}x", "<ul><li>".repeat(depth)).into_bytes()),
        ("quotes.md", "> ".repeat(depth).into_bytes()),
        (
            "pages.pdf",
            pdf(&format!("{page}2 0 obj << /Type /Pages /Kids [2 0 R 2 0 R] /Count 99 /Parent 2 0 R >> endobj")),
        ),
        (
            "forms.pdf",
            pdf(&format!(
                "{page}2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 >> endobj\n\
                 3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /F 5 0 R >> >> >> endobj\n\
                 4 0 obj << /Length 5 >> stream\n/F Do\nendstream endobj\n\
                 5 0 obj << /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 11 /Resources << /XObject << /F 5 0 R >> >> >> stream\n/F Do /F Do\nendstream endobj"
            )),
        ),
        ("arrays.pdf", pdf(&format!("{page}2 0 obj {} endobj", "[".repeat(depth)))),
        ("count.pdf", pdf(&format!("{page}2 0 obj << /Type /Pages /Kids [] /Count 2000000000 >> endobj"))),
        ("references.pdf", pdf("1 0 obj 2 0 R endobj\n2 0 obj 1 0 R endobj")),
    ];
    // Some of these files only end at the time limit.
    let extractor = extractor(Limits { time: Duration::from_secs(3), ..tight_limits() });
    for (name, bytes) in cases {
        let (document, failure) = read(&extractor, name, &bytes).await;
        failure.iter().for_each(|failure| assert_clear(name, failure));
        assert!(document.is_some() || failure.is_some(), "{name}");
    }
}

/// Generator of deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides.max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }

    /// Damages bytes in ways that disks, networks and users do.
    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        let at = self.below(bytes.len());
        let length = self.below(200).min(bytes.len() - at);
        match self.below(7) {
            0 => damaged.truncate(at),
            1 => (0..=self.below(20)).for_each(|_| {
                let at = self.below(damaged.len());
                damaged[at] ^= 1 << self.below(8);
            }),
            2 => damaged[at..at + length].copy_from_slice(&self.bytes(length)),
            3 => drop(damaged.drain(at..at + length)),
            4 => damaged.splice(at..at, bytes[at..at + length].repeat(1 + self.below(50))).for_each(drop),
            5 => damaged[at..at + length].fill(0),
            // Replaces digits, keeping the length.
            _ => damaged.iter_mut().skip(at).filter(|byte| byte.is_ascii_digit()).take(9).for_each(|byte| {
                *byte = b'0' + u8::try_from(self.below(10)).unwrap();
            }),
        }
        damaged
    }

    /// Damages a part of an archive, with valid checksums.
    fn damage_within(&mut self, archive: &[u8]) -> Vec<u8> {
        let names: Vec<String> = ZipArchive::new(Cursor::new(archive))
            .unwrap()
            .file_names()
            .map(|name| name.unwrap().into_owned())
            .collect();
        let name = &names[self.below(names.len())];
        let mut content = Vec::new();
        ZipArchive::new(Cursor::new(archive)).unwrap().by_name(name).unwrap().read_to_end(&mut content).unwrap();
        let content = if content.is_empty() { content } else { self.damage(&content) };
        replaced(archive, name, &content)
    }
}

const INTACT: &str = "latin.pdf cjk.pdf columns.pdf table.pdf embedded.pdf owner.pdf scanned.pdf handbook.docx sales.xlsx \
     cached.xlsx old.xls open.ods deck.pptx";

fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut random = Random(0x5eed_2024);
    let mut intact: Vec<(String, Vec<u8>)> =
        INTACT.split(' ').map(|name| (name.to_owned(), fixture_bytes(name))).collect();
    let rows: String = (0..40).map(|row| format!("\"name {row}\",{row},2024-01-{row}\n")).collect();
    intact.push(("rows.csv".to_owned(), rows.into_bytes()));
    let page =
        "<html><head><title>T</title></head><body><table><tr><td>a<td>b</table><ul><li>x<li>y</ul></body></html>";
    intact.push(("page.html".to_owned(), page.repeat(5).into_bytes()));
    intact.push(("note.md".to_owned(), "# 标题\n\n- one\n- two\n\n| a | b |\n| --- | --- |\n".repeat(9).into_bytes()));
    intact.push(("note.txt".to_owned(), "第一章 总则。The end. 会議。".repeat(40).into_bytes()));
    let mut damaged = Vec::new();
    for (name, bytes) in &intact {
        for number in 0..30 {
            let is_archive = bytes.starts_with(b"PK");
            let content =
                if is_archive && number % 2 == 0 { random.damage_within(bytes) } else { random.damage(bytes) };
            damaged.push((format!("{number} of {name}"), content));
        }
        // Random content, with and without the first bytes of the format.
        let noise = random.bytes(3000);
        damaged.push((format!("noise.{name}"), noise.clone()));
        damaged.push((format!("start.{name}"), [&bytes[..bytes.len().min(8)], &noise].concat()));
    }
    damaged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_never_crash_the_reader() {
    let corpus = corpus();
    assert!(corpus.len() >= 500, "{}", corpus.len());
    // Number that identifies the workers.
    let mark = 512 * MIB + u64::from(std::process::id());
    let extractor = Extractor::new(worker(), Limits { memory: mark, ..tight_limits() }, 2);
    let outcomes: Vec<(String, Option<Document>, Option<Failure>)> = stream::iter(corpus)
        .map(|(name, bytes)| {
            let extractor = extractor.clone();
            async move {
                let (document, failure) = read(&extractor, &name, &bytes).await;
                (name, document, failure)
            }
        })
        .buffer_unordered(2)
        .collect()
        .await;
    let mut variants = std::collections::BTreeMap::new();
    for (name, document, failure) in &outcomes {
        assert!(document.is_some() || failure.is_some(), "{name}");
        failure.iter().for_each(|failure| assert_clear(name, failure));
        *variants.entry(failure.as_ref().map_or_else(String::new, variant)).or_insert(0) += 1;
    }
    println!("{variants:?}");
    // The test would be useless if the damage were always or never detected.
    assert!(variants[""] > 50 && variants["Broken"] > 50, "{variants:?}");
    let (document, failure) = read(&extractor, "latin.pdf", &fixture_bytes("latin.pdf")).await;
    assert_eq!((document.unwrap().parts.len(), failure), (3, None));
    until_gone(mark).await;
}
