//! Where sentences end.

use std::ops::Range;

/// Words that end with a dot in the middle of a sentence.
const ABBREVIATIONS: [&str; 27] = [
    "al", "approx", "art", "ca", "cf", "ch", "co", "corp", "dept", "dr", "e.g", "eq", "etc", "fig", "i.e", "inc", "jr",
    "ltd", "mr", "mrs", "ms", "nos", "prof", "sec", "st", "vol", "vs",
];

/// The sentences of a text, each with the white space that follows it: together they are the text.
#[must_use]
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let after = at + letter.len_utf8();
        let is_end = match letter {
            // Those of Chinese and Japanese need nothing after them.
            '。' | '！' | '？' | '；' | '｡' | '…' => true,
            '.' | '!' | '?' => may_end(text, at, letter),
            _ => false,
        };
        if !is_end {
            continue;
        }
        // More of them, and whatever closes what the sentence opened, belong to it.
        let mut end = after;
        while let Some((at, letter)) = letters.next_if(|(_, letter)| is_closing(*letter)) {
            end = at + letter.len_utf8();
        }
        let is_full_width = !matches!(letter, '.' | '!' | '?');
        let next = text[end..].chars().next();
        if !is_full_width && next.is_some_and(|next| !next.is_whitespace()) {
            continue;
        }
        while let Some((at, letter)) = letters.next_if(|(_, letter)| letter.is_whitespace()) {
            end = at + letter.len_utf8();
        }
        sentences.push(start..end);
        start = end;
    }
    if start < text.len() {
        sentences.push(start..text.len());
    }
    sentences
}

fn is_closing(letter: char) -> bool {
    matches!(
        letter,
        '.' | '!'
            | '?'
            | '。'
            | '！'
            | '？'
            | '…'
            | '"'
            | '\''
            | ')'
            | ']'
            | '*'
            | '_'
            | '”'
            | '’'
            | '」'
            | '』'
            | '）'
            | '》'
            | '】'
            | '〕'
            | '〉'
            | '»'
    )
}

/// Returns whether a dot or mark ends a sentence, as far as what stands before it says. After it there must be white
/// space.
fn may_end(text: &str, at: usize, mark: char) -> bool {
    if mark != '.' {
        return true;
    }
    let before = &text[..at];
    let word =
        before.rsplit(|letter: char| letter.is_whitespace() || "([\"'“‘".contains(letter)).next().unwrap_or_default();
    // An initial, or the number of a section or a list.
    let is_initial = word.len() == 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    let is_number =
        !word.is_empty() && word.len() <= 3 && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    let starts_line = before[..before.len() - word.len()].chars().next_back().is_none_or(|letter| letter == '\n');
    let is_abbreviation = word.len() <= 6 && ABBREVIATIONS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok();
    !(is_initial || is_abbreviation || (is_number && starts_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_people_say() {
        let check = |expected: &[&str]| {
            let text = expected.concat();
            let found: Vec<&str> = sentences(&text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected);
        };
        check(&["One. ", "Two! ", "Three?"]);
        check(&["Dr. A. Smith paid 3.50 e.g. for tea (see fig. 2). ", "Then he left."]);
        check(&["He said \"no.\" ", "She agreed."]);
        check(&["Wait... ", "what?! ", "Yes."]);
        check(&["今天下雨。", "他说：“不去。”", "真的吗？！", "是的；", "走吧"]);
        check(&["会議は終わりました。", "「はい。」", "と言った。"]);
        check(&["회의가 끝났습니다. ", "다음 주에 만나요. ", "네?"]);
        check(&["1. First of a list. ", "In 2024. ", "End"]);
        check(&["version 1.2.3 of agentd.yaml is new\n"]);
        check(&[]);
    }

    #[test]
    fn the_table_of_abbreviations_can_be_searched() {
        assert!(ABBREVIATIONS.is_sorted());
    }
}
