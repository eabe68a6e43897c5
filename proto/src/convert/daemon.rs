//! Conversions for the daemon: status, configuration, storage, counters and usage, the audit log.
//!
//! Also for model slots, models, and the context of a session.

use agentd_core::{
    audit::{AuditFinding, AuditHead, AuditProblem, AuditRecord, AuditReport, RecordQuery, VerdictName},
    context::{
        CompactionCause, CompactionReport, CompactionStrategy, ContextView, PromptReport, Segment, SegmentKind,
        ServerRemark, TokenLevel, Window,
    },
    counters::{Counter, CounterKind, DayCounters},
    error::ErrorKind,
    model::{CheckState, ListedModel, ModelCheck, ModelFigure, ModelInfo, ModelTestPlan, Slot, SlotInfo, WindowSource},
    policy::SandboxState,
    spending::{UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    storage::{CleanReport, CleanedData, CleanedPart, PartSize, StoragePart, StorageView},
    turn::RecoveredTurn,
    usage::{CallTiming, Usage},
};

use crate::{
    convert::{Wire, WireError, by_name, mirrored},
    v1::{self, context_view},
    view::{
        ConfigOrigin, ConfigView, DaemonStatus, Finding, LanguageServer, McpServerState, McpServerView, ReloadOutcome,
    },
};

mirrored! {
    ErrorKind, "the kind of an error", [
        Auth, RateLimited, Unreachable, Timeout, CutStream, Protocol, ContextOverflow, Rejected, Provider, Storage,
        NotFound, InvalidInput, Conflict, Busy, ShuttingDown, Configuration, Internal, QuotaExceeded
    ]
}
mirrored!(McpServerState, "the state of an MCP server", [Stopped, Starting, Running, Down, Disabled]);
mirrored!(VerdictName, AuditVerdict, "the verdict on a call", [Allow, Ask, Deny]);

mirrored! {
    DaemonStatus as v1::StatusResponse:
        version pid resident_bytes live_sessions running_turns waiting_turns recovered socket data_dir config_sources sandbox
        problems language_servers, uptime = uptime_ms "the uptime"
}
mirrored! { Finding as v1::Finding: subject message hint is_failure }
mirrored! { LanguageServer as v1::LanguageServer: name hint }
mirrored! { SandboxState as v1::SandboxState: mode runs landlock seccomp namespaces network weaknesses }
mirrored! { RecoveredTurn as v1::RecoveredTurn: session_id turn_id finished never_ran unknown goes_on }
mirrored! { ConfigView as v1::ConfigResponse: sources origins chain }
mirrored! {
    McpServerView as v1::McpServer:
        name state reason transport place connections says_it_is tools reached notes protocol
}
mirrored! { StorageView as v1::ShowStorageResponse: parts journal_spare_bytes removed_sessions stuck_sessions free_bytes }
mirrored! { PartSize as v1::StoragePart: bytes files, part = name "a part" }
mirrored! { CleanedData as v1::CleanedPart: sessions files bytes, part = name "a part" }
mirrored! {
    Usage as v1::Usage:
        prompt_tokens cached_tokens cache_write_tokens completion_tokens reasoning_tokens cost_microusd calls unpriced_calls
}
mirrored! { CallTiming as v1::CallTiming: first_token_ms duration_ms }
mirrored! { UsageGroup as v1::SpendingGroup: name title, usage = usage "the usage of a group" }
mirrored! { Counter as v1::Counter: kind name outcome count milliseconds }
mirrored! {
    UsageReport as v1::ShowSpendingResponse: since until time_zone by groups left_out, total = total "the total"
}
mirrored! { UsageQuery as v1::ShowSpendingRequest: last_days since until ? by }
mirrored! { AuditFinding as v1::AuditFinding: file line message, problem = problem "the problem of a finding" }
mirrored! {
    AuditReport as v1::VerifyAuditResponse:
        lines files findings more
        @ head: AuditHead { , n = head_n "the number of the head", hash = head_hash "its hash" }
        + holds (AuditReport::is_intact)
}
mirrored! { ReloadOutcome as v1::ReloadResponse: config_sources notes }
mirrored! {
    CleanReport as v1::CleanResponse: parts problems kept_sessions => |CleanReport { parts, problems, kept_sessions }| {
        let mut report = CleanReport { problems, kept_sessions, ..CleanReport::default() };
        parts.into_iter().for_each(|part| report.add(part.part, part.sessions, part.files, part.bytes));
        Ok(report)
    }
}
mirrored! {
    // The session is omitted, because its name must be resolved first.
    RecordQuery as v1::ListAuditRequest:
        turn_id tool verdict refused before limit, since = since "the time of the oldest record"
        + session (|query: &RecordQuery| query.session_id.to_wire()) .. session_id: None
        => |query| Ok(RecordQuery { limit: if query.limit == 0 { DEFAULT_LIMIT } else { query.limit }, ..query })
}

by_name! {
    StoragePart: |part| part.as_str().to_owned(), |name, _| Ok(Self::from_name(name).unwrap_or(Self::Other));
    // Kinds that are only known to a newer daemon are shown as leftovers.
    CleanedPart: |part| part.as_str().to_owned(), |name, _| Ok(Self::from_name(name).unwrap_or(Self::Leftovers));
    CounterKind: |kind| kind.as_str().to_owned(), |name, field| Self::from_name(name).ok_or(WireError::Unknown(field));
    AuditProblem: |problem| problem.as_str().to_owned(), |name, field| {
        Self::from_name(name).ok_or(WireError::Unknown(field))
    };
    UsageGrouping: |by| by.as_str().to_owned(), |name, field| {
        name.parse().map_err(|_| WireError::Value { field, problem: "must be model, session, day or slot" })
    };
}

impl Wire<Option<v1::LanguageServers>> for Option<Vec<LanguageServer>> {
    fn to_wire(&self) -> Option<v1::LanguageServers> {
        self.as_ref().map(|servers| v1::LanguageServers { servers: servers.to_wire() })
    }

    fn from_wire(wire: Option<v1::LanguageServers>, field: &'static str) -> Result<Self, WireError> {
        wire.map(|wire| Wire::from_wire(wire.servers, field)).transpose()
    }
}

/// Name and description of a link in the middleware chain.
impl Wire<v1::ChainLink> for (String, String) {
    fn to_wire(&self) -> v1::ChainLink {
        v1::ChainLink { name: self.0.clone(), about: self.1.clone() }
    }

    fn from_wire(wire: v1::ChainLink, _: &'static str) -> Result<Self, WireError> {
        Ok((wire.name, wire.about))
    }
}

/// A value that is not JSON is treated as absent: it is only displayed, and nothing depends on it.
impl Wire<v1::ConfigOrigin> for ConfigOrigin {
    fn to_wire(&self) -> v1::ConfigOrigin {
        let ConfigOrigin { key, origin, value } = self.clone();
        v1::ConfigOrigin { key, origin, value: value.map(|value| value.to_string()) }
    }

    fn from_wire(wire: v1::ConfigOrigin, _: &'static str) -> Result<Self, WireError> {
        let v1::ConfigOrigin { key, origin, value } = wire;
        Ok(Self { key, origin, value: value.and_then(|value| serde_json::from_str(&value).ok()) })
    }
}

impl From<&DayCounters> for v1::DayCounters {
    fn from(counters: &DayCounters) -> Self {
        Self { day: counters.day.to_wire(), counters: counters.counters.to_wire() }
    }
}

impl TryFrom<v1::DayCounters> for DayCounters {
    type Error = WireError;

    fn try_from(counters: v1::DayCounters) -> Result<Self, WireError> {
        // Kinds from a newer daemon are skipped.
        let known = counters.counters.into_iter().filter_map(|counter| counter.try_into().ok()).collect();
        Ok(Self { day: Wire::from_wire(counters.day, "day")?, counters: known })
    }
}

/// Maximum number of records if the request does not specify one.
const DEFAULT_LIMIT: usize = 100;

impl TryFrom<&AuditRecord> for v1::AuditRecord {
    type Error = WireError;

    fn try_from(record: &AuditRecord) -> Result<Self, WireError> {
        Ok(Self { n: record.line.n, json: serde_json::to_string(record).map_err(invalid_json)? })
    }
}

impl TryFrom<v1::AuditRecord> for AuditRecord {
    type Error = WireError;

    fn try_from(record: v1::AuditRecord) -> Result<Self, WireError> {
        serde_json::from_str(&record.json).map_err(invalid_json)
    }
}

fn invalid_json(error: serde_json::Error) -> WireError {
    WireError::Json { field: "a record of the audit log", cause: error.to_string() }
}

mirrored!(Slot, "the model slot", [Base, Reasoning, Vision, Code, Chat]);
mirrored!(CheckState, "the state of a check", [Ok, Warn, Fail, Skipped]);
mirrored!(CompactionCause, "the cause of a compaction", [Critical, Overflow, Limit, Model, Person]);
mirrored!(CompactionStrategy, "the strategy of a compaction", [Auto, Compact, Summarize, Truncate, Offload]);
mirrored!(TokenLevel, "the fill level of a window", [Info, Warning, Critical]);
mirrored! {
    SegmentKind, "the kind of a segment", [
        Instructions, Tools, Memory, Skills, Summary, History, Results, Reminders
    ]
}

mirrored! { ModelFigure as v1::ModelFigure: name value source }
mirrored! {
    // `echo_reasoning` is not sent, because clients do not need it for their estimates.
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

/// Source of a window size. Unknown sources from a newer daemon are converted to the default.
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
