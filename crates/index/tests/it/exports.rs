//! Tests for documents that are exported as CSV or text.

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentExport, OpenDocument, Password},
    ports::Knowledge as _,
};
use tokio_util::sync::CancellationToken;

use crate::{
    archives::zip_of,
    bench::fixture_bytes,
    hostile::replaced,
    library::{TestLibrary, named, open},
};

async fn export(
    test_library: &TestLibrary,
    document: OpenDocument,
    sheet: u32,
) -> Result<DocumentExport, KnowledgeError> {
    test_library.library.export(document, sheet, Arc::new(|_| {}), CancellationToken::new()).await
}

fn text(cell: &str, text: &str) -> String {
    format!("<c r=\"{cell}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>")
}

/// Builds a workbook with these rows.
fn workbook(rows: &str) -> Vec<u8> {
    let sheet = format!(
        "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>{rows}</sheetData></worksheet>"
    );
    replaced(&fixture_bytes("cached.xlsx"), "xl/worksheets/sheet1.xml", sheet.as_bytes())
}

/// Builds a workbook with this many orders, whose amounts are formulas with computed values.
fn orders(count: u32) -> Vec<u8> {
    let header = [text("A1", "item"), text("B1", "price"), text("C1", "amount")].concat();
    let rows: String = (2..count + 2)
        .map(|row| {
            let (item, price) = (text(&format!("A{row}"), "a, b"), row - 1);
            let amount = price * 2;
            format!("<row r=\"{row}\">{item}<c r=\"B{row}\"><v>{price}</v></c><c r=\"C{row}\"><f>B{row}*2</f><v>{amount}</v></c></row>")
        })
        .collect();
    workbook(&format!("<row r=\"1\">{header}</row>{rows}"))
}

#[tokio::test]
async fn sheet_is_exported_to_its_end() {
    let test_library = TestLibrary::new();
    let path = test_library.put("orders.xlsx", orders(6000));
    let export = export(&test_library, named(&path, "uploads/orders.xlsx"), 1).await.unwrap();
    assert_eq!((export.rows, export.columns, export.content.as_str()), (6001, 3, "sheet Totals"));
    assert!(
        export.text.starts_with("item,price,amount\n\"a, b\",1,2\n") && export.broken.is_none(),
        "{}",
        &export.text[..99]
    );
    let amounts = export.text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(amounts.sum::<u64>(), 6000 * 6001);
}

#[tokio::test]
async fn cells_are_exported_unchanged() {
    let cells =
        ["=HYPERLINK(1)", "+1", "-2", "@a", "say &quot;hi&quot;", "two\nlines", "a;b", "tab\there", "\u{202e}x"];
    let row: String = cells.iter().zip('A'..).map(|(cell, column)| text(&format!("{column}1"), cell)).collect();
    let test_library = TestLibrary::new();
    let path = test_library.put("hostile.xlsx", workbook(&format!("<row r=\"1\">{row}</row>")));
    let export = export(&test_library, named(&path, "hostile.xlsx"), 1).await.unwrap();
    assert_eq!(export.text, "=HYPERLINK(1),+1,-2,@a,\"say \"\"hi\"\"\",\"two\nlines\",a;b,tab\there,x\n");
    assert_eq!((export.rows, export.columns), (1, 9));
}

#[tokio::test]
async fn sheets_of_all_workbooks_are_exported_by_number() {
    let test_library = TestLibrary::new();
    for (name, content, text) in [
        ("cached.xlsx", "sheet Totals", "What,When,How long,Sum\nfirst,2024-03-05 14:30,30:00:00,42\nTRUE,,,#DIV/0!\n"),
        ("old.xls", "sheet Alt", "Name,Anzahl\nÄpfel,3\nBirnen 梨,4.5\n,2024-03-05\n"),
        ("open.ods", "sheet Blatt", "Name,Count\nりんご,3\n배,5\n"),
        // Comments are not values, and empty rows are left out.
        ("more/fees.xlsx", "sheet Fees", "ship,fee\nAlma,3\nBerta,5\nClara,\n"),
    ] {
        let export = export(&test_library, open(name), 1).await.unwrap();
        assert_eq!((export.content.as_str(), export.text.as_str()), (content, text), "{name}");
    }
    let second = export(&test_library, open("sales.xlsx"), 2).await.unwrap();
    assert!(second.content == "sheet 销售 2024" && second.text.contains("苹果"), "{second:?}");
    for (name, sheet, expected) in [
        ("sales.xlsx", 3, "no cells in a sheet 3"),
        ("sales.xlsx", 4, "no cells in a sheet 4"),
        ("cached.xlsx", 2, "no cells in a sheet 2"),
        ("latin.pdf", 2, "omit offset"),
    ] {
        let error = export(&test_library, open(name), sheet).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

#[tokio::test]
async fn documents_are_exported_as_whole_text() {
    let test_library = TestLibrary::new();
    for (name, parts) in
        [("latin.pdf", &["QUARTZ-1", "QUARTZ-2", "QUARTZ-3"][..]), ("handbook.docx", &[]), ("deck.pptx", &[])]
    {
        let export = export(&test_library, open(name), 1).await.unwrap();
        assert!(
            export.columns == 0 && export.rows == export.text.lines().count() && export.rows > 2,
            "{name}: {export:?}"
        );
        assert!(parts.iter().all(|part| export.text.contains(part)), "{name}: {export:?}");
    }
    let path =
        test_library.put("all.zip", zip_of(&vec![("a/orders.xlsx", orders(3)), ("b.csv", b"x;y\n1;2\n".to_vec())]));
    let within = |inner: &str| {
        let name = format!("uploads/all.zip!/{inner}");
        OpenDocument { inner: Some(inner.to_owned()), ..named(&path, &name) }
    };
    assert_eq!(export(&test_library, within("a/orders.xlsx"), 1).await.unwrap().rows, 4);
    assert_eq!(export(&test_library, within("b.csv"), 1).await.unwrap().text, "x,y\n1,2\n");
}

#[tokio::test]
async fn pictures_archives_and_locked_documents_are_refused() {
    let test_library = TestLibrary::new();
    let path = test_library.put("all.zip", zip_of(&vec![("a.txt", b"a".to_vec())]));
    for (document, expected) in [
        (open("scan.png"), "it is a picture or a folder"),
        (named(&path, "uploads/all.zip"), "it is a picture or a folder"),
    ] {
        let error = export(&test_library, document, 1).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let locked = || open("password.xlsx");
    assert!(export(&test_library, locked(), 1).await.unwrap_err().needs_password());
    let wrong = OpenDocument { password: Some(Password::new("wrong".to_owned())), ..locked() };
    assert!(export(&test_library, wrong, 1).await.unwrap_err().needs_password());
}
