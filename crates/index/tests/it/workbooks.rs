//! Tests for workbook variants that other programs reject.

use agentd_index::Limits;

use crate::{
    bench::{cited_parts, extractor, fixture_bytes, read},
    hostile::{part, replaced},
    library::{TestLibrary, named},
};

const SHEET: &str = "xl/worksheets/sheet1.xml";

async fn sheets(name: &str, bytes: &[u8]) -> Vec<String> {
    let (document, failure) = read(&extractor(Limits::default()), name, bytes).await;
    assert_eq!(failure, None);
    cited_parts(&document.unwrap())
}

#[tokio::test]
async fn blanks_around_a_number_are_ignored() {
    let book = fixture_bytes("cached.xlsx");
    let plain = sheets("a.xlsx", &book).await;
    let sheet = part(&book, SHEET).replace("<v>", "<v> ").replace("</v>", "\n</v>");
    let spaced = replaced(&book, SHEET, sheet.as_bytes());
    assert_eq!(sheets("a.xlsx", &spaced).await, plain);
}

#[tokio::test]
async fn macro_sheet_does_not_block_the_others() {
    let book = fixture_bytes("sales.xlsx");
    let list = "xl/_rels/workbook.xml.rels";
    let plain = sheets("a.xlsx", &book).await;
    // `sheet3.xml` is the last sheet, and is empty.
    let relations = part(&book, list);
    let at = relations.find("worksheets/sheet3.xml").unwrap();
    let start = relations[..at].rfind("<Relationship ").unwrap();
    let end = start + relations[start..].find("/>").unwrap();
    let other = relations[start..end].replace("relationships/worksheet", "relationships/xlMacrosheet");
    let changed = format!("{}{other}{}", &relations[..start], &relations[end..]);
    let with_macros = replaced(&book, list, changed.as_bytes());
    let texts = sheets("a.xlsx", &with_macros).await;
    assert_eq!(texts[..2], plain[..2], "{texts:?}");
}

#[tokio::test]
async fn part_names_with_backslashes_are_paths() {
    let book = fixture_bytes("sales.xlsx");
    let mut old = zip::ZipArchive::new(std::io::Cursor::new(&book)).unwrap();
    let mut new = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let mut file = old.by_index(index).unwrap();
        let name = file.name().unwrap().replace('/', "\\");
        new.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::copy(&mut file, &mut new).unwrap();
    }
    let backslash_book = new.finish().unwrap().into_inner();
    assert_eq!(sheets("a.xlsx", &backslash_book).await, sheets("a.xlsx", &book).await);
}

/// Builds a workbook with one row, where each cell has a number format and a value.
fn formatted(cells: &[(&str, &str)]) -> Vec<u8> {
    let escaped = |code: &str| code.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let codes: String = (164..)
        .zip(cells)
        .map(|(id, (code, _))| format!("<numFmt numFmtId=\"{id}\" formatCode=\"{}\"/>", escaped(code)))
        .collect();
    let styles: String = (164..).zip(cells).map(|(id, _)| format!("<xf numFmtId=\"{id}\" xfId=\"0\"/>")).collect();
    const NAMESPACE: &str = "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"";
    let styles = format!(
        "<styleSheet {NAMESPACE}><numFmts>{codes}</numFmts><cellXfs><xf numFmtId=\"0\" xfId=\"0\"/>{styles}</cellXfs></styleSheet>"
    );
    let row: String = (1..)
        .zip(cells)
        .map(|(style, (_, value))| {
            let column = char::from(b'A' + style - 1);
            format!("<c r=\"{column}1\" s=\"{style}\"><v>{value}</v></c>")
        })
        .collect();
    let sheet = format!("<worksheet {NAMESPACE}><sheetData><row r=\"1\">{row}</row></sheetData></worksheet>");
    let book = fixture_bytes("cached.xlsx");
    let book = replaced(&book, "xl/styles.xml", styles.as_bytes());
    replaced(&book, SHEET, sheet.as_bytes())
}

#[tokio::test]
async fn numbers_are_formatted_as_displayed() {
    let book = formatted(&[
        ("0.0%", "0.125"),
        ("General", "0.30000000000000004"),
        ("#,##0.00", "-1234567.5"),
        ("\"$\"#,##0", "1999.6"),
        ("yyyy-mm-dd", "45943"),
        ("0.00", "2"),
        ("# ?/?", "0.5"),
        ("0.00E+00", "12345"),
        ("[Red]0.0,", "12345"),
    ]);
    let sheet = sheets("a.xlsx", &book).await.remove(0);
    assert!(sheet.contains("| 12.5% | 0.3 | -1234567.5 | 1999.6 | 2025-10-13 | 2 | 0.5 | 12345 | 12345 |"), "{sheet}");
}

#[tokio::test]
async fn formatted_numbers_are_searchable() {
    let test_library = TestLibrary::new();
    let path = test_library.put("a.xlsx", formatted(&[("#,##0.00", "1234567.5"), ("0.0%", "0.125")]));
    for query in ["1234567", "12.5%"] {
        let finds = test_library.search(vec![named(&path, "a.xlsx")], query).await;
        assert_eq!(finds.hits.len(), 1, "{query}: {finds:?}");
        assert!(!finds.hits[0].marks.is_empty() && finds.notes.is_empty(), "{query}: {finds:?}");
    }
}

/// Encodes a record of a binary workbook. The content must be shorter than 128 bytes.
fn record(kind: u16, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let kind = if kind < 0x80 { vec![kind as u8] } else { vec![kind as u8 | 0x80, (kind >> 7) as u8] };
    [kind, vec![u8::try_from(content.len()).unwrap()], content].concat()
}

/// Encodes text as it is stored in binary workbooks.
fn utf16_text(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    (text.encode_utf16().count() as u32).to_le_bytes().into_iter().chain(units).collect()
}

/// Builds a binary workbook with one text per sheet. `added` is inserted after the first four bytes of each sheet
/// record.
fn binary_workbook(sheets: &[(&str, &str)], added: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    const TYPE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet";
    let mut book = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut add = |name: &str, content: &[u8]| {
        book.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        book.write_all(content).unwrap();
    };
    let (mut list, mut relations) = (record(0x8F, &[]), String::new());
    for (number, (name, text)) in (1_u32..).zip(sheets) {
        let id = format!("rId{number}");
        list.extend(record(0x9C, &[&[0; 4], added, &number.to_le_bytes(), &utf16_text(&id), &utf16_text(name)]));
        relations += &format!(r#"<Relationship Id="{id}" Type="{TYPE}" Target="worksheets/sheet{number}.bin"/>"#);
        let cell = record(0x06, &[&[0; 8], &utf16_text(text)]);
        let sheet = [record(0x94, &[&[0; 16]]), record(0x91, &[]), record(0, &[&[0; 12]]), cell, record(0x92, &[])];
        add(&format!("xl/worksheets/sheet{number}.bin"), &sheet.concat());
    }
    list.extend([record(0x90, &[]), record(0x84, &[])].concat());
    add("xl/workbook.bin", &list);
    add(
        "xl/_rels/workbook.bin.rels",
        format!(r#"<Relationships xmlns="{PACKAGE}">{relations}</Relationships>"#).as_bytes(),
    );
    add("[Content_Types].xml", br#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>"#);
    book.finish().unwrap().into_inner()
}

/// Betas of Excel 2007 wrote four additional bytes into each sheet record.
#[tokio::test]
async fn xlsb_is_read_in_beta_and_released_form() {
    for names in [["Sheet1", "Sheet2"], ["Über uns, 1. Quartal (vorläufig)", "表"]] {
        let cells = [(names[0], "North"), (names[1], "South")];
        for added in [&[][..], &[0; 4]] {
            let parts = sheets("a.xlsb", &binary_workbook(&cells, added)).await;
            assert_eq!(parts.len(), 2, "{parts:?}");
            let has = |part: &str, words: [&str; 2]| words.iter().all(|word| part.contains(word));
            assert!(has(&parts[0], [names[0], "North"]) && has(&parts[1], [names[1], "South"]), "{parts:?}");
        }
    }
}
