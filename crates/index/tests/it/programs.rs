//! Documents as browsers, LaTeX and LibreOffice make them: see `tests/fixtures/programs/make.sh`.

use crate::bench::{document, told};

/// Each of these stands in the part, in this order, whatever white space is between words.
fn check(part: &str, wanted: &[&str]) {
    let text = part.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut at = 0;
    for words in wanted {
        let found = text[at..].find(words).unwrap_or_else(|| panic!("no {words:?} from {at} on in {text}"));
        at += found + words.len();
    }
}

const FIRST: [&str; 5] = [
    "# Report of the harbour",
    "The efficient office on the first floor filed fifty-five affidavits",
    "was transferred to the neighbouring municipality.",
    "rose by 12.5 % to € 1,340 on 1 March 2024 — “a fair price”",
    "Dredging begins in spring.",
];
const TABLE: [&str; 4] =
    ["Ships and cargo", "| First | 212 | 48,100 |", "| Third | 287 | 59,020 |", "Containers from Valparaíso were"];
/// The same without the lines around it.
const UNRULED: [&str; 4] =
    ["Ships and cargo", "First 212 48,100", "Third 287 59,020", "Containers from Valparaíso were"];
const CHINESE: [&str; 3] =
    ["第三章 港口收费", "各承包单位应当在每月五日之前提交排放报告，逾期不交的", "北码头在疏浚期间暂停使用"];

#[tokio::test]
async fn what_a_browser_and_an_office_print_is_read_page_by_page() {
    for (name, table) in [("programs/browser.pdf", TABLE), ("programs/office.pdf", UNRULED)] {
        let document = document(name).await;
        assert_eq!(document.title.as_deref(), Some("Report of the harbour"), "{name}");
        let parts = told(&document);
        assert_eq!(parts.len(), 3, "{name}");
        check(&parts[0], &FIRST);
        check(&parts[1], &table);
        check(&parts[1], &["delayed by Größe Straße works; see section 4.1 and config_file.yaml."]);
        check(&parts[2], &CHINESE);
    }
}

#[tokio::test]
async fn columns_hyphens_and_accents_of_latex_are_read_as_they_are_meant() {
    let parts = told(&document("programs/latex.pdf").await);
    assert_eq!(parts.len(), 2);
    check(
        &parts[0],
        &[
            "Report of the harbour",
            "The efficient office on the first floor filed",
            "affidavits about the infrastructure of the harbour. Its administration recommended comprehensive modernisation",
            "the responsibility for maintenance was transferred to the neighbouring municipality.",
            "unanimously",
            "congratulated the superintendent.",
            "rose by 12.5 % to 1,340 crowns — “a fair price”.",
            "Dredging begins in spring.",
        ],
    );
    check(
        &parts[1],
        &["| Quarter | Ships | Tonnes |", "| Second | 305 | 61,750 |", "from Valparaíso were", "Größe Straße"],
    );
    let parts = told(&document("programs/latex-zh.pdf").await);
    check(
        &parts[0],
        &["第一章 总则", "保障船舶的航行安全，制定本办法。港口管理委员会负责解释", "相邻的市政府负责灯塔的维护工作"],
    );
    check(
        &parts[1],
        &["第二章 停泊费", "按照本办法第十二条处理。北码头在疏浚期间暂停使用，游客", "二〇二四年三月一日起"],
    );
}

#[tokio::test]
async fn what_an_office_saves_is_read_in_all_its_formats() {
    let parts = told(&document("programs/office.docx").await);
    let text = parts[0].replace('\u{a0}', " ");
    check(&text, &FIRST);
    check(&text, &TABLE);
    check(&text, &CHINESE);
    for name in ["programs/office.xlsx", "programs/office.ods", "programs/office.xls"] {
        let parts = told(&document(name).await);
        check(&parts[0], &["| Quarter | Ships | Tonnes | Remark |", "| Second | 305 | 61750 | dredging, and fog |"]);
        check(&parts[0], &["| Third | 287 | 59020 | 北码头关闭 |"]);
    }
    let parts = told(&document("programs/office.pptx").await);
    assert_eq!(parts.len(), 3);
    check(&parts[0], &["Plan of the year", "- Grow", "- Save", "Notes:", "Speak slowly."]);
    check(&parts[1], &["预算", "- 上半年"]);
}
