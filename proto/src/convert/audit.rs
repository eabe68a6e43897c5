//! The audit log.

use agentd_core::audit::{AuditFinding, AuditHead, AuditProblem, AuditRecord, AuditReport, RecordQuery, VerdictName};

use super::{WireError, all, enum_to_wire, id, mirrored, optional_enum, optional_moment, to_moment};
use crate::v1;

mirrored!(VerdictName, AuditVerdict, "the verdict on a call", [Allow, Ask, Deny]);

/// Records where the request names no number.
const DEFAULT_LIMIT: usize = 100;

impl From<&RecordQuery> for v1::ListAuditRequest {
    fn from(query: &RecordQuery) -> Self {
        Self {
            session: query.session_id.map(|id| id.to_string()).unwrap_or_default(),
            turn_id: query.turn_id.map(|id| id.to_string()).unwrap_or_default(),
            tool: query.tool.clone().unwrap_or_default(),
            verdict: query.verdict.map_or(v1::AuditVerdict::Unspecified as i32, enum_to_wire),
            refused: query.refused,
            since: query.since.map(to_moment),
            before: query.before,
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        }
    }
}

/// All of a query but its session, whose name has to be looked up.
impl TryFrom<v1::ListAuditRequest> for RecordQuery {
    type Error = WireError;

    fn try_from(request: v1::ListAuditRequest) -> Result<Self, WireError> {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            session_id: None,
            turn_id: given(request.turn_id).map(|turn| id(&turn)).transpose()?,
            tool: given(request.tool),
            verdict: optional_enum(request.verdict)?,
            refused: request.refused,
            since: optional_moment(request.since, "the moment of the oldest record")?,
            before: request.before,
            limit: match request.limit {
                0 => DEFAULT_LIMIT,
                limit => usize::try_from(limit).unwrap_or(usize::MAX),
            },
        })
    }
}

impl TryFrom<&AuditRecord> for v1::AuditRecord {
    type Error = WireError;

    fn try_from(record: &AuditRecord) -> Result<Self, WireError> {
        Ok(Self { n: record.line.n, json: serde_json::to_string(record).map_err(no_json)? })
    }
}

impl TryFrom<v1::AuditRecord> for AuditRecord {
    type Error = WireError;

    fn try_from(record: v1::AuditRecord) -> Result<Self, WireError> {
        serde_json::from_str(&record.json).map_err(no_json)
    }
}

fn no_json(error: serde_json::Error) -> WireError {
    WireError::Json { what: "a record of the audit log", cause: error.to_string() }
}

impl From<&AuditReport> for v1::VerifyAuditResponse {
    fn from(report: &AuditReport) -> Self {
        Self {
            holds: report.holds(),
            lines: report.lines,
            files: report.files.clone(),
            head_n: report.head.n,
            head_hash: report.head.hash.clone(),
            findings: report.findings.iter().map(Into::into).collect(),
            more: report.more,
        }
    }
}

impl TryFrom<v1::VerifyAuditResponse> for AuditReport {
    type Error = WireError;

    fn try_from(report: v1::VerifyAuditResponse) -> Result<Self, WireError> {
        Ok(Self {
            lines: report.lines,
            files: report.files,
            head: AuditHead { n: report.head_n, hash: report.head_hash },
            findings: all(report.findings)?,
            more: report.more,
        })
    }
}

impl From<&AuditFinding> for v1::AuditFinding {
    fn from(finding: &AuditFinding) -> Self {
        Self {
            file: finding.file.clone(),
            line: finding.line,
            problem: finding.problem.as_str().to_owned(),
            message: finding.message.clone(),
        }
    }
}

impl TryFrom<v1::AuditFinding> for AuditFinding {
    type Error = WireError;

    fn try_from(finding: v1::AuditFinding) -> Result<Self, WireError> {
        let problem =
            AuditProblem::from_name(&finding.problem).ok_or(WireError::Unknown("what is wrong with the log"))?;
        Ok(Self { file: finding.file, line: finding.line, problem, message: finding.message })
    }
}
