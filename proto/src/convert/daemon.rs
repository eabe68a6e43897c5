//! How the daemon is doing.

use std::{path::PathBuf, time::Duration};

use super::{WireError, all, id};
use crate::{
    v1,
    view::{ConfigOrigin, ConfigView, DaemonStatus, Finding, LanguageServer, RecoveredTurn, SandboxState},
};

impl From<&DaemonStatus> for v1::StatusResponse {
    fn from(status: &DaemonStatus) -> Self {
        Self {
            version: status.version.clone(),
            pid: status.pid,
            uptime_ms: u64::try_from(status.uptime.as_millis()).unwrap_or(u64::MAX),
            resident_bytes: status.resident_bytes,
            live_sessions: status.live_sessions,
            running_turns: status.running_turns,
            waiting_turns: status.waiting_turns,
            recovered: status.recovered.iter().map(Into::into).collect(),
            socket: status.socket.to_string_lossy().into_owned(),
            data_dir: status.data_dir.to_string_lossy().into_owned(),
            config_sources: status.config_sources.clone(),
            sandbox: status.sandbox.clone().map(Into::into),
            problems: status.problems.iter().cloned().map(Into::into).collect(),
            language_servers: status.language_servers.clone().map(Into::into),
        }
    }
}

impl TryFrom<v1::StatusResponse> for DaemonStatus {
    type Error = WireError;

    fn try_from(status: v1::StatusResponse) -> Result<Self, WireError> {
        Ok(Self {
            version: status.version,
            pid: status.pid,
            uptime: Duration::from_millis(status.uptime_ms),
            resident_bytes: status.resident_bytes,
            live_sessions: status.live_sessions,
            running_turns: status.running_turns,
            waiting_turns: status.waiting_turns,
            recovered: all(status.recovered)?,
            socket: PathBuf::from(status.socket),
            data_dir: PathBuf::from(status.data_dir),
            config_sources: status.config_sources,
            sandbox: status.sandbox.map(Into::into),
            problems: status.problems.into_iter().map(Into::into).collect(),
            language_servers: status.language_servers.map(Into::into),
        })
    }
}

impl From<Finding> for v1::Finding {
    fn from(finding: Finding) -> Self {
        let Finding { subject, message, hint, is_failure } = finding;
        Self { subject, message, hint, is_failure }
    }
}

impl From<v1::Finding> for Finding {
    fn from(finding: v1::Finding) -> Self {
        let v1::Finding { subject, message, hint, is_failure } = finding;
        Self { subject, message, hint, is_failure }
    }
}

impl From<Vec<LanguageServer>> for v1::LanguageServers {
    fn from(servers: Vec<LanguageServer>) -> Self {
        let server = |LanguageServer { name, hint }| v1::LanguageServer { name, hint };
        Self { servers: servers.into_iter().map(server).collect() }
    }
}

impl From<v1::LanguageServers> for Vec<LanguageServer> {
    fn from(v1::LanguageServers { servers }: v1::LanguageServers) -> Self {
        servers.into_iter().map(|v1::LanguageServer { name, hint }| LanguageServer { name, hint }).collect()
    }
}

impl From<SandboxState> for v1::SandboxState {
    fn from(state: SandboxState) -> Self {
        let SandboxState { mode, runs, landlock, seccomp, namespaces, network, weaknesses } = state;
        Self { mode, runs, landlock, seccomp, namespaces, network, weaknesses }
    }
}

impl From<v1::SandboxState> for SandboxState {
    fn from(state: v1::SandboxState) -> Self {
        let v1::SandboxState { mode, runs, landlock, seccomp, namespaces, network, weaknesses } = state;
        Self { mode, runs, landlock, seccomp, namespaces, network, weaknesses }
    }
}

impl From<&RecoveredTurn> for v1::RecoveredTurn {
    fn from(turn: &RecoveredTurn) -> Self {
        Self {
            session_id: turn.session_id.to_string(),
            turn_id: turn.turn_id.to_string(),
            finished: turn.finished.clone(),
            never_ran: turn.never_ran.clone(),
            unknown: turn.unknown.clone(),
            goes_on: turn.goes_on,
        }
    }
}

impl TryFrom<v1::RecoveredTurn> for RecoveredTurn {
    type Error = WireError;

    fn try_from(turn: v1::RecoveredTurn) -> Result<Self, WireError> {
        Ok(Self {
            session_id: id(&turn.session_id)?,
            turn_id: id(&turn.turn_id)?,
            finished: turn.finished,
            never_ran: turn.never_ran,
            unknown: turn.unknown,
            goes_on: turn.goes_on,
        })
    }
}

impl From<ConfigView> for v1::ConfigResponse {
    fn from(view: ConfigView) -> Self {
        let ConfigView { sources, origins, chain } = view;
        let origins = origins.into_iter().map(Into::into).collect();
        let chain = chain.into_iter().map(|(name, about)| v1::ChainLink { name, about }).collect();
        Self { sources, origins, chain }
    }
}

impl From<v1::ConfigResponse> for ConfigView {
    fn from(view: v1::ConfigResponse) -> Self {
        let v1::ConfigResponse { sources, origins, chain } = view;
        let origins = origins.into_iter().map(Into::into).collect();
        let chain = chain.into_iter().map(|link| (link.name, link.about)).collect();
        Self { sources, origins, chain }
    }
}

impl From<ConfigOrigin> for v1::ConfigOrigin {
    fn from(of: ConfigOrigin) -> Self {
        let ConfigOrigin { key, origin, value } = of;
        Self { key, origin, value: value.map(|value| value.to_string()) }
    }
}

/// A value that is not JSON counts as one that was not sent: it is shown, and nothing depends on it.
impl From<v1::ConfigOrigin> for ConfigOrigin {
    fn from(of: v1::ConfigOrigin) -> Self {
        let v1::ConfigOrigin { key, origin, value } = of;
        Self { key, origin, value: value.and_then(|value| serde_json::from_str(&value).ok()) }
    }
}
