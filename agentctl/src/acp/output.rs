//! Texts of results: in a fence, cut in the middle where they are long, and as they come while a command runs.

use std::time::{Duration, Instant};

/// Bytes of a running command's output that are shown, where all of it is shown anew each time.
const TAIL: usize = 4 * 1024;
/// Pause between two of those.
const PAUSE: Duration = Duration::from_millis(250);

/// A text that Markdown leaves alone.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Words in a line that Markdown leaves alone.
pub(super) fn code_span(words: &str) -> String {
    let runs = words.split(|letter| letter != '`').map(str::len);
    let mark = "`".repeat(runs.max().unwrap_or(0) + 1);
    let pad = if words.starts_with('`') || words.ends_with('`') { " " } else { "" };
    format!("{mark}{pad}{words}{pad}{mark}")
}

/// The head and the tail of a text that is longer than so many bytes.
pub(super) fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(longest / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - longest / 2)..];
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

/// Output of a command that runs.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    tail: String,
    shown: Option<Instant>,
    /// Set once anything came.
    pub(super) has_come: bool,
}

impl LiveOutput {
    /// Takes more of it, and returns its end if it is time to show that.
    pub(super) fn take(&mut self, more: &str) -> Option<String> {
        self.has_come = true;
        self.tail.push_str(more);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..self.tail.ceil_char_boundary(surplus));
        if self.shown.is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        self.shown = Some(Instant::now());
        Some(fenced(&self.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_span_holds_any_words() {
        let check = |words: &str, expected: &str| assert_eq!(code_span(words), expected);
        check("echo *a* __b__", "`echo *a* __b__`");
        check("echo `date`", "`` echo `date` ``");
        check("a ``b`` c", "```a ``b`` c```");
        check("", "``");
    }

    #[test]
    fn a_fence_is_longer_than_those_within() {
        assert_eq!(fenced("a\n"), "```\na\n```");
        assert_eq!(fenced("a\n````\nb"), "`````\na\n````\nb\n`````");
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(cut("short", 5), "short");
        let cut = cut(&"é".repeat(100), 21);
        assert!(cut.starts_with("ééééé\n[… 180 bytes") && cut.ends_with("ééééé"), "{cut}");
    }

    #[test]
    fn live_output_is_shown_by_its_end_now_and_then() {
        let mut output = LiveOutput::default();
        assert_eq!(output.take("one\n"), Some("```\none\n```".to_owned()));
        assert_eq!(output.take("two\n"), None);
        output.shown = None;
        assert!(output.take(&"é".repeat(TAIL)).unwrap().len() < TAIL + 20);
    }
}
