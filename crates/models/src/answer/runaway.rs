//! Detection of answers that repeat themselves endlessly.
//!
//! Small models fall into loops: one character or phrase, until the token limit. The guard processes every piece of an
//! answer once, and returns the byte at which the repetition exceeds a limit. The result does not depend on how the
//! answer is split into pieces. Single characters are counted directly. Phrases are found by the shortest period of
//! the last bytes, which is computed whenever a quarter of the window is new. So every byte is processed a fixed
//! number of times.

/// Limits for a kind of text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of consecutive identical opening brackets or braces.
    brackets: usize,
    /// Maximum number of consecutive identical characters that are not opening brackets or braces.
    characters: usize,
    /// Windows for phrases: size in bytes, and the number of repetitions in the window that is too many.
    windows: [(usize, usize); 2],
}

/// Limits for text shown to users.
pub(crate) const PROSE: Limits = Limits { brackets: 50, characters: 500, windows: [(2 << 10, 16), (16 << 10, 8)] };

/// Limits for call arguments, which may contain a repetitive file.
pub(crate) const ARGUMENTS: Limits =
    Limits { brackets: 1_000, characters: 4_000, windows: [(16 << 10, 64), (64 << 10, 16)] };

/// Maximum length of a repeated phrase in a message, in characters.
const MAX_PHRASE: usize = 60;

/// Position and description of a repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runaway {
    /// Number of bytes of the last piece to keep.
    pub(crate) keep: usize,
    /// Description of the repeated text.
    pub(crate) description: String,
}

/// Checks one text for repetition.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    last: Option<char>,
    run: usize,
    /// Last bytes, at most twice the larger window.
    recent: Vec<u8>,
    seen: usize,
}

impl Guard {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, last: None, run: 0, recent: Vec::new(), seen: 0 }
    }

    pub(crate) fn check(&mut self, piece: &str) -> Option<Runaway> {
        let (character, phrase) = (self.check_characters(piece), self.check_phrases(piece));
        // The earlier position is used, so that the cut does not depend on how the answer is split into pieces.
        match (character, phrase) {
            (Some(character), Some(phrase)) if phrase.keep < character.keep => Some(phrase),
            (character, phrase) => character.or(phrase),
        }
    }

    fn check_characters(&mut self, piece: &str) -> Option<Runaway> {
        for (at, character) in piece.char_indices() {
            if self.last != Some(character) {
                self.last = Some(character);
                self.run = 1;
                continue;
            }
            self.run += 1;
            let limit = if matches!(character, '[' | '{') { self.limits.brackets } else { self.limits.characters };
            if self.run > limit {
                return Some(Runaway {
                    keep: at + character.len_utf8(),
                    description: describe(&character.to_string()),
                });
            }
        }
        None
    }

    fn check_phrases(&mut self, piece: &str) -> Option<Runaway> {
        let step = self.limits.windows[0].0 / 4;
        let mut rest = piece.as_bytes();
        while !rest.is_empty() {
            // Checks happen at fixed distances from the start, regardless of the pieces.
            let length = rest.len().min(step - self.seen % step);
            self.remember(&rest[..length]);
            rest = &rest[length..];
            if self.seen.is_multiple_of(step)
                && let Some(phrase) = self.phrase()
            {
                let keep = piece.len() - rest.len();
                let keep = (keep..=piece.len()).find(|at| piece.is_char_boundary(*at)).unwrap_or(piece.len());
                return Some(Runaway { keep, description: describe(&String::from_utf8_lossy(phrase)) });
            }
        }
        None
    }

    fn remember(&mut self, bytes: &[u8]) {
        let window = self.limits.windows[1].0;
        if self.recent.len() + bytes.len() > 2 * window {
            self.recent.drain(..self.recent.len() - window);
        }
        self.recent.extend_from_slice(bytes);
        self.seen += bytes.len();
    }

    fn phrase(&self) -> Option<&[u8]> {
        self.limits.windows.iter().find_map(|&(window, times)| {
            if !self.seen.is_multiple_of(window / 4) || self.recent.len() < window {
                return None;
            }
            let text = &self.recent[self.recent.len() - window..];
            let period = shortest_period(text);
            (period * times <= window).then(|| &text[..period])
        })
    }
}

/// Returns the length of the shortest phrase that yields the whole text when repeated.
fn shortest_period(text: &[u8]) -> usize {
    // For each prefix, the length of its longest proper prefix that is also a suffix.
    let mut borders = vec![0_usize; text.len()];
    let mut border = 0;
    for at in 1..text.len() {
        while border > 0 && text[at] != text[border] {
            border = borders[border - 1];
        }
        if text[at] == text[border] {
            border += 1;
        }
        borders[at] = border;
    }
    text.len() - border
}

fn describe(phrase: &str) -> String {
    let mut description: String = phrase.chars().take(MAX_PHRASE).collect();
    if description.len() < phrase.len() {
        description.push('…');
    }
    format!("repeated {description:?} without end")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(text: &str, piece: usize) -> Option<(usize, String)> {
        let mut guard = Guard::new(PROSE);
        let mut before = 0;
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(piece) {
            let piece: String = piece.iter().collect();
            if let Some(runaway) = guard.check(&piece) {
                return Some((before + runaway.keep, runaway.description));
            }
            before += piece.len();
        }
        None
    }

    #[test]
    fn only_runaway_answers_are_cut() {
        let check = |text: &str, expected: Option<&str>| {
            for piece in [1, 7, 10_000_000] {
                let found = run(text, piece).map(|(_, description)| description);
                let expected = expected.map(|phrase| format!("repeated {phrase:?} without end"));
                assert_eq!(found, expected, "{:.40} in pieces of {piece}", text);
            }
        };
        check(&"[".repeat(50), None);
        check(&"[".repeat(51), Some("["));
        check(&format!("well {}", "{".repeat(51)), Some("{"));
        check(&"=".repeat(500), None);
        check(&"=".repeat(501), Some("="));
        check(&"哈".repeat(501), Some("哈"));
        check(&"ha ".repeat(100), None);
        check(&"ha ".repeat(1_000), Some("ha "));
        check(&format!("Here it is. {}", "I will do it. ".repeat(1_000)), Some("it. I will do "));
        let paragraph: String = (0..200).map(|n| format!("word{n} ")).collect();
        check(&paragraph.repeat(4), None);
        let found = run(&paragraph.repeat(40), 5).map(|(_, description)| description.chars().count());
        assert_eq!(found, Some(MAX_PHRASE + 1 + "repeated \"\" without end".len()));
        let numbers: String = (0..20_000).map(|n| format!("{n}\n")).collect();
        check(&numbers, None);
        check(&"| a | b |\n|---|---|\n| 1 | 2 |\n".repeat(20), None);
    }

    proptest! {
        #[test]
        fn cut_position_is_independent_of_chunking(phrase in "[a-cä]{1,40}", before in ".{0,300}", piece in 1_usize..5_000) {
            let text = format!("{before}{}", phrase.repeat(2_000));
            let (whole, cut) = (run(&text, usize::MAX), run(&text, piece));
            prop_assert!(whole.is_some());
            let position_of = |a: &Option<(usize, String)>| a.as_ref().map(|(at, _)| *at);
            prop_assert_eq!(position_of(&whole), position_of(&cut));
        }
    }
}
