//! What the data folder holds, and what was cleaned of it.

use agentd_core::storage::{CleanReport, CleanedData, CleanedPart, PartSize, StoragePart, StorageView};

use crate::v1;

impl From<&StorageView> for v1::ShowStorageResponse {
    fn from(view: &StorageView) -> Self {
        let part = |part: &PartSize| v1::StoragePart {
            name: part.part.as_str().to_owned(),
            bytes: part.bytes,
            files: part.files,
        };
        Self {
            parts: view.parts.iter().map(part).collect(),
            journal_spare_bytes: view.journal_spare_bytes,
            removed_sessions: view.removed_sessions,
            stuck_sessions: view.stuck_sessions,
            free_bytes: view.free_bytes,
        }
    }
}

impl From<v1::ShowStorageResponse> for StorageView {
    fn from(view: v1::ShowStorageResponse) -> Self {
        let part = |part: v1::StoragePart| PartSize {
            part: StoragePart::from_name(&part.name),
            bytes: part.bytes,
            files: part.files,
        };
        Self {
            parts: view.parts.into_iter().map(part).collect(),
            journal_spare_bytes: view.journal_spare_bytes,
            removed_sessions: view.removed_sessions,
            stuck_sessions: view.stuck_sessions,
            free_bytes: view.free_bytes,
        }
    }
}

impl From<&CleanReport> for v1::CleanResponse {
    fn from(report: &CleanReport) -> Self {
        let part = |part: &CleanedData| v1::CleanedPart {
            name: part.part.as_str().to_owned(),
            sessions: part.sessions,
            files: part.files,
            bytes: part.bytes,
        };
        Self {
            parts: report.parts.iter().map(part).collect(),
            problems: report.problems.clone(),
            kept_sessions: report.kept_sessions,
        }
    }
}

impl From<v1::CleanResponse> for CleanReport {
    fn from(response: v1::CleanResponse) -> Self {
        let mut report = Self { problems: response.problems, kept_sessions: response.kept_sessions, ..Self::default() };
        for part in response.parts {
            // What a newer daemon cleans besides counts as what was left behind.
            let kind = CleanedPart::from_name(&part.name).unwrap_or(CleanedPart::Leftovers);
            report.add(kind, part.sessions, part.files, part.bytes);
        }
        report
    }
}
