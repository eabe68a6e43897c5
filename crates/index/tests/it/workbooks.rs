//! Workbooks as some programs write them, which others refuse.

use agentd_index::Limits;

use crate::{
    bench::{extractor, fixture, read, told},
    hostile::{part, with_part},
    library::{Shop, named},
};

const SHEET: &str = "xl/worksheets/sheet1.xml";

async fn sheets(bytes: &[u8]) -> Vec<String> {
    let (document, failure) = read(&extractor(Limits::default()), "a.xlsx", bytes).await;
    assert_eq!(failure, None);
    told(&document.unwrap())
}

#[tokio::test]
async fn blanks_around_a_number_are_none_of_it() {
    let book = std::fs::read(fixture("cached.xlsx")).unwrap();
    let plain = sheets(&book).await;
    let sheet = part(&book, SHEET).replace("<v>", "<v> ").replace("</v>", "\n</v>");
    let spaced = with_part(&book, SHEET, |out| out.write_all(sheet.as_bytes()).unwrap());
    assert_eq!(sheets(&spaced).await, plain);
}

#[tokio::test]
async fn a_sheet_of_old_macros_does_not_refuse_the_others() {
    let book = std::fs::read(fixture("sales.xlsx")).unwrap();
    let list = "xl/_rels/workbook.xml.rels";
    let plain = sheets(&book).await;
    // The last sheet, which is empty.
    let relations = part(&book, list);
    let at = relations.find("worksheets/sheet3.xml").unwrap();
    let start = relations[..at].rfind("<Relationship ").unwrap();
    let end = start + relations[start..].find("/>").unwrap();
    let other = relations[start..end].replace("relationships/worksheet", "relationships/xlMacrosheet");
    let changed = format!("{}{other}{}", &relations[..start], &relations[end..]);
    let with_macros = with_part(&book, list, |out| out.write_all(changed.as_bytes()).unwrap());
    let told = sheets(&with_macros).await;
    assert_eq!(told[..2], plain[..2], "{told:?}");
}

#[tokio::test]
async fn names_with_backslashes_are_paths() {
    let book = std::fs::read(fixture("sales.xlsx")).unwrap();
    let mut old = zip::ZipArchive::new(std::io::Cursor::new(&book)).unwrap();
    let mut new = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let mut file = old.by_index(index).unwrap();
        let name = file.name().unwrap().replace('/', "\\");
        new.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::copy(&mut file, &mut new).unwrap();
    }
    let odd = new.finish().unwrap().into_inner();
    assert_eq!(sheets(&odd).await, sheets(&book).await);
}

/// A workbook of one row with these formats of numbers, and as many cells: each has a value and the format of its column.
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
    let book = std::fs::read(fixture("cached.xlsx")).unwrap();
    let book = with_part(&book, "xl/styles.xml", |out| out.write_all(styles.as_bytes()).unwrap());
    with_part(&book, SHEET, |out| out.write_all(sheet.as_bytes()).unwrap())
}

#[tokio::test]
async fn numbers_are_told_as_their_cells_show_them() {
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
    let sheet = sheets(&book).await.remove(0);
    assert!(
        sheet.contains("| 12.5% | 0.3 | -1,234,567.50 | $2,000 | 2025-10-13 | 2.00 | 0.5 | 12345 | 12345 |"),
        "{sheet}"
    );
}

#[tokio::test]
async fn a_number_is_found_with_the_marks_between_its_thousands_and_without() {
    let shop = Shop::new();
    let path = shop.folder.path().join("a.xlsx");
    std::fs::write(&path, formatted(&[("#,##0.00", "1234567.5"), ("0.0%", "0.125")])).unwrap();
    for query in ["1234567", "1,234,567.50", "1,234,567", "12.5%", "\"1,234,567\""] {
        let finds = shop.search(vec![named(&path, "a.xlsx")], query).await;
        assert_eq!(finds.hits.len(), 1, "{query}: {finds:?}");
        assert!(!finds.hits[0].marks.is_empty() && finds.notes.is_empty(), "{query}: {finds:?}");
    }
}
