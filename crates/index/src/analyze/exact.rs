//! Tokenizer for exact words with their positions.

use std::ops::Range;

use super::normal::{LetterRun, MAX_GROUPS, Normal, grouped_number, runs};

/// Term with its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Term in lower case.
    pub text: String,
    /// Byte range in the original text.
    pub range: Range<usize>,
    /// Position; consecutive terms have consecutive positions.
    pub position: u32,
    /// Form of the term.
    pub form: Form,
}

/// Form of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Whole word as written.
    Word,
    /// Part of a compound such as `camelCase`, at the position of the whole word. Also a number without its thousands
    /// separators, at the position of the first digits.
    Part,
    /// Two characters of a script without spaces, at the position of the first one.
    Pair,
    /// Last character of a run in a script without spaces.
    Last,
}

/// Emits the terms of a text in order. A phrase matches where its terms have the same relative positions. A trailing
/// [`Form::Last`] of the phrase must be omitted, because the text may continue there.
pub fn exact(text: &str, emit: &mut dyn FnMut(Token)) {
    let normal = Normal::new(text);
    let whole = normal.text();
    let mut position = 0;
    let all: Vec<LetterRun> = runs(whole).collect();
    let (mut runs, mut last_number) = (all.iter().cloned().enumerate().peekable(), 0);
    while let Some((at, run)) = runs.next() {
        if run.script.is_unspaced() {
            // Kana directly after Han characters belong to the same run, since pairs ignore word boundaries.
            let mut range = run.range;
            while let Some((_, next)) =
                runs.next_if(|(_, next)| next.script.is_unspaced() && next.range.start == range.end)
            {
                range.end = next.range.end;
            }
            position = pairs(&normal, range, position, emit);
        } else {
            word(&normal, &run, position, emit);
            let groups = &all[at..all.len().min(at + MAX_GROUPS)];
            if at >= last_number
                && let Some((text, count, range)) = grouped_number(whole, groups)
            {
                emit(Token { text, range: normal.origin(range), position, form: Form::Part });
                last_number = at + count;
            }
            position += 1;
        }
    }
}

/// Returns the terms of a text in order.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    exact(text, &mut |token| tokens.push(token));
    tokens
}

fn pairs(normal: &Normal<'_>, range: Range<usize>, mut position: u32, emit: &mut dyn FnMut(Token)) -> u32 {
    let stretch = normal.text().get(range.clone()).unwrap_or_default();
    let mut letters = stretch.char_indices().map(|(at, letter)| (range.start + at, letter)).peekable();
    while let Some((start, letter)) = letters.next() {
        let (end, form) = match letters.peek() {
            Some((at, next)) => (at + next.len_utf8(), Form::Pair),
            None => (start + letter.len_utf8(), Form::Last),
        };
        let text = normal.text().get(start..end).unwrap_or_default().to_owned();
        emit(Token { text, range: normal.origin(start..end), position, form });
        position += 1;
    }
    position
}

fn word(normal: &Normal<'_>, run: &LetterRun, position: u32, emit: &mut dyn FnMut(Token)) {
    let written = normal.text().get(run.range.clone()).unwrap_or_default();
    emit(Token { text: small(written), range: normal.origin(run.range.clone()), position, form: Form::Word });
    for part in parts(written) {
        let text = small(written.get(part.clone()).unwrap_or_default());
        let range = normal.origin(run.range.start + part.start..run.range.start + part.end);
        emit(Token { text, range, position, form: Form::Part });
    }
}

/// Converts a word to lower case.
pub fn small(word: &str) -> String {
    if word.is_ascii() { word.to_ascii_lowercase() } else { word.chars().flat_map(char::to_lowercase).collect() }
}

/// Returns the parts of a compound word: `get`, `HTTP` and `Server` in `getHTTPServer`. Empty for a simple word.
pub fn parts(word: &str) -> Vec<Range<usize>> {
    if word.bytes().skip(1).all(|byte| !byte.is_ascii_uppercase()) && word.is_ascii() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let letters: Vec<(usize, char)> = word.char_indices().collect();
    for (index, window) in letters.windows(2).enumerate() {
        let [(_, before), (at, letter)] = window else { continue };
        let next = letters.get(index + 2).map(|(_, next)| *next);
        let begins = letter.is_uppercase()
            && (before.is_lowercase() || before.is_numeric() || next.is_some_and(|next| next.is_lowercase()));
        if begins {
            parts.push(start..*at);
            start = *at;
        }
    }
    if !parts.is_empty() {
        parts.push(start..word.len());
    }
    parts
}
