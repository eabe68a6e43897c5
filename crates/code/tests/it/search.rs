//! Tests for the ranking.

use agentd_code::CodeFolder;
use agentd_core::{
    code::{CodeAnswer, CodeHit, CodeQuestion},
    embedding::digest,
};

use super::{first, indexed, project};

/// Small project. Words of the questions occur in several of its files.
const PROJECT: [(&str, &str); 9] = [
    (
        "src/session/restore.rs",
        "/// Brings sessions back after a restart.\npub fn restore_sessions(journal: &Journal) { for event in journal.events() { replay(event); } }\n",
    ),
    (
        "src/session/mod.rs",
        "mod restore;\npub struct Session { id: u64 }\nimpl Session { pub fn new() -> Self { Session { id: 1 } } }\n",
    ),
    (
        "src/journal.rs",
        "/// Log of events on disk.\npub struct Journal;\nimpl Journal {\n  pub fn append(&mut self, event: Event) {}\n  pub fn events(&self) {}\n}\n",
    ),
    ("src/retry.rs", "/// Waits longer after each failure.\npub fn retry_with_backoff(times: u32) {}\n"),
    (
        "src/lib.rs",
        "pub mod journal;\npub mod retry;\npub mod session;\npub use journal::Journal;\npub use retry::retry_with_backoff;\n",
    ),
    (
        "tests/journal.rs",
        "use app::Journal;\n#[test]\nfn journal_appends() { let mut journal = Journal; journal.append(Event); let journal: Journal; }\n",
    ),
    ("src/http/client.py", "class HttpClient:\n    def get_json(self, url):\n        return self.session.get(url)\n"),
    ("README.md", "# App\n\nA journal of sessions, with Journal and retry.\n"),
    ("src/legacy/journal.rs", "/// Old log of events on disk.\npub struct OldJournal;\nfn append() {}\n"),
];

#[test]
fn queries_find_answers_and_symbols_find_definitions() {
    let folder = project(&PROJECT);
    let code = indexed(folder.path());
    for (query, path) in [
        ("how are sessions restored after a restart", "src/session/restore.rs"),
        ("where are events appended to the log", "src/journal.rs"),
        ("waiting between failed attempts, retries", "src/retry.rs"),
        ("fetching json over http", "src/http/client.py"),
        ("Journal", "src/journal.rs"),
        ("Session", "src/session/mod.rs"),
        ("retry_with_backoff", "src/retry.rs"),
        ("HttpClient", "src/http/client.py"),
        ("httpclient", "src/http/client.py"),
        ("Journal::append", "src/journal.rs"),
    ] {
        assert_eq!(first(&code, query).0, path, "{query}");
    }
}

#[test]
fn results_are_not_dominated_by_one_file() {
    let big: String = (0..60).map(|n| format!("fn parse_token_{n}() {{ parse(token); }}\n").repeat(8)).collect();
    let folder = project(&[
        ("big.rs", &big),
        ("other.rs", "fn parse_token() {}\n"),
        ("third.rs", "// parse a token\nfn third() {}\n"),
    ]);
    let code = indexed(folder.path());
    let answers = code.search("parse token", "", 4);
    let files: std::collections::BTreeSet<&str> = answers.iter().map(|answer| answer.path.as_str()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
}

#[test]
fn inline_tests_rank_lower() {
    let code = "/// Cuts a text into tokens.\npub fn tokenize(text: &str) {}\n".to_owned();
    let filler = "// Nothing of interest is here.\n".repeat(60);
    let test = "    #[test]\n    fn tokens_are_cut() { let tokens = tokenize(text); cut(text, tokens); }\n".repeat(8);
    let text = format!("{code}{filler}#[cfg(test)]\nmod tests {{\n{test}}}\n");
    let folder = project(&[("a.rs", &text)]);
    let answers = indexed(folder.path()).search("cut text into tokens", "", 2);
    assert_eq!(answers[0].first_line, 1, "{answers:?}");
}

#[test]
fn result_names_the_queried_symbol() {
    let folder = project(&[("a.rs", "pub struct Small;\npub struct Large {\n    a: u8,\n    b: u8,\n}\n")]);
    let code = indexed(folder.path());
    assert_eq!(first(&code, "Small").1, "Small");
    assert_eq!(first(&code, "Large").1, "Large");
    assert_eq!(first(&code, "pub struct").1, "Large", "else the largest");
}

#[test]
fn definition_ranks_before_a_file_full_of_uses() {
    let filler = "    step_of_something_else();\n".repeat(30);
    let shapes = format!("pub struct Widget {{\n    a: u8,\n}}\nfn other() {{\n{filler}}}\n");
    let folder = project(&[("shapes.rs", &shapes), ("widget.rs", &"fn a(widget: Widget) { Widget; }\n".repeat(20))]);
    let code = indexed(folder.path());
    assert_eq!(first(&code, "Widget"), ("shapes.rs".to_owned(), "Widget".to_owned()));
    assert_eq!(first(&code, "widget").0, "widget.rs", "a lowercase word does not match the symbol");
}

#[test]
fn search_is_limited_to_the_folder() {
    let folder = project(&[
        ("web/cart.rs", "pub fn add_to_cart(item: Item) {}\n"),
        ("web/cart_view.rs", "fn show() { add_to_cart(item); }\n"),
        ("webshop/cart.rs", "pub fn add_to_cart(item: Item) {}\n"),
        ("cart.rs", "pub fn add_to_cart(item: Item) {}\n"),
    ]);
    let code = indexed(folder.path());
    let found = |below: &str| {
        let mut paths: Vec<String> = code.search("add_to_cart", below, 10).into_iter().map(|hit| hit.path).collect();
        paths.sort();
        paths
    };
    assert_eq!(found("web"), ["web/cart.rs", "web/cart_view.rs"]);
    assert_eq!(found("web/cart.rs"), ["web/cart.rs"]);
    assert_eq!(found("").len(), 4);
    assert!(found("web/none").is_empty());
    let symbol = code.find_symbol("add_to_cart", "web");
    assert_eq!((symbol.definitions.len(), symbol.references.len()), (1, 1));
    assert_eq!(symbol.references[0].within.as_deref(), Some("show"));
}

fn hits(code: &CodeFolder, question: &CodeQuestion) -> Vec<CodeHit> {
    let CodeAnswer::Hits(hits) = code.reply(question).answer else { panic!("hits") };
    hits
}

#[test]
fn similar_chunks_are_fused_by_rank_within_the_folder() {
    let folder = project(&[
        ("a/car.rs", "pub fn repair_vehicle() {}\n"),
        ("a/rain.rs", "pub fn forecast() {}\n"),
        ("b/car.rs", "pub fn wash_vehicle() {}\n"),
    ]);
    let mut code = indexed(folder.path());
    let all = hits(&code, &CodeQuestion::Chunks { from: 0 });
    assert_eq!(all.len(), 3);
    let of = |path: &str| digest(&all.iter().find(|hit| hit.path == path).unwrap().text);
    let found = |code: &CodeFolder, query: &str, below: &str, similar: &[u64]| -> Vec<String> {
        let (query, below, similar) = (query.to_owned(), below.to_owned(), similar.to_vec());
        hits(code, &CodeQuestion::Search { query, below, limit: 10, similar }).into_iter().map(|hit| hit.path).collect()
    };
    assert_eq!(found(&code, "mend it", "", &[]), [""; 0]);
    assert_eq!(found(&code, "mend it", "", &[of("a/car.rs"), of("a/rain.rs"), 7]), ["a/car.rs", "a/rain.rs"]);
    assert_eq!(found(&code, "mend it", "b", &[of("a/car.rs"), of("b/car.rs")]), ["b/car.rs"]);
    // Found in both ways comes first.
    assert_eq!(found(&code, "the forecast", "", &[of("a/car.rs"), of("a/rain.rs")])[0], "a/rain.rs");
    // A chunk that has changed is no longer similar.
    let of_car = of("a/car.rs");
    std::fs::write(folder.path().join("a/car.rs"), "pub fn sell_everything() {}\n").unwrap();
    code.update(&["a/car.rs"]);
    assert_eq!(found(&code, "mend it", "", &[of_car]), [""; 0]);
}

#[test]
fn chunks_are_listed_page_by_page() {
    let files: Vec<(String, String)> =
        (0..250).map(|number| (format!("{number}.rs"), format!("fn f{number}() {{}}\n"))).collect();
    let folder = project(&files);
    let mut code = indexed(folder.path());
    std::fs::remove_file(folder.path().join("7.rs")).unwrap();
    code.update(&["7.rs"]);
    let mut texts = Vec::new();
    loop {
        let page = hits(&code, &CodeQuestion::Chunks { from: texts.len() });
        assert!(page.len() <= agentd_code::MAX_HITS);
        if page.is_empty() {
            break;
        }
        texts.extend(page.into_iter().map(|hit| hit.text));
    }
    texts.sort();
    let mut expected: Vec<String> = (0..250).filter(|it| *it != 7).map(|it| format!("fn f{it}() {{}}\n")).collect();
    expected.sort();
    assert_eq!(texts, expected);
}
