//! What a model sees of a session.

use agentd_core::context::{
    CompactionCause, CompactionReport, CompactionStrategy, ContextView, PromptReport, Segment, SegmentKind,
    ServerRemark, TokenLevel, Window,
};

use super::{WireError, all, enum_to_wire, mirrored, required_enum, same_fields};
use crate::v1::{self, context_view};

mirrored!(CompactionCause, "the cause of a compaction", [Critical, Overflow, Limit, Model, Person]);

mirrored!(CompactionStrategy, "the strategy of a compaction", [Auto, Compact, Summarize, Truncate, Offload]);

mirrored!(TokenLevel, "how full a window is", [Info, Warning, Critical]);

mirrored!(
    SegmentKind,
    "the kind of a segment",
    [Instructions, Tools, Memory, Skills, Summary, History, Results, Reminders]
);

same_fields! { Window: after summary held }

impl From<&CompactionReport> for v1::CompactionReport {
    fn from(report: &CompactionReport) -> Self {
        Self {
            cause: enum_to_wire(report.cause),
            strategy: enum_to_wire(report.strategy),
            messages_before: report.messages_before,
            messages_after: report.messages_after,
            tokens_before: report.tokens_before,
            tokens_after: report.tokens_after,
            percent_before: report.percent_before,
            offloaded: report.offloaded,
            pinned: report.pinned.clone(),
            path: report.path.clone(),
            model: report.model.clone(),
            problem: report.problem.clone(),
        }
    }
}

impl TryFrom<v1::CompactionReport> for CompactionReport {
    type Error = WireError;

    fn try_from(report: v1::CompactionReport) -> Result<Self, WireError> {
        Ok(Self {
            cause: required_enum(report.cause)?,
            strategy: required_enum(report.strategy)?,
            messages_before: report.messages_before,
            messages_after: report.messages_after,
            tokens_before: report.tokens_before,
            tokens_after: report.tokens_after,
            percent_before: report.percent_before,
            offloaded: report.offloaded,
            pinned: report.pinned,
            path: report.path,
            model: report.model,
            problem: report.problem,
        })
    }
}

impl From<&PromptReport> for v1::PromptReport {
    fn from(report: &PromptReport) -> Self {
        Self {
            bytes: report.bytes,
            repeated_bytes: report.repeated_bytes,
            previous_bytes: report.previous_bytes,
            tokens: report.tokens,
            repeated_tokens: report.repeated_tokens,
            broken_by: report.broken_by.clone(),
            remarks: report.remarks.iter().map(Into::into).collect(),
        }
    }
}

impl From<v1::PromptReport> for PromptReport {
    fn from(report: v1::PromptReport) -> Self {
        Self {
            bytes: report.bytes,
            repeated_bytes: report.repeated_bytes,
            previous_bytes: report.previous_bytes,
            tokens: report.tokens,
            repeated_tokens: report.repeated_tokens,
            broken_by: report.broken_by,
            remarks: report.remarks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&ServerRemark> for v1::ServerRemark {
    fn from(remark: &ServerRemark) -> Self {
        Self { reason: remark.reason.clone(), tokens: remark.tokens }
    }
}

impl From<v1::ServerRemark> for ServerRemark {
    fn from(remark: v1::ServerRemark) -> Self {
        Self { reason: remark.reason, tokens: remark.tokens }
    }
}

impl From<&ContextView> for v1::ContextView {
    fn from(view: &ContextView) -> Self {
        Self {
            model: view.model.clone(),
            window: view.window,
            tokens: view.tokens,
            level: enum_to_wire(view.level),
            segments: view.segments.iter().map(Into::into).collect(),
            messages: view.messages,
            max_messages: view.max_messages,
            next_cuts: view.next_cuts.clone(),
            imported: view.imported,
        }
    }
}

impl TryFrom<v1::ContextView> for ContextView {
    type Error = WireError;

    fn try_from(view: v1::ContextView) -> Result<Self, WireError> {
        Ok(Self {
            model: view.model,
            window: view.window,
            tokens: view.tokens,
            level: required_enum(view.level)?,
            segments: all(view.segments)?,
            messages: view.messages,
            max_messages: view.max_messages,
            next_cuts: view.next_cuts,
            imported: view.imported,
        })
    }
}

impl From<&Segment> for context_view::Segment {
    fn from(segment: &Segment) -> Self {
        Self {
            kind: enum_to_wire(segment.kind),
            source: segment.source.clone(),
            bytes: segment.bytes,
            tokens: segment.tokens,
            count: segment.count,
        }
    }
}

impl TryFrom<context_view::Segment> for Segment {
    type Error = WireError;

    fn try_from(segment: context_view::Segment) -> Result<Self, WireError> {
        Ok(Self {
            kind: required_enum(segment.kind)?,
            source: segment.source,
            bytes: segment.bytes,
            tokens: segment.tokens,
            count: segment.count,
        })
    }
}
