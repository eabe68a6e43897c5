//! Slot settings from the environment variables `MODEL_*`.

use agentd_core::model::Slot;
use agentd_models::Wire;
use serde::{Deserialize as _, de::IntoDeserializer as _};

use super::{MIN_WINDOW, SlotKey, SlotLayer, url_in};
use crate::config::{ConfigError, ErrorLocation, Sources};

pub(super) fn layer(sources: &Sources, slot: Slot) -> Result<SlotLayer, ConfigError> {
    let text = |key| sources.env.text(variable(slot, key)).map(|text| text.trim().to_owned());
    let non_empty = |key| text(key).filter(|text| !text.is_empty());
    let invalid =
        |key, message: String| ConfigError::new(ErrorLocation::Variable(variable(slot, key).to_owned()), message);
    let window = |text: String| {
        let tokens = text.parse().ok().filter(|tokens| *tokens >= MIN_WINDOW);
        tokens.ok_or_else(|| invalid("context_window", format!("must be a number of tokens, at least {MIN_WINDOW}")))
    };
    let wire = |text: String| {
        let named: Result<Wire, serde::de::value::Error> = Wire::deserialize(text.into_deserializer());
        named.map_err(|_| invalid("wire", "must be openai, responses, anthropic or llamacpp".to_owned()))
    };
    Ok(SlotLayer {
        base_url: text("base_url").map(|url| url_in(variable(slot, "base_url"), &url)).transpose()?,
        wire: non_empty("wire").map(wire).transpose()?,
        api_key: text("api_key").map(|key| SlotKey::of(sources, variable(slot, "api_key"), &key)),
        id: text("id"),
        context_window: non_empty("context_window").map(window).transpose()?,
        ..SlotLayer::default()
    })
}

/// Returns the variable for a key of a slot. The variables are older than the slots, so some of their names differ.
pub(super) fn variable(slot: Slot, key: &str) -> &'static str {
    macro_rules! names {
        ($prefix:literal) => {
            match key {
                "base_url" => concat!("MODEL_", $prefix, "_BASE_URL"),
                "api_key" => concat!("MODEL_", $prefix, "_API_KEY"),
                "context_window" => concat!("MODEL_", $prefix, "_CONTEXT_WINDOW"),
                "wire" => concat!("MODEL_", $prefix, "_WIRE"),
                _ => concat!("MODEL_", $prefix, "_ID"),
            }
        };
    }
    match slot {
        Slot::Base => names!("BASIC"),
        Slot::Reasoning => names!("REASONING"),
        Slot::Vision => names!("MULTIMODAL"),
        Slot::Code => names!("CODE"),
        Slot::Chat => names!("CHAT"),
    }
}

/// Returns the error for a slot whose server is unknown.
pub(super) fn no_address(slot: Slot) -> ConfigError {
    ConfigError::new(
        ErrorLocation::Setting(format!("models.{slot}")),
        "the slot has settings, but no address for its model",
    )
    .with_hint(format!(
        "set base_url (or gguf) of {} in models.yaml, or {} in the environment",
        if slot == Slot::Base { "`base`".to_owned() } else { format!("`{slot}` or of `base`") },
        variable(slot, "base_url")
    ))
}
