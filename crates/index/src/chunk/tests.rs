//! Invariants of chunks for any text.

use proptest::prelude::*;

use super::*;
use crate::{Row, Table};

fn of_text(text: &str) -> Vec<Chunk> {
    Chunker::new(ChunkConfig::default()).chunks(&Part::text(DocumentPlace::Page(3), text))
}

#[test]
fn chunks_end_with_paragraphs_and_sentences() {
    let check = |sentence: &str| {
        let paragraph = sentence.repeat(240 / sentence.chars().count());
        let text = format!("{}\n\n{}\n\n{}", paragraph.trim(), paragraph.trim(), paragraph.trim());
        let chunks = of_text(&text);
        assert_eq!(chunks.len(), 3, "{chunks:#?}");
        for chunk in &chunks {
            assert!(chunk.text.ends_with(sentence.trim()), "{}", chunk.text);
            assert!(chunk.text.starts_with(sentence.trim()), "{}", chunk.text);
        }
    };
    check("The committee met on Monday and agreed on the plan. ");
    check("委员会于星期一召开会议，并就计划达成一致意见。");
    check("委員会は月曜日に開かれ、計画について合意しました。");
    check("위원회는 월요일에 회의를 열고 계획에 합의했습니다. ");
}

#[test]
fn chunk_overlaps_the_previous_one() {
    let text: String = (0..40).map(|number| format!("This is sentence number {number} of many. ")).collect();
    let chunks = of_text(&text);
    assert!(chunks.len() > 3);
    for pair in chunks.windows(2) {
        let shared = pair[0].bytes.end.saturating_sub(pair[1].bytes.start);
        assert!((20..=80).contains(&shared), "{shared}: {pair:?}");
        assert!(pair[1].text.starts_with("This is sentence"), "{}", pair[1].text);
    }
}

#[test]
fn headings_start_chunks_and_are_recorded() {
    let body = "Some words that fill the section with text. ".repeat(7);
    let text = format!("# One\n\n{body}\n\n## Two **bold**\n\n{body}{body}");
    let chunks = of_text(&text);
    let headings: Vec<&str> = chunks.iter().filter_map(|chunk| chunk.heading.as_deref()).collect();
    assert_eq!(headings, ["One", "Two **bold", "Two **bold"]);
    assert!(chunks[1].text.starts_with("## Two"), "{}", chunks[1].text);
}

fn table(rows: usize, cell: &str) -> Part {
    let row = |number: usize| Row {
        number: u32::try_from(number).unwrap(),
        cells: vec![cell.to_owned(), number.to_string()],
    };
    let rows: Vec<Row> = (2..rows + 2).map(row).collect();
    let header = Some(Row { number: 1, cells: vec!["name".to_owned(), "count".to_owned()] });
    let table = Table { first_column: 1, header, rows };
    let range = table.range_of(&table.rows);
    Part {
        place: DocumentPlace::Sheet { number: 1, name: "Sales".to_owned(), range },
        body: Body::Table(table),
        notes: None,
        unread: None,
    }
}

#[test]
fn sheets_are_chunked_by_twenty_rows_with_header() {
    let mut chunker = Chunker::new(ChunkConfig::default());
    let chunks = chunker.chunks(&table(50, "x"));
    let places: Vec<String> = chunks.iter().map(|chunk| chunk.place.to_string()).collect();
    assert_eq!(places, ["Sales!B2:C21", "Sales!B20:C39", "Sales!B38:C51"]);
    assert!(chunks.iter().all(|chunk| chunk.text.starts_with("| name | count |\n| --- | --- |\n| x | ")));
    assert_eq!(chunker.chunks(&table(20, "x")).len(), 1);
    let long = chunker.chunks(&table(50, &"x".repeat(900)));
    assert!(long.len() > 10 && long.iter().all(|chunk| chunk.text.len() < 8000));
}

/// Generates text with words, marks, line ends, several scripts and Markdown.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,12}",
        2 => "[一-十]{1,30}",
        1 => "[가-깋]{1,10}",
        2 => prop::sample::select(vec![". ", "! ", "。", "？", "，", "; ", "…"]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["\n", "\n\n", " ", "\t", "\n# ", "\n- ", "\n| a | b |\n", "\n```\n", "\n1. "])
            .prop_map(str::to_owned),
        1 => "[a-z]{300,900}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunks_cover_all_text_within_the_limit(text in text()) {
        let config = ChunkConfig::default();
        let chunks = of_text(&text);
        let mut covered = 0;
        let mut start = 0;
        for chunk in &chunks {
            prop_assert_eq!(&chunk.place, &DocumentPlace::Page(3));
            prop_assert_eq!(&chunk.text, &text[chunk.bytes.clone()]);
            prop_assert!(!chunk.text.trim().is_empty());
            prop_assert!(chunk.text.chars().count() <= config.letters + config.overlap);
            // The gap between two chunks is only white space.
            let gap = text.get(covered..chunk.bytes.start).unwrap_or_default();
            prop_assert!(gap.trim().is_empty(), "lost {gap:?}");
            let shared = text.get(chunk.bytes.start..covered).unwrap_or_default();
            prop_assert!(shared.chars().count() <= config.overlap);
            prop_assert!(chunk.bytes.end > covered, "nothing new");
            prop_assert!(chunk.bytes.start >= start, "order");
            (covered, start) = (chunk.bytes.end, chunk.bytes.start);
        }
        prop_assert!(text[covered..].trim().is_empty(), "lost {:?}", &text[covered..]);
    }

    #[test]
    fn cited_cell_range_contains_every_row(rows in 0..200usize, width in 0..2000usize) {
        let part = table(rows, &"字".repeat(width));
        let config = ChunkConfig::default();
        let chunks = Chunker::new(config).chunks(&part);
        let mut next = 2;
        for chunk in &chunks {
            let DocumentPlace::Sheet { range: Some(range), .. } = &chunk.place else { panic!() };
            let (first, last) = (range.first.1, range.last.1);
            prop_assert!(first <= next && last >= next, "{first}–{last}, {next}");
            prop_assert!(last - first < 20);
            for number in first..=last {
                prop_assert!(chunk.text.contains(&format!("| {number} |\n")), "{}", number);
            }
            let after = format!("| {} |\n", last + 1);
            prop_assert!(!chunk.text.contains(&after));
            next = last + 1;
        }
        prop_assert_eq!(next as usize, rows + 2);
    }
}
