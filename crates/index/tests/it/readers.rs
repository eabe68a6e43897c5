//! Tests for documents from other programs, and for right-to-left and vertical pages. See `tests/fixtures/make.py`,
//! `more/make.py` and `programs/make.sh`.

use agentd_index::{Kind, Limits};

use crate::{
    bench::{cited_parts, document, extractor, fixture_bytes, read, read_fixture, variant},
    hostile::{part, replaced},
};

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that the text contains these strings in this order, ignoring differences in white space.
fn check(name: &str, text: &str, wanted: &[&str]) {
    let (text, mut at) = (without_spaces(text), 0);
    for words in wanted {
        let found = text[at..].find(words).unwrap_or_else(|| panic!("{name}: no {words:?} from {at} on in {text}"));
        at += found + words.len();
    }
}

const CJK: &[&[&str]] = &[
    &["第一章 总则", "各部门应当在每月五日之前提交报表。"],
    &["会議の記録", "会議は来週の月曜日に開かれます。"],
    &["회의 기록", "회의는 다음 주 월요일에 열립니다."],
];
const FIRST: &[&str] = &[
    "Report of the harbour [p. 1] # Report of the harbour",
    "The efficient office on the first floor filed fifty-five affidavits",
    "was transferred to the neighbouring municipality.",
    "rose by 12.5 % to € 1,340 on 1 March 2024 — “a fair price”",
    "Dredging begins in spring.",
];
const TABLE: &[&str] = &[
    "Ships and cargo",
    "| First | 212 | 48,100 |",
    "| Third | 287 | 59,020 |",
    "Containers from Valparaíso were",
    "delayed by Größe Straße works; see section 4.1 and config_file.yaml.",
];
/// The preceding table without ruling lines.
const UNRULED: &[&str] = &["Ships and cargo", "First 212 48,100", "Third 287 59,020", TABLE[3], TABLE[4]];
const CHINESE: &[&str] =
    &["第三章 港口收费", "各承包单位应当在每月五日之前提交排放报告，逾期不交的", "北码头在疏浚期间暂停使用"];
const SHEET: &[&[&str]] = &[&[
    "| Quarter | Ships | Tonnes | Remark |",
    "| Second | 305 | 61750 | dredging, and fog |",
    "| Third | 287 | 59020 | 北码头关闭 |",
]];

/// A document with the expected text of each page, or of the whole text if the document has no pages.
type Case = (&'static str, &'static [&'static [&'static str]]);

const CASES: &[Case] = &[
    ("cjk.pdf", CJK),
    ("embedded.pdf", CJK),
    ("columns.pdf", &[&["Left line 12", "Right line 1 "]]),
    ("table.pdf", &[&["| Product | Quantity | Price |", "| Item 6 | 18 | 6.50 |"]]),
    // Protected with an owner password only.
    ("owner.pdf", &[&[], &[], &[]]),
    (
        "sales.xlsx",
        &[
            // Merged cells are repeated in each row, and formulas without a computed value are shown.
            &["[Sales!A2:D30] | Region | Date | Amount | Double |", "| North | 2024-01-05 | 7.5 | =C5*2 |"],
            &["| South | 2024-01-12 | 18 | =C12*2 |"],
            &["['销售 2024'!C6:D6] | 名称 | 数量 | | --- | --- | | 苹果 | 12 | [Empty]"],
        ],
    ),
    (
        "more/right.pdf",
        &[&[
            "تقرير الميناء السنوي لعام 2024",
            "وافقت اللجنة على خطة الميناء بتكلفة 3.50 مليون",
            "تستخدم السفن برنامج Harbour Pilot للملاحة",
            "הנמל הצפוני ייסגר בחורף 2025",
        ]],
    ),
    (
        "more/form.pdf",
        &[&[
            "Name 张伟",
            "Surname Müller",
            "Comment by Anna: Ask for the vermilion form.",
            "Attached file: berth plan.txt",
        ]],
    ),
    ("more/contract.docx", &[&["Header: Contract 4711", "f^2=(a+b)/3", "Footer: Harbour office"]]),
    (
        "more/rules.odt",
        &[&["# Rules of the harbour", "north pier. [Note: Not in winter.]", "- ring the bell", "| Alma | 3 |"]],
    ),
    (
        "more/letter.rtf",
        &[&["Letter of the harbour", "Dear Ms Müller,", "the fee is € 12 — see section 4.", "Alma | 3 |", "报告"]],
    ),
    (
        "more/headings.doc",
        &[&["# Überschriften in nicht‑englischer Sprache", "## Problem mit lokalisierten Dokumenten"]],
    ),
    (
        "more/harbour.epub",
        &[&["The Harbour", "By A. Pilot", "tide", "# Chapter 2", "The lighthouse was built of granite."]],
    ),
    (
        "more/fees.eml",
        &[&[
            "Gebühren für Schiffe",
            "From: Anna Müller <anna@example.org>",
            "To: otto@example.org",
            "Date: Tue, 5 Mar 2024",
            "Attached file: Gebühren 2024.csv",
            "die Gebühr beträgt 12 €.",
        ]],
    ),
    (
        "more/cranes.ipynb",
        &[&["Cranes of the harbour", "```python print(count, 'cranes') ```", "Output: ``` 17 cranes ```"]],
    ),
    ("programs/browser.pdf", &[FIRST, TABLE, CHINESE]),
    ("programs/office.pdf", &[FIRST, UNRULED, CHINESE]),
    (
        "programs/latex.pdf",
        &[
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
            &["| Quarter | Ships | Tonnes |", "| Second | 305 | 61,750 |", "from Valparaíso were", "Größe Straße"],
        ],
    ),
    (
        "programs/latex-zh.pdf",
        &[
            &[
                "第一章 总则",
                "保障船舶的航行安全，制定本办法。港口管理委员会负责解释",
                "相邻的市政府负责灯塔的维护工作",
            ],
            &["第二章 停泊费", "按照本办法第十二条处理。北码头在疏浚期间暂停使用，游客", "二〇二四年三月一日起"],
        ],
    ),
    ("programs/office.docx", &[&["# Report of the harbour"], FIRST.split_at(1).1, TABLE, CHINESE]),
    ("programs/office.xlsx", SHEET),
    ("programs/office.ods", SHEET),
    ("programs/office.xls", SHEET),
    (
        "programs/office.pptx",
        &[
            &["[slide 1]", "Plan of the year", "- Grow", "- Save", "Notes:", "Speak slowly."],
            &["[slide 2]", "预算", "- 上半年", "[slide 3]"],
        ],
    ),
];

#[tokio::test]
async fn documents_of_many_programs_are_read() {
    for (name, wanted) in CASES {
        let document = document(name).await;
        assert_eq!(Some(document.kind), Kind::of_name(name), "{name}");
        let mut parts = cited_parts(&document);
        parts[0].insert_str(0, &format!("{} ", document.title.unwrap_or_default()));
        if document.kind == Kind::Pdf {
            assert_eq!(parts.len(), wanted.len(), "{name}");
            parts.iter().zip(*wanted).for_each(|(part, wanted)| check(name, part, wanted));
        } else {
            check(name, &parts.join("\n"), &wanted.concat());
        }
    }
}

#[tokio::test]
async fn sheets_and_slides_are_extracted_whole() {
    let cases: [(&str, &[&str]); 5] = [
        (
            "cached.xlsx",
            &["[Totals!A2:D3]\n| What | When | How long | Sum |\n| --- | --- | --- | --- |\n\
               | first | 2024-03-05 14:30 | 30:00:00 | 42 |\n| TRUE |  |  | #DIV/0! |"],
        ),
        (
            "old.xls",
            &["[Alt!A2:B4]\n| Name | Anzahl |\n| --- | --- |\n| Äpfel | 3 |\n| Birnen 梨 | 4.5 |\n|  | 2024-03-05 |"],
        ),
        ("open.ods", &["[Blatt!A2:B3]\n| Name | Count |\n| --- | --- |\n| りんご | 3 |\n| 배 | 5 |"]),
        (
            "more/fees.xlsx",
            &[
                "[Fees!A2:D22]\n| ship | fee |  |  |\n| --- | --- | --- | --- |\n| Alma | 3 [Comment by Anna: paid late] |\n\
               |  |  |  |  |\n| Berta | 5 |\n| (rows 5 to 19 are empty) |\n| Clara |\n|  |  |  |  |\n\
               |  |  |  | [Comment by Otto: add the others] |",
            ],
        ),
        (
            "more/plan.odp",
            &[
                "[slide 1]\n# Plan of the year\n\nDredge the basin\n\nNotes:\n\nSay Plan of the year slowly.",
                "[slide 2]\n# 预算\n\n上半年\n\nNotes:\n\nSay 预算 slowly.",
            ],
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(cited_parts(&document(name).await), expected, "{name}");
    }
}

#[tokio::test]
async fn rotated_pages_read_by_row_with_overprint_separate() {
    let mut parts = cited_parts(&document("more/turned.pdf").await);
    assert_eq!(parts.len(), 3);
    parts[2] = without_spaces(&parts[2]);
    let rows = |words: fn(usize) -> String, many| (0..many).map(words).collect::<Vec<_>>();
    let ships = rows(|row| format!("Ship {row}  {} tonnes  {row}.198", 100 + row), 6);
    let cranes = rows(|row| format!("Crane {row}  {} hours  {row}.254", 200 + row), 6);
    let lines = rows(|row| format!("Line {row} tells of the harbour and of its seventeen cranes."), 20);
    for (part, rows) in parts.iter().zip([&ships, &cranes, &lines]) {
        assert!(rows.iter().all(|row| part.contains(row)), "{part}");
    }
    let (body, stamp) = parts[2].split_once("printed:2024.01v1 [harbour] 9 Jan 2024").unwrap();
    assert!(body.contains("Line 19") && !body.contains("CONFIDENTIAL") && stamp.contains("CONFIDENTIAL"), "{parts:?}");
}

#[tokio::test]
async fn repeated_epub_chapter_is_shown_once() {
    let bytes = fixture_bytes("more/harbour.epub");
    let spine = part(&bytes, "EPUB/content.opf");
    let again = spine.replace("</spine>", &("<itemref idref=\"chapter_0\"/>".repeat(2_000) + "</spine>"));
    let bytes = replaced(&bytes, "EPUB/content.opf", again.as_bytes());
    let (same, failure) = read(&extractor(Limits::default()), "again.epub", &bytes).await;
    assert_eq!((same.unwrap().markdown(), failure), (document("more/harbour.epub").await.markdown(), None));
}

#[tokio::test]
async fn msg_is_recognised_with_any_attachment() {
    let whole = fixture_bytes("more/attached.msg");
    let attached = b"%PDF-1.4 fake report bytes";
    let at = whole.windows(attached.len()).position(|window| window == attached).unwrap();
    // Prefixes of stream names of an attached Office document.
    for name in ["", "WordDocument", "Workbook", "EncryptedPackage"] {
        let mut mail = whole.clone();
        if !name.is_empty() {
            let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
            mail[at..at + name.len()].copy_from_slice(&name);
        }
        let (document, failure) = read(&extractor(Limits::default()), "letter.msg", &mail).await;
        let document = document.unwrap_or_else(|| panic!("{failure:?}"));
        assert_eq!(document.kind, Kind::Msg, "{failure:?}");
        let text = document.markdown();
        check(name, &text, &["From: Alice Example", "Attached file: report.pdf", "This email contains an attachment."]);
        if name.is_empty() {
            let failure = failure.unwrap().to_string();
            assert!(failure.contains("report.pdf: the PDF: it is damaged"), "incomplete PDF: {failure}");
        }
    }
}

#[tokio::test]
async fn damage_is_reported_in_every_format() {
    let extractor = extractor(Limits::default());
    for name in ["rules.odt", "plan.odp", "harbour.epub", "letter.rtf", "headings.doc", "attached.msg", "cranes.ipynb"]
    {
        let whole = fixture_bytes(&format!("more/{name}"));
        let (_, failure) = read(&extractor, name, &whole[..whole.len() / 2]).await;
        // Half of an OLE file no longer identifies its type.
        let is_old = name.ends_with("doc") || name.ends_with("msg");
        let variant = failure.as_ref().map(variant);
        let is_reported = variant.as_deref() == Some("Broken") || is_old && variant.as_deref() == Some("Mismatch");
        assert!(is_reported, "{name}: {failure:?}");
    }
    // A page whose content cannot be decompressed.
    let mut damaged = fixture_bytes("latin.pdf");
    let at = damaged.windows(6).position(|window| window == b"stream").unwrap();
    damaged[at + 8..at + 60].fill(b'!');
    let (_, failure) = read(&extractor, "latin.pdf", &damaged).await;
    assert!(failure.as_ref().is_some_and(|failure| failure.to_string().contains("page 1")), "{failure:?}");
    let (_, failure) = read_fixture("password.pdf").await;
    assert_eq!(failure.as_ref().map(variant).as_deref(), Some("Encrypted"));
}
