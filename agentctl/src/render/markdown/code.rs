//! Syntax highlighting of the lines of a code fence.
//!
//! The tokenizer distinguishes comments, strings, numbers and keywords, which is enough for an answer. It reads each
//! character once for any input. Grammars of regular expressions do not guarantee that, and take time to load. Colours
//! are from the terminal's palette, so that they are readable on any background.

use anstyle::{AnsiColor, Style};

use super::{
    inline::{Spans, painted},
    languages::{LANGUAGES, Language, Shape, TextMark},
};
use crate::terminal::paint::{BAD, CODE, GOOD, QUIET, STRONG, paint};

/// Style of keywords.
const KEYWORD: Style = AnsiColor::Magenta.on_default();
/// Style of strings.
const TEXT: Style = AnsiColor::Green.on_default();
/// Style of numbers, constants, types and keys.
const CONSTANT: Style = CODE;
/// Style of comments.
const COMMENT: Style = QUIET;

/// Maximum length of a highlighted line, in bytes. People do not read longer lines.
const LONGEST_LINE: usize = 8 * 1024;

/// Highlights code line by line.
#[derive(Debug)]
pub(crate) struct Highlighter {
    language: &'static Language,
    state: State,
}

/// State at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    /// Within a comment that ends with this mark.
    Comment(&'static str),
    /// Within a string.
    Text(TextMark),
}

impl Highlighter {
    /// Creates a highlighter for the language of this name, if it is known.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let language = LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()))?;
        Some(Self { language, state: State::Code })
    }

    /// Highlights the next line.
    pub(crate) fn line(&mut self, line: &str) -> String {
        if line.len() > LONGEST_LINE {
            self.state = State::Code;
            return line.to_owned();
        }
        if self.language.shape == Shape::Diff {
            return paint(true, of_diff(line), line);
        }
        let mut spans = Spans::default();
        let mut at = 0;
        while at < line.len() {
            let (length, style) = self.token(line, at);
            // A character that starts no token is a token itself.
            let length = length.max(line[at..].chars().next().map_or(1, char::len_utf8));
            spans.push(&line[at..at + length], style);
            at += length;
        }
        if let State::Text(mark) = self.state
            && !mark.spans_lines
        {
            self.state = State::Code;
        }
        painted(&spans.0)
    }

    /// Returns the length and the style of the token at this offset.
    fn token(&mut self, line: &str, at: usize) -> (usize, Style) {
        let rest = &line[at..];
        match self.state {
            State::Comment(close) => {
                let end = rest.find(close).map(|found| found + close.len());
                if end.is_some() {
                    self.state = State::Code;
                }
                return (end.unwrap_or(rest.len()), COMMENT);
            }
            State::Text(mark) => return (self.text(rest, mark), TEXT),
            State::Code => {}
        }
        let before = line[..at].chars().next_back();
        // A hash in `$#` or `a#b` starts no comment.
        let is_free = before.is_none_or(|c| c.is_whitespace() || "({[;,".contains(c));
        let is_comment = |mark: &&str| rest.starts_with(*mark) && (is_free || mark.len() > 1);
        if let Some((open, close)) = self.language.block_comment.filter(|(open, _)| rest.starts_with(open)) {
            self.state = State::Comment(close);
            return (open.len(), COMMENT);
        }
        if self.language.line_comments.iter().any(is_comment) {
            return (rest.len(), COMMENT);
        }
        let is_word_before = before.is_some_and(is_word);
        if let Some(mark) = self.language.texts.iter().find(|mark| rest.starts_with(mark.open))
            && !(is_word_before && mark.open.starts_with(is_word))
        {
            self.state = State::Text(*mark);
            let length = mark.open.len() + self.text(&rest[mark.open.len()..], *mark);
            let style = if self.is_key(&rest[length..]) { CONSTANT } else { TEXT };
            return (length, style);
        }
        if self.language.has_lifetimes && rest.starts_with('\'') {
            let length = letter(rest);
            return (length, if length > 1 { TEXT } else { Style::new() });
        }
        let first = rest.chars().next().unwrap_or_default();
        if first.is_ascii_digit() && !is_word_before {
            let is_of_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            return (length_of(rest, is_of_number), CONSTANT);
        }
        if first == '$' && self.language.line_comments == ["#"] {
            return (1 + length_of(&rest[1..], is_word), CONSTANT);
        }
        if is_word(first) || matches!(first, '#' | '@' | '!') {
            return self.word(line, at, before);
        }
        (0, Style::new())
    }

    /// Returns the remaining length of a string, up to its end or the end of the line.
    fn text(&mut self, rest: &str, mark: TextMark) -> usize {
        let mut at = 0;
        while at < rest.len() {
            if rest[at..].starts_with(mark.close) {
                self.state = State::Code;
                return at + mark.close.len();
            }
            let mut characters = rest[at..].chars();
            let length = characters.next().map_or(1, char::len_utf8);
            let is_escape = mark.escapes && rest[at..].starts_with('\\');
            at += length + if is_escape { characters.next().map_or(0, char::len_utf8) } else { 0 };
        }
        rest.len()
    }

    fn word(&self, line: &str, at: usize, before: Option<char>) -> (usize, Style) {
        let rest = &line[at..];
        // Some keywords start with a mark, such as `#include`.
        let mark = usize::from(!rest.starts_with(is_word));
        let takes_dashes = matches!(self.language.shape, Shape::Keys(_) | Shape::Tags);
        let is_name = |c: char| is_word(c) || (takes_dashes && matches!(c, '-' | '.'));
        let length = mark + length_of(&rest[mark..], is_name);
        let word = &rest[..length];
        let is_same = |known: &str| known == word || self.language.ignores_case && known.eq_ignore_ascii_case(word);
        let is = |words: &str| words.split(' ').any(is_same);
        let may_precede_key =
            |text: &str| text.chars().all(|c| c.is_whitespace() || matches!(c, '-' | '{' | ',' | '?'));
        let style = match self.language.shape {
            Shape::Tags if matches!(before, Some('<' | '/')) => KEYWORD,
            Shape::Tags => Style::new(),
            _ if is(self.language.keywords) => KEYWORD,
            _ if is(self.language.constants) => CONSTANT,
            Shape::Keys(_) if may_precede_key(&line[..at]) && self.is_key(&rest[length..]) => CONSTANT,
            Shape::Words if before != Some('.') && word.starts_with(|c: char| c.is_ascii_uppercase()) => CONSTANT,
            _ => Style::new(),
        };
        // A mark without a keyword is a separate token.
        if mark == 1 && style.is_plain() { (1, style) } else { (length, style) }
    }

    /// Returns true if a key ends before this text.
    fn is_key(&self, rest: &str) -> bool {
        matches!(self.language.shape, Shape::Keys(sign) if rest.trim_start().starts_with(sign))
    }
}

/// Returns the style of a line of a diff.
fn of_diff(line: &str) -> Style {
    match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => STRONG,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', b'@', ..] => CODE,
        _ => Style::new(),
    }
}

/// Returns the length of a character literal, or of an apostrophe that starts none.
fn letter(rest: &str) -> usize {
    let mut characters = rest[1..].char_indices();
    let length = match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, c))) => {
            let escaped = 1 + at + c.len_utf8();
            rest[escaped..].find('\'').filter(|end| *end < 10).map(|end| escaped + end + 1)
        }
        (Some((_, c)), Some((_, '\''))) if c != '\'' => Some(2 + c.len_utf8()),
        _ => None,
    };
    length.unwrap_or(1)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the number of bytes at the start whose characters satisfy `holds`.
fn length_of(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|c| !holds(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::sanitize::clean;

    /// Lines with a letter for each style: keyword, text, constant, comment, added, removed, strong.
    fn marked(language: &str, code: &str) -> Vec<String> {
        let mut highlighter = Highlighter::of(language).unwrap();
        let codes = [("35", 'k'), ("32", 't'), ("36", 'c'), ("2", 'q'), ("31", 'r'), ("1", 's')];
        code.lines()
            .map(|line| {
                let mut shown = highlighter.line(line).replace("\u{1b}[0m", ">");
                for (code, letter) in codes {
                    shown = shown.replace(&format!("\u{1b}[{code}m"), &format!("<{letter}:"));
                }
                shown
            })
            .collect()
    }

    #[track_caller]
    fn check(language: &str, code: &str, expected: &[&str]) {
        assert_eq!(marked(language, code), expected);
    }

    #[test]
    fn keywords_strings_and_comments_are_coloured() {
        check(
            "rust",
            "pub fn a<'b>(x: &'b Path) -> u8 { 'c' } // it's\nlet s = \"a \\\" // b\"; /* one\ntwo */ x.Some(0x1f, '\\n')",
            &[
                "<k:pub> <k:fn> a<'b>(x: &'b <c:Path>) -> u8 { <t:'c'> } <q:// it's>",
                "<k:let> s = <t:\"a \\\" // b\">; <q:/* one>",
                "<q:two */> x.<c:Some>(<c:0x1f>, <t:'\\n'>)",
            ],
        );
        check(
            "Python",
            "def f(x):  # why\n    \"\"\"Long\n    text\"\"\"\n    return x == 'a' or None",
            &[
                "<k:def> f(x):  <q:# why>",
                "    <t:\"\"\"Long>",
                "<t:    text\"\"\">",
                "    <k:return> x == <t:'a'> <k:or> <c:None>",
            ],
        );
        check(
            "sh",
            "if [ $# -gt 1 ]; then echo \"$x\" # hm",
            &["<k:if> [ <c:$># -gt <c:1> ]; <k:then> echo <t:\"$x\"> <q:# hm>"],
        );
        check("sql", "SELECT a FROM t -- all", &["<k:SELECT> a <k:FROM> t <q:-- all>"]);
        check("c", "#include <a.h>\nint x = 1;", &["<k:#include> <a.h>", "<k:int> x = <c:1>;"]);
        check("go", "x := `raw\nmore` + \"a", &["x := <t:`raw>", "<t:more`> + <t:\"a>"]);
    }

    #[test]
    fn keys_tags_and_diffs_are_coloured_differently() {
        check("json", "{\"a-b\": \"c\", \"d\": true}", &["{<c:\"a-b\">: <t:\"c\">, <c:\"d\">: <c:true>}"]);
        check("yaml", "- name: x y\n  on-push: \"z\" # c", &["- <c:name>: x y", "  <c:on-push>: <t:\"z\"> <q:# c>"]);
        check("toml", "[a]\nb.c = 'd'", &["[a]", "<c:b.c> = <t:'d'>"]);
        check("html", "<a href=\"x\">it</a><!-- c", &["<<k:a> href=<t:\"x\">>it</<k:a>><q:<!-- c>"]);
        check(
            "diff",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n c",
            &["<s:--- a/x>", "<s:+++ b/x>", "<c:@@ -1 +1 @@>", "<r:-a>", "<t:+b>", " c"],
        );
        assert!(Highlighter::of("brainfuck").is_none() && Highlighter::of("").is_none());
    }

    #[test]
    fn language_names_are_unique() {
        let mut names: Vec<&str> = LANGUAGES.iter().flat_map(|language| language.names).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    proptest! {
        #[test]
        fn highlighting_loses_no_character(
            lines in proptest::collection::vec("[a-cA 漢é'\"`#/*$\\\\<>!@:=1.{}-]{0,30}", 1..5),
        ) {
            for language in &LANGUAGES {
                let mut highlighter = Highlighter::of(language.names[0]).unwrap();
                for line in &lines {
                    prop_assert_eq!(clean(&highlighter.line(line)), line.clone(), "{}", language.names[0]);
                }
            }
        }
    }
}
