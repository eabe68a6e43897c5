//! Workbooks as some programs write them, which others refuse.

use agentd_index::Limits;

use crate::{
    bench::{extractor, fixture, read, told},
    hostile::{part, with_part},
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
