//! As much around hits as one looks at.

use std::ops::Range;

/// A part of a chunk with the hits in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The part, with `…` where it was cut.
    pub text: String,
    /// Where the hits are in it, in bytes, in order.
    pub hits: Vec<Range<usize>>,
}

const CUT: &str = "…";

/// About so many letters of a text, where the most hits are.
#[must_use]
pub fn around(text: &str, marks: &[Range<usize>], letters: usize) -> Snippet {
    let window = window(text, marks, letters);
    let part = text.get(window.clone()).unwrap_or_default();
    let before = if window.start > 0 { CUT } else { "" };
    let after = if window.end < text.len() { CUT } else { "" };
    let hits = marks
        .iter()
        .filter(|mark| mark.start < window.end && mark.end > window.start)
        .map(|mark| {
            let start = mark.start.max(window.start) - window.start;
            let end = mark.end.min(window.end) - window.start;
            before.len() + start..before.len() + end
        })
        .collect();
    Snippet { text: format!("{before}{part}{after}"), hits }
}

fn window(text: &str, marks: &[Range<usize>], letters: usize) -> Range<usize> {
    if text.chars().nth(letters + letters / 4).is_none() {
        return 0..text.len();
    }
    // From each hit as far as fits: the one with the most after it wins, the first of several.
    let reach = |from: usize| end_of(text, from, letters * 3 / 4);
    let best = marks.iter().enumerate().max_by_key(|(index, mark)| {
        let end = reach(mark.start);
        (marks.iter().skip(*index).take_while(|other| other.end <= end).count(), std::cmp::Reverse(*index))
    });
    let first = best.map_or(0, |(_, mark)| mark.start);
    let start = begin_before(text, first, letters / 4);
    let end = end_of(text, start, letters);
    start..whole_word_end(text, end)
}

/// The byte so many letters further on.
fn end_of(text: &str, from: usize, letters: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.char_indices().nth(letters).map_or(text.len(), |(at, _)| from + at)
}

/// A good place to begin, at most so many letters before.
fn begin_before(text: &str, at: usize, letters: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let Some((earliest, _)) = before.char_indices().rev().take(letters).last() else { return 0 };
    if before.chars().count() <= letters {
        return 0;
    }
    // After a sentence at best, else after a space.
    let lead = before.get(earliest..).unwrap_or_default();
    let after = |ends: &[char]| {
        lead.find(|letter| ends.contains(&letter)).map(|index| {
            let width = lead.get(index..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            earliest + index + width
        })
    };
    let start = after(&['.', '!', '?', '。', '！', '？', '\n']).or_else(|| after(&[' ', '，', '、', ',']));
    let start = start.filter(|start| *start <= at).unwrap_or(earliest);
    start + text.get(start..at).map_or(0, |skip| skip.len() - skip.trim_start().len())
}

/// Back to the last space, if there is one near.
fn whole_word_end(text: &str, end: usize) -> usize {
    let is_inside =
        text.get(end..).and_then(|rest| rest.chars().next()).is_some_and(|letter| letter.is_ascii_alphanumeric());
    if !is_inside {
        return end;
    }
    let tail_start = text.floor_char_boundary(end.saturating_sub(24));
    text.get(tail_start..end).and_then(|tail| tail.rfind(char::is_whitespace)).map_or(end, |space| tail_start + space)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_shown_whole_and_a_long_one_where_the_hits_are() {
        let snippet = around("one two", &[4..7], 100);
        assert_eq!((snippet.text.as_str(), snippet.hits), ("one two", vec![4..7]));

        let text =
            format!("needle first. {} Here is a needle with a needle. {}", "straw ".repeat(40), "straw ".repeat(40));
        let marks: Vec<Range<usize>> = text.match_indices("needle").map(|(at, word)| at..at + word.len()).collect();
        let snippet = around(&text, &marks, 60);
        let hits: Vec<&str> = snippet.hits.iter().map(|hit| &snippet.text[hit.clone()]).collect();
        assert_eq!(hits, ["needle", "needle"], "{}", snippet.text);
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with('…'), "{}", snippet.text);

        let text = format!("{}找到智能了{}", "草".repeat(300), "堆".repeat(300));
        let at = text.find("智能").unwrap();
        let snippet = around(&text, &[at..at + 6], 40);
        assert_eq!(&snippet.text[snippet.hits[0].clone()], "智能");
    }

    proptest! {
        #[test]
        fn hits_are_what_was_marked(text in "\\PC{0,400}", picks in prop::collection::vec((0usize..400, 1usize..9), 0..6), letters in 8usize..200) {
            let marks = picks.into_iter().map(|(from, len)| {
                let start = text.floor_char_boundary(from.min(text.len()));
                start..text.ceil_char_boundary((start + len).min(text.len()))
            }).collect();
            let marks = crate::search::marks::apart(marks);
            let snippet = around(&text, &marks, letters);
            prop_assert!(snippet.text.chars().count() <= letters + letters / 4 + 2);
            for hit in &snippet.hits {
                prop_assert!(snippet.text.get(hit.clone()).is_some_and(|hit| text.contains(hit)));
            }
        }
    }
}
