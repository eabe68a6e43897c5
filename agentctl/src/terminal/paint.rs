//! Colours of the client, text widths, and formatting of durations, numbers and money.

use agentd_core::usage::Usage;
use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Style of secondary text: tool lines, usage, reasoning.
pub(crate) const QUIET: Style = Style::new().dimmed();
/// Style of emphasis in secondary text.
pub(crate) const STRONG: Style = Style::new().bold();
/// Style of errors and failures.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Style of warnings and questions.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Style of success, and of added lines in a diff.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of code, and of positions in a diff.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();

/// Applies a style, if colours are enabled.
pub(crate) fn paint(color: bool, style: Style, text: &str) -> String {
    if color && !style.is_plain() && !text.is_empty() {
        format!("{}{text}{}", style.render(), style.render_reset())
    } else {
        text.to_owned()
    }
}

/// Removes the colours of painted text. Its attributes, such as bold and italics, stay.
pub(crate) fn without_colors(painted: &str) -> String {
    let mut sequences = painted.split("\x1b[");
    let mut plain = sequences.next().unwrap_or_default().to_owned();
    let mut is_styled = false;
    for sequence in sequences {
        let (code, text) = sequence.split_once('m').unwrap_or((sequence, ""));
        // One digit is an attribute: 3 is italics, 31 is red.
        let is_color = code.len() > 1 && code.starts_with(['3', '4', '9']);
        if !is_color && (is_styled || code != "0") {
            plain.push_str(&format!("\x1b[{code}m"));
            is_styled = code != "0";
        }
        plain.push_str(text);
    }
    plain
}

/// Returns the number of columns that a text occupies.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the number of columns of a character in a text. The selector U+FE0F shows the one before it as a wide emoji.
pub(crate) fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0) + usize::from(c == '\u{fe0f}')
}

/// Returns the maximum number of columns that a character occupies on any terminal: ambiguous characters count as wide,
/// and parts of a joined emoji are counted separately. Code that must know the cursor's row wraps lines by this width,
/// so that no terminal wraps them at another place.
pub(crate) fn widest(c: char) -> usize {
    c.width_cjk().unwrap_or(0).max(columns_of(c))
}

/// Wraps a line into rows of at most `columns`, at spaces if possible.
pub(crate) fn fold(line: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let row = rows.last().map_or(0, |row| width(row));
        if row > 0 && row + width(word.trim_end()) > columns {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(word);
        }
    }
    rows.into_iter().map(|row| row.trim_end().to_owned()).collect()
}

/// Truncates a text to `columns`, with an ellipsis if something was removed.
pub(crate) fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut clipped = String::new();
    let mut used_columns = 0;
    for c in text.chars() {
        used_columns += columns_of(c);
        if used_columns + 1 > columns {
            break;
        }
        clipped.push(c);
    }
    clipped.truncate(clipped.trim_end().len());
    clipped.push('…');
    clipped
}

/// Returns the longest suffix of a text that fits in `columns`.
pub(crate) fn tail(text: &str, columns: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let start = starts.take_while(|at| width(&text[*at..]) <= columns).last();
    &text[start.unwrap_or(text.len())..]
}

/// Formats a duration given in milliseconds.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        60_000..3_600_000 => format!("{} min {:02} s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{} h {:02} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// Formats a number with a comma every three digits.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

/// Formats money in dollars and cents, with more digits for amounts below a cent.
pub(crate) fn dollars(microusd: u64) -> String {
    let parts = microusd.div_ceil(100);
    if parts >= 10_000 || parts == 0 {
        let cents = microusd.saturating_add(5_000) / 10_000;
        format!("${}.{:02}", cents / 100, cents % 100)
    } else {
        format!("$0.{parts:04}")
    }
}

/// Formats the cost of calls, including unpriced ones. Returns `None` if no call was made.
pub(crate) fn money(usage: &Usage) -> Option<String> {
    match (usage.cost_microusd, usage.unpriced_calls) {
        (None, 0) => None,
        (None, _) => Some("price unknown".to_owned()),
        (Some(cost), 0) => Some(dollars(cost)),
        (Some(cost), 1) => Some(format!("{}, and a call of unknown price", dollars(cost))),
        (Some(cost), calls) => Some(format!("{}, and {} calls of unknown price", dollars(cost), number(calls))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_are_removed() {
        let check = |style: Style, expected: &str| {
            assert_eq!(without_colors(&format!("a{}c", paint(true, style, "b"))), expected, "{style:?}");
        };
        check(Style::new(), "abc");
        check(CODE, "abc");
        check(AnsiColor::BrightBlue.on_default(), "abc");
        check(anstyle::Ansi256Color(201).on_default(), "abc");
        check(STRONG, "a\x1b[1mb\x1b[0mc");
        check(Style::new().italic().strikethrough(), "a\x1b[3m\x1b[9mb\x1b[0mc");
        check(BAD.bold(), "a\x1b[1mb\x1b[0mc");
        let painted = [paint(true, STRONG, "a"), paint(true, BAD, "b")].concat();
        assert_eq!(without_colors(&painted), "\x1b[1ma\x1b[0mb");
    }

    #[test]
    fn durations_and_numbers_are_human_readable() {
        let durations: Vec<_> = [0, 999, 1_000, 61_500, 3_660_000].into_iter().map(duration).collect();
        assert_eq!(durations, ["0 ms", "999 ms", "1.0 s", "1 min 01 s", "1 h 01 min"]);
        let numbers: Vec<_> = [0, 999, 1_000, 1_234_567].into_iter().map(number).collect();
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let money: Vec<_> = [0, 40, 12_345, 999_900, 999_950, 1_239_999].into_iter().map(dollars).collect();
        assert_eq!(money, ["$0.00", "$0.0001", "$0.0124", "$0.9999", "$1.00", "$1.24"]);
    }

    #[test]
    fn lines_wrap_at_spaces() {
        assert_eq!(fold("", 5), [""]);
        assert_eq!(fold("one two three", 100), ["one two three"]);
        assert_eq!(fold("one two three", 7), ["one two", "three"]);
        assert_eq!(fold("/x   one two", 8), ["/x   one", "two"]);
        assert_eq!(fold("a unbreakable b", 4), ["a", "unbreakable", "b"]);
    }

    #[test]
    fn tail_keeps_the_end_of_a_long_line() {
        assert_eq!(tail("漢字abc", 4), "abc");
        assert_eq!(tail("漢字abc", 5), "字abc");
        assert_eq!(tail("abc", 9), "abc");
    }

    #[test]
    fn clip_counts_display_columns() {
        assert_eq!(clip("short", 5), "short");
        assert_eq!(clip("longer than that", 8), "longer…");
        assert_eq!(clip("漢字漢字", 5), "漢字…");
        assert_eq!(clip("漢字", 0), "…");
        let wide = clip(&"\u{2764}\u{fe0f}".repeat(9), 6);
        assert!(width(&wide) <= 6, "{wide}");
    }
}
