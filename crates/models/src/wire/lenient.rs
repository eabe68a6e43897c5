//! Lenient parsing of texts and numbers, which servers write in different ways. Texts are borrowed if possible. Also
//! checks whether JSON is accepted by every parser.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::facts::server::number;

/// Generates visitor methods for single values.
macro_rules! reads {
    ($($visit:ident($($value:ident: $kind:ty)?) => $read:expr,)*) => {
        $(fn $visit<E: Error>(self, $($value: $kind)?) -> Result<Self::Value, E> {
            Ok($read)
        })*
    };
}

/// Text that is borrowed if it has no escapes. Content in parts is joined. Any other type counts as empty.
#[derive(Debug, Default)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    reads! {
        visit_borrowed_str(text: &'de str) => text.into(),
        visit_str(text: &str) => text.to_owned().into(),
        visit_unit() => "".into(),
        visit_bool(_is_set: bool) => "".into(),
        visit_i64(number: i64) => number.to_string().into(),
        visit_u64(number: u64) => number.to_string().into(),
        visit_f64(number: f64) => number.to_string().into(),
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut joined = String::new();
        while let Some(part) = parts.next_element::<Text<'de>>()? {
            joined.push_str(&part);
        }
        Ok(joined.into())
    }

    /// Reads one part of the content.
    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Self::Value, A::Error> {
        let mut text = Cow::Borrowed("");
        while let Some(key) = part.next_key::<Text<'de>>()? {
            if &*key == "text" {
                text = part.next_value::<Text<'de>>()?.0;
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// Number of items, parsed leniently. Invalid values count as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor).map(Self)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = u64;

    reads! {
        visit_u64(number: u64) => number,
        visit_i64(number: i64) => u64::try_from(number).unwrap_or(0),
        visit_f64(number: f64) => saturating_u64(number),
        visit_str(text: &str) => text.trim().parse().unwrap_or(0),
        visit_bool(_is_set: bool) => 0,
        visit_unit() => 0,
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<u64, A::Error> {
        while parts.next_element::<IgnoredAny>()?.is_some() {}
        Ok(0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<u64, A::Error> {
        while parts.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(0)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates at both ends")]
fn saturating_u64(number: f64) -> u64 {
    number as u64
}

/// Returns the maximum of the values at these paths of a usage object.
pub(crate) fn counted<const N: usize>(usage: &Value, paths: [&str; N]) -> u64 {
    paths.into_iter().filter_map(|path| number(usage.pointer(path)?)).max().unwrap_or(0)
}

/// Returns the tokens of a request. If the cached tokens exceed the total, the server counts them separately, and they
/// are added.
pub(crate) fn with_cache(total: u64, cached: u64, written: u64) -> u64 {
    let cache_tokens = cached.saturating_add(written);
    if cache_tokens > total { total.saturating_add(cache_tokens) } else { total }
}

/// Returns the arguments of a call, or a piece of them. Most servers write the JSON into a string.
pub(crate) fn argument_text(raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        "null" => String::new(),
        object => object.to_owned(),
    }
}

/// Returns true if the text is a JSON object that every parser accepts.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && is_json(text)
}

/// Returns true if the text is JSON that every parser accepts: without unpaired surrogates, numbers beyond a double
/// or excessive nesting.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_portable_json_objects_are_accepted() {
        let check = |text: &str, expected: bool| assert_eq!(is_object(text), expected, "{text}");
        check("{}", true);
        check(" { \"a\" : [1, -2, 0.5, null, true, {\"b\": \"\\ud83d\\ude00 \\n\"}] }\n", true);
        check("", false);
        check("[1]", false);
        check("\"a\"", false);
        check("{\"a\":1", false);
        check("{\"a\":1} x", false);
        check("{\"a\":\"\\ud83d\"}", false);
        check("{\"\\ude00\":1}", false);
        check("{\"a\":1e999}", false);
        check(&format!("{{\"a\":{}{}}}", "[".repeat(300), "]".repeat(300)), false);
    }
}
