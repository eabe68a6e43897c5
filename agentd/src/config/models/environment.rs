//! `MODEL_*`: settings of slots in the environment.

use agentd_core::model::Slot;
use agentd_models::Wire;
use secrecy::SecretString;
use serde::{Deserialize as _, de::IntoDeserializer as _};

use super::{MIN_WINDOW, SlotLayer, check_url};
use crate::config::{ConfigError, ErrorPlace, Sources};

/// Settings of a slot.
pub(super) fn layer(sources: &Sources, slot: Slot) -> Result<SlotLayer, ConfigError> {
    let text = |key| sources.env.text(variable(slot, key)).map(|text| text.trim().to_owned());
    let base_url = text("base_url").map(|url| {
        let place = || ErrorPlace::Variable(variable(slot, "base_url").to_owned());
        check_url(&url).map_err(|why| ConfigError::new(place(), why.replace("base_url", "the address")))
    });
    let context_window = text("context_window").filter(|text| !text.is_empty()).map(|text| {
        let place = || ErrorPlace::Variable(variable(slot, "context_window").to_owned());
        let tokens = text.parse().ok().filter(|tokens| *tokens >= MIN_WINDOW);
        tokens.ok_or_else(|| ConfigError::new(place(), format!("it is a number of tokens, at least {MIN_WINDOW}")))
    });
    let wire = text("wire").filter(|text| !text.is_empty()).map(|text| {
        let place = || ErrorPlace::Variable(variable(slot, "wire").to_owned());
        let named: Result<Wire, serde::de::value::Error> = Wire::deserialize(text.into_deserializer());
        named.map_err(|_| ConfigError::new(place(), "it is openai, responses, anthropic or llamacpp"))
    });
    Ok(SlotLayer {
        base_url: base_url.transpose()?,
        wire: wire.transpose()?,
        api_key: text("api_key").map(SecretString::from),
        id: text("id"),
        context_window: context_window.transpose()?,
        ..SlotLayer::default()
    })
}

/// The variable for a key of a slot. The names are older than the slots', hence the differences.
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
