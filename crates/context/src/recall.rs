//! Finds earlier passages to which an input refers: extracts the terms to search for, and finds the best passage in a
//! text. Pure.

use std::collections::HashSet;

/// Maximum number of queries for one input.
const MAX_QUERIES: usize = 12;
/// Minimum length of a word that is searched for alone or as part of a pair, in characters.
const LONG_WORD: usize = 5;
/// Maximum number of words in one query.
const MAX_WORDS: usize = 4;
/// Length of the part of an input that is searched for terms, in characters.
const MAX_INPUT: usize = 4000;
/// Minimum score for two adjacent words: one point for each word, plus one for being adjacent.
const MIN_PAIR_SCORE: usize = 3;
/// Score added if a line starts with the number.
const LINE_START_SCORE: usize = 2;
/// Approximate length of a passage, in bytes.
const PASSAGE_BYTES: usize = 600;

/// Terms that must occur together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// Lowercase words. A match contains all of them.
    pub terms: Vec<String>,
    /// Minimum score of a passage.
    pub min_score: usize,
    /// Maximum number of matching passages. Terms with more matches are not specific enough.
    pub max_matches: usize,
}

/// Returns queries for terms of the input that do not occur in the visible context, most specific first.
pub fn queries(input: &str, in_view: &str) -> Vec<RecallQuery> {
    let input: String = input.chars().take(MAX_INPUT).collect();
    let in_view = in_view.to_lowercase();
    let words: Vec<String> = words(&input).map(str::to_lowercase).collect();
    let mut queries: Vec<RecallQuery> = Vec::new();
    let mut add = |terms: Vec<String>, min_score: usize, max_matches: usize| {
        let query = RecallQuery { terms, min_score, max_matches };
        if queries.len() < MAX_QUERIES && !query.terms.is_empty() && !queries.contains(&query) {
            queries.push(query);
        }
    };
    // For example, "step 23" or "box 7": neither word is specific on its own.
    for pair in words.windows(2) {
        let is_numbered = is_number(&pair[1]) && pair[0].chars().all(char::is_alphabetic);
        if is_numbered && !in_view.contains(&pair.join(" ")) {
            add(pair.to_vec(), 2, usize::MAX);
            // In a list, a line may start with the number without the word.
            add(vec![pair[1].clone()], 1 + LINE_START_SCORE, 2);
        }
    }
    for word in words.iter().filter(|word| is_name(word) && !in_view.contains(word.as_str())) {
        add(vec![word.clone()], 1, usize::MAX);
    }
    // Two adjacent words count as a name if they are nowhere adjacent in the visible context.
    let is_long = |word: &String| word.chars().count() >= LONG_WORD && word.chars().all(char::is_alphabetic);
    for pair in words.windows(2) {
        if pair.iter().all(is_long) && !in_view.contains(&pair.join(" ")) {
            add(pair.to_vec(), MIN_PAIR_SCORE, 3);
        }
    }
    let known: HashSet<String> = self::words(&in_view).map(str::to_owned).collect();
    let mut seen = HashSet::new();
    let is_rare =
        |word: &&String| word.chars().count() >= LONG_WORD && !known.contains(*word) && seen.insert((*word).clone());
    let rare_words: Vec<String> = words.iter().filter(is_rare).take(MAX_WORDS).cloned().collect();
    if rare_words.len() > 1 {
        add(rare_words, 2, 3);
    }
    queries
}

/// Returns the passage around the line with the highest score, together with this score.
pub fn passage<'a>(text: &'a str, query: &RecallQuery) -> (&'a str, usize) {
    let mut at = 0;
    let mut best = (0, 0..text.len().min(1));
    for line in text.split_inclusive('\n') {
        let words: HashSet<String> = words(line).map(str::to_lowercase).collect();
        let has =
            |term: &&String| words.contains(*term) || (!is_number(term) && line.to_lowercase().contains(term.as_str()));
        let begins_line = |term: &&String| is_number(term) && begins_with(line, term);
        let is_phrase = query.terms.len() == 2 && line.to_lowercase().contains(&query.terms.join(" "));
        let score = query.terms.iter().filter(has).count()
            + LINE_START_SCORE * query.terms.iter().filter(begins_line).count()
            + usize::from(is_phrase);
        if score > best.0 {
            best = (score, at..at + line.len());
        }
        at += line.len();
    }
    let (score, line) = best;
    let before = text.floor_char_boundary(line.start.saturating_sub(PASSAGE_BYTES / 4));
    let after = text.ceil_char_boundary((line.end.max(before) + PASSAGE_BYTES / 4).min(text.len()));
    let end = text.floor_char_boundary((before + PASSAGE_BYTES).min(after));
    (text[before..end.max(before)].trim(), score)
}

/// Returns true if a line is a list entry with this number.
fn begins_with(line: &str, number: &str) -> bool {
    let line = line.trim_start_matches(|letter: char| !letter.is_ascii_digit() && !letter.is_alphabetic());
    line.strip_prefix(number).is_some_and(|rest| rest.starts_with(['.', ')', ':', ' ', '|']))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word_character = |letter: char| letter.is_alphanumeric() || "_-./:@".contains(letter);
    text.split(move |letter| !is_word_character(letter))
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| !word.is_empty())
}

fn is_number(word: &str) -> bool {
    word.len() <= 6 && word.chars().all(|letter| letter.is_ascii_digit())
}

/// Returns true if a word is a path, an identifier, a code or a large number.
fn is_name(word: &str) -> bool {
    let has = |test: fn(char) -> bool| word.chars().any(test);
    let has_separator = word.chars().any(|letter| "_./:@".contains(letter)) && word.len() > 3;
    let has_digits_and_letters = has(|letter| letter.is_ascii_digit()) && has(char::is_alphabetic) && word.len() > 3;
    has_separator || has_digits_and_letters || (is_number(word) && word.len() > 3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &str, in_view: &str, expected: &[&[&str]]) {
        let found: Vec<Vec<String>> = queries(input, in_view).into_iter().map(|query| query.terms).collect();
        assert_eq!(
            found.iter().take(expected.len()).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>(),
            "{input}"
        );
        assert!(!expected.is_empty() || found.is_empty(), "{input}: {found:?}");
    }

    #[test]
    fn names_outside_the_context_are_queried() {
        check("Begin with step 23.", "I do all steps.", &[&["step", "23"], &["23"]]);
        check("Begin with step 23.", "Then Step 23 is next.", &[]);
        check("What did src/main.rs say of MAX_SIZE?", "", &[&["src/main.rs"], &["max_size"]]);
        check("Use port 31337 again", "", &[&["port", "31337"], &["31337"], &["31337"]]);
        check("What was the code of the crimson shelter?", "the code was", &[&["crimson", "shelter"]]);
        check("And now?", "", &[]);
        check("Go on, please do.", "please", &[]);
        // Words that occur in every turn do not produce queries.
        check("Please check the report.", "please check the report of day 3", &[]);
        check("What was it with the gentle delta?", "calm delta, gentle wind", &[&["gentle", "delta"]]);
    }

    proptest! {
        #[test]
        fn passage_of_any_text_is_bounded(text in "(\\PC{0,80}\n?){0,30}", input in "\\PC{0,200}") {
            for query in queries(&input, "") {
                prop_assert!(passage(&text, &query).0.len() <= PASSAGE_BYTES + 8);
            }
            prop_assert!(queries(&input, &input).iter().all(|query| !query.terms.is_empty()));
        }
    }
}
