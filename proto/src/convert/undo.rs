//! Undoing what turns did to files.

use agentd_core::undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile};

use super::{WireError, all, enum_to_wire, id, mirrored, required_enum};
use crate::v1::{self, undo_request::Turn};

mirrored!(UndoOutcome, "what came of an undone file", [Done, Already, Conflict, Failed]);

/// The request for a session.
#[must_use]
pub fn undo_to_wire(session: &str, request: &UndoRequest) -> v1::UndoRequest {
    v1::UndoRequest {
        session: session.to_owned(),
        turn: request.turn.map(|turn| match turn {
            TurnChoice::Number(number) => Turn::Number(number),
            TurnChoice::Id(id) => Turn::TurnId(id.to_string()),
            TurnChoice::Since(number) => Turn::Since(number),
            TurnChoice::All => Turn::All(true),
        }),
        redo: request.redo,
        preview: request.preview,
        client: request.client.clone(),
    }
}

impl TryFrom<v1::UndoRequest> for UndoRequest {
    type Error = WireError;

    fn try_from(request: v1::UndoRequest) -> Result<Self, WireError> {
        let turn = match request.turn {
            None => None,
            Some(Turn::Number(number)) => Some(TurnChoice::Number(number)),
            Some(Turn::TurnId(turn)) => Some(TurnChoice::Id(id(&turn)?)),
            Some(Turn::Since(number)) => Some(TurnChoice::Since(number)),
            Some(Turn::All(true)) => Some(TurnChoice::All),
            Some(Turn::All(false)) => None,
        };
        Ok(Self { turn, redo: request.redo, preview: request.preview, client: request.client })
    }
}

impl From<&UndoReport> for v1::UndoReport {
    fn from(report: &UndoReport) -> Self {
        Self {
            turn_id: report.turn_id.to_string(),
            turn: report.turn,
            redo: report.redo,
            preview: report.preview,
            files: report.files.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::UndoReport> for UndoReport {
    type Error = WireError;

    fn try_from(report: v1::UndoReport) -> Result<Self, WireError> {
        Ok(Self {
            turn_id: id(&report.turn_id)?,
            turn: report.turn,
            redo: report.redo,
            preview: report.preview,
            files: all(report.files)?,
        })
    }
}

impl From<&UndoneFile> for v1::UndoneFile {
    fn from(file: &UndoneFile) -> Self {
        Self {
            path: file.path.clone(),
            change: enum_to_wire(file.change),
            outcome: enum_to_wire(file.outcome),
            reason: file.reason.clone(),
            diff: file.diff.clone(),
        }
    }
}

impl TryFrom<v1::UndoneFile> for UndoneFile {
    type Error = WireError;

    fn try_from(file: v1::UndoneFile) -> Result<Self, WireError> {
        Ok(Self {
            path: file.path,
            change: required_enum(file.change)?,
            outcome: required_enum(file.outcome)?,
            reason: file.reason,
            diff: file.diff,
        })
    }
}
