//! Query parser. Parsing never fails: invalid syntax is read as words.

use crate::analyze::{
    Dictionary, Form,
    exact::{small, tokens},
    language::{is_stop_word, small_words},
    normal::{Normal, runs},
    stems,
};

/// Number of bytes of a query that are parsed. The rest is ignored.
const MAX_QUERY_BYTES: usize = 2000;
/// Maximum number of words in a query.
const MAX_WORDS: usize = 24;

/// Field names that models often use. The fields do not exist, so the prefix is dropped.
const FIELD_NAMES: [&str; 12] = [
    "title", "text", "body", "content", "heading", "page", "file", "filename", "name", "document", "author", "subject",
];

/// Query in parsed form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedQuery {
    /// Units in the order of the query, without stop words.
    pub units: Vec<Unit>,
    /// Units that must not occur.
    pub excluded: Vec<Unit>,
    /// True if a single unit suffices for a match.
    pub any: bool,
    /// Whole query without quotes and operators, to be found as one phrase.
    pub whole: String,
    /// Number of words beyond the maximum.
    pub left_out: usize,
}

/// Word or phrase to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Word of a script with spaces.
    Word {
        /// Word in lower case.
        exact: String,
        /// Stem in each language.
        stems: Vec<String>,
    },
    /// Word in a script without spaces, such as Chinese.
    Letters(String),
    /// Lowercase prefix of words.
    Prefix(String),
    /// Words joined by punctuation, such as `4.1` or `user@host`.
    Chain(String),
    /// Text in quotation marks.
    Phrase(String),
}

/// Parses a query. Never fails.
pub fn parse(query: &str, dictionary: &Dictionary) -> ParsedQuery {
    let query = query.get(..query.floor_char_boundary(MAX_QUERY_BYTES)).unwrap_or(query).replace("\\\"", "\"");
    let mut parsed = ParsedQuery::default();
    let mut is_excluded = false;
    let pieces = pieces(&query);
    let has_operators = pieces.iter().any(Piece::is_not_in_capitals);
    for piece in pieces {
        match piece {
            Piece::Quoted(text) => {
                if tokens(text).is_empty() {
                    continue;
                }
                push(&mut parsed, vec![Unit::Phrase(text.trim().to_owned())], text, &mut is_excluded);
            }
            Piece::Plain(text) => match text {
                "&&" | "+" => {}
                "||" | "|" => parsed.any = true,
                "AND" if has_operators => {}
                "OR" if has_operators => parsed.any = true,
                "NOT" if has_operators => is_excluded = true,
                text => push(&mut parsed, units(text, dictionary), text, &mut is_excluded),
            },
        }
    }
    drop_stop_words(&mut parsed.units);
    for units in [&mut parsed.units, &mut parsed.excluded] {
        parsed.left_out += units.len().saturating_sub(MAX_WORDS);
        units.truncate(MAX_WORDS);
    }
    parsed.whole.truncate(parsed.whole.trim_end().len());
    parsed
}

fn push(parsed: &mut ParsedQuery, units: Vec<Unit>, text: &str, is_excluded: &mut bool) {
    if units.is_empty() {
        return;
    }
    if std::mem::take(is_excluded) {
        parsed.excluded.extend(units);
    } else {
        parsed.units.extend(units);
        parsed.whole.push_str(text);
        parsed.whole.push(' ');
    }
}

fn drop_stop_words(units: &mut Vec<Unit>) {
    let words: Vec<&str> =
        units.iter().map(|unit| if let Unit::Word { exact, .. } = unit { exact } else { "" }).collect();
    let small = small_words(&words);
    let stop_words = |(unit, small): (&Unit, &bool)| match unit {
        Unit::Letters(word) => is_stop_word(word),
        _ => *small,
    };
    let stop_words: Vec<bool> = units.iter().zip(&small).map(stop_words).collect();
    if stop_words.iter().any(|is_stop_word| !is_stop_word) {
        let mut flags = stop_words.iter();
        units.retain(|_| flags.next() == Some(&false));
    }
    let mut unique: Vec<Unit> = Vec::with_capacity(units.len());
    units.retain(|unit| {
        !unique.contains(unit) && {
            unique.push(unit.clone());
            true
        }
    });
}

enum Piece<'a> {
    Quoted(&'a str),
    /// Text without white space.
    Plain(&'a str),
}

/// Operators, unless the whole query is in capitals.
const OPERATORS: [&str; 3] = ["AND", "OR", "NOT"];

impl Piece<'_> {
    /// Returns true if the piece shows that the query is not all in capitals, so that `AND`, `OR` and `NOT` are
    /// operators. A line in capitals, such as text copied from a form, has no operators.
    fn is_not_in_capitals(&self) -> bool {
        let (Self::Quoted(text) | Self::Plain(text)) = self;
        let is_capitals = text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase);
        !is_capitals && !OPERATORS.contains(text) && text.chars().any(char::is_alphanumeric)
    }
}

/// Splits a query at white space and quoted texts. An unclosed quote is ignored.
fn pieces(query: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = query;
    while let Some((at, close)) = rest.char_indices().find_map(|(at, letter)| Some((at, closing(letter)?))) {
        let (plain, quoted) = rest.split_at(at);
        pieces.extend(plain.split_whitespace().map(Piece::Plain));
        let mut inside = quoted.chars();
        inside.next();
        let inside = inside.as_str();
        match inside.split_once(close) {
            Some((text, after)) => {
                pieces.push(Piece::Quoted(text));
                rest = after;
            }
            None => rest = inside,
        }
    }
    pieces.extend(rest.split_whitespace().map(Piece::Plain));
    pieces
}

fn closing(open: char) -> Option<&'static [char]> {
    Some(match open {
        '"' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ff02}' => &['"', '\u{201c}', '\u{201d}', '\u{ff02}'],
        '「' => &['」'],
        '『' => &['』'],
        '«' => &['»'],
        _ => return None,
    })
}

/// Returns the units of a text without white space.
fn units(text: &str, dictionary: &Dictionary) -> Vec<Unit> {
    let text = match text.split_once(':') {
        Some((field, rest)) if !rest.is_empty() && FIELD_NAMES.contains(&field.to_ascii_lowercase().as_str()) => rest,
        _ => text,
    };
    if let Some(prefix) = text.strip_suffix('*').and_then(as_prefix) {
        return vec![Unit::Prefix(prefix)];
    }
    text.split([',', ';', ':', '|', '(', ')', '[', ']', '{', '}', '，', '；', '：', '、', '。'])
        .flat_map(|text| joined_units(text, dictionary))
        .collect()
}

fn as_prefix(text: &str) -> Option<String> {
    match tokens(text).as_slice() {
        [token, ..] if token.form == Form::Word && token.text.chars().count() >= 2 => {
            let is_one = tokens(text).iter().all(|other| other.position == token.position);
            is_one.then(|| token.text.clone())
        }
        _ => None,
    }
}

/// Keeps words joined by punctuation together, and segments scripts without spaces into words.
fn joined_units(text: &str, dictionary: &Dictionary) -> Vec<Unit> {
    let normal = Normal::new(text);
    let mut units = Vec::new();
    let mut spaced: Option<(std::ops::Range<usize>, usize)> = None;
    let close = |spaced: &mut Option<(std::ops::Range<usize>, usize)>, units: &mut Vec<Unit>| {
        let Some((range, count)) = spaced.take() else { return };
        let text = normal.text().get(range).unwrap_or_default();
        units.push(match count {
            1 => Unit::Word { exact: small(text), stems: stems(text) },
            _ => Unit::Chain(text.to_owned()),
        });
    };
    let mut letters = String::new();
    let mut letters_end = 0;
    let flush = |letters: &mut String, units: &mut Vec<Unit>| {
        if !letters.is_empty() {
            units.extend(cut(&std::mem::take(letters), dictionary).into_iter().map(Unit::Letters));
        }
    };
    for run in runs(normal.text()) {
        if run.script.is_unspaced() {
            close(&mut spaced, &mut units);
            if run.range.start != letters_end {
                flush(&mut letters, &mut units);
            }
            letters_end = run.range.end;
            letters.push_str(normal.text().get(run.range).unwrap_or_default());
        } else {
            flush(&mut letters, &mut units);
            spaced = Some(match spaced {
                Some((range, count)) => (range.start..run.range.end, count + 1),
                None => (run.range, 1),
            });
        }
    }
    close(&mut spaced, &mut units);
    flush(&mut letters, &mut units);
    units
}

/// Segments a run in a script without spaces. Only a Chinese dictionary is available, so other runs stay whole. Han
/// characters next to kana are Japanese and are not segmented.
fn cut(letters: &str, dictionary: &Dictionary) -> Vec<String> {
    use crate::analyze::normal::Script;
    let all_han = letters.chars().all(|letter| Script::of(letter) == Some(Script::Han));
    if all_han && letters.chars().nth(2).is_some() {
        dictionary.cut(letters)
    } else if all_han {
        vec![letters.to_owned()]
    } else {
        runs(letters).filter_map(|run| letters.get(run.range).map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(units: &[Unit]) -> String {
        let unit = |unit: &Unit| match unit {
            Unit::Word { stems, .. } => stems[0].clone(),
            Unit::Letters(letters) => letters.clone(),
            Unit::Prefix(prefix) => format!("{prefix}*"),
            Unit::Chain(chain) => format!("<{chain}>"),
            Unit::Phrase(phrase) => format!("\"{phrase}\""),
        };
        units.iter().map(unit).collect::<Vec<_>>().join(" ")
    }

    fn check(query: &str, expected: &str) {
        let parsed = parse(query, &Dictionary::default());
        let mut text = formatted(&parsed.units);
        if parsed.any {
            text.push_str(" |any");
        }
        if !parsed.excluded.is_empty() {
            text.push_str(&format!(" |not {}", formatted(&parsed.excluded)));
        }
        assert_eq!(text, expected, "{query:?}");
    }

    #[test]
    fn queries_parse_into_words_and_phrases() {
        check("Total connections", "total connect");
        check("what was the total revenue in 2023?", "total revenu 2023");
        check("to be or not to be", "to be or not");
        check("What does it say about wave and direct?", "wave direct");
        check("was steht im Dokument über Wellen", "wellen");
        check("\"annual report\" 2023", "\"annual report\" 2023");
        check("“annual report” 「四月」", "\"annual report\" \"四月\"");
        check("unbalanced \"quote marks", "unbalanc quot mark");
        check("a \\\"escaped one\\\"", "\"escaped one\"");
        check("cats AND dogs", "cat dog");
        check("cats OR dogs", "cat dog |any");
        check("cats NOT dogs", "cat |not dog");
        check("cats NOT DOGS", "cat |not dog");
        check("人工 NOT 智能", "人工 |not 智能");
        check("SHIPPING NOT INCLUDED", "ship includ");
        check("TERMS AND CONDITIONS OR \"FINAL OFFER\"", "term condit \"FINAL OFFER\"");
        check("NOT", "not");
        check("title:budget page:12 note:x", "budget 12 note x");
        check("section 4.1", "section <4.1>");
        check("user_name@host.org src/main.rs", "<user_name@host.org> <src/main.rs>");
        check("revenue,profit; (cost)", "revenu profit cost");
        check("conf* *", "conf*");
        check("人工智能的发展", "人工智能 发展");
        check("使用PDF文件", "使用 pdf 文件");
        check("東京の天気", "東京 天気");
        check("한국어 문서", "한국어 문서");
        check("ＴＥＳＴ", "test");
        check("\"\" \" \" ''", "");
        check("", "");
        check("cat cat CATS", "cat cat");
    }

    #[test]
    fn excess_query_words_are_counted() {
        let words: Vec<String> = (100..130).map(|number| format!("x{number}")).collect();
        let parsed = parse(&words.join(" "), &Dictionary::default());
        assert_eq!((parsed.units.len(), parsed.left_out), (MAX_WORDS, 6));
    }
}
