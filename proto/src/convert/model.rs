//! Slots, the models in them, and what a model sees of a session.

use agentd_core::{
    context::{
        CompactionCause, CompactionReport, CompactionStrategy, ContextView, PromptReport, Segment, SegmentKind,
        ServerRemark, TokenLevel, Window,
    },
    model::{CheckState, ListedModel, ModelCheck, ModelFigure, ModelInfo, ModelTestPlan, Slot, SlotInfo, WindowSource},
};

use super::{Wire, WireError, mirrored, or_default};
use crate::v1::{self, context_view};

mirrored!(Slot, "the model slot", [Base, Reasoning, Vision, Code, Chat]);
mirrored!(CheckState, "the state of a check", [Ok, Warn, Fail, Skipped]);
mirrored!(CompactionCause, "the cause of a compaction", [Critical, Overflow, Limit, Model, Person]);
mirrored!(CompactionStrategy, "the strategy of a compaction", [Auto, Compact, Summarize, Truncate, Offload]);
mirrored!(TokenLevel, "how full a window is", [Info, Warning, Critical]);
mirrored!(
    SegmentKind,
    "the kind of a segment",
    [Instructions, Tools, Memory, Skills, Summary, History, Results, Reminders]
);

mirrored! { ModelFigure as v1::ModelFigure: name value source }
mirrored! {
    // Clients do not measure by the echo.
    ModelInfo as v1::ModelInfo:
        id wire base_url context_window native_tools embedded sees_pictures window_source figures .. echo_reasoning: false
}
mirrored! { SlotInfo as v1::SlotInfo: slot falls_back_to, model = model "the model of a slot" }
mirrored! { ListedModel as v1::ListedModel: id context_window }
mirrored! { ModelTestPlan as v1::ModelTestPlan: model requests tokens }
mirrored! { ModelCheck as v1::ModelCheck: name state message hint }
mirrored! { Window as v1::Window: after summary held }
mirrored! {
    CompactionReport as v1::CompactionReport:
        cause strategy messages_before messages_after tokens_before tokens_after percent_before offloaded pinned path model
        problem
}
mirrored! {
    PromptReport as v1::PromptReport:
        bytes repeated_bytes previous_bytes tokens repeated_tokens broken_by remarks
}
mirrored! { ServerRemark as v1::ServerRemark: reason tokens }
mirrored! {
    ContextView as v1::ContextView: model window tokens level segments messages max_messages next_cuts imported
}
mirrored! { Segment as context_view::Segment: kind source bytes tokens count }

/// The origin of a window; one that a newer daemon may know counts as none.
impl Wire<i32> for WindowSource {
    fn to_wire(&self) -> i32 {
        let source = match self {
            Self::Default => v1::WindowSource::Unspecified,
            Self::Configured => v1::WindowSource::Configured,
            Self::Server => v1::WindowSource::Server,
            Self::Refusal => v1::WindowSource::Refusal,
            Self::Cut => v1::WindowSource::Cut,
            Self::Catalogue => v1::WindowSource::Catalogue,
        };
        source as i32
    }

    fn from_wire(wire: i32, _: &'static str) -> Result<Self, WireError> {
        let all = [Self::Configured, Self::Server, Self::Refusal, Self::Cut, Self::Catalogue];
        Ok(all.into_iter().find(|source| source.to_wire() == wire).unwrap_or(Self::Default))
    }
}

/// The slot whose model is tested.
///
/// # Errors
/// When it is none that is known.
pub fn tested_slot(request: &v1::TestModelRequest) -> Result<Slot, WireError> {
    slot_or_default(request.slot)
}

/// The slot whose server is asked for its models.
///
/// # Errors
/// When it is none that is known.
pub fn listed_slot(request: &v1::ListModelsRequest) -> Result<Slot, WireError> {
    slot_or_default(request.slot)
}

fn slot_or_default(slot: i32) -> Result<Slot, WireError> {
    or_default(slot, "the model slot")
}
