//! Tests that regular expressions find what they match, regardless of index terms.

use agentd_core::knowledge::SearchedBy;
use agentd_index::{Query, Request};
use regex::RegexBuilder;

use super::support::{TestIndex, cited, highlights};

const PAGES: [&str; 8] = [
    "ERROR: code 17 in the parser module\nnothing else",
    "error: CODE 99 in a printer module",
    "call 555-1234 or 555-9876 now",
    "misterrors happen; preERRORs too",
    "人工智能的发展，以及智能手机",
    "第12章 使用PDF文件（一）",
    "getUserName(id) -> user_name",
    "ﬁnal 人工\n智能",
];

#[tokio::test]
async fn index_narrowing_never_drops_matches() {
    let test_index = TestIndex::new().await;
    let documents = vec![test_index.add("r.pdf", &PAGES).await];
    let cases = [
        ("error: code \\d+ in (the|a) \\w+ module", SearchedBy::NarrowedRegex),
        ("rror", SearchedBy::NarrowedRegex),
        ("(?-i)ERROR", SearchedBy::NarrowedRegex),
        ("^error", SearchedBy::NarrowedRegex),
        ("\\d{3}-\\d{4}", SearchedBy::Scan),
        ("人工智", SearchedBy::NarrowedRegex),
        ("人工\\s*智能", SearchedBy::NarrowedRegex),
        ("第\\d+章", SearchedBy::Scan),
        ("PDF文件（.）", SearchedBy::NarrowedRegex),
        ("username|user_name", SearchedBy::NarrowedRegex),
        ("(Name|manE)\\(", SearchedBy::NarrowedRegex),
        ("ﬁnal", SearchedBy::NarrowedRegex),
        ("(foo|\\d)", SearchedBy::Scan),
        ("x*", SearchedBy::Scan),
        ("module$", SearchedBy::NarrowedRegex),
        ("[eE]rr[oO]rs", SearchedBy::NarrowedRegex),
    ];
    for (pattern, searched_by) in cases {
        let regex = RegexBuilder::new(pattern).case_insensitive(true).multi_line(true).build().unwrap();
        let matches = |text: &&str| regex.find_iter(text).any(|found| !found.is_empty());
        let expected: Vec<String> = (1..)
            .zip(PAGES)
            .filter(|(_, text)| matches(text))
            .map(|(number, _): (u32, _)| format!("r.pdf p. {number}"))
            .collect();
        let query = Query::Regex(pattern.to_owned());
        let answer = test_index.ask(Request::new(documents.clone(), query)).await;
        assert_eq!(
            (cited(&answer), answer.searched_by),
            (expected.iter().map(String::as_str).collect(), searched_by),
            "{pattern}"
        );
        assert!(answer.complete && !answer.more && answer.notes.is_empty());
    }
}

#[tokio::test]
async fn regex_respects_case_and_limits_and_marks_matches() {
    let test_index = TestIndex::new().await;
    let documents = vec![test_index.add("r.pdf", &PAGES).await];
    let query = |pattern: &str| Query::Regex(pattern.to_owned());
    let exact = test_index.ask(Request::new(documents.clone(), query("(?-i)ERROR"))).await;
    assert_eq!(highlights(&exact), ["r.pdf p. 1 [ERROR]", "r.pdf p. 4 [ERROR]"]);
    let phones = test_index.ask(Request::new(documents.clone(), query("\\d{3}-\\d{4}"))).await;
    assert_eq!(highlights(&phones), ["r.pdf p. 3 [555-1234|555-9876]"]);

    let limited = |pattern, limit| Request { limit, ..Request::new(documents.clone(), query(pattern)) };
    let first = test_index.ask(limited("error", 1)).await;
    assert!(
        cited(&first) == ["r.pdf p. 1"] && first.complete && first.more,
        "the result limit is not a timeout: {first:?}"
    );
    // There are chunks after the last match, but none of them matches.
    let all = test_index.ask(limited("parser|printer", 2)).await;
    assert_eq!((cited(&all).len(), all.complete, all.more), (2, true, false));

    let mut late = Request::new(documents.clone(), query("."));
    late.within = std::time::Duration::ZERO;
    let late = test_index.ask(late).await;
    assert!(late.hits.is_empty() && !late.complete && late.notes.len() == 1, "{late:?}");

    let broken = test_index.ask(Request::new(documents, query("(?<=user)_name("))).await;
    assert_eq!(cited(&broken), ["r.pdf p. 7"]);
    assert!(broken.notes[0].contains("not a supported regular expression"), "{:?}", broken.notes);
}
