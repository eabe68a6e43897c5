//! `reasoning_details`: signed or encrypted thoughts, in the pieces of a stream.
//!
//! A signature holds for a whole thought, so that its pieces are joined before they go back: those with the same number and
//! type. All else stays as it came, byte for byte.

use std::{borrow::Cow, collections::BTreeMap};

use agentd_core::origin::MAX_SERVER_FIELDS;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::wire::readable;

/// Fields whose pieces are joined.
const JOINED: [&str; 2] = ["text", "summary"];
/// The field that comes with the last piece.
const SIGNATURE: &str = "signature";

type Fields = BTreeMap<String, Box<RawValue>>;

/// The details of one answer.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    details: Vec<Detail>,
    bytes: usize,
    /// Set if they are too large, or cannot be read: then none go back, for a part of them would be refused.
    dropped: bool,
}

#[derive(Debug)]
struct Detail {
    /// Number and type; none where it has no number, and so is whole.
    key: Option<(u64, String)>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    AsItCame(Box<RawValue>),
    Joined { texts: BTreeMap<&'static str, String>, fields: Fields },
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
    index: Option<u64>,
}

impl ReasoningDetails {
    /// Adds what one event has of them: an array, or nothing.
    pub(super) fn add(&mut self, raw: &RawValue) {
        self.bytes += raw.get().len();
        let pieces = serde_json::from_str::<Option<Vec<&RawValue>>>(raw.get());
        let added = match pieces {
            _ if self.dropped || self.bytes > MAX_SERVER_FIELDS => None,
            Ok(pieces) => pieces.unwrap_or_default().into_iter().try_for_each(|piece| self.piece(piece)),
            Err(_) => None,
        };
        if added.is_none() && !self.dropped {
            tracing::warn!(bytes = self.bytes, "reasoning_details are too large or cannot be read, and do not go back");
            *self = Self { dropped: true, ..Self::default() };
        }
    }

    /// All of them, as JSON; none where there are none.
    pub(super) fn take(&mut self) -> Option<String> {
        let details = std::mem::take(&mut self.details);
        if details.is_empty() {
            return None;
        }
        let written: Option<Vec<String>> = details.into_iter().map(Detail::written).collect();
        let all = format!("[{}]", written?.join(","));
        readable::is_json(&all).then_some(all)
    }

    fn piece(&mut self, raw: &RawValue) -> Option<()> {
        let labels = serde_json::from_str::<Labels<'_>>(raw.get()).ok();
        let key = labels.and_then(|labels| Some((labels.index?, labels.r#type.unwrap_or_default().into_owned())));
        let begun = self.details.iter_mut().rev().find(|detail| key.is_some() && detail.key == key);
        match begun {
            Some(detail) => detail.form.join(raw),
            None => {
                self.details.push(Detail { key, form: Form::AsItCame(raw.to_owned()) });
                Some(())
            }
        }
    }
}

impl Detail {
    fn written(self) -> Option<String> {
        match self.form {
            Form::AsItCame(raw) => Some(raw.get().to_owned()),
            Form::Joined { texts, mut fields } => {
                for (name, text) in texts {
                    fields.insert(name.to_owned(), to_raw_value(&text).ok()?);
                }
                serde_json::to_string(&fields).ok()
            }
        }
    }
}

impl Form {
    /// Joins another piece to it.
    fn join(&mut self, raw: &RawValue) -> Option<()> {
        if let Self::AsItCame(first) = self {
            let mut joined = Self::Joined { texts: BTreeMap::new(), fields: Fields::new() };
            joined.join(first)?;
            *self = joined;
        }
        let Self::Joined { texts, fields } = self else { return None };
        for (name, value) in serde_json::from_str::<Fields>(raw.get()).ok()? {
            if value.get() == "null" {
                fields.entry(name).or_insert(value);
            } else if let Some(joined) = JOINED.into_iter().find(|joined| *joined == name) {
                let more: String = serde_json::from_str(value.get()).ok()?;
                texts.entry(joined).or_default().push_str(&more);
            } else if name == SIGNATURE || fields.get(&name).is_none_or(|known| known.get() == "null") {
                fields.insert(name, value);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(events: &[&str], expected: Option<&str>) {
        let mut details = ReasoningDetails::default();
        for event in events {
            details.add(&serde_json::from_str::<Box<RawValue>>(event).unwrap());
        }
        assert_eq!(details.take().as_deref(), expected, "{events:?}");
    }

    #[test]
    fn pieces_of_a_thought_are_joined_and_all_else_stays_as_it_came() {
        check(&[], None);
        check(&["null", "[]"], None);
        let encrypted = r#"{"type":"reasoning.encrypted", "data":"A\/b==","id":"x","format":"g","index":0}"#;
        check(&[&format!("[{encrypted}]")], Some(&format!("[{encrypted}]")));
        check(
            &[
                r#"[{"type":"reasoning.text","text":"Let","format":"a","index":0}]"#,
                r#"[{"type":"reasoning.text","text":" me \"see\".","format":"a","index":0,"signature":null}]"#,
                r#"[{"type":"reasoning.text","signature":"E\/t8=","format":"a","index":0}]"#,
                &format!("[{encrypted}]"),
            ],
            Some(&format!(
                r#"[{{"format":"a","index":0,"signature":"E\/t8=","text":"Let me \"see\".","type":"reasoning.text"}},{encrypted}]"#
            )),
        );
        // Without a number each is whole.
        let whole = r#"{"type":"reasoning.text","text":"a"}"#;
        check(&[&format!("[{whole},{whole}]")], Some(&format!("[{whole},{whole}]")));
    }

    #[test]
    fn what_is_too_large_or_no_text_goes_nowhere() {
        let large = format!(r#"[{{"type":"reasoning.encrypted","data":"{}"}}]"#, "x".repeat(MAX_SERVER_FIELDS / 2));
        check(&[&large, &large, r#"[{"type":"a"}]"#], None);
        check(&[r#"[{"type":"a","text":"\ud83d"}]"#], None);
        check(&[r#""words""#], None);
        check(&[r#"[{"type":"a","index":1,"text":"a"},{"type":"a","index":1,"text":{}}]"#], None);
    }
}
