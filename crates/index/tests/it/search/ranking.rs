//! Tests for matching, ranking and snippets.

use agentd_core::{embedding::digest, knowledge::SearchedBy};
use agentd_index::{
    Answer, CellRange, Chunk, ContentHash, DocumentId, DocumentPlace, DocumentProperties, Kind, Request,
    VisibleDocument,
};

use super::support::{TestIndex, begin, cited, highlights, page, put, words};

const PAGES: [&str; 12] = [
    "The annual report says that revenue grew. Costs were connected to hiring.",
    "Every report is annual here, and the revenue of the year is told elsewhere.",
    "The connection pool holds ten connections to the database.",
    "Call getUserName in src/main_test.rs to read the name; see section 4.1 for errors.",
    "Error ERR-1042 was seen at 10.2.3.4 on 2023-05-01.",
    "本年度的人工智能发展报告指出，营业收入增长了百分之十二。",
    "智能手机的人工客服工作时间为早九点到晚六点。",
    "北京清华大学的研究人员发表了关于税务的论文。",
    "東京の天気は晴れです。カメラを持って出かけました。",
    "한국어 문서도 검색할 수 있어야 합니다.",
    "The cafe\u{301} uses the ﬁnal price of １２０ ｙｅｎ.",
    "使用PDF文件时，请先安装阅读器。",
];

#[tokio::test]
async fn words_of_all_scripts_are_found_and_marked() {
    let test_index = TestIndex::new().await;
    let documents = [test_index.add("a.pdf", &PAGES).await];
    let cases: [(&str, &[&str]); 25] = [
        ("connections pool", &["a.pdf p. 3 [connection|pool|connections]", "a.pdf p. 1 [connected]"]),
        ("\"annual report\"", &["a.pdf p. 1 [annual report]"]),
        ("annual report", &["a.pdf p. 1 [annual|report]", "a.pdf p. 2 [report|annual]"]),
        ("what is the annual report?", &["a.pdf p. 1 [annual|report]", "a.pdf p. 2 [report|annual]"]),
        ("getUserName", &["a.pdf p. 4 [getUserName]"]),
        ("user", &["a.pdf p. 4 [User]"]),
        ("src/main_test.rs", &["a.pdf p. 4 [src/main_test.rs]"]),
        ("section 4.1", &["a.pdf p. 4 [section|4.1]"]),
        ("ERR-1042", &["a.pdf p. 5 [ERR-1042]"]),
        ("10.2.3.4", &["a.pdf p. 5 [10.2.3.4]"]),
        ("人工智能", &["a.pdf p. 6 [人工智能]"]),
        ("营业收入增长", &["a.pdf p. 6 [营业|收入|增长]"]),
        ("清华大学", &["a.pdf p. 8 [清华大学]"]),
        ("税", &["a.pdf p. 8 [税]"]),
        ("論文 天気", &["a.pdf p. 9 [天気]"]),
        ("カメラ", &["a.pdf p. 9 [カメラ]"]),
        ("ｶﾒﾗ", &["a.pdf p. 9 [カメラ]"]),
        ("문서", &["a.pdf p. 10 [문서]"]),
        ("café", &["a.pdf p. 11 [cafe\u{301}]"]),
        ("final 120", &["a.pdf p. 11 [ﬁnal|１２０]"]),
        ("pdf文件", &["a.pdf p. 12 [PDF|文件]"]),
        ("conn*", &["a.pdf p. 1 [connected]", "a.pdf p. 3 [connection|connections]"]),
        ("report NOT annual", &[]),
        ("\"revenue annual\"", &["a.pdf p. 1 [annual|revenue]", "a.pdf p. 2 [annual|revenue]"]),
        ("nowhere", &[]),
    ];
    for (query, expected) in cases {
        let mut highlights = highlights(&test_index.search(&documents, query).await);
        if query == "conn*" || query == "\"revenue annual\"" {
            highlights.sort();
        }
        assert_eq!(highlights, expected, "{query}");
    }
}

#[tokio::test]
async fn phrases_rank_before_headings_and_all_words_before_some() {
    let test_index = TestIndex::new().await;
    let pages = vec![
        (None, "Battery and then the life of a battery, life, battery life cycles vary in every life.".to_owned()),
        (None, "One battery. Another life. Life, life, life; battery, battery, battery.".to_owned()),
        (Some("Battery and life"), "A battery of this kind has a long life.".to_owned()),
        (None, "A life without.".to_owned()),
    ];
    let documents = [put(&test_index.index, "b.pdf", None, pages).await.unwrap()];
    let answer = test_index.search(&documents, "battery life").await;
    let cited = cited(&answer);
    assert_eq!(cited.len(), 4, "{cited:?}");
    assert_eq!((cited[0], cited[1], cited[3]), ("b.pdf p. 1", "b.pdf p. 3", "b.pdf p. 4"), "{cited:?}");
    assert!(answer.hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "scores are in descending order");
}

#[tokio::test]
async fn number_of_matched_words_ranks_first() {
    let test_index = TestIndex::new().await;
    let mut pages = vec![
        (Some("direct Slur.direction direct"), "The direction of a slur is set by override.".to_owned()),
        (None, "A wave equation of the direct kind is solved by macsyma in a few lines.".to_owned()),
        (Some("Waves"), "Waves upon waves, a wave and a wave, waves of water.".to_owned()),
    ];
    pages
        .extend((0..40).map(|number| (None, format!("Filler {number} says what the document means by a page of it."))));
    let documents = [put(&test_index.index, "m.pdf", None, pages).await.unwrap()];
    for query in [
        "wave direct macsyma",
        "What does it say about wave and direct and macsyma?",
        "What does the document say about waves, macsyma and zeppelins?",
        "How are zeppelin, wave and macsyma described?",
        "wave direct macsima",
        "waving directed macsyma",
    ] {
        let answer = test_index.search(&documents, query).await;
        assert_eq!(cited(&answer).first(), Some(&"m.pdf p. 2"), "{query}: {:?}", highlights(&answer));
    }
}

#[tokio::test]
async fn words_of_the_next_paragraph_count_in_part() {
    let test_index = TestIndex::new().await;
    let open_document = async |name: &str| {
        let id = DocumentId::new(ContentHash::of(name.as_bytes()), Kind::Pdf, 1);
        (VisibleDocument { id, name: name.to_owned() }, begin(&test_index.index, &id, None).await.unwrap().unwrap())
    };
    let (whole, mut of_whole) = open_document("whole.pdf").await;
    let (other, mut of_other) = open_document("other.pdf").await;
    let (alone, mut of_alone) = open_document("alone.pdf").await;
    // Chunks of documents that are indexed concurrently are interleaved.
    of_alone.add(vec![page(1, None, "A lighthouse stands at the mouth of it.".to_owned())]).await.unwrap();
    let text = "The keeper of a lighthouse wears a vermilion hat.".to_owned();
    of_other.add(vec![page(1, None, text)]).await.unwrap();
    of_alone.add(vec![page(2, None, "The door of the harbour.".to_owned())]).await.unwrap();
    let paragraphs = ["A lighthouse stands at the harbour of it.", "The door there was painted vermilion in May."];
    of_whole.add(paragraphs.map(|text| page(1, None, text.to_owned())).into()).await.unwrap();
    for indexing in [of_whole, of_other, of_alone] {
        indexing.finish(DocumentProperties::default()).await.unwrap();
    }
    let mut fillers: Vec<String> = (0..40).map(|number| format!("Filler {number} tells of something else.")).collect();
    fillers.extend(["The harbour has a door.", "Behind the door is the harbour."].map(str::to_owned));
    let filler = test_index.add("filler.pdf", &fillers).await;
    let documents = [other, whole, alone, filler];
    let answer = test_index.search(&documents, "lighthouse vermilion harbour door").await;
    assert_eq!(
        cited(&answer)[..3],
        ["whole.pdf p. 1", "whole.pdf p. 1", "other.pdf p. 1"],
        "{:?}",
        highlights(&answer)
    );
    let score_of = |answer: &Answer| answer.hits.iter().find(|hit| hit.citation == "alone.pdf p. 1").unwrap().score;
    let of_word = score_of(&test_index.search(&documents, "lighthouse").await);
    assert_eq!(score_of(&answer), of_word, "no score from another page or document: {:?}", highlights(&answer));
}

#[tokio::test]
async fn top_hits_do_not_depend_on_the_limit() {
    const WORDS: [(&str, u32); 5] = [("heron", 12), ("otter", 30), ("kestrel", 90), ("meadow", 400), ("river", 700)];
    let test_index = TestIndex::new().await;
    let mut dice = fastrand::Rng::with_seed(7);
    let chunk = |number: u32| {
        let number = number / 3 + 1;
        let words = WORDS.iter().filter(|(_, share)| dice.u32(..1000) < *share).map(|(word, _)| *word);
        page(number, None, format!("It says {} on page {number}.", words.collect::<Vec<_>>().join(" and ")))
    };
    let documents = [test_index.add_chunks("m.pdf", (0..3600).map(chunk).collect()).await];
    let ask = async |query: &str, limit| {
        let answer = test_index.first(&documents, query, limit).await;
        answer.hits.into_iter().map(|hit| (hit.citation, hit.score)).collect::<Vec<_>>()
    };
    for query in
        ["heron river", "otter kestrel meadow river", "heron otter river meadow", "kestrel meadow", "meadow river"]
    {
        let mut many: Vec<(String, f32)> = Vec::new();
        for hit in ask(query, 200).await {
            if !many.iter().any(|(citation, _)| *citation == hit.0) {
                many.push(hit);
            }
        }
        for limit in [1, 3, 8] {
            assert_eq!(ask(query, limit).await, many[..limit], "{query}");
        }
    }
}

#[tokio::test]
async fn words_match_across_inflections_and_accents() {
    let test_index = TestIndex::new().await;
    let pages = [
        "Die Häuser an der Straße sind alt und werden nicht mehr von den Städten gepflegt.",
        "Les chevaux sont dans le pré et les élèves les regardent avec leurs professeurs.",
        "Файлы хранятся в каталогах, и это не зависит от того, как их читают программы.",
        "The houses in the street are old and are not kept by the cities any more.",
    ];
    let documents = [test_index.add("many.pdf", &pages).await];
    for (query, page) in [
        ("Haus Stadt Strassen", "many.pdf p. 1"),
        ("Was steht im Dokument über Städte und Häusern?", "many.pdf p. 1"),
        ("eleve professeur", "many.pdf p. 2"),
        ("Что говорится в документе о файлах и программе?", "many.pdf p. 3"),
        ("house city", "many.pdf p. 4"),
    ] {
        let answer = test_index.search(&documents, query).await;
        assert_eq!(cited(&answer).first(), Some(&page), "{query}: {:?}", highlights(&answer));
    }
}

#[tokio::test]
async fn page_occurs_once_while_other_pages_match() {
    let test_index = TestIndex::new().await;
    let chunks = [
        (1, "The heron and the harbour."),
        (1, "The heron and the harbour, once more."),
        (2, "A heron in a harbour far away from here, as is told."),
    ];
    let chunks = chunks.map(|(number, text)| page(number, None, text.to_owned())).into();
    let documents = [test_index.add_chunks("p.pdf", chunks).await];
    for (limit, expected) in [(2, &["p.pdf p. 1", "p.pdf p. 2"][..]), (3, &["p.pdf p. 1", "p.pdf p. 1", "p.pdf p. 2"])]
    {
        assert_eq!(cited(&test_index.first(&documents, "heron harbour", limit).await), expected);
    }
}

#[tokio::test]
async fn document_title_counts_for_every_chunk() {
    let test_index = TestIndex::new().await;
    let one = put(&test_index.index, "1.pdf", Some("Quarterly figures"), vec![(None, "Revenue fell.".to_owned())])
        .await
        .unwrap();
    let other =
        put(&test_index.index, "2.pdf", Some("Garden tools"), vec![(None, "Revenue rose.".to_owned())]).await.unwrap();
    let answer = test_index.search(&[other, one], "quarterly revenue").await;
    assert_eq!(cited(&answer), ["1.pdf p. 1", "2.pdf p. 1"]);
}

#[tokio::test]
async fn cited_neighbours_are_from_the_same_place() {
    // Chunks on another page would be cited incorrectly.
    let range = CellRange { first: (0, 2), last: (5, 20) };
    let mut places = vec![
        DocumentPlace::Page(12),
        DocumentPlace::Sheet { number: 1, name: "Sales".to_owned(), range: Some(range) },
        DocumentPlace::Slide(7),
        DocumentPlace::Whole,
    ];
    places.extend([1, 2, 2, 2, 3].map(DocumentPlace::Page));
    let chunk = |(number, place)| Chunk { place, ..page(0, None, format!("common word{number}")) };
    let test_index = TestIndex::new().await;
    let documents = [test_index.add_chunks("x", places.into_iter().enumerate().map(chunk).collect()).await];
    for (query, citation, before, after) in [
        ("word0", "x p. 12", None, None),
        ("word1", "x Sales!A2:F20", None, None),
        ("word2", "x slide 7", None, None),
        ("word3", "x", None, None),
        ("word5", "x p. 2", None, Some("common word6")),
        ("word6", "x p. 2", Some("common word5"), Some("common word7")),
    ] {
        let answer = test_index.ask(Request { context: true, ..words(&documents, query) }).await;
        assert_eq!((cited(&answer), answer.searched_by), (vec![citation], SearchedBy::Words));
        let hit = &answer.hits[0];
        assert_eq!((hit.before.as_deref(), hit.after.as_deref()), (before, after), "{query}");
    }
}

#[tokio::test]
async fn words_in_unspaced_scripts_are_found() {
    let test_index = TestIndex::new().await;
    let pages = [
        "คณะกรรมการอนุมัติงบประมาณของท่าเรือประจำปีแล้วและจะประกาศผลการประมูลในเดือนหน้าตามกำหนดการ",
        "ຄະນະກໍາມະການອະນຸມັດງົບປະມານຂອງທ່າເຮືອແລ້ວ",
        "គណៈកម្មការបានអនុម័តថវិកាកំពង់ផែ",
        "ကော်မတီသည်ဆိပ်ကမ်းဘတ်ဂျက်ကိုအတည်ပြုခဲ့သည်",
    ];
    let document = test_index.add("asia.pdf", &pages).await;
    let cases = [("งบประมาณ", 1), ("ท่าเรือ", 1), ("ງົບປະມານ", 2), ("ថវិកា", 3), ("ဘတ်ဂျက်", 4), ("\"งบประมาณของท่าเรือ\"", 1)];
    for (query, page) in cases {
        let answer = test_index.search(std::slice::from_ref(&document), query).await;
        assert_eq!(cited(&answer).first(), Some(&&*format!("asia.pdf p. {page}")), "{query}");
        assert!(!answer.hits[0].snippet.hits.is_empty(), "{query}");
    }
}

/// With at least two segments, ties are in the order of the request and better chunks come first, regardless of their
/// segment.
#[tokio::test]
async fn ties_across_segments_follow_the_request_order() {
    let test_index = TestIndex::new().await;
    let mut documents = vec![test_index.add("best.txt", &["The heron: heron, harbour, heron."]).await];
    for number in 0..5 {
        // The content differs but the words are equal, as the dots at the end are not terms.
        let page = format!("The harbour of the heron lies east {}", ".".repeat(number + 1));
        documents.push(test_index.add(&format!("{number}.txt"), &[&page]).await);
    }
    let names = ["best.txt", "0.txt", "1.txt", "2.txt", "3.txt", "4.txt"];
    // With and without the best document, in both orders.
    let orders = [vec![0, 1, 2, 3, 4, 5], vec![1, 2, 3, 4, 5], vec![0, 5, 4, 3, 2, 1], vec![5, 4, 3, 2, 1]];
    for order in orders {
        let visible: Vec<VisibleDocument> = order.iter().map(|at| documents[*at].clone()).collect();
        for limit in [20, 1, 2, 3, 4, 5, 6] {
            let answer = test_index.first(&visible, "harbour heron", limit).await;
            let found: Vec<&str> =
                cited(&answer).iter().map(|cited| cited.split_whitespace().next().unwrap_or_default()).collect();
            let expected: Vec<&str> = order.iter().map(|at| names[*at]).take(limit).collect();
            assert_eq!(found, expected, "of {limit}");
        }
    }
}

/// Many excluded chunks with a rare word must not end the search early.
#[tokio::test]
async fn excluded_chunks_do_not_displace_wanted_ones() {
    let test_index = TestIndex::new().await;
    let unwanted = (0..60).map(|number| format!("zebra and heron {number}"));
    let wanted = (0..1500).map(|number| format!("common words {number}"));
    let pages: Vec<String> = unwanted.chain(wanted).collect();
    let document = [test_index.add("many.txt", &pages).await];
    assert_eq!(test_index.first(&document, "zebra common NOT heron", 5).await.hits.len(), 5);
}

#[tokio::test]
async fn similar_chunks_are_fused_by_rank_and_exact_matches_stay_first() {
    let test_index = TestIndex::new().await;
    let pages = ["alpha beta", "alpha gamma", "epsilon", "delta"];
    let documents = [test_index.add("a.pdf", &pages).await];
    let id = documents[0].id;
    // An ordinal is skipped after each page.
    let key = |page: usize| (id, (2 * page as u64) << 32 | digest(&format!("\n{}", pages[page])) >> 32);
    let check = async |query: &str, similar: &[(DocumentId, u64)], expected: &[usize]| {
        let answer = test_index.ask(Request { similar: similar.to_vec(), ..words(&documents, query) }).await;
        let found: Vec<String> = answer.hits.into_iter().map(|hit| hit.citation).collect();
        let expected: Vec<String> = expected.iter().map(|page| format!("a.pdf p. {page}")).collect();
        assert_eq!(found, expected, "{query}");
    };
    check("epsilon", &[], &[3]).await;
    check("epsilon", &[key(3)], &[3, 4]).await;
    check("zebra", &[key(3), key(2)], &[4, 3]).await;
    check("alpha", &[key(1)], &[2, 1]).await;
    // The exact match stays first.
    check("alpha beta", &[key(2)], &[1, 3, 2]).await;
    // What the query demands or excludes applies to similar chunks, too.
    check("\"epsilon\"", &[key(3)], &[3]).await;
    check("epsilon NOT delta", &[key(3)], &[3]).await;
    // The text has changed, the chunk does not exist, or the document is not visible.
    let other = DocumentId::new(ContentHash::of(b"other"), Kind::Pdf, 1);
    check("zebra", &[(id, key(3).1 ^ 1), (id, 99 << 32), (other, key(3).1)], &[]).await;
}
