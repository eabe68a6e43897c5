//! Emphasis, code and links within a line.
//!
//! A mark is removed only if it has a partner. Other text is unchanged, such as `2 * 3 * 4`, `**kwargs` and
//! `snake_case`.

use anstyle::Style;

use crate::terminal::paint::{CODE, QUIET, paint};

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Maximum length of a line that is searched for marks, because the search may take quadratic time.
const LONGEST_LINE: usize = 8 * 1024;

/// Parses a line into spans.
pub(crate) fn parse(line: &str, base: Style) -> Vec<Span> {
    let mut spans = Spans::default();
    if line.len() > LONGEST_LINE {
        spans.push(line, base);
    } else {
        inline(line, None, base, &mut spans, 0);
    }
    spans.0
}

/// List of spans in which neighbours of equal style are merged.
#[derive(Default)]
pub(super) struct Spans(pub(super) Vec<Span>);

/// Paints spans in their styles.
pub(super) fn painted(spans: &[Span]) -> String {
    spans.iter().map(|span| paint(true, span.style, &span.text)).collect()
}

impl Spans {
    pub(super) fn push(&mut self, text: &str, style: Style) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.0.push(Span { text: text.to_owned(), style }),
        }
    }
}

/// Maximum depth of nested emphasis.
const DEEPEST: usize = 8;

fn inline(text: &str, mut before: Option<char>, style: Style, spans: &mut Spans, depth: usize) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => escape(rest, style, spans),
            '`' => code(rest, style, spans),
            '*' | '_' | '~' if depth < DEEPEST => emphasis(rest, before, style, spans, depth),
            '[' | '!' if depth < DEEPEST => link(rest, style, spans, depth),
            _ => None,
        };
        // A run of marks without a partner, or any other character, is text.
        let length = taken.unwrap_or_else(|| {
            let length = if matches!(c, '*' | '_' | '~' | '`') { run(rest, c) } else { c.len_utf8() };
            spans.push(&rest[..length], style);
            length
        });
        before = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
}

/// Number of bytes of the mark at the start.
fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

fn escape(text: &str, style: Style, spans: &mut Spans) -> Option<usize> {
    let next = text[1..].chars().next().filter(char::is_ascii_punctuation)?;
    spans.push(&text[1..=next.len_utf8()], style);
    Some(2)
}

fn code(text: &str, style: Style, spans: &mut Spans) -> Option<usize> {
    let fence = run(text, '`');
    let mut at = fence;
    loop {
        at += text[at..].find('`')?;
        let closing = run(&text[at..], '`');
        if closing == fence {
            break;
        }
        at += closing;
    }
    let inner = &text[fence..at];
    let trimmed = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')).filter(|t| !t.trim().is_empty());
    let color = style.fg_color(CODE.get_fg_color());
    spans.push(trimmed.unwrap_or(inner), color);
    Some(at + fence)
}

fn emphasis(text: &str, before: Option<char>, style: Style, spans: &mut Spans, depth: usize) -> Option<usize> {
    let mark = text.chars().next()?;
    let length = run(text, mark);
    let inner_style = match (mark, length) {
        ('*' | '_', 1) => style.italic(),
        ('*' | '_', 2) => style.bold(),
        ('*' | '_', 3) => style.bold().italic(),
        ('~', 2) => style.strikethrough(),
        _ => return None,
    };
    let opens = |next: Option<char>| next.is_some_and(|c| !c.is_whitespace());
    // A mark within a word is part of the word: `snake_case`, `2*3*4`, `a**b`.
    let in_word = |a: Option<char>, b: Option<char>| {
        let word = |c: char| if mark == '_' { c.is_alphanumeric() } else { c.is_ascii_alphanumeric() };
        a.is_some_and(word) && b.is_some_and(word)
    };
    let next = text[length..].chars().next();
    if !opens(next) || in_word(before, next) {
        return None;
    }
    let mut at = length;
    loop {
        at += text[at..].find(mark)?;
        let closing = run(&text[at..], mark);
        let previous = text[..at].chars().next_back();
        let following = text[at + closing..].chars().next();
        let escaped = previous == Some('\\');
        if closing == length && opens(previous) && !escaped && !in_word(previous, following) {
            break;
        }
        at += closing;
    }
    inline(&text[length..at], Some(mark), inner_style, spans, depth + 1);
    Some(at + length)
}

/// Shows a link or an image, `[label](address)`, as `label (address)`.
fn link(text: &str, style: Style, spans: &mut Spans, depth: usize) -> Option<usize> {
    let open = usize::from(text.starts_with('!'));
    let label_at = open + 1;
    if !text[open..].starts_with('[') {
        return None;
    }
    let label_end = label_at + text[label_at..].find(']')?;
    let address = text[label_end + 1..].strip_prefix('(')?;
    let address = &address[..address.find(')')?];
    let label = &text[label_at..label_end];
    if address.is_empty() || address.contains(char::is_whitespace) || label.contains('[') {
        return None;
    }
    if label == address || label.is_empty() {
        spans.push(address, style.underline());
    } else {
        inline(label, None, style.underline(), spans, depth + 1);
        spans.push(&format!(" ({address})"), QUIET);
    }
    Some(label_end + 1 + address.len() + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Spans as text, each styled one between its letters in angle brackets.
    fn marked(line: &str) -> String {
        parse(line, Style::new())
            .into_iter()
            .map(|span| {
                let style = span.style;
                let effects = style.get_effects();
                let mut letters = String::new();
                for (effect, letter) in [
                    (anstyle::Effects::BOLD, 'b'),
                    (anstyle::Effects::ITALIC, 'i'),
                    (anstyle::Effects::STRIKETHROUGH, 's'),
                    (anstyle::Effects::UNDERLINE, 'u'),
                    (anstyle::Effects::DIMMED, 'q'),
                ] {
                    if effects.contains(effect) {
                        letters.push(letter);
                    }
                }
                if style.get_fg_color().is_some() {
                    letters.push('c');
                }
                if letters.is_empty() { span.text } else { format!("<{letters}:{}>", span.text) }
            })
            .collect()
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(marked(line), expected);
    }

    #[test]
    fn paired_markers_become_styles() {
        check("a **bold** and *slanted* word", "a <b:bold> and <i:slanted> word");
        check("***both*** ~~gone~~ __b__ _i_", "<bi:both> <s:gone> <b:b> <i:i>");
        check("run `cargo *x*` now", "run <c:cargo *x*> now");
        check("`` a`b ``", "<c:a`b>");
        check("**a *b* c**", "<b:a ><bi:b><b: c>");
        check("这是**强调**文字", "这是<b:强调>文字");
        check("**「引用」**です", "<b:「引用」>です");
        check("[label](http://x) ![pic](p.png)", "<u:label><q: (http://x)> <u:pic><q: (p.png)>");
        check(r"\*not\* \n", r"*not* \n");
    }

    #[test]
    fn unpaired_markers_stay_text() {
        for line in
            ["2 * 3 * 4", "2*3*4", "f(**kwargs)", "snake_case_name", "a `b", "[x] done", "[a][b]", "~5~", "****"]
        {
            check(line, line);
        }
    }

    proptest! {
        #[test]
        fn inline_parsing_loses_only_markers(line in "[a-c *_~`\\[\\]()!\\\\漢]{0,40}") {
            let shown: String = parse(&line, Style::new()).into_iter().map(|span| span.text).collect();
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
            prop_assert_eq!(letters(&shown), letters(&line));
        }
    }
}
