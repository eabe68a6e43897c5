//! Property tests: indexed text is found by its phrases, and every query gets an answer.

use agentd_index::{Query, Request, VisibleDocument};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use tokio_util::sync::CancellationToken;

use super::support::TestIndex;

/// Generates words in several scripts, and separators.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z]{1,9}",
        1 => "[0-9]{1,5}",
        4 => "[\\u{4e00}-\\u{4f00}\\u{6d00}-\\u{6e00}]{1,9}",
        1 => "[ぁ-ん]{1,6}",
        1 => "[ァ-ヴ]{1,6}",
        1 => "[가-깋]{1,6}",
        1 => "[ก-ฮะาเแโไ]{1,9}",
        1 => "[ａ-ｚＡ-Ｚ０-９]{1,6}",
        1 => "[ｱ-ﾝ]{1,3}ﾞ?",
        1 => "[à-ýЀ-я]{1,6}",
        1 => "[a-z]{2,4}[A-Z][a-z]{1,4}",
        1 => "\\PC{1,5}",
    ]
}

fn text() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        (word(), prop_oneof![6 => Just(" "), 1 => Just(""), 1 => Just(", "), 1 => Just("。"), 1 => Just("-")]),
        3..40,
    )
    .prop_map(|words| words.into_iter().flat_map(|(word, gap)| [word, gap.to_owned()]).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_found_by_any_of_its_phrases() {
    let test_index = TestIndex::new().await;
    let mut runner = TestRunner::deterministic();
    let texts: Vec<Vec<String>> = (0..120).map(|_| text().new_tree(&mut runner).unwrap().current()).collect();
    let pages: Vec<String> = texts.iter().map(|words| words.concat()).collect();
    let document = [test_index.add("t.pdf", &pages).await];

    let mut query_count = 0;
    for (number, words) in (1..).zip(&texts) {
        for (from, count) in [(0, 5), (4, 3), (7, 12)] {
            let phrase: String = words.iter().skip(from).take(count).map(String::as_str).collect();
            let phrase = phrase.replace(|letter| "\"\\“”„＂".contains(letter), " ");
            // A word that continues beyond the phrase does not match, except in scripts without spaces. Two words may
            // be adjacent without a separator.
            let joined_words = |words: Option<&[String]>| words.unwrap_or_default().concat();
            let (before, next) = (joined_words(words.get(..from)), joined_words(words.get(from + count..)));
            let is_whole = !joins(&phrase, &next) && !joins(&before, &phrase);
            if !is_whole || !phrase.chars().any(char::is_alphanumeric) {
                continue;
            }
            let answer = test_index.first(&document, &format!("\"{phrase}\""), 200).await;
            let found = answer.hits.iter().any(|hit| hit.citation == format!("t.pdf p. {number}"));
            assert!(found, "{phrase:?} of {:?}", words.concat());
            query_count += 1;
        }
    }
    assert!(query_count > 150, "{query_count}");
}

fn joins(before: &str, after: &str) -> bool {
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| !letter.is_whitespace() && !",。".contains(letter));
    is_part(before.chars().last()) && is_part(after.chars().next())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_gets_an_answer() {
    let test_index = TestIndex::new().await;
    let document = test_index.add("t.pdf", &["some text with words 和一些中文", "한국어 カメラ getUserName 4.1"]).await;
    let mut runner = TestRunner::deterministic();
    let strategies = [
        "\\PC{0,60}".boxed(),
        "[a-z \"“”*:()|&~^+\\\\-]{0,40}".boxed(),
        "([a-z\\[\\](){}|*+?.\\\\^$]|[一-丁]){0,30}".boxed(),
        "(AND|OR|NOT|\"|title:|[a-z]{1,3}\\*|[中文和]{1,4}| ){0,12}".boxed(),
        prop::collection::vec(word(), 0..900).prop_map(|words| words.join(" ")).boxed(),
    ];
    for strategy in strategies {
        for _ in 0..60 {
            let query = strategy.new_tree(&mut runner).unwrap().current();
            for query in [Query::Words(query.clone()), Query::Regex(query)] {
                let documents =
                    vec![document.clone(), VisibleDocument { name: "again.pdf".to_owned(), ..document.clone() }];
                let mut request = Request::new(documents, query.clone());
                request.context = true;
                let answer = test_index.index.search(request, CancellationToken::new()).await;
                let answer = answer.unwrap_or_else(|error| panic!("{query:?}: {error}"));
                for hit in answer.hits {
                    assert!(
                        hit.snippet.hits.iter().all(|mark| hit.snippet.text.get(mark.clone()).is_some()),
                        "{query:?}"
                    );
                }
            }
        }
    }
    let empty = test_index.search(&[document], " \"\" ").await;
    assert!(empty.hits.is_empty() && empty.notes.len() == 1, "{:?}", empty.notes);
}

#[tokio::test]
async fn prefix_query_finds_all_matching_words() {
    let test_index = TestIndex::new().await;
    // Terms that are adjacent in the index, some in one chunk and others in many.
    let page = |page: usize| match page % 7 {
        0 => format!("part{page} partly"),
        _ => format!("part{page} parted {}", "partial ".repeat(page % 3)),
    };
    let pages: Vec<String> = (0..3000).map(page).collect();
    let document = [test_index.add("a.pdf", &pages).await];
    for (query, number) in [("part29*", 111), ("part123*", 11), ("part2999*", 1), ("parte*", 200), ("partx*", 0)] {
        let answer = test_index.first(&document, query, 200).await;
        assert_eq!(answer.hits.len(), number, "{query}");
        let prefix = query.trim_end_matches('*');
        assert!(answer.hits.iter().all(|hit| hit.chunk.text.contains(prefix)), "{query}");
    }
}
