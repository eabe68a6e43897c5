//! Texts and numbers as servers write them: borrowed where that can be, and lenient where servers are known to differ. And
//! whether every reader takes a JSON text.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::facts::server::number;

/// Methods of a visitor that read one value each.
macro_rules! reads {
    ($($visit:ident($($value:ident: $kind:ty)?) => $read:expr,)*) => {
        $(fn $visit<E: Error>(self, $($value: $kind)?) -> Result<Self::Value, E> {
            Ok($read)
        })*
    };
}

/// A text that is borrowed where it has no escapes. Content in parts is joined; anything else counts as nothing.
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

    /// A part of a content.
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

/// A number of things, read from whatever a server calls a number; nonsense counts as none.
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
        visit_f64(number: f64) => saturated(number),
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
fn saturated(number: f64) -> u64 {
    number as u64
}

/// The most that one of these places of an account of tokens holds.
pub(crate) fn counted<const N: usize>(usage: &Value, places: [&str; N]) -> u64 {
    places.into_iter().filter_map(|place| number(usage.pointer(place)?)).max().unwrap_or(0)
}

/// Tokens of a request. More tokens of the cache than there are in all are counted beside them.
pub(crate) fn with_cache(all: u64, cached: u64, written: u64) -> u64 {
    let of_cache = cached.saturating_add(written);
    if of_cache > all { all.saturating_add(of_cache) } else { all }
}

/// The arguments of a call, or a piece of them: most servers write their JSON into a text.
pub(crate) fn argument_text(raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        "null" => String::new(),
        object => object.to_owned(),
    }
}

/// Returns whether the text is an object that every reader takes.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && is_json(text)
}

/// Returns whether the text is JSON that every reader takes: no half of a surrogate pair, no number beyond a double, no depth
/// without end.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_that_every_reader_takes() {
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
