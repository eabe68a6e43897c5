//! Reduces what a program wrote for a terminal to what the terminal would show in the end: the last state of each
//! line, without escape sequences. No side effects.

use std::borrow::Cow;

/// Maximum length of a title, link or other string within an escape sequence, in bytes. A longer string is text.
const MAX_STRING: usize = 2_048;

/// Returns the last state of each line, or `None` if no line was overwritten or has escape sequences. The line ends
/// `\n` and `\r\n` stay, so that line numbers are the same.
pub(super) fn settled(text: &str) -> Option<String> {
    let is_overwritten = |(at, _): (usize, &str)| !text[at + 1..].starts_with('\n');
    if !text.contains(['\u{1b}', '\u{8}']) && !text.match_indices('\r').any(is_overwritten) {
        return None;
    }
    let mut settled = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix("\r\n").or(line.strip_suffix('\n')).unwrap_or(line);
        settled.push_str(last_state(&without_sequences(content)));
        settled.push_str(&line[content.len()..]);
    }
    Some(settled)
}

/// Returns the last text of a line that carriage returns overwrite. Programs often clear a progress line at its end, so
/// blank states are ignored.
fn last_state(line: &str) -> &str {
    if !line.contains('\r') {
        return line;
    }
    line.rsplit('\r').find(|state| !state.trim().is_empty()).unwrap_or_default().trim_end()
}

/// Removes escape sequences from a line, and characters that backspaces delete.
fn without_sequences(line: &str) -> Cow<'_, str> {
    if !line.contains(['\u{1b}', '\u{8}']) {
        return Cow::Borrowed(line);
    }
    let (mut plain, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\u{1b}' => rest = after_sequence(rest),
            '\u{8}' if plain.ends_with('\r') => {}
            '\u{8}' => drop(plain.pop()),
            letter => plain.push(letter),
        }
    }
    Cow::Owned(plain)
}

/// Returns the text after an escape sequence whose escape character was removed.
fn after_sequence(rest: &str) -> &str {
    if let Some(text) = rest.strip_prefix([']', 'P', 'X', '^', '_']) {
        let string = &text[..text.floor_char_boundary(MAX_STRING)];
        let ends = [string.find('\u{7}').map(|at| at + 1), string.find("\u{1b}\\").map(|at| at + 2)];
        return ends.into_iter().flatten().min().map_or(text, |end| &text[end..]);
    }
    let (rest, parameters) = match rest.strip_prefix('[') {
        Some(rest) => (rest, ' '..='?'),
        None => (rest, ' '..='/'),
    };
    let end = rest.trim_start_matches(|letter: char| parameters.contains(&letter));
    end.strip_prefix(|letter: char| matches!(letter, '0'..='~')).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_shown_in_their_last_state() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(settled(text).as_deref(), expected, "{text:?}");
        check("one\ntwo\r\n\r\nthree", None);
        check("10%\r50%\r100%\nnext", Some("100%\nnext"));
        check("\r10%\r100%\r\nnext\r\n", Some("100%\r\nnext\r\n"));
        check("10%\r100%\r\r\n", Some("100%\r\n"));
        check("10%\r100%", Some("100%"));
        check("100% \r", Some("100%"));
        check("building\r\u{1b}[2K\rdone   \r\u{1b}[K\nend", Some("done\nend"));
        check("\u{1b}[1;31mred\u{1b}[0m and \u{1b}[38;5;201mpink\u{1b}[m", Some("red and pink"));
        check("\u{1b}]0;npm install\u{7}added 3\n", Some("added 3\n"));
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\!", Some("link!"));
        check("\u{1b}(B\u{1b}=\u{1b}7x\u{1b}8", Some("x"));
        check("12%\u{8}\u{8}\u{8}34%", Some("34%"));
        check("a\r\u{8}b", Some("b"));
        // A sequence that does not end hides no text.
        check("\u{1b}]0;title\nall\u{1b}[", Some("0;title\nall"));
        check("\u{1b}[3漢", Some("漢"));
    }

    #[test]
    fn endless_sequences_are_read_in_bounded_time() {
        let text = "\u{1b}]".repeat(50_000);
        assert_eq!(settled(&text), Some(String::new()));
    }

    proptest! {
        #[test]
        fn last_states_remain_and_nothing_else(
            lines in proptest::collection::vec(
                (
                    proptest::collection::vec(("[a-z0-9% ]{0,6}[a-z%]", 0..5usize), 1..4),
                    prop_oneof![Just("\n"), Just("\r\n")],
                ),
                0..8,
            ),
        ) {
            const SEQUENCES: [&str; 5] = ["", "\u{1b}[0m", "\u{1b}[2K", "\u{1b}]0;a title\u{7}", "\u{1b}]2;x\u{1b}\\"];
            let (mut text, mut expected) = (String::new(), String::new());
            for (states, end) in &lines {
                let written = |(state, at): &(String, usize)| format!("{}{state}{}", SEQUENCES[*at], SEQUENCES[4 - at]);
                text.push_str(&states.iter().map(written).collect::<Vec<_>>().join("\r"));
                text.push_str(end);
                expected.push_str(&format!("{}{end}", states.last().map_or("", |(state, _)| state)));
            }
            prop_assert_eq!(settled(&text).unwrap_or(text), expected);
        }

        #[test]
        fn settled_text_is_plain_and_keeps_its_lines(text in "[a-c \r\n\u{8}\u{7}\u{1b}\\[\\]0;m漢\\\\]{0,60}") {
            let plain = settled(&text).unwrap_or_else(|| text.clone());
            prop_assert!(settled(&plain).is_none(), "{plain:?}");
            prop_assert_eq!(plain.matches('\n').count(), text.matches('\n').count());
        }
    }
}
