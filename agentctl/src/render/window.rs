//! The parts of the model's window, as a bar and a table.

use agentd_core::context::{ContextView, Segment, SegmentKind, TokenLevel};
use anstyle::{AnsiColor, Style};

use super::context::percent;
use crate::terminal::{
    paint::{BAD, QUIET, STRONG, WARN, clip, fold, number, paint, width},
    sanitize::clean_line,
};

/// Maximum number of columns of the bar.
const WIDEST_BAR: usize = 64;
/// Mark of free space in the bar.
const FREE: char = '·';

/// Returns the parts of the window in lines of at most `columns`.
pub(crate) fn lines(view: &ContextView, columns: usize, color: bool) -> Vec<String> {
    let (level, style) = match view.level {
        TokenLevel::Info => ("", Style::new()),
        TokenLevel::Warning => (" (warning)", WARN),
        TokenLevel::Critical => (" (critical)", BAD),
    };
    let percent_used = percent(view.tokens, view.window);
    let filled = format!("filled    about {} tokens, {percent_used} %{level}", number(view.tokens));
    let limit = (view.max_messages > 0).then(|| format!(" of {}", number(view.max_messages.into())));
    let messages = format!("messages  {}{}", number(view.messages.into()), limit.unwrap_or_default());
    let mut lines = vec![
        clip(&format!("model     {} · window of {} tokens", clean_line(&view.model), number(view.window)), columns),
        paint(color, style, &clip(&filled, columns)),
        clip(&messages, columns),
        String::new(),
        bar(view, columns.min(WIDEST_BAR), color),
        String::new(),
        paint(color, STRONG, &clip(&row("  PART", "TOKENS", "%", "BYTES", "PIECES", "SOURCE"), columns)),
    ];
    for segment in &view.segments {
        let plain = clip(&segment_row(segment, view.window), columns);
        let (sign, style) = look(segment.kind);
        let rest = plain.strip_prefix(sign).unwrap_or(&plain);
        lines.push(format!("{}{rest}", paint(color, style, sign)));
    }
    if view.imported {
        let words = "these are the figures of the machine that it comes from; they are counted anew with the next turn";
        lines.insert(1, clip(words, columns));
    }
    let free = view.window.saturating_sub(view.tokens);
    let name = format!("{FREE} free");
    lines.push(clip(&row(&name, &number(free), &percent(free, view.window).to_string(), "", "", ""), columns));
    if !view.next_cuts.is_empty() {
        lines.push(String::new());
    }
    let cuts = view.next_cuts.iter().flat_map(|cut| fold(&format!("next: {}", clean_line(cut)), columns));
    lines.extend(cuts.map(|row| paint(color, QUIET, &row)));
    lines
}

fn segment_row(segment: &Segment, window: u64) -> String {
    let name = format!("{} {}", look(segment.kind).0, segment.kind.as_str());
    let part = percent(segment.tokens, window).to_string();
    let pieces = number(segment.count.into());
    row(&name, &number(segment.tokens), &part, &number(segment.bytes), &pieces, &clean_line(&segment.source))
}

fn row(name: &str, tokens: &str, percent: &str, bytes: &str, pieces: &str, source: &str) -> String {
    let padding = " ".repeat(15usize.saturating_sub(width(name)));
    let row = format!("{name}{padding}{tokens:>9}{percent:>4}{bytes:>11}{pieces:>8}  {source}");
    row.trim_end().to_owned()
}

/// Returns the bar. Each part has a sign, so that the bar is readable without colours.
fn bar(view: &ContextView, columns: usize, color: bool) -> String {
    let cells = columns.saturating_sub(2).max(8) as u64;
    // The parts may be larger than the window.
    let whole = view.window.max(view.segments.iter().map(|segment| segment.tokens).sum()).max(1);
    let place = |tokens: u64| tokens.saturating_mul(cells).div_ceil(whole).min(cells);
    let (mut tokens, mut drawn) = (0u64, 0);
    let mut bar = "[".to_owned();
    for segment in &view.segments {
        tokens = tokens.saturating_add(segment.tokens);
        let end = place(tokens);
        let (sign, style) = look(segment.kind);
        bar.push_str(&paint(color, style, &sign.repeat(usize::try_from(end - drawn).unwrap_or(0))));
        drawn = end;
    }
    bar.push_str(&FREE.to_string().repeat(usize::try_from(cells - drawn).unwrap_or(0)));
    bar.push(']');
    bar
}

/// Returns the sign of a part, and its style.
fn look(kind: SegmentKind) -> (&'static str, Style) {
    let (sign, color) = match kind {
        SegmentKind::Instructions => ("i", AnsiColor::Blue),
        SegmentKind::Tools => ("t", AnsiColor::Cyan),
        SegmentKind::Memory => ("m", AnsiColor::Magenta),
        SegmentKind::Skills => ("s", AnsiColor::BrightMagenta),
        SegmentKind::Summary => ("=", AnsiColor::BrightBlue),
        SegmentKind::History => ("#", AnsiColor::Green),
        SegmentKind::Results => ("r", AnsiColor::Yellow),
        SegmentKind::Reminders => ("!", AnsiColor::Red),
    };
    (sign, color.on_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(kind: SegmentKind, tokens: u64, source: &str) -> Segment {
        Segment { kind, source: source.to_owned(), bytes: tokens * 4, tokens, count: 3 }
    }

    fn view() -> ContextView {
        ContextView {
            model: "scripted\u{1b}[2J-model".to_owned(),
            window: 16_384,
            tokens: 12_700,
            level: TokenLevel::Warning,
            segments: vec![
                segment(SegmentKind::Tools, 2000, ""),
                segment(SegmentKind::Instructions, 700, ""),
                segment(SegmentKind::Memory, 1000, "/project/说明/AGENTS.md"),
                segment(SegmentKind::History, 5000, ""),
                segment(SegmentKind::Results, 4000, ""),
            ],
            messages: 62,
            max_messages: 200,
            imported: false,
            next_cuts: vec!["After about 2864 more tokens the older part is replaced by a summary.".to_owned()],
        }
    }

    #[test]
    fn context_parts_are_shown_as_bar_and_table() {
        insta::assert_snapshot!(lines(&view(), 80, false).join("\n"), @r"
        model     scripted-model · window of 16,384 tokens
        filled    about 12,700 tokens, 77 % (warning)
        messages  62 of 200

        [ttttttttiiimmmm##################rrrrrrrrrrrrrrrr·············]

          PART            TOKENS   %      BYTES  PIECES  SOURCE
        t tools            2,000  12      8,000       3
        i instructions       700   4      2,800       3
        m memory           1,000   6      4,000       3  /project/说明/AGENTS.md
        # history          5,000  30     20,000       3
        r results          4,000  24     16,000       3
        · free             3,684  22

        next: After about 2864 more tokens the older part is replaced by a summary.
        ");
    }

    #[test]
    fn context_view_fits_narrow_terminals() {
        for columns in [20, 33, 50, 72] {
            for line in lines(&ContextView { max_messages: 0, ..view() }, columns, false) {
                let unbroken = line.split(' ').map(width).max().unwrap_or(0);
                assert!(width(&line) <= columns.max(unbroken), "{columns}: {line}");
            }
        }
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let plain = lines(&view(), 80, false).join("\n");
        let painted = lines(&view(), 80, true).join("\n");
        assert!(painted.contains("\x1b["));
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
    }

    #[test]
    fn overfull_window_shows_a_full_bar() {
        let view = ContextView { window: 100, tokens: u64::MAX, ..view() };
        let bar = bar(&view, 40, false);
        assert!(!bar.contains(FREE), "{bar}");
        assert_eq!(width(&bar), 40);
        let empty = ContextView { segments: Vec::new(), window: 0, ..view };
        assert_eq!(width(&super::bar(&empty, 40, false)), 40);
    }
}
