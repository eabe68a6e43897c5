//! Detection of code in Markdown text: fences of backticks or tildes, and spans of backticks within a line.

/// Minimum number of marks in a fence.
const FENCE: usize = 3;

/// Incremental detector of code.
#[derive(Debug, Default)]
pub(crate) struct CodeSpans {
    /// Mark of the open fence, and the number of marks that opened it.
    fence: Option<(char, usize)>,
    /// True in the line that opened the fence, where backticks may also close it.
    is_opening_line: bool,
    in_ticks: bool,
    /// Length of the current run of backticks.
    run: usize,
    line: Line,
    /// True in a line of a quotation.
    is_quoted: bool,
    last: Option<char>,
}

/// Content of the current line so far.
#[derive(Debug, Default, Clone, Copy)]
enum Line {
    #[default]
    Blank,
    /// A run of one mark, possibly followed by blanks.
    Marks {
        mark: char,
        count: usize,
        ended: bool,
    },
    Other,
}

impl Line {
    fn with(self, character: char) -> Self {
        match (self, character) {
            (Self::Blank, mark @ ('`' | '~')) => Self::Marks { mark, count: 1, ended: false },
            (Self::Marks { mark, count, ended: false }, _) if mark == character => {
                Self::Marks { mark, count: count + 1, ended: false }
            }
            (Self::Marks { mark, count, .. }, ' ' | '\t' | '\r') => Self::Marks { mark, count, ended: true },
            (Self::Blank, ' ' | '\t' | '\r' | '>') => Self::Blank,
            _ => Self::Other,
        }
    }
}

impl CodeSpans {
    pub(crate) fn add(&mut self, text: &str) {
        for character in text.chars() {
            if character == '`' && self.fence.is_none_or(|(mark, _)| mark == '`') {
                self.run += 1;
            } else {
                self.end_run();
            }
            if character == '\n' {
                self.end_line();
            } else {
                self.is_quoted |= character == '>' && matches!(self.line, Line::Blank);
                self.line = self.line.with(character);
                // A tilde fence, which must be at the start of a line.
                if let Line::Marks { mark: '~', count: count @ FENCE.., ended: false } = self.line
                    && (self.fence.is_none() || self.is_opening_line)
                {
                    (self.fence, self.is_opening_line, self.in_ticks) = (Some(('~', count)), true, false);
                }
            }
            self.last = Some(character);
        }
    }

    /// Closes a fence if the line contains only the fence's mark, at least as many times as the opening line.
    fn end_line(&mut self) {
        if let (Line::Marks { mark, count, .. }, Some((opening_mark, min_count))) = (self.line, self.fence)
            && !self.is_opening_line
            && mark == opening_mark
            && count >= min_count
        {
            self.fence = None;
        }
        (self.line, self.is_opening_line, self.in_ticks, self.is_quoted) = (Line::Blank, false, false, false);
    }

    fn end_run(&mut self) {
        match (std::mem::take(&mut self.run), self.fence) {
            (count @ FENCE.., None) => {
                (self.fence, self.is_opening_line, self.in_ticks) = (Some(('`', count)), true, false)
            }
            (FENCE.., Some(_)) if self.is_opening_line => self.fence = None,
            (1.., None) => self.in_ticks = !self.in_ticks,
            _ => {}
        }
    }

    /// Returns true if the text at this position of the line is code or quoted.
    pub(crate) fn is_code(&self) -> bool {
        self.is_quoted || self.is_fenced() || (self.run < FENCE && self.in_ticks != (self.run > 0))
    }

    /// Returns true if the text at this position of the line is within a fence.
    pub(crate) fn is_fenced(&self) -> bool {
        let is_mark = self.run >= FENCE;
        if self.fence.is_some() { !(is_mark && self.is_opening_line) } else { is_mark }
    }

    pub(crate) fn last(&self) -> Option<char> {
        self.last
    }
}

/// Returns the length of the longest suffix of a text that may start one of these marks.
pub(crate) fn partial_mark_length(text: &str, marks: &[&str]) -> usize {
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
    fn code_is_recognised_by_its_delimiters() {
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
        check("a\n > b", true);
        check("a > b", false);
        check("> a\nb", false);
        check("> ```\n> a\n> ```\nb", false);
        check("```", true);
        check("```\nfn ` x\n", true);
        // The rest of the line decides whether it closes the fence.
        check("```\nfn\n```", true);
        check("```\nfn\n```\n", false);
        check("```\nfn\n ``` \t\r\n", false);
        check("Use ```fn``` or", false);
        check("~~~\nfn\n~~~\n", false);
        check("~~~~sh\n~~~\n", true);
        check("~~~\n```\n", true);
        // Other runs do not close a fence.
        check("```\nfn\n```json", true);
        check("```markdown\n# A\n```json\n{}\n", true);
        check("```markdown\n# A\n```json\n{}\n```\n", false);
        check("````markdown\n```json\n{}\n```\n", true);
        check("````markdown\n```json\n{}\n```\n`````\n", false);
        check("```\nx ```\n", true);
    }

    #[test]
    fn partial_marker_at_the_end_is_recognised() {
        assert_eq!(partial_mark_length("a <thi", &["<think>", "[THINK]"]), 4);
        assert_eq!(partial_mark_length("a <think>", &["<think>"]), 0);
        assert_eq!(partial_mark_length("◁", &["◁think▷"]), 3);
        assert_eq!(partial_mark_length("a", &["<think>"]), 0);
    }
}
