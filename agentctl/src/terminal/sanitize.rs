//! Removes control sequences from text before a terminal shows it.
//!
//! Text from models and tools may be hostile: an escape sequence can rename the window, write the clipboard, or move
//! the cursor up and repaint an approval. All such text must be sanitized here before it reaches standard output or the
//! terminal. The result contains no control characters except newline and tab, for any input and any split into chunks.
//! Escape sequences are removed completely; characters that reorder or hide text (bidirectional overrides, tag
//! characters) are written as `<U+202E>`.
//!
//! Only suitable for prose, because it omits text. Text that a user bases a decision on, or that was executed, is shown
//! with [`agentd_core::visible`] instead.

/// Maximum length of a control string (OSC, DCS, APC, PM, SOS), after which it is treated as text again. Without this
/// limit, an unterminated string would hide the remaining answer.
const MAX_STRING: usize = 4096;

/// Parser state at the end of the previous chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Outside of escape sequences.
    #[default]
    Ground,
    /// After ESC, or ESC and intermediate characters.
    Escape,
    /// In a control sequence (CSI), until its final character.
    Sequence,
    /// In a control string, with its length so far, until ST, BEL or the end of the line.
    String(usize),
    /// After an ESC in a control string: a backslash completes ST.
    StringEscape,
}

/// Sanitizes text that arrives in chunks. Sequences that are split over two chunks are recognised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sanitizer {
    state: State,
}

impl Sanitizer {
    /// Returns the chunk without control sequences.
    pub(crate) fn push(&mut self, chunk: &str) -> String {
        let mut out = String::with_capacity(chunk.len());
        for c in chunk.chars() {
            self.state = step(self.state, c, &mut out);
        }
        out
    }
}

/// Sanitizes a complete text.
pub(crate) fn clean(text: &str) -> String {
    Sanitizer::default().push(text)
}

/// Sanitizes a complete text and collapses white space to get a single line.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Processes one character, appends its sanitized form, and returns the new state.
fn step(state: State, c: char, out: &mut String) -> State {
    match state {
        State::Ground => ground(c, out),
        State::Escape => match c {
            '[' => State::Sequence,
            ']' | 'P' | 'X' | '^' | '_' => State::String(0),
            ' '..='/' => State::Escape,
            '0'..='~' => State::Ground,
            _ => ground(c, out),
        },
        State::Sequence => match c {
            ' '..='?' => State::Sequence,
            '@'..='~' => State::Ground,
            // The sequence is invalid. This character is text, or starts the next sequence.
            _ => ground(c, out),
        },
        State::String(length) => match c {
            '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => State::Ground,
            '\u{1b}' => State::StringEscape,
            '\n' => ground(c, out),
            _ if length >= MAX_STRING => ground(c, out),
            _ => State::String(length + 1),
        },
        State::StringEscape => match c {
            '\\' => State::Ground,
            // Terminals treat this ESC as the end of the string and the start of a sequence.
            _ => step(State::Escape, c, out),
        },
    }
}

fn ground(c: char, out: &mut String) -> State {
    match c {
        '\n' | '\t' => out.push(c),
        '\u{1b}' => return State::Escape,
        '\u{9b}' => return State::Sequence,
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return State::String(0),
        '\u{2028}' | '\u{2029}' => out.push('\n'),
        _ if c.is_control() => {}
        _ if is_deceptive(c) => {
            use std::fmt::Write as _;
            // Writing to a `String` cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
        }
        _ => out.push(c),
    }
    State::Ground
}

/// Returns true if the character reorders the text around it or carries invisible text.
fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(dirty: &str, expected: &str) {
        assert_eq!(clean(dirty), expected, "{dirty:?}");
    }

    #[test]
    fn escape_sequences_are_removed_and_text_kept() {
        check("plain, 漢字, emoji 👩‍👩‍👧, tab\tand\nline", "plain, 漢字, emoji 👩‍👩‍👧, tab\tand\nline");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}[?25l\u{1b}[2J\u{1b}[H top", " top");
        check("\u{1b}]0;title\u{7}after", "after");
        check("\u{1b}]52;c;cm0gLXJm\u{1b}\\after", "after");
        check("\u{1b}Pq#0;2;0\u{1b}\\dcs \u{1b}_apc\u{1b}\\apc \u{1b}^pm\u{1b}\\pm", "dcs apc pm");
        check("\u{9b}31mred \u{9d}0;title\u{9c}after", "red after");
        check("\u{1b}(0\u{1b}Mlines\u{1b}c", "lines");
        check("a\u{8}b\r\nc\u{0}d\u{7f}e\u{85}f", "ab\ncdef");
        check("\u{1b}", "");
        check("\u{1b}\u{1b}[31mred", "red");
    }

    #[test]
    fn malformed_sequences_do_not_swallow_text() {
        check("\u{1b}[31\nnext", "\nnext");
        check("\u{1b}[漢", "漢");
        check("\u{1b}]never ended\nnext", "\nnext");
        let long = format!("\u{1b}]{}visible", "x".repeat(MAX_STRING));
        check(&long, "visible");
        check("\u{1b}]title\u{1b}[31mred", "red");
    }

    #[test]
    fn bidi_and_invisible_characters_are_made_visible() {
        check("rm \u{202e}txt.a", "rm <U+202E>txt.a");
        check("\u{2066}x\u{2069}", "<U+2066>x<U+2069>");
        check("ls\u{e0041}", "ls<U+E0041>");
        check("a\u{2028}b", "a\nb");
    }

    #[test]
    fn clean_line_returns_a_single_line() {
        assert_eq!(clean_line("  a\n\tb \u{1b}[31mc\r\n"), "a b c");
    }

    proptest! {
        #[test]
        fn control_characters_are_removed_in_any_chunking(
            text in "(\\PC|[\\x00-\\x1f\\x7f-\\u{9f}]|\\x1b[\\[\\]P_^X]|[0-9;?m]){0,80}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            bounds.push(text.len());
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| bounds[cut.index(bounds.len())]).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut sanitizer = Sanitizer::default();
            let split: String = cuts.windows(2).map(|pair| sanitizer.push(&text[pair[0]..pair[1]])).collect();
            prop_assert!(split.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()), "{split:?}");
            prop_assert_eq!(split, clean(&text));
        }
    }
}
