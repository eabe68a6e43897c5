//! Documents as other programs make them: see `tests/fixtures/make.py`.

use crate::bench::{document, told};

#[tokio::test]
async fn scripts_of_east_asia_are_read_whether_their_fonts_are_in_the_file_or_not() {
    for name in ["cjk.pdf", "embedded.pdf"] {
        let parts = told(&document(name).await);
        assert_eq!(parts.len(), 3, "{name}");
        let wanted = [
            ["第一章 总则", "各部门应当在每月五日之前提交报表。"],
            ["会議の記録", "会議は来週の月曜日に開かれます。"],
            ["회의 기록", "회의는 다음 주 월요일에 열립니다."],
        ];
        for (part, wanted) in parts.iter().zip(wanted) {
            assert!(wanted.iter().all(|text| part.contains(text)), "{name}: {part}");
        }
    }
}

#[tokio::test]
async fn columns_are_read_one_after_the_other() {
    let parts = told(&document("columns.pdf").await);
    let at = |text: &str| parts[0].find(text).unwrap_or_else(|| panic!("{text}: {}", parts[0]));
    assert!(at("Left line 12") < at("Right line 1 "), "{}", parts[0]);
}

#[tokio::test]
async fn tables_stay_tables() {
    let parts = told(&document("table.pdf").await);
    let squeezed = parts[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains("| Product | Quantity | Price |"), "{squeezed}");
    assert!(squeezed.contains("| Item 6 | 18 | 6.50 |"), "{squeezed}");
}

#[tokio::test]
async fn what_only_its_owner_may_change_is_read() {
    assert_eq!(told(&document("owner.pdf").await).len(), 3);
}

#[tokio::test]
async fn a_workbook_keeps_its_cells() {
    let document = document("sales.xlsx").await;
    let parts = told(&document);
    assert_eq!(parts.len(), 3);
    assert!(parts[0].starts_with("[Sales!A2:D30]\n| Region | Date | Amount | Double |\n"), "{}", parts[0]);
    // What was merged stands in each row; what was never computed is told as it was written.
    assert!(parts[0].contains("| North | 2024-01-05 | 7.5 | =C5*2 |"), "{}", parts[0]);
    assert!(parts[0].contains("| South | 2024-01-12 | 18 | =C12*2 |"), "{}", parts[0]);
    assert_eq!(parts[1], "['销售 2024'!C6:D6]\n| 名称 | 数量 |\n| --- | --- |\n| 苹果 | 12 |");
    assert!(parts[2].starts_with("[Empty]"), "{}", parts[2]);
}

#[tokio::test]
async fn results_of_formulas_dates_and_spans_are_shown() {
    let parts = told(&document("cached.xlsx").await);
    assert_eq!(
        parts,
        ["[Totals!A2:D3]\n| What | When | How long | Sum |\n| --- | --- | --- | --- |\n\
          | first | 2024-03-05 14:30 | 30:00:00 | 42 |\n| TRUE |  |  | #DIV/0! |"]
    );
}

#[tokio::test]
async fn older_and_other_workbooks_are_read() {
    assert_eq!(
        told(&document("old.xls").await),
        ["[Alt!A2:B4]\n| Name | Anzahl |\n| --- | --- |\n| Äpfel | 3 |\n| Birnen 梨 | 4.5 |\n|  | 2024-03-05 |"]
    );
    assert_eq!(
        told(&document("open.ods").await),
        ["[Blatt!A2:B3]\n| Name | Count |\n| --- | --- |\n| りんご | 3 |\n| 배 | 5 |"]
    );
}
