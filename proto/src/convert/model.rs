//! Slots and the models in them.

use agentd_core::model::{ListedModel, ModelInfo, Slot, SlotInfo, WindowSource};

use super::{WireError, mirrored, required};
use crate::v1;

mirrored!(Slot, v1::Slot, slot_to_wire, slot, optional_slot, "the model slot", [Base, Reasoning, Vision, Code, Chat]);

/// A slot that may be left open.
pub(crate) fn optional_slot_to_wire(slot: Option<Slot>) -> i32 {
    slot.map_or(v1::Slot::Unspecified as i32, slot_to_wire)
}

fn source_to_wire(source: WindowSource) -> i32 {
    let source = match source {
        WindowSource::Default => v1::WindowSource::Unspecified,
        WindowSource::Configured => v1::WindowSource::Configured,
        WindowSource::Server => v1::WindowSource::Server,
    };
    source as i32
}

/// The origin of a window; one that a newer daemon may know counts as none.
fn source(wire: i32) -> WindowSource {
    match v1::WindowSource::try_from(wire) {
        Ok(v1::WindowSource::Configured) => WindowSource::Configured,
        Ok(v1::WindowSource::Server) => WindowSource::Server,
        Ok(v1::WindowSource::Unspecified) | Err(_) => WindowSource::Default,
    }
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
            window_source: source_to_wire(info.window_source),
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
            window_source: source(info.window_source),
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

impl From<&ListedModel> for v1::ListedModel {
    fn from(model: &ListedModel) -> Self {
        Self { id: model.id.clone(), context_window: model.context_window }
    }
}

impl From<v1::ListedModel> for ListedModel {
    fn from(model: v1::ListedModel) -> Self {
        Self { id: model.id, context_window: model.context_window }
    }
}

/// A request for the models of a slot's server.
pub(crate) fn list_models_to_wire(slot: Slot) -> v1::ListModelsRequest {
    v1::ListModelsRequest { slot: slot_to_wire(slot) }
}

/// The slot whose server is asked for its models.
///
/// # Errors
/// When it is none that is known.
pub fn listed_slot(request: &v1::ListModelsRequest) -> Result<Slot, WireError> {
    Ok(optional_slot(request.slot)?.unwrap_or_default())
}
