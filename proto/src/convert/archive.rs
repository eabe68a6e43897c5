//! Sessions that travel.

use agentd_core::{archive::ImportReport, files::FilesCopied};

use super::{WireError, id};
use crate::{v1, view::ExportedContent};

impl From<&ImportReport> for v1::ImportResponse {
    fn from(report: &ImportReport) -> Self {
        Self {
            session_id: report.session_id.to_string(),
            title: report.title.clone(),
            former_id: report.former_id.map(|id| id.to_string()).unwrap_or_default(),
            turns: report.turns,
            events: report.events,
            subagents: report.subagents,
            files: report.files.files,
            file_bytes: report.files.bytes,
            interrupted: report.interrupted,
            left_out: report.left_out.clone(),
            pins: report.pins.clone(),
        }
    }
}

impl TryFrom<v1::ImportResponse> for ImportReport {
    type Error = WireError;

    fn try_from(report: v1::ImportResponse) -> Result<Self, WireError> {
        let former_id = if report.former_id.is_empty() { None } else { Some(id(&report.former_id)?) };
        Ok(Self {
            session_id: id(&report.session_id)?,
            title: report.title,
            former_id,
            turns: report.turns,
            events: report.events,
            subagents: report.subagents,
            files: FilesCopied { files: report.files, bytes: report.file_bytes, left_out: 0 },
            interrupted: report.interrupted,
            left_out: report.left_out,
            pins: report.pins,
        })
    }
}

impl From<&ExportedContent> for v1::ExportSummary {
    fn from(content: &ExportedContent) -> Self {
        Self {
            events: content.events,
            files: content.files.files,
            file_bytes: content.files.bytes,
            files_left_out: content.files.left_out,
        }
    }
}

impl From<v1::ExportSummary> for ExportedContent {
    fn from(summary: v1::ExportSummary) -> Self {
        let v1::ExportSummary { events, files, file_bytes, files_left_out } = summary;
        Self { events, files: FilesCopied { files, bytes: file_bytes, left_out: files_left_out } }
    }
}
