//! Text as a user must see it before approval: every character that would run is visible, and the visible text
//! determines what would run.
//!
//! Everything that is approved, previewed or stored is shown only in this form: questions and previews, diffs, lists of
//! pending calls, the audit log, titles. Nothing is omitted, and no terminal sequence takes effect. A character that
//! would control a terminal, that is invisible, or that looks like a space but is not one, is escaped as `\u{9b}`. The
//! backslash is escaped in a text that itself contains such an escape. A tab is shown as `⇥`, a space at the end of a
//! line as `␣`, and a line break in a one-line text as `⏎`. If a text contains these symbols, they are escaped.
//! Therefore different texts never look the same, and [`read`] restores the original.
//!
//! Messages from a model to the user are prose and do not need this form. Removing terminal sequences is enough for
//! messages.

use std::fmt::Write as _;

use unicode_normalization::char::is_combining_mark;

use crate::untrusted::is_unseen;

const TAB: char = '⇥';
/// Symbol for a space at the end of a line.
const BLANK: char = '␣';
/// Symbol for a line break in a one-line text.
const BREAK: char = '⏎';
/// Prefix of an escaped character.
const ESCAPE_PREFIX: &str = "\\u{";
/// Capacity for combining marks above and below a character. More marks would cover adjacent lines.
const MARK_CAPACITY: usize = 6;

/// Returns a text of several lines in visible form.
pub fn lines(text: &str) -> String {
    join_lines(text, '\n')
}

/// Returns a text in visible form on one line, including its line breaks.
pub fn line(text: &str) -> String {
    join_lines(text, BREAK)
}

fn join_lines(text: &str, line_break: char) -> String {
    let mut shown = String::with_capacity(text.len() + text.len() / 16);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            shown.push(line_break);
        }
        push_line(line, &mut shown);
    }
    shown
}

/// Returns true if [`lines`] changes nothing except tabs, trailing spaces and Windows line endings. Such a text can be
/// shown raw, and all of it is visible to a user.
pub fn is_plain(text: &str) -> bool {
    let text = text.replace("\r\n", "\n");
    lines(&text).replace(TAB, "\t").replace(BLANK, " ") == text
}

/// Restores the original of a text shown by [`lines`] or [`line()`]. `None` if `shown` is not in that form.
pub fn read(shown: &str) -> Option<String> {
    let mut text = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        if let Some(written) = rest.strip_prefix(ESCAPE_PREFIX) {
            let (digits, tail) = written.split_once('}')?;
            text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
            rest = tail;
            continue;
        }
        text.push(match c {
            TAB => '\t',
            BLANK => ' ',
            BREAK => '\n',
            c => c,
        });
        rest = &rest[c.len_utf8()..];
    }
    Some(text)
}

/// Returns true for characters that are visible only if escaped, because they control a terminal, are invisible, or
/// look like a space but are not one. Includes tabs and line breaks.
pub fn is_hidden(c: char) -> bool {
    // Printable ASCII needs no further checks.
    !(' '..='~').contains(&c) && (c.is_control() || is_unseen(c) || is_blank(c) || is_private_use(c) || c == '\u{fe0f}')
}

/// Returns true for spaces other than the ASCII space.
fn is_blank(c: char) -> bool {
    c != ' ' && c.is_whitespace()
}

/// Returns true for private use and noncharacters, which fonts draw arbitrarily, if at all.
fn is_private_use(c: char) -> bool {
    let code = u32::from(c);
    matches!(code, 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xf0000..=0x0010_ffff) || code & 0xfffe == 0xfffe
}

/// Returns the part of `MARK_CAPACITY` that a mark uses: half of it for marks that combine with any character, and less
/// for marks of scripts in which a character has several. 0 for characters that are not marks.
fn mark_weight(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}' => MARK_CAPACITY / 2,
        c => usize::from(is_combining_mark(c)),
    }
}

/// Appends a line without its line break.
fn push_line(line: &str, shown: &mut String) {
    let end = line.trim_end_matches(' ').len();
    let mut rest = &line[..end];
    let mut capacity = 0_usize;
    while let Some(c) = rest.chars().next() {
        let weight = mark_weight(c);
        let must_escape = match c {
            '\\' => rest.starts_with(ESCAPE_PREFIX),
            TAB | BLANK | BREAK => true,
            _ => is_hidden(c) || weight > capacity,
        };
        if c == '\t' {
            shown.push(TAB);
        } else if must_escape {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{ESCAPE_PREFIX}{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
        capacity = match c {
            _ if weight > 0 => capacity.saturating_sub(weight),
            c if c.is_alphanumeric() => MARK_CAPACITY,
            _ => 0,
        };
        rest = &rest[c.len_utf8()..];
    }
    shown.extend(std::iter::repeat_n(BLANK, line.len() - end));
}

/// Escapes hidden characters in JSON as `\u009b` for display on a terminal. The result parses to the same value. `json`
/// must be valid JSON, in which only strings can contain such characters.
pub fn json(json: String) -> String {
    let must_escape = |c: char| !c.is_ascii_control() && is_hidden(c) || c == '\u{7f}';
    if !json.contains(must_escape) {
        return json;
    }
    let mut shown = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        if must_escape(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(lines(text), expected, "{text:?}");
        assert_eq!(read(expected).as_deref(), Some(text), "{expected:?}");
    }

    #[test]
    fn everyday_text_is_unchanged() {
        for text in [
            "",
            "cargo test -p agentd-core",
            r#"printf '%s\n' "$x" | sed 's/\./-/' > "C:\temp\u1.txt""#,
            "two\nlines\n\n  and an indent\n",
            "Größe 漢字 ελληνικά עברית 한국어 1½ … → · é e\u{301}",
            "בְּרֵאשִׁית العَرَبِيَّةُ हिन्दी क्षेत्र ไม่ได้ที่ தமிழ் မြန်မာ လျှို့ဝှက် བོད་སྐད་ Việt",
        ] {
            check(text, text);
            assert!(!line(text).contains('\n'));
        }
    }

    #[test]
    fn invisible_characters_are_escaped() {
        check("echo \u{1b}[2Jx\u{90}rm -rf ~\u{9c}", "echo \\u{1b}[2Jx\\u{90}rm -rf ~\\u{9c}");
        check("\u{1b}]0;title\u{7}a\u{0}b\rc\u{7f}d\u{85}e", "\\u{1b}]0;title\\u{7}a\\u{0}b\\u{d}c\\u{7f}d\\u{85}e");
        check("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{ad}f", "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{feff}e\\u{ad}f");
        check("a\u{2028}b\u{2029}c\u{a0}d\u{3000}e\u{202f}f", "a\\u{2028}b\\u{2029}c\\u{a0}d\\u{3000}e\\u{202f}f");
        check("ls\u{e0041}\u{e007f}\u{2062}\u{3164}\u{2800}", "ls\\u{e0041}\\u{e007f}\\u{2062}\\u{3164}\\u{2800}");
        check(
            "✔\u{fe0f}\u{fe0e}\u{200d}\u{e0100}\u{e000}\u{ffff}",
            "✔\\u{fe0f}\\u{fe0e}\\u{200d}\\u{e0100}\\u{e000}\\u{ffff}",
        );
        check("\ta\t\nb  \n \n", "⇥a⇥\nb␣␣\n␣\n");
        check("/\u{338} e\u{301}\u{301}\u{301}", "/\\u{338} e\u{301}\u{301}\\u{301}");
        // Stacked Thai tone marks and Hebrew points.
        for (letter, mark, written) in [('ก', '\u{e48}', "\\u{e48}"), ('ב', '\u{5b0}', "\\u{5b0}")] {
            let stacked_marks = |count: usize| format!("{letter}{}", mark.to_string().repeat(count));
            check(&stacked_marks(MARK_CAPACITY), &stacked_marks(MARK_CAPACITY));
            check(&stacked_marks(MARK_CAPACITY + 1), &format!("{}{written}", stacked_marks(MARK_CAPACITY)));
        }
    }

    #[test]
    fn text_like_an_escape_is_escaped() {
        check(r"a\u{9b}b \\u{41} \u41 \", r"a\u{5c}u{9b}b \\u{5c}u{41} \u41 \");
        check("⇥ ␣ ⏎", "\\u{21e5} \\u{2423} \\u{23ce}");
        assert_eq!(line("a \n\nb"), "a␣⏎⏎b");
        assert_eq!(line("a⏎b"), "a\\u{23ce}b");
    }

    #[test]
    fn plain_text_has_no_hidden_characters() {
        for text in ["a\tb  \r\n\n c", "é 漢 \\ ` *"] {
            assert!(is_plain(text), "{text:?}");
        }
        for text in ["a\u{202e}b", "a\u{200b}", "a\rb", "⇥", "␣", "\\u{41}", "\u{1b}[2J", "a\u{a0}b"] {
            assert!(!is_plain(text), "{text:?}");
        }
    }

    /// Generates texts with letters, hidden characters, and the symbols of the visible form.
    fn texts() -> impl Strategy<Value = String> {
        let hard = prop::sample::select(
            "\\u{}9b0 \t\n\r\u{1b}\u{9b}\u{9c}\u{90}\u{202e}\u{200b}\u{ad}\u{a0}\u{2028}\u{85}⇥␣⏎e\u{301}\u{fe0f}\u{e0041}"
                .chars()
                .collect::<Vec<_>>(),
        );
        let letters = prop_oneof![4 => hard, 1 => any::<char>(), 1 => prop::char::range(' ', '~')];
        proptest::collection::vec(letters, 0..24).prop_map(|letters| letters.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The shown text can be read back, so different texts never look the same.
        #[test]
        fn shown_text_round_trips(text in texts(), other in texts()) {
            let (shown, row) = (lines(&text), line(&text));
            prop_assert_eq!(read(&shown), Some(text.clone()));
            prop_assert_eq!(read(&row), Some(text.clone()));
            prop_assert_eq!(lines(&other) == shown, other == text);
            prop_assert_eq!(line(&other) == row, other == text);
        }

        #[test]
        fn shown_text_has_only_visible_characters(text in texts()) {
            let (shown, row) = (lines(&text), line(&text));
            prop_assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{:?}", shown);
            prop_assert!(row.chars().all(|c| !is_hidden(c)), "{:?}", row);
            prop_assert!(shown.split('\n').all(|line| !line.ends_with(' ')), "{:?}", shown);
            prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn escaped_json_parses_to_the_same_value(text in texts()) {
            let shown = json(serde_json::Value::String(text.clone()).to_string());
            prop_assert!(shown.chars().all(|c| !is_hidden(c)), "{:?}", shown);
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
