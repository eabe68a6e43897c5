//! Slots and the models in them.

use agentd_core::model::{
    CheckState, ListedModel, ModelCheck, ModelFigure, ModelInfo, ModelTestPlan, Slot, SlotInfo, WindowSource,
};

use super::{WireError, enum_to_wire, mirrored, optional_enum, required, required_enum};
use crate::v1;

mirrored!(Slot, "the model slot", [Base, Reasoning, Vision, Code, Chat]);

mirrored!(CheckState, "the state of a check", [Ok, Warn, Fail, Skipped]);

/// A slot that may be left open.
pub(crate) fn optional_slot_to_wire(slot: Option<Slot>) -> i32 {
    slot.map_or(v1::Slot::Unspecified as i32, enum_to_wire)
}

fn source_to_wire(source: WindowSource) -> i32 {
    let source = match source {
        WindowSource::Default => v1::WindowSource::Unspecified,
        WindowSource::Configured => v1::WindowSource::Configured,
        WindowSource::Server => v1::WindowSource::Server,
        WindowSource::Refusal => v1::WindowSource::Refusal,
        WindowSource::Cut => v1::WindowSource::Cut,
        WindowSource::Catalogue => v1::WindowSource::Catalogue,
    };
    source as i32
}

/// The origin of a window; one that a newer daemon may know counts as none.
fn source(wire: i32) -> WindowSource {
    match v1::WindowSource::try_from(wire) {
        Ok(v1::WindowSource::Configured) => WindowSource::Configured,
        Ok(v1::WindowSource::Server) => WindowSource::Server,
        Ok(v1::WindowSource::Refusal) => WindowSource::Refusal,
        Ok(v1::WindowSource::Cut) => WindowSource::Cut,
        Ok(v1::WindowSource::Catalogue) => WindowSource::Catalogue,
        Ok(v1::WindowSource::Unspecified) | Err(_) => WindowSource::Default,
    }
}

impl From<&ModelFigure> for v1::ModelFigure {
    fn from(figure: &ModelFigure) -> Self {
        let ModelFigure { name, value, source } = figure.clone();
        Self { name, value, source }
    }
}

impl From<v1::ModelFigure> for ModelFigure {
    fn from(figure: v1::ModelFigure) -> Self {
        let v1::ModelFigure { name, value, source } = figure;
        Self { name, value, source }
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
            figures: info.figures.iter().map(Into::into).collect(),
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
            figures: info.figures.into_iter().map(Into::into).collect(),
            // What the engine measures by; clients are not told.
            echo_reasoning: false,
        }
    }
}

impl From<&SlotInfo> for v1::SlotInfo {
    fn from(info: &SlotInfo) -> Self {
        Self {
            slot: enum_to_wire(info.slot),
            falls_back_to: optional_slot_to_wire(info.falls_back_to),
            model: Some((&info.model).into()),
        }
    }
}

impl TryFrom<v1::SlotInfo> for SlotInfo {
    type Error = WireError;

    fn try_from(info: v1::SlotInfo) -> Result<Self, WireError> {
        Ok(Self {
            slot: required_enum(info.slot)?,
            falls_back_to: optional_enum(info.falls_back_to)?,
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

impl From<&ModelTestPlan> for v1::ModelTestPlan {
    fn from(plan: &ModelTestPlan) -> Self {
        Self { model: plan.model.clone(), requests: plan.requests, tokens: plan.tokens }
    }
}

impl From<v1::ModelTestPlan> for ModelTestPlan {
    fn from(plan: v1::ModelTestPlan) -> Self {
        Self { model: plan.model, requests: plan.requests, tokens: plan.tokens }
    }
}

impl From<&ModelCheck> for v1::ModelCheck {
    fn from(check: &ModelCheck) -> Self {
        Self {
            name: check.name.clone(),
            state: enum_to_wire(check.state),
            message: check.message.clone(),
            hint: check.hint.clone(),
        }
    }
}

impl TryFrom<v1::ModelCheck> for ModelCheck {
    type Error = WireError;

    fn try_from(check: v1::ModelCheck) -> Result<Self, WireError> {
        Ok(Self { name: check.name, state: required_enum(check.state)?, message: check.message, hint: check.hint })
    }
}

/// A request to test the model of a slot.
pub(crate) fn test_model_to_wire(slot: Slot) -> v1::TestModelRequest {
    v1::TestModelRequest { slot: enum_to_wire(slot) }
}

/// The slot whose model is tested.
///
/// # Errors
/// When it is none that is known.
pub fn tested_slot(request: &v1::TestModelRequest) -> Result<Slot, WireError> {
    Ok(optional_enum(request.slot)?.unwrap_or_default())
}

/// A request for the models of a slot's server.
pub(crate) fn list_models_to_wire(slot: Slot) -> v1::ListModelsRequest {
    v1::ListModelsRequest { slot: enum_to_wire(slot) }
}

/// The slot whose server is asked for its models.
///
/// # Errors
/// When it is none that is known.
pub fn listed_slot(request: &v1::ListModelsRequest) -> Result<Slot, WireError> {
    Ok(optional_enum(request.slot)?.unwrap_or_default())
}
