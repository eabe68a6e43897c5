//! Documents of more formats, and pages that are not read from left to right: see `tests/fixtures/more/make.py`.

use agentd_index::{Kind, Limits};

use crate::codes::Code as _;
use crate::{
    bench::{document, extractor, fixture, read, read_fixture, told},
    hostile::part,
    sections::replaced,
};

/// Each of these stands in the text.
fn check(text: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[tokio::test]
async fn pages_that_lie_on_their_side_are_read_row_by_row() {
    let parts = told(&document("more/turned.pdf").await);
    assert_eq!(parts.len(), 3);
    for row in 0..6 {
        check(&parts[0], &[&format!("Ship {row}  {} tonnes  {row}.198", 100 + row)]);
        check(&parts[1], &[&format!("Crane {row}  {} hours  {row}.254", 200 + row)]);
    }
}

#[tokio::test]
async fn turned_text_and_watermarks_stand_apart_from_what_they_are_printed_over() {
    let parts = told(&document("more/turned.pdf").await);
    let page = parts[2].split_whitespace().collect::<Vec<_>>().join(" ");
    for row in 0..20 {
        check(&page, &[&format!("Line {row} tells of the harbour and of its seventeen cranes.")]);
    }
    let (body, stamp) = page.split_once("printed:2024.01v1 [harbour] 9 Jan 2024").unwrap();
    assert!(body.contains("Line 19") && !body.contains("CONFIDENTIAL"), "{page}");
    check(stamp, &["CONFIDENTIAL"]);
}

#[tokio::test]
async fn arabic_and_hebrew_are_told_as_they_are_spoken() {
    let parts = told(&document("more/right.pdf").await);
    let lines = [
        "تقرير الميناء السنوي لعام 2024",
        "وافقت اللجنة على خطة الميناء بتكلفة 3.50 مليون",
        "تستخدم السفن برنامج Harbour Pilot للملاحة",
        "הנמל הצפוני ייסגר בחורף 2025",
    ];
    check(&parts[0].replace('\n', " "), &lines);
}

#[tokio::test]
async fn what_was_filled_in_noted_and_attached_is_told_in_any_script() {
    let parts = told(&document("more/form.pdf").await);
    let wanted = [
        "Name  张伟",
        "Surname  Müller",
        "Comment by Anna: Ask for the vermilion form.",
        "Attached file: berth plan.txt",
    ];
    let wanted = wanted.map(|text| text.replace("  ", " "));
    let page = parts[0].split_whitespace().collect::<Vec<_>>().join(" ");
    check(&page, &wanted.each_ref().map(String::as_str));
}

#[tokio::test]
async fn a_word_document_has_its_margins_and_its_equations() {
    let text = document("more/contract.docx").await.markdown();
    check(&text, &["Header: Contract 4711", "f^2=(a+b)/3", "Footer: Harbour office"]);
}

#[tokio::test]
async fn a_sheet_has_its_comments_and_its_empty_rows() {
    let parts = told(&document("more/fees.xlsx").await);
    assert_eq!(
        parts,
        ["[Fees!A2:D22]\n| ship | fee |  |  |\n| --- | --- | --- | --- |\n| Alma | 3 [Comment by Anna: paid late] |\n\
          |  |  |  |  |\n| Berta | 5 |\n| (rows 5 to 19 are empty) |\n| Clara |\n|  |  |  |  |\n\
          |  |  |  | [Comment by Otto: add the others] |"]
    );
}

#[tokio::test]
async fn texts_of_many_programs_keep_headings_lists_and_tables() {
    let text = document("more/rules.odt").await.markdown();
    check(&text, &["# Rules of the harbour", "north pier. [Note: Not in winter.]", "- ring the bell", "| Alma | 3 |"]);
    let letter = document("more/letter.rtf").await;
    assert_eq!((letter.kind, letter.title.as_deref()), (Kind::Rtf, Some("Letter of the harbour")));
    check(&letter.markdown(), &["Dear Ms Müller,", "the fee is € 12 — see section 4.", "Alma | 3 |", "报告"]);
    let old = document("more/headings.doc").await;
    assert_eq!(old.kind, Kind::Doc);
    check(&old.markdown(), &["# Überschriften in nicht‑englischer Sprache", "## Problem mit lokalisierten Dokumenten"]);
    let book = document("more/harbour.epub").await;
    let bytes = std::fs::read(fixture("more/harbour.epub")).unwrap();
    let spine = part(&bytes, "EPUB/content.opf");
    let again = spine.replace("</spine>", &("<itemref idref=\"chapter_0\"/>".repeat(2_000) + "</spine>"));
    let bytes = replaced(&bytes, "EPUB/content.opf", &again);
    let (same, failure) = read(&extractor(Limits::default()), "again.epub", &bytes).await;
    assert_eq!((same.unwrap().markdown(), failure), (book.markdown(), None), "a chapter is shown once");
    assert_eq!(book.title.as_deref(), Some("The Harbour"));
    let text = book.markdown();
    check(&text, &["By A. Pilot", "# Chapter 2", "The lighthouse was built of granite."]);
    assert!(text.find("tide") < text.find("lighthouse"), "{text}");
}

#[tokio::test]
async fn slides_of_libreoffice_keep_their_numbers_and_notes() {
    let parts = told(&document("more/plan.odp").await);
    assert_eq!(
        parts,
        [
            "[slide 1]\n# Plan of the year\n\nDredge the basin\n\nNotes:\n\nSay Plan of the year slowly.",
            "[slide 2]\n# 预算\n\n上半年\n\nNotes:\n\nSay 预算 slowly."
        ]
    );
}

#[tokio::test]
async fn mail_says_who_wrote_what_to_whom_and_what_is_attached() {
    let mail = document("more/fees.eml").await;
    assert_eq!((mail.kind, mail.title.as_deref()), (Kind::Eml, Some("Gebühren für Schiffe")));
    check(
        &mail.markdown(),
        &[
            "From: Anna Müller <anna@example.org>",
            "To: otto@example.org",
            "Date: Tue, 5 Mar 2024",
            "Attached file: Gebühren 2024.csv",
            "die Gebühr beträgt 12 €.",
        ],
    );
    // What is attached to this one is no whole PDF, which is said.
    let (mail, failure) = read_fixture("more/attached.msg").await;
    let (mail, failure) = (mail.unwrap(), failure.unwrap().to_string());
    assert!(mail.kind == Kind::Msg && failure.contains("report.pdf: the PDF: it is damaged"), "{failure}");
    check(
        &mail.markdown(),
        &["From: Alice Example", "Attached file: report.pdf", "This email contains an attachment."],
    );
}

#[tokio::test]
async fn a_message_is_one_whatever_is_attached_to_it() {
    let mail = std::fs::read(crate::bench::fixture("more/attached.msg")).unwrap();
    let attached = b"%PDF-1.4 fake report bytes";
    let at = mail.windows(attached.len()).position(|window| window == attached).unwrap();
    let extractor = crate::bench::extractor(agentd_index::Limits::default());
    // Beginnings of what the folder of an attached document of Office is called in its own file.
    for name in ["WordDocument", "Workbook", "EncryptedPackage"] {
        let mut mail = mail.clone();
        let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        mail[at..at + name.len()].copy_from_slice(&name);
        let (document, failure) = read(&extractor, "letter.msg", &mail).await;
        let document = document.unwrap_or_else(|| panic!("{failure:?}"));
        assert_eq!(document.kind, Kind::Msg, "{failure:?}");
        check(&document.markdown(), &["From: Alice Example", "This email contains an attachment."]);
    }
}

#[tokio::test]
async fn a_notebook_has_its_cells_with_what_they_printed() {
    let book = document("more/cranes.ipynb").await;
    assert_eq!((book.kind, book.title.as_deref()), (Kind::Ipynb, Some("Cranes of the harbour")));
    check(&book.markdown(), &["```python\nprint(count, 'cranes')\n```", "Output:\n```\n17 cranes\n```"]);
}

#[tokio::test]
async fn damage_is_said_whatever_the_format() {
    let extractor = crate::bench::extractor(agentd_index::Limits::default());
    for name in ["rules.odt", "plan.odp", "harbour.epub", "letter.rtf", "headings.doc", "attached.msg", "cranes.ipynb"]
    {
        let whole = std::fs::read(crate::bench::fixture(&format!("more/{name}"))).unwrap();
        let (_, failure) = read(&extractor, name, &whole[..whole.len() / 2]).await;
        // Half of an old office file has lost what says what it is.
        let codes: &[&str] =
            if name.ends_with("doc") || name.ends_with("msg") { &["mismatch", "broken"] } else { &["broken"] };
        assert!(failure.as_ref().is_some_and(|failure| codes.contains(&failure.code())), "{name}: {failure:?}");
    }
    // A page of which the content cannot be unpacked.
    let whole = std::fs::read(crate::bench::fixture("latin.pdf")).unwrap();
    let at = whole.windows(6).position(|window| window == b"stream").unwrap();
    let mut damaged = whole.clone();
    damaged[at + 8..at + 60].fill(b'!');
    let (_, failure) = read(&extractor, "latin.pdf", &damaged).await;
    assert!(failure.as_ref().is_some_and(|failure| failure.to_string().contains("page 1")), "{failure:?}");
    let (_, failure) = read_fixture("password.pdf").await;
    assert_eq!(failure.map(|failure| failure.code()), Some("encrypted"));
}
