//! The `@names` of an input: what a person means by them is decided elsewhere.

use std::ops::Range;

/// Bytes of a name at the most; what is longer is none.
const MAX_NAME: usize = 100;
/// Names of one input at the most. A log that was pasted may hold any number.
const MAX_NAMES: usize = 50;

/// The names that are mentioned, each once, in their order. Nothing is mentioned by an address (`a@b.org`), by code
/// between backticks, in a fenced or indented block, by quoted lines (`> @name`), by what is called (`@name(…)`) or by the
/// first part of a path (`@name/…`).
pub(crate) fn names(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for line in prose(text) {
        for name in of_line(line) {
            if found.len() < MAX_NAMES && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// The lines that a person says, without blocks of code and quotes.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<(char, usize)> = None;
    let mut after_blank = true;
    text.lines().filter(move |line| {
        let inner = line.trim_start();
        let indented = line.starts_with('\t') || line.len() - inner.len() >= 4;
        let mark = inner.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| inner.chars().take_while(|letter| *letter == mark).count());
        match (fence, mark) {
            (Some((open, least)), _) => {
                let closes = mark == Some(open) && length >= least && inner[length..].trim().is_empty();
                if closes {
                    fence = None;
                }
                return false;
            }
            // Three backticks and then another on the same line are code within the line.
            (None, Some(mark)) if length >= 3 && !indented && !(mark == '`' && inner[length..].contains('`')) => {
                fence = Some((mark, length));
                return false;
            }
            (None, _) => {}
        }
        let is_code = indented && after_blank;
        // A block of code goes on until something is not indented.
        after_blank = inner.is_empty() || is_code;
        !is_code && !inner.starts_with('>')
    })
}

fn of_line(line: &str) -> impl Iterator<Item = &str> {
    let code = code_spans(line);
    line.match_indices('@').filter_map(move |(at, _)| {
        if code.iter().any(|span| span.contains(&at)) {
            return None;
        }
        let before = line[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_ascii_alphanumeric() || "._%+-/@\\=&#$".contains(letter)) {
            return None;
        }
        let rest = &line[at + 1..];
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_-.:".contains(letter)));
        let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let bare = name.trim_end_matches(['.', ':', '-']);
        let starts = bare.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let is_other = bare.len() == name.len() && behind.starts_with(['/', '(', '@', '\\']);
        (starts && !is_other && bare.len() <= MAX_NAME).then_some(bare)
    })
}

/// Text between backticks of one line: as many close as open it.
fn code_spans(line: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(open) = line[at..].find('`').map(|found| at + found) {
        let length = line[open..].bytes().take_while(|byte| *byte == b'`').count();
        let inside = open + length;
        let mut close = inside;
        let end = loop {
            let Some(found) = line[close..].find('`').map(|found| close + found) else { break None };
            let run = line[found..].bytes().take_while(|byte| *byte == b'`').count();
            if run == length {
                break Some(found);
            }
            close = found + run;
        };
        match end {
            Some(end) => {
                spans.push(open..end + length);
                at = end + length;
            }
            None => at = inside,
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_found_where_a_person_says_them() {
        let check = |text: &str, expected: &[&str]| assert_eq!(names(text), expected, "{text:?}");
        check("@pdf fill this in", &["pdf"]);
        check("Use @web_search, then @pdf. And @pdf again!", &["web_search", "pdf"]);
        check("(@a-b) \"@c\" '@d' [@e] *@f*", &["a-b", "c", "d", "e", "f"]);
        check("请用@pdf处理这个文件，再用@docx。", &["pdf", "docx"]);
        check("@github:create_issue and @a.b.", &["github:create_issue", "a.b"]);
        check("write to ada@example.org or a+b@c.de", &[]);
        check("see https://u:p@host/@x and git@github.com:a/b.git", &[]);
        check("npm i @scope/package; call @decorator(x)", &[]);
        check("`@code` and ``a ` @more`` but @real", &["real"]);
        check("an open ` backtick @counts", &["counts"]);
        check("```\n@fenced\n```\n@after", &["after"]);
        check("~~~ python\n@fenced\n```\n@still\n~~~\n@after", &["after"]);
        check("````\n```\n@inside\n````\n@out", &["out"]);
        check("```@inline``` @out", &["out"]);
        check("> @quoted\n@said", &["said"]);
        check("Code:\n\n    @property\n    def x(self):\n\n@said", &["said"]);
        check("a list\n    @continued", &["continued"]);
        check("\t@tabbed\n@said", &["said"]);
        check("@ alone, @@twice, @-x, @", &[]);
        check("an unclosed fence\n```\n@x\n", &[]);
        check(&"@x".repeat(2), &[]);
        check(&format!("@{}", "n".repeat(200)), &[]);
        let many: String = (0..200).map(|number| format!("@n{number} ")).collect();
        assert_eq!(names(&many).len(), MAX_NAMES);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[@`~>a-c \\n\\t./(:é你-]{0,60}") {
            for name in names(&text) {
                prop_assert!(!name.is_empty() && name.is_ascii());
                let mention = format!("@{name}");
                prop_assert!(text.contains(&mention));
            }
        }
    }
}
