//! Whether a place in a Markdown text is code: within a fence, of backticks or of tildes, or between backticks of one line.

/// Marks of a fence.
const FENCE: usize = 3;

/// Follows a text as it comes.
#[derive(Debug, Default)]
pub(crate) struct CodeSpans {
    in_fence: bool,
    in_ticks: bool,
    /// Set if the fence is one of tildes.
    of_tildes: bool,
    /// Backticks that came last, one after another.
    run: usize,
    /// Tildes at the beginning of the line so far; none where something else stands there.
    tildes: Option<usize>,
    last: Option<char>,
}

impl CodeSpans {
    /// Takes in the next piece.
    pub(crate) fn add(&mut self, text: &str) {
        for character in text.chars() {
            self.add_tilde(character);
            if character == '`' && !self.of_tildes {
                self.run += 1;
            } else {
                self.end_run();
                if character == '\n' {
                    self.in_ticks = false;
                }
            }
            self.last = Some(character);
        }
    }

    /// Opens and closes fences of tildes, which stand at the beginning of a line.
    fn add_tilde(&mut self, character: char) {
        let begins = self.last.is_none_or(|last| last == '\n');
        let before = if begins { Some(0) } else { self.tildes };
        self.tildes = match (character, before) {
            ('~', Some(tildes)) => Some(tildes + 1),
            (' ' | '\t', Some(0)) => Some(0),
            _ => None,
        };
        if self.tildes == Some(FENCE) && (self.of_tildes || !self.in_fence) {
            self.in_fence = !self.of_tildes;
            self.of_tildes = self.in_fence;
            self.in_ticks = false;
        }
    }

    fn end_run(&mut self) {
        match std::mem::take(&mut self.run) {
            0 => {}
            1 | 2 if self.in_fence => {}
            1 | 2 => self.in_ticks = !self.in_ticks,
            _ => {
                self.in_fence = !self.in_fence;
                self.in_ticks = false;
            }
        }
    }

    /// Returns whether what comes next is code.
    pub(crate) fn is_code(&self) -> bool {
        match self.run {
            0 => self.in_fence || self.in_ticks,
            1 | 2 => self.in_fence || !self.in_ticks,
            _ => !self.in_fence,
        }
    }

    /// Returns whether what comes next stands within a fence.
    pub(crate) fn is_fenced(&self) -> bool {
        self.in_fence != (self.run > 2)
    }

    /// The last character.
    pub(crate) fn last(&self) -> Option<char> {
        self.last
    }
}

/// The length of the longest end of a text with which one of these marks may begin.
pub(crate) fn begun_mark(text: &str, marks: &[&str]) -> usize {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let from = text.ceil_char_boundary(text.len().saturating_sub(longest));
    text[from..]
        .char_indices()
        .map(|(at, _)| &text[from + at..])
        .find(|end| marks.iter().any(|mark| mark.len() > end.len() && mark.starts_with(end)))
        .map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_known_by_its_marks() {
        let check = |text: &str, expected: bool| {
            let mut spans = CodeSpans::default();
            spans.add(text);
            assert_eq!(spans.is_code(), expected, "{text:?}");
        };
        check("", false);
        check("a `b", true);
        check("a `b` ", false);
        check("a `", true);
        check("a ``b", true);
        check("a ` b\n", false);
        check("```", true);
        check("```\nfn ` x\n", true);
        check("```\nfn\n```", false);
        check("```\nfn\n```\n", false);
    }

    #[test]
    fn the_beginning_of_a_mark_is_known() {
        assert_eq!(begun_mark("a <thi", &["<think>", "[THINK]"]), 4);
        assert_eq!(begun_mark("a <think>", &["<think>"]), 0);
        assert_eq!(begun_mark("◁", &["◁think▷"]), 3);
        assert_eq!(begun_mark("a", &["<think>"]), 0);
    }
}
