//! Slots and the models in them.

use agentd_core::model::{ModelInfo, Slot, SlotInfo};

use super::{WireError, mirrored, required};
use crate::v1;

mirrored!(Slot, v1::Slot, slot_to_wire, slot, optional_slot, "the model slot", [Base, Reasoning, Vision, Code, Chat]);

/// A slot that may be left open.
pub(crate) fn optional_slot_to_wire(slot: Option<Slot>) -> i32 {
    slot.map_or(v1::Slot::Unspecified as i32, slot_to_wire)
}

impl From<&ModelInfo> for v1::ModelInfo {
    fn from(info: &ModelInfo) -> Self {
        Self {
            id: info.id.clone(),
            wire: info.wire.clone(),
            base_url: info.base_url.clone(),
            context_window: info.context_window,
            native_tools: info.native_tools,
            embedded: info.embedded,
            sees_pictures: info.sees_pictures,
        }
    }
}

impl From<v1::ModelInfo> for ModelInfo {
    fn from(info: v1::ModelInfo) -> Self {
        Self {
            id: info.id,
            wire: info.wire,
            base_url: info.base_url,
            context_window: info.context_window,
            native_tools: info.native_tools,
            embedded: info.embedded,
            sees_pictures: info.sees_pictures,
            // What the engine measures by; clients are not told.
            echo_reasoning: false,
        }
    }
}

impl From<&SlotInfo> for v1::SlotInfo {
    fn from(info: &SlotInfo) -> Self {
        Self {
            slot: slot_to_wire(info.slot),
            falls_back_to: optional_slot_to_wire(info.falls_back_to),
            model: Some((&info.model).into()),
        }
    }
}

impl TryFrom<v1::SlotInfo> for SlotInfo {
    type Error = WireError;

    fn try_from(info: v1::SlotInfo) -> Result<Self, WireError> {
        Ok(Self {
            slot: slot(info.slot)?,
            falls_back_to: optional_slot(info.falls_back_to)?,
            model: required(info.model, "the model of a slot")?.into(),
        })
    }
}
