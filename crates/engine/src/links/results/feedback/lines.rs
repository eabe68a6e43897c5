//! Which lines of an output decide: by words for failures, and by the words of the person's input and of the current todo. Pure.

use std::{
    collections::{BTreeSet, HashMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
};

use regex::Regex;

/// Words for a failure. Words end where letters of ASCII do, which is much faster to look for.
const WRONG: &str = r"(?x-u)
    (?i: \b (?:
        errors? | err! | fail (?: s | ed | ing | ures? )? | panic (?: s | ked | king )? | fatal | exceptions? | traceback
      | segfault (?: s | ed )? | assert (?: s | ed | ion )? | abort (?: s | ed | ing )? | killed | core\ dumped
      | segmentation\ fault | undefined\ reference | out\ of\ memory
    ) (?: \b | $ | \s ) )
  | [a-z0-9] (?: Error | Exception | Panic ) \b
  | ^ E \s{2,}
  | (?u: ✗ | ✘ | ✖ | 错误 | 失败 | 異常 | 异常 | 崩溃 | エラー | 失敗 | 例外 | 오류 | 실패 )";
/// Words that may mean a failure.
const DOUBTFUL: &str = r"(?x-u)
    (?i: \b (?:
        warn (?: ings? )? | deprecated | denied | refused | rejected | unresolved | conflicts? | timed\ out | timeout
      | cannot | can't | could\ not | couldn't | unable\ to | not\ found | no\ such | missing | invalid
    ) \b )
  | (?u: 警告 | 超时 | 找不到 | 无法 | 拒绝 | 見つかりません | 경고 )";
/// Words that deny a failure though its words are there.
const NOTHING: &str = r"(?x-u)
    (?i: \b (?: 0 | no | zero | without ) \s+ (?: [a-z]+ \s+ )?
        (?: errors? | fail (?: ed | ing | ures? ) | warnings? | panics? | exceptions? ) \b
      | \b (?: errors? | fail (?: ed | ures? ) | warnings? ) \s* [:=] \s* 0 \b )";
/// Marks of tests that passed, whatever their names.
const PASSED: &str = r"(?x-u)
    (?: \.\.\. | \s ) \s* (?: ok | OK | PASSED | PASS ) (?: \s* [\[(] [\x20-\x7e]* [\])] )? \s* $
  | ^ \s* (?: ok \s | PASS \s | ---\ PASS )
  | ^ \s* (?u: ✓ | ✔ | √ )";
/// Number of places for lines that differ in their numbers only.
const MOST_ALIKE: u32 = 2;

/// Why a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// It says that something went wrong.
    Wrong,
    /// It has to do with what is being worked on.
    Wanted,
    /// It may say that something went wrong.
    Doubtful,
}

/// Patterns of a search, compiled once.
pub(super) struct Patterns {
    wrong: Regex,
    doubtful: Regex,
    nothing: Regex,
    passed: Regex,
}

impl Patterns {
    /// Nothing where one cannot be read, which a test excludes.
    pub(super) fn read() -> Option<Self> {
        let read = |pattern| Regex::new(pattern).ok();
        let (wrong, doubtful) = (read(WRONG)?, read(DOUBTFUL)?);
        Some(Self { wrong, doubtful, nothing: read(NOTHING)?, passed: read(PASSED)? })
    }
}

/// Tells the lines of one text apart.
pub(super) struct Marker<'a> {
    patterns: &'a Patterns,
    wanted: Option<&'a Regex>,
    alike: HashMap<u64, u32>,
}

impl<'a> Marker<'a> {
    /// A marker that looks for these keywords too.
    pub(super) fn new(patterns: &'a Patterns, wanted: Option<&'a Regex>) -> Self {
        Self { patterns, wanted, alike: HashMap::new() }
    }

    /// Why the line is worth a place, if it is, and where in it the reason stands. Lines like earlier ones are not.
    pub(super) fn mark(&mut self, line: &str) -> Option<(Mark, usize)> {
        let found = self.look(line)?;
        let seen = self.alike.entry(shape(line)).or_default();
        *seen += 1;
        (*seen <= MOST_ALIKE).then_some(found)
    }

    fn look(&self, line: &str) -> Option<(Mark, usize)> {
        let Patterns { wrong, doubtful, nothing, passed } = self.patterns;
        if !passed.is_match(line) {
            let nothing: Vec<_> = nothing.find_iter(line).map(|found| found.range()).collect();
            let real = |pattern: &Regex| {
                let mut found = pattern.find_iter(line).map(|found| found.start());
                found.find(|at| !nothing.iter().any(|range| range.contains(at)))
            };
            if let Some(at) = real(wrong) {
                return Some((Mark::Wrong, at));
            }
            if let Some(at) = real(doubtful) {
                return Some((Mark::Doubtful, at));
            }
        }
        self.wanted?.find(line).map(|found| (Mark::Wanted, found.start()))
    }
}

/// The line without its numbers.
fn shape(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.trim()
        .chars()
        .filter(|character| !character.is_ascii_digit())
        .for_each(|character| character.hash(&mut hasher));
    hasher.finish()
}

/// Keywords that are looked for at the most.
const MOST: usize = 32;
/// Characters of the input that are looked at: a pasted document is not what is asked.
const LONGEST_INPUT: usize = 4_000;
/// Words that stand in every request.
const EVERYWHERE: [&str; 60] = [
    "about", "after", "again", "agent", "also", "before", "check", "code", "command", "could", "does", "each", "every",
    "file", "files", "find", "first", "folder", "from", "give", "have", "here", "into", "just", "line", "lines",
    "list", "look", "make", "more", "most", "need", "only", "other", "output", "please", "project", "read", "result",
    "should", "show", "some", "tell", "than", "that", "them", "then", "there", "these", "this", "until", "want",
    "what", "when", "where", "which", "with", "work", "would", "write",
];

/// Pattern of the keywords, or none.
pub(super) fn pattern<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Regex> {
    let words = of(texts);
    if words.is_empty() {
        return None;
    }
    let escaped: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
    Regex::new(&format!("(?i){}", escaped.join("|"))).ok()
}

/// The keywords: words and names of at least four letters, or of three with a digit or a mark in them; of scripts
/// without spaces, each two neighbouring characters.
fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for text in texts {
        let end = text.char_indices().nth(LONGEST_INPUT).map_or(text.len(), |(end, _)| end);
        for word in text[..end].split(|character: char| !is_of_word(character)) {
            for part in by_script(word) {
                add(&mut words, part);
                if words.len() >= MOST {
                    return words;
                }
            }
        }
    }
    words
}

fn add(words: &mut BTreeSet<String>, part: &str) {
    if part.chars().next().is_some_and(is_dense) {
        let characters: Vec<char> = part.chars().collect();
        let left = MOST.saturating_sub(words.len());
        words.extend(characters.windows(2).take(left).map(|pair| pair.iter().collect()));
        return;
    }
    let word = part.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
    let least = if word.chars().any(|character| !character.is_alphabetic()) { 3 } else { 4 };
    let is_number = word.chars().all(|character| !character.is_alphabetic());
    if word.chars().count() >= least && !is_number && !EVERYWHERE.contains(&word.as_str()) {
        words.insert(word);
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// Han, kana and hangul: a word is there no longer than a few characters, and nothing stands between two words.
fn is_dense(character: char) -> bool {
    matches!(u32::from(character),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// The runs of a word that are all of dense script, or all of another.
fn by_script(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let dense = is_dense(rest.chars().next()?);
        let end = rest.find(|character| is_dense(character) != dense).unwrap_or(rest.len());
        let (run, left) = rest.split_at(end);
        rest = left;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<Mark>) {
        let (patterns, wanted) = (Patterns::read().expect("the patterns can be read"), Regex::new("parser").unwrap());
        let mut marker = Marker::new(&patterns, Some(&wanted));
        assert_eq!(marker.mark(line).map(|(mark, _)| mark), expected, "{line}");
    }

    #[test]
    fn what_went_wrong_is_known_in_many_words() {
        for line in [
            "error[E0308]: mismatched types",
            "thread 'main' panicked at src/lib.rs:3:5:",
            "test it::works ... FAILED",
            "E       assert 1 == 2",
            "Traceback (most recent call last):",
            "ValueError: invalid literal for int() with base 10: 'x'",
            "main.c:5:3: error: expected ';' before 'return'",
            "npm ERR! code ELIFECYCLE",
            "java.lang.NullPointerException: null",
            "make: *** [Makefile:2: all] Error 1",
            "/usr/bin/ld: main.o: undefined reference to `f'",
            "FAIL src/app.test.js",
            "--- FAIL: TestX (0.00s)",
            "3 passed, 1 failed",
            "0 warnings, 2 errors",
            "编译错误: 缺少分号",
            "接続に失敗しました",
            "Segmentation fault (core dumped)",
        ] {
            check(line, Some(Mark::Wrong));
        }
    }

    #[test]
    fn what_only_sounds_so_is_not() {
        check("test errors::failed_calls_are_told ... ok", None);
        check("tests/test_errors.py::test_failure PASSED", None);
        check("test result: ok. 12 passed; 0 failed; 0 ignored", None);
        check("0 errors, no warnings", None);
        check("errors: 0", None);
        check("   Compiling thiserror v2.0.3", None);
        check("terror in the mirror room of assertiveness", None);
    }

    #[test]
    fn doubts_and_keywords_come_after() {
        check("warning: unused variable: `x`", Some(Mark::Doubtful));
        check("bash: foo: command not found", Some(Mark::Doubtful));
        check("警告: 磁盘空间不足", Some(Mark::Doubtful));
        check("   Compiling parser v0.1.0", Some(Mark::Wanted));
        check("test parser::errors ... ok", Some(Mark::Wanted));
    }

    #[test]
    fn what_repeats_is_shown_twice() {
        let patterns = Patterns::read().unwrap();
        let mut marker = Marker::new(&patterns, None);
        let marked = (0..10).filter(|n| marker.mark(&format!("{n} error: retry {n}")).is_some()).count();
        assert_eq!(marked, 2);
    }

    fn tells(text: &str, expected: &[&str]) {
        assert_eq!(of([text]).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn words_that_tell() {
        tells("Please fix the parser in src/lex.rs, then run it!", &["lex.rs", "parser"]);
        tells("Why does test_x1 fail? See v2 and #42.", &["fail", "test_x1"]);
        tells("", &[]);
        tells(
            "请修复登录超时的bug: login_timeout",
            &["login_timeout", "修复", "复登", "录超", "时的", "登录", "请修", "超时"],
        );
        tells("ログイン失敗", &["イン", "グイ", "ログ", "ン失", "失敗"]);
    }

    #[test]
    fn there_are_never_too_many() {
        let long: String = (0..500).map(|n| format!("word{n} ")).collect();
        assert_eq!(of([long.as_str()]).len(), MOST);
        let dense: String = (0x4e00_u32..0x4f00).filter_map(char::from_u32).collect();
        assert_eq!(of([dense.as_str()]).len(), MOST);
    }

    #[test]
    fn letters_of_either_case_match() {
        let wanted = super::pattern(["the Parser (v1.2)"]).unwrap();
        assert!(wanted.is_match("PARSER") && wanted.is_match("at v1.2") && !wanted.is_match("at v1x2"));
        assert!(super::pattern(["a b c"]).is_none());
    }
}
