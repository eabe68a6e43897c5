//! The words by which a line has to do with what is being worked on: those of the person's input and of the current todo.
//! Pure.

use std::collections::BTreeSet;

use regex::Regex;

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

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(of([text]).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn words_that_tell() {
        check("Please fix the parser in src/lex.rs, then run it!", &["lex.rs", "parser"]);
        check("Why does test_x1 fail? See v2 and #42.", &["fail", "test_x1"]);
        check("", &[]);
        check(
            "请修复登录超时的bug: login_timeout",
            &["login_timeout", "修复", "复登", "录超", "时的", "登录", "请修", "超时"],
        );
        check("ログイン失敗", &["イン", "グイ", "ログ", "ン失", "失敗"]);
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
        let pattern = pattern(["the Parser (v1.2)"]).unwrap();
        assert!(pattern.is_match("PARSER") && pattern.is_match("at v1.2") && !pattern.is_match("at v1x2"));
        assert!(crate::links::results::feedback::keywords::pattern(["a b c"]).is_none());
    }
}
