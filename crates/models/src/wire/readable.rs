//! Whether every reader takes a JSON text: no half of a surrogate pair, no number beyond a double, no depth without
//! end. Nothing is kept of what is read, because each request looks at all arguments of its history.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// Returns whether the text is such an object.
pub(crate) fn is_object(text: &str) -> bool {
    serde_json::from_str::<Object>(text).is_ok()
}

/// Returns whether the text is such JSON of any kind.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<Anything>(text).is_ok()
}

struct Object;

/// Anything. [`serde::de::IgnoredAny`] would skip texts and numbers without a look at what they mean.
struct Anything;

struct Reading;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading).map(|Anything| Self)
    }
}

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

impl<'de> Visitor<'de> for Reading {
    type Value = Anything;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Anything, E> {
        Ok(Anything)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Anything, A::Error> {
        while let Some(Anything) = elements.next_element()? {}
        Ok(Anything)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Anything, A::Error> {
        while let Some((Anything, Anything)) = entries.next_entry()? {}
        Ok(Anything)
    }
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
