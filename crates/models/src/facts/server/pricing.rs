//! Prices in a list of models, as OpenRouter and servers like it write them: dollars for one token, mostly as text.

use agentd_core::usage::Prices;
use serde_json::Value;

/// Borders of prices that are read of one model.
const MAX_TIERS: usize = 8;

/// Prices of a model; none if they have another form, or vary with the model that answers.
pub(super) fn prices(pricing: &Value) -> Option<Prices> {
    let overrides = pricing.get("overrides").and_then(Value::as_array).into_iter().flatten();
    let mut tiers: Vec<Prices> = overrides.filter_map(|over| tier(over, pricing)).take(MAX_TIERS).collect();
    tiers.sort_by_key(|tier| tier.above);
    Some(Prices { tiers, ..rates(|name| dollars(pricing.get(name)?))? }).filter(Prices::are_sound)
}

/// Prices from a number of tokens on. Those that it does not name are as below.
fn tier(over: &Value, base: &Value) -> Option<Prices> {
    let from = number(over.get("min_prompt_tokens")?)?;
    let rates = rates(|name| dollars(over.get(name).or_else(|| base.get(name))?))?;
    Some(Prices { above: from.checked_sub(1).filter(|above| *above > 0)?, ..rates })
}

fn rates(of: impl Fn(&str) -> Option<f64>) -> Option<Prices> {
    Some(Prices {
        input: of("prompt")?,
        cached_input: of("input_cache_read"),
        cache_write: of("input_cache_write"),
        cache_write_1h: of("input_cache_write_1h"),
        output: of("completion")?,
        ..Prices::default()
    })
}

/// Dollars for a million tokens, without the noise of binary fractions.
fn dollars(price: &Value) -> Option<f64> {
    let price = price.as_f64().or_else(|| price.as_str()?.trim().parse().ok())?;
    Some((price * 1e12).round() / 1e6)
}

/// A number, however it is written.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is out of range is cut to it")]
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prices_for_a_token_become_prices_for_a_million() {
        let listed = json!({
            "prompt": "0.000003", "completion": 0.000_015, "request": "0", "image": "0.0048", "internal_reasoning": "0",
            "input_cache_read": "0.0000003", "input_cache_write": "0.00000375", "input_cache_write_1h": "0.000006",
            "overrides": [{"min_prompt_tokens": 200_001, "prompt": "0.000006", "completion": "0.0000225"}, {"prompt": "1"}],
        });
        let rates = Prices {
            input: 3.0,
            cached_input: Some(0.3),
            cache_write: Some(3.75),
            cache_write_1h: Some(6.0),
            output: 15.0,
            ..Prices::default()
        };
        let tier = Prices { above: 200_000, input: 6.0, output: 22.5, ..rates.clone() };
        assert_eq!(prices(&listed), Some(Prices { tiers: vec![tier], ..rates }));
        assert_eq!(prices(&json!({"prompt": "0", "completion": "0"})), Some(Prices::default()), "a free model");
    }

    #[test]
    fn other_forms_and_implausible_prices_are_ignored() {
        for odd in [
            json!(null),
            json!("0.1"),
            json!({"prompt": "0.000003"}),
            json!({"prompt": "-1", "completion": "-1"}),
            json!({"prompt": "NaN", "completion": "0.1"}),
            json!({"prompt": "inf", "completion": "0"}),
            json!({"prompt": "1", "completion": "1"}),
            json!({"input": 0.2, "output": 0.2}),
        ] {
            assert_eq!(prices(&odd), None, "{odd}");
        }
    }
}
