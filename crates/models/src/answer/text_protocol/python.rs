//! Literals and keyword arguments of Python, in which some models write calls, and Gemma's variant of them, which has
//! other quotes and no quotes around keys. Pure.

use serde_json::{Map, Number, Value};

/// Maximum depth of nested literals.
const MAX_DEPTH: usize = 32;

/// Quotes of strings, the longest ones first. Between those of Gemma, no character is escaped.
const QUOTES: [&str; 6] = ["<escape>", "<|\"|>", "\"\"\"", "'''", "\"", "'"];

/// Parses the literal at the start of a text, and returns the rest.
pub(super) fn literal(text: &str) -> Option<(Value, &str)> {
    nested(text, MAX_DEPTH)
}

/// Parses keyword arguments up to the closing bracket, and returns the rest.
pub(super) fn keywords(text: &str) -> Option<(Map<String, Value>, &str)> {
    pairs(text, ('=', ')'), MAX_DEPTH)
}

fn nested(text: &str, depth: usize) -> Option<(Value, &str)> {
    let (text, depth) = (text.trim_start(), depth.checked_sub(1)?);
    let inner = text.get(1..);
    match text.chars().next()? {
        '{' => pairs(inner?, (':', '}'), depth).map(|(map, rest)| (map.into(), rest)),
        '[' => list(inner?, ']', depth),
        '(' => list(inner?, ')', depth),
        '"' | '\'' | '<' => string(text).map(|(string, rest)| (string.into(), rest)),
        _ => word(text),
    }
}

/// Parses pairs of a name and a literal.
fn pairs(text: &str, (between, close): (char, char), depth: usize) -> Option<(Map<String, Value>, &str)> {
    let (mut map, mut rest) = (Map::new(), text.trim_start());
    loop {
        if let Some(rest) = rest.strip_prefix(close) {
            return Some((map, rest));
        }
        let (name, after) = match string(rest).filter(|_| between == ':') {
            Some(quoted) => quoted,
            None => {
                let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))?;
                (Some(&rest[..end]).filter(|name| !name.is_empty())?.to_owned(), &rest[end..])
            }
        };
        let (value, after) = nested(after.trim_start().strip_prefix(between)?, depth)?;
        map.insert(name, value);
        rest = separated(after, close)?;
    }
}

fn list(text: &str, close: char, depth: usize) -> Option<(Value, &str)> {
    let (mut items, mut rest) = (Vec::new(), text.trim_start());
    loop {
        if let Some(rest) = rest.strip_prefix(close) {
            return Some((items.into(), rest));
        }
        let (item, after) = nested(rest, depth)?;
        items.push(item);
        rest = separated(after, close)?;
    }
}

/// Returns the text after a comma, or from the closing bracket on.
fn separated(text: &str, close: char) -> Option<&str> {
    let text = text.trim_start();
    text.strip_prefix(',').map(str::trim_start).or_else(|| text.starts_with(close).then_some(text))
}

fn string(text: &str) -> Option<(String, &str)> {
    let quote = QUOTES.into_iter().find(|quote| text.starts_with(quote))?;
    let (mut string, mut rest) = (String::new(), &text[quote.len()..]);
    loop {
        if let Some(rest) = rest.strip_prefix(quote) {
            return Some((string, rest));
        }
        let mut letters = rest.chars();
        match letters.next()? {
            '\\' if !quote.starts_with('<') => match letters.next()? {
                'n' => string.push('\n'),
                't' => string.push('\t'),
                'r' => string.push('\r'),
                '\n' => {}
                'u' => {
                    let digits = letters.as_str().get(..4)?;
                    string.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    letters.nth(3);
                }
                escaped @ ('\\' | '\'' | '"' | '/') => string.push(escaped),
                other => string.extend(['\\', other]),
            },
            letter => string.push(letter),
        }
        rest = letters.as_str();
    }
}

fn word(text: &str) -> Option<(Value, &str)> {
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_.+-".contains(letter)));
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    let value = match word {
        "True" | "true" => true.into(),
        "False" | "false" => false.into(),
        "None" | "null" => Value::Null,
        number => serde_json::from_str::<Number>(number).ok()?.into(),
    };
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_become_json() {
        let check = |text: &str, value: Value, rest: &str| assert_eq!(literal(text), Some((value, rest)), "{text}");
        check(
            r#"{'a': 'it\'s', "b": [1, -2.5, True], 'c': None,} x"#,
            json!({"a": "it's", "b": [1, -2.5, true], "c": null}),
            " x",
        );
        check("('x', ('y',), ())", json!(["x", ["y"], []]), "");
        check("\"\"\"two\n\"lines\"\n\"\"\"", json!("two\n\"lines\"\n"), "");
        check(r"'\u00e9 \d \n'", json!("é \\d \n"), "");
        check("''", json!(""), "");
        check(r"{path:<escape>C:\new<escape>,n:1}.", json!({"path": "C:\\new", "n": 1}), ".");
        check("{a:[<|\"|>x \"y\"<|\"|>]}", json!({"a": ["x \"y\""]}), "");
        for text in [
            "{'a': }",
            "{'a' 1}",
            "{: 1}",
            "{a 1}",
            "<escape>a",
            "<a>",
            "'open",
            "[1 2]",
            "f()",
            "",
            "+",
            r"'\u12'",
            "{'a': 1",
        ] {
            assert_eq!(literal(text), None, "{text}");
        }
        assert_eq!(literal(&"[".repeat(1 << 20)), None);
    }

    #[test]
    fn keywords_need_names() {
        let arguments = json!({"path": "/a", "lines": [1, 2]});
        assert_eq!(keywords("path='/a', lines=[1, 2])."), Some((arguments.as_object().unwrap().clone(), ".")));
        assert_eq!(keywords(")"), Some((Map::new(), "")));
        for text in ["'/a')", "='/a')", "path)", "path='/a'", "path='/a' x=1)", "**rest)"] {
            assert_eq!(keywords(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[\\[\\](){}'\"\\\\,:=a1 é\n]{0,40}") {
            if let Some((_, rest)) = literal(&text) {
                prop_assert!(text.ends_with(rest));
            }
        }
    }
}
