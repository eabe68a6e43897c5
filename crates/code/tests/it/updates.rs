//! Tests for files that are changed, added and removed.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, SystemTime},
};

use agentd_code::{CodeFolder, Hit, SearchQuery};
use proptest::prelude::*;

use super::{indexed, paths, project, write};

#[test]
fn refresh_rereads_only_changed_files() {
    let folder = project(&[("a.rs", "fn same() {}\n"), ("b.rs", "fn other() {}\n")]);
    let mut code = indexed(folder.path());
    assert_eq!(code.refresh().unchanged, 2);
    let file = fs::File::options().write(true).open(folder.path().join("a.rs")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    let report = code.refresh();
    assert_eq!((report.indexed, report.unchanged), (1, 1), "the time differs");
}

#[test]
fn single_files_are_updated_at_once() {
    let folder = project(&[(".gitignore", "made/\n"), ("src/a.rs", "fn before() {}\n")]);
    let mut code = indexed(folder.path());
    write(folder.path(), "src/a.rs", b"fn after_edit() {}\n");
    write(folder.path(), "src/new/c.rs", b"fn brand_new() {}\n");
    write(folder.path(), "made/d.rs", b"fn ignored() {}\n");
    write(folder.path(), ".hidden/e.rs", b"fn hidden() {}\n");
    let updated = code.update(&["src/a.rs", "src/new/c.rs", "made/d.rs", ".hidden/e.rs", "../x.rs", "/etc/passwd", ""]);
    assert_eq!(updated, 2);
    assert_eq!(paths(&code), ["src/a.rs", "src/new/c.rs"]);
    fs::remove_file(folder.path().join("src/a.rs")).unwrap();
    assert_eq!(code.update(&["src/a.rs"]), 0);
    assert_eq!(paths(&code), ["src/new/c.rs"]);
    assert_eq!(code.refresh().unchanged, 1, "the refresh finds no changes");
}

#[test]
fn newly_ignored_or_binary_file_is_removed() {
    let folder = project(&[("a.rs", "fn one() {}\n"), ("b.rs", "fn two() {}\n")]);
    let mut code = indexed(folder.path());
    write(folder.path(), ".gitignore", b"a.rs\n");
    write(folder.path(), "b.rs", b"\0\0\0\0");
    code.refresh();
    assert!(paths(&code).is_empty());
    fs::remove_file(folder.path().join(".gitignore")).unwrap();
    write(folder.path(), "b.rs", b"fn two_again() {}\n");
    code.refresh();
    assert_eq!(paths(&code), ["a.rs", "b.rs"]);
}

#[test]
fn unindexed_change_is_reported() {
    let folder = project(&[("a.rs", "fn first_version() {}\n")]);
    let code = indexed(folder.path());
    write(folder.path(), "a.rs", b"// a line above\nfn first_version() {}\n");
    assert!(code.search("first_version", "", 1)[0].is_stale);
}

const WORDS: [&str; 8] = ["alpha", "beta_gamma", "DeltaEcho", "fox", "golf", "hotel_india", "juliet", "kilo"];
const QUERIES: [&str; 5] = ["alpha", "how does beta gamma work", "DeltaEcho", "hotel", "juliet kilo golf"];

fn program(words: &[usize]) -> String {
    words.iter().map(|word| format!("fn {}() {{ {}(); }}\n", WORDS[*word], WORDS[(word + 1) % WORDS.len()])).collect()
}

fn results(code: &CodeFolder) -> Vec<Vec<Hit>> {
    QUERIES.iter().map(|query| code.index().search(&SearchQuery::new(query), 20)).collect()
}

fn same(a: &[Vec<Hit>], b: &[Vec<Hit>]) -> bool {
    let is_close = |a: &Hit, b: &Hit| {
        (&a.path, a.first_line, &a.symbol) == (&b.path, b.first_line, &b.symbol) && (a.score - b.score).abs() < 1e-3
    };
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn updated_index_equals_a_rebuilt_one(
        steps in prop::collection::vec((0..6_usize, prop::option::of(prop::collection::vec(0..WORDS.len(), 0..6))), 1..12),
    ) {
        let folder = project::<&str>(&[]);
        let mut code = indexed(folder.path());
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        for (turn, (file, words)) in (1..).zip(&steps) {
            let path = format!("dir{}/file{file}.rs", file % 2);
            match words {
                Some(words) => {
                    write(folder.path(), &path, program(words).as_bytes());
                    // Changes within one clock tick would go undetected if the size stays the same.
                    let file = fs::File::options().write(true).open(folder.path().join(&path)).unwrap();
                    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(turn)).unwrap();
                    known.insert(path.clone(), 0);
                }
                None => {
                    drop(fs::remove_file(folder.path().join(&path)));
                    known.remove(&path);
                }
            }
            if turn % 2 == 0 { code.refresh(); } else { code.update(&[&path]); }
        }
        let rebuilt = indexed(folder.path());
        prop_assert_eq!(paths(&code), paths(&rebuilt));
        prop_assert!(same(&results(&code), &results(&rebuilt)), "{:?}\n{:?}", results(&code), results(&rebuilt));
        prop_assert_eq!(code.outline(""), rebuilt.outline(""));
        prop_assert_eq!(code.find_symbol("fox", ""), rebuilt.find_symbol("fox", ""));
        prop_assert_eq!(code.map(200), rebuilt.map(200));
    }

    #[test]
    fn compaction_does_not_change_results(files in prop::collection::vec(prop::collection::vec(0..WORDS.len(), 1..6), 2..8)) {
        let texts: Vec<(String, String)> =
            files.iter().enumerate().map(|(n, words)| (format!("f{n}.rs"), program(words))).collect();
        let folder = project(&texts);
        let full = indexed(folder.path());
        let mut index = full.index().clone();
        index.remove("f0.rs");
        let before: Vec<_> = QUERIES.iter().map(|query| index.search(&SearchQuery::new(query), 20)).collect();
        index.compact();
        let after: Vec<_> = QUERIES.iter().map(|query| index.search(&SearchQuery::new(query), 20)).collect();
        prop_assert!(same(&before, &after));
    }
}
