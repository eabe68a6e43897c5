//! Identifiers of a text, and the parts of an identifier.

use super::Stems;

/// Longest identifier that is a term as a whole, in characters.
const MAX_WHOLE: usize = 64;
/// Parts that an identifier has at most; what comes after is not indexed. Data in base64 has hundreds.
const MAX_PARTS: usize = 24;

/// Returns whether a byte may be part of an identifier. Bytes of other scripts are.
pub(crate) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Calls back with each identifier, number and word of a text.
pub(crate) fn words<'text>(text: &'text str, tell: &mut dyn FnMut(&'text str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if !is_identifier_byte(*byte) {
            at += 1;
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| is_identifier_byte(*byte)) {
            at += 1;
        }
        // Both ends are next to an ASCII byte or to an end of the text, so at characters.
        if let Some(word) = text.get(start..at) {
            tell(word);
        }
    }
}

/// Calls back with the terms of an identifier.
pub(super) fn parts(word: &str, stems: &mut Stems, tell: &mut dyn FnMut(&str)) {
    if !word.is_ascii() {
        return other_scripts(word, stems, tell);
    }
    let bytes = word.as_bytes();
    let mut whole = String::new();
    let mut count = 0;
    let mut start = 0;
    for at in 1..=bytes.len() {
        if at < bytes.len() && !begins(bytes, at) {
            continue;
        }
        let part = word.get(start..at).unwrap_or_default().trim_matches('_');
        start = at;
        if part.is_empty() {
            continue;
        }
        count += 1;
        if count > MAX_PARTS {
            return;
        }
        if whole.len() + part.len() <= MAX_WHOLE {
            whole.push_str(&part.to_ascii_lowercase());
        }
        // A single letter says nothing, unless it is all that there is.
        if part.len() > 1 && part.len() <= MAX_WHOLE {
            tell(stems.stem(part));
        }
    }
    if count > 1 || whole.len() == 1 {
        tell(&whole);
    }
}

/// Returns whether a part begins at a byte that is not the first one.
fn begins(bytes: &[u8], at: usize) -> bool {
    let (Some(before), Some(byte)) = (bytes.get(at - 1), bytes.get(at)) else { return false };
    match (before, byte) {
        (b'_', _) | (_, b'_') => *before != *byte,
        (before, byte) if before.is_ascii_digit() != byte.is_ascii_digit() => true,
        (before, byte) if byte.is_ascii_uppercase() => {
            // In `HTTPServer` the last capital belongs to the word after it.
            !before.is_ascii_uppercase() || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)
        }
        _ => false,
    }
}

/// Words of other scripts are not stemmed; in those without spaces, each pair of letters is a term.
fn other_scripts(word: &str, stems: &mut Stems, tell: &mut dyn FnMut(&str)) {
    let is_spaced = |letter: char| letter < '\u{2e80}';
    let mut rest = word;
    for _ in 0..MAX_PARTS {
        let Some(first) = rest.chars().next() else { return };
        let of_kind = |letter: char| {
            letter.is_alphanumeric() == first.is_alphanumeric()
                && letter.is_ascii() == first.is_ascii()
                && is_spaced(letter) == is_spaced(first)
        };
        // Latin words with accents are one run, whatever of it is ASCII.
        let of_run = |letter: char| {
            if is_spaced(first) { is_spaced(letter) && letter.is_alphanumeric() } else { of_kind(letter) }
        };
        let end = rest.find(|letter| !of_run(letter)).unwrap_or(rest.len()).max(first.len_utf8());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !first.is_alphanumeric() {
            continue;
        }
        if is_spaced(first) {
            let small: String = run.chars().take(MAX_WHOLE).flat_map(char::to_lowercase).collect();
            tell(if small.is_ascii() { stems.stem(&small) } else { &small });
        } else {
            pairs(run, tell);
        }
    }
}

fn pairs(run: &str, tell: &mut dyn FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).take(MAX_WHOLE).collect();
    if let [first, last] = starts.as_slice() {
        return tell(run.get(*first..*last).unwrap_or_default());
    }
    for pair in starts.windows(3) {
        if let [first, _, last] = pair {
            tell(run.get(*first..*last).unwrap_or_default());
        }
    }
}
