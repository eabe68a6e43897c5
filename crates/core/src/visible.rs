//! Text as a person must see it before they say yes: every character that would run can be seen, and what is seen
//! determines what would run.
//!
//! What is asked, foreseen and remembered is shown in this form, and in no other: questions and previews, diffs, lists of
//! what waits, the audit log, titles. Nothing is left out and nothing is obeyed. A character that a terminal would take
//! for a command, that has no ink, or that looks like a blank and is none, is written out as `\u{9b}`; so is the backslash
//! of a text that has just these letters itself. A tab is `⇥`, a blank at the end of a line `␣`, and in a text on one
//! line a line break is `⏎`; where a text has these signs itself, they are written out. So no two texts look the same, and
//! [`read`] finds the text again.
//!
//! What a model says to a person is prose, and needs none of this: there it is enough that terminals obey nothing.

use std::fmt::Write as _;

use unicode_normalization::char::is_combining_mark;

use crate::untrusted::is_unseen;

/// Stands for a tab.
const TAB: char = '⇥';
/// Stands for a blank at the end of a line.
const BLANK: char = '␣';
/// Stands for a line break, in a text on one line.
const BREAK: char = '⏎';
/// Prefix of a character that is written out.
const WRITTEN: &str = "\\u{";
/// Room for marks above and below a letter. More of them paint over the lines beside it.
const ROOM: usize = 6;

/// A text of several lines.
pub fn lines(text: &str) -> String {
    joined(text, '\n')
}

/// A text on one line, line breaks included.
pub fn line(text: &str) -> String {
    joined(text, BREAK)
}

fn joined(text: &str, line_break: char) -> String {
    let mut shown = String::with_capacity(text.len() + text.len() / 16);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            shown.push(line_break);
        }
        push_line(line, &mut shown);
    }
    shown
}

/// Returns true if [`lines`] shows a text as it is, tabs, blanks at the ends of lines and line ends of Windows aside: it can be
/// shown raw, and a person sees all of it.
pub fn is_plain(text: &str) -> bool {
    let text = text.replace("\r\n", "\n");
    lines(&text).replace(TAB, "\t").replace(BLANK, " ") == text
}

/// The text that is shown so, by [`lines`] or by [`line()`]. None where no text is.
pub fn read(shown: &str) -> Option<String> {
    let mut text = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        if let Some(written) = rest.strip_prefix(WRITTEN) {
            let (digits, behind) = written.split_once('}')?;
            text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
            rest = behind;
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

/// Returns whether a character steers a terminal, has no ink, or looks like a blank and is none: it can only be seen
/// where it is written out. Tabs and line breaks are among them.
pub fn is_hidden(c: char) -> bool {
    // Letters as they are written every day need no closer look.
    !(' '..='~').contains(&c) && (c.is_control() || is_unseen(c) || is_blank(c) || has_no_meaning(c) || c == '\u{fe0f}')
}

/// Blanks other than the one that every key board has.
fn is_blank(c: char) -> bool {
    c != ' ' && c.is_whitespace()
}

/// Characters that every font draws as it likes, if at all: those for private use, and those that are none.
fn has_no_meaning(c: char) -> bool {
    let code = u32::from(c);
    matches!(code, 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xf0000..=0x0010_ffff) || code & 0xfffe == 0xfffe
}

/// Part of the room over a letter that a character takes: half of it where it goes with any letter, less where it belongs to a
/// script in which a letter has several. Zero for what is no mark.
fn room_taken(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}' => ROOM / 2,
        c => usize::from(is_combining_mark(c)),
    }
}

/// A line without its break.
fn push_line(line: &str, shown: &mut String) {
    let end = line.trim_end_matches(' ').len();
    let mut rest = &line[..end];
    let mut room = 0_usize;
    while let Some(c) = rest.chars().next() {
        let taken = room_taken(c);
        let is_out = match c {
            '\\' => rest.starts_with(WRITTEN),
            TAB | BLANK | BREAK => true,
            _ => is_hidden(c) || taken > room,
        };
        if c == '\t' {
            shown.push(TAB);
        } else if is_out {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{WRITTEN}{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
        room = match c {
            _ if taken > 0 => room.saturating_sub(taken),
            c if c.is_alphanumeric() => ROOM,
            _ => 0,
        };
        rest = &rest[c.len_utf8()..];
    }
    shown.extend(std::iter::repeat_n(BLANK, line.len() - end));
}

/// JSON that is safe to be looked at on a terminal: hidden characters are written `\u009b`, which parses to the same.
/// `json` must be JSON, whose texts are the only place where they may stand.
pub fn json(json: String) -> String {
    let is_out = |c: char| !c.is_ascii_control() && is_hidden(c) || c == '\u{7f}';
    if !json.contains(is_out) {
        return json;
    }
    let mut shown = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        if is_out(c) {
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
    fn what_is_written_every_day_stays_as_it_is() {
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
    fn what_cannot_be_seen_is_written_out() {
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
        // Thai tone marks and Hebrew points, one over the other.
        for (letter, mark, written) in [('ก', '\u{e48}', "\\u{e48}"), ('ב', '\u{5b0}', "\\u{5b0}")] {
            let stack = |count: usize| format!("{letter}{}", mark.to_string().repeat(count));
            check(&stack(ROOM), &stack(ROOM));
            check(&stack(ROOM + 1), &format!("{}{written}", stack(ROOM)));
        }
    }

    #[test]
    fn what_looks_like_this_form_is_written_out_too() {
        check(r"a\u{9b}b \\u{41} \u41 \", r"a\u{5c}u{9b}b \\u{5c}u{41} \u41 \");
        check("⇥ ␣ ⏎", "\\u{21e5} \\u{2423} \\u{23ce}");
        assert_eq!(line("a \n\nb"), "a␣⏎⏎b");
        assert_eq!(line("a⏎b"), "a\\u{23ce}b");
    }

    #[test]
    fn a_plain_text_hides_nothing() {
        for text in ["a\tb  \r\n\n c", "é 漢 \\ ` *"] {
            assert!(is_plain(text), "{text:?}");
        }
        for text in ["a\u{202e}b", "a\u{200b}", "a\rb", "⇥", "␣", "\\u{41}", "\u{1b}[2J", "a\u{a0}b"] {
            assert!(!is_plain(text), "{text:?}");
        }
    }

    /// Texts of letters, of what is hidden, and of what this form is made of.
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

        /// The shown text can be read back, so two texts that differ never look the same.
        #[test]
        fn what_is_shown_determines_the_text(text in texts(), other in texts()) {
            let (shown, row) = (lines(&text), line(&text));
            prop_assert_eq!(read(&shown), Some(text.clone()));
            prop_assert_eq!(read(&row), Some(text.clone()));
            prop_assert_eq!(lines(&other) == shown, other == text);
            prop_assert_eq!(line(&other) == row, other == text);
        }

        #[test]
        fn only_what_can_be_seen_is_shown(text in texts()) {
            let (shown, row) = (lines(&text), line(&text));
            prop_assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{:?}", shown);
            prop_assert!(row.chars().all(|c| !is_hidden(c)), "{:?}", row);
            prop_assert!(shown.split('\n').all(|line| !line.ends_with(' ')), "{:?}", shown);
            prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn every_json_means_the_same(text in texts()) {
            let shown = json(serde_json::Value::String(text.clone()).to_string());
            prop_assert!(shown.chars().all(|c| !is_hidden(c)), "{:?}", shown);
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
