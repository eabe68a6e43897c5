//! Where in a chunk the hits are.

use std::{collections::HashSet, ops::Range};

use super::{
    parse::{ParsedQuery, Unit},
    plan::phrase_terms,
};
use crate::analyze::{Form, Language, Token, exact::tokens, stem, stems, words::language};

/// Terms that are highlighted.
#[derive(Debug, Default)]
pub(crate) struct HighlightTerms {
    stems: HashSet<String>,
    prefixes: Vec<String>,
    /// Terms with their distances from the first.
    phrases: Vec<Vec<Token>>,
}

impl HighlightTerms {
    /// Those of a query, and of words that were taken for what was meant by one.
    pub(crate) fn new(parsed: &ParsedQuery, meant: &[String]) -> Self {
        let mut needles = Self::default();
        for unit in &parsed.units {
            match unit {
                Unit::Word { stems, .. } => needles.stems.extend(stems.iter().cloned()),
                Unit::Prefix(prefix) => needles.prefixes.push(prefix.clone()),
                Unit::Letters(text) | Unit::Chain(text) | Unit::Phrase(text) => {
                    needles.phrases.push(phrase_terms(text))
                }
            }
        }
        needles.stems.extend(meant.iter().flat_map(|word| stems(word)));
        // A phrase of which nothing is there word for word was found by its words, so these are marked then.
        needles
    }

    /// Where they are in a text, in bytes, in order, apart from each other.
    pub(crate) fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let tokens = tokens(text);
        let language = language(text);
        let mut marks = Vec::new();
        for token in &tokens {
            let is_word = matches!(token.form, Form::Word | Form::Part);
            if is_word
                && (self.is_stem_of(&token.text, language)
                    || self.prefixes.iter().any(|prefix| token.text.starts_with(prefix)))
            {
                marks.push(token.range.clone());
            }
        }
        let whole: Vec<&Token> = tokens.iter().filter(|token| token.form != Form::Part).collect();
        let mut has_phrase = false;
        for phrase in &self.phrases {
            let found = phrase_marks(phrase, &whole, text);
            has_phrase |= !found.is_empty();
            marks.extend(found);
        }
        if !has_phrase {
            self.loose_marks(&whole, language, &mut marks);
        }
        apart(marks)
    }

    /// Returns whether it is the stem of a word. A word begins as its stem does, but for an accent, which spares most words
    /// the stemming.
    fn is_stem_of(&self, word: &str, language: Language) -> bool {
        let first = word.chars().next();
        let may_be =
            first.is_some_and(|first| !first.is_ascii()) || self.stems.iter().any(|stem| stem.chars().next() == first);
        may_be && self.stems.contains(&stem(word, language))
    }

    fn loose_marks(&self, whole: &[&Token], language: Language, marks: &mut Vec<Range<usize>>) {
        for needle in self.phrases.iter().flatten() {
            let needle_stem = stem(&needle.text, language);
            let begins_so = |token: &Token| token.text.chars().next() == needle_stem.chars().next();
            let is_needle = |token: &&&Token| match needle.form {
                Form::Word => {
                    token.form == Form::Word && begins_so(token) && stem(&token.text, language) == needle_stem
                }
                Form::Pair => token.text == needle.text,
                Form::Part | Form::Last => false,
            };
            marks.extend(whole.iter().filter(is_needle).map(|token| token.range.clone()));
        }
    }
}

fn phrase_marks(phrase: &[Token], whole: &[&Token], text: &str) -> Vec<Range<usize>> {
    let Some(first) = phrase.first() else { return Vec::new() };
    if let [Token { form: Form::Last, text: letter, .. }] = phrase {
        return letter_marks(letter, whole, text);
    }
    let distance = |of: &Token, from: &Token| of.position.wrapping_sub(from.position);
    let is_phrase = |here: &[&Token]| {
        let mut pairs = phrase.iter().zip(here);
        pairs.all(|(needle, token)| {
            needle.text == token.text
                && here.first().is_some_and(|start| distance(token, start) == distance(needle, first))
        })
    };
    let range = |here: &[&Token]| Some(here.first()?.range.start..here.last()?.range.end);
    whole.windows(phrase.len()).filter(|here| is_phrase(here)).filter_map(range).collect()
}

/// One letter, which is the first of a pair or the last of its stretch.
fn letter_marks(letter: &str, whole: &[&Token], text: &str) -> Vec<Range<usize>> {
    let found = whole.iter().filter(|token| token.form != Form::Word && token.text.starts_with(letter));
    let range = |token: &&Token| {
        let first = text.get(token.range.clone())?.chars().next()?;
        Some(token.range.start..token.range.start + first.len_utf8())
    };
    found.filter_map(range).collect()
}

/// In order, with those that overlap joined to one.
pub(crate) fn apart(mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.retain(|mark| !mark.is_empty());
    marks.sort_by_key(|mark| (mark.start, mark.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(marks.len());
    for mark in marks {
        match apart.last_mut() {
            Some(last) if mark.start < last.end => last.end = last.end.max(mark.end),
            _ => apart.push(mark),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyze::Dictionary, search::parse::parse};

    fn check(query: &str, text: &str, expected: &[&str]) {
        let needles = HighlightTerms::new(&parse(query, &Dictionary::default()), &[]);
        let told: Vec<&str> = needles.marks(text).into_iter().map(|mark| &text[mark]).collect();
        assert_eq!(told, expected, "{query} in {text}");
    }

    #[test]
    fn hits_are_marked_as_they_are_written() {
        check(
            "connection",
            "Connections connect; ＣＯＮＮＥＣＴＥＤ",
            &["Connections", "connect", "ＣＯＮＮＥＣＴＥＤ"],
        );
        check("\"annual report\"", "annual plan, Annual  Report", &["Annual  Report"]);
        check("\"annual report\"", "the report", &["report"]);
        check("智能", "人工智能，智\u{200b}能", &["智能"]);
        check("人工智能", "发展人工智能技术", &["人工智能"]);
        check("税", "税务和关税", &["税", "税"]);
        check("4.1", "section 4.1, not 4 2", &["4.1"]);
        check("name", "getUserName", &["Name"]);
        check("conf*", "Config unconf", &["Config"]);
        check("カメラ", "ｶﾒﾗと", &["ｶﾒﾗ"]);
    }
}
