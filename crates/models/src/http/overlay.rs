//! Configured fields over those of a request.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serializer as _,
    de::{MapAccess, Visitor},
    ser::Error as _,
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

/// The body with these fields over its own. All others keep their bytes: some hold what a server signed.
pub(crate) fn overlaid(body: &str, configured: &Map<String, Value>) -> serde_json::Result<String> {
    let RawFields(mut fields) = serde_json::from_str(body)?;
    for (name, value) in configured {
        let value = to_raw_value(value)?;
        match fields.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = value,
            None => fields.push((name.clone(), value)),
        }
    }
    let mut written = Vec::new();
    serde_json::Serializer::new(&mut written).collect_map(fields)?;
    String::from_utf8(written).map_err(serde_json::Error::custom)
}

/// The fields of an object, in their order.
struct RawFields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = entries.next_entry()? {
                    fields.push(field);
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
