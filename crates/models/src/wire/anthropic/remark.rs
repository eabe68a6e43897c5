//! Remarks of the server on a request. They explain, and are never a reason to fail: where they have another form, there are none.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    answer::Answer,
    wire::lenient::{Count, Text},
};

/// Reasons that only say that nobody knows.
const NO_REASONS: [&str; 2] = ["unavailable", "previous_message_not_found"];

/// `diagnostics` of an answer.
#[derive(Debug, Deserialize)]
struct Diagnostics<'a> {
    /// Null while the server still compares.
    #[serde(borrow)]
    cache_miss_reason: Option<MissReason<'a>>,
}

#[derive(Debug, Deserialize)]
struct MissReason<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    cache_missed_input_tokens: Option<Count>,
}

/// One of the `input_transformations`: a part of the request that the model was not shown, or was shown though it did not fit.
#[derive(Debug, Deserialize)]
struct Transformation<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

/// Takes in why the cache did not hold all of the request before.
pub(super) fn of_cache(diagnostics: Option<&RawValue>, answer: &mut Answer) {
    let told: Option<Diagnostics<'_>> = diagnostics.and_then(|told| serde_json::from_str(told.get()).ok());
    let Some(miss) = told.and_then(|told| told.cache_miss_reason) else { return };
    let reason = str_of(&miss.r#type);
    if !NO_REASONS.contains(&reason) {
        answer.remark(reason, miss.cache_missed_input_tokens.unwrap_or_default().0);
    }
}

/// Takes in what the server changed of the request, such as `thinking_dropped:prefix_binding_mismatch`.
pub(super) fn of_request(transformations: Option<&RawValue>, answer: &mut Answer) {
    let told: Option<Vec<Transformation<'_>>> = transformations.and_then(|told| serde_json::from_str(told.get()).ok());
    for Transformation { r#type, reason } in told.into_iter().flatten() {
        let remark = format!("{}:{}", str_of(&r#type), str_of(&reason));
        answer.remark(remark.trim_end_matches(':'), 0);
    }
}

fn str_of<'s>(text: &'s Option<Text<'_>>) -> &'s str {
    text.as_ref().map(Text::as_str).unwrap_or_default()
}
