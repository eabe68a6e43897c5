//! The measurements, one subject per file.
//!
//! - [`turn`]: times a turn from outside, for several subjects. [`terminal`]: a program at a pseudo-terminal. [`python`]:
//!   runs the software that agentd is compared with.
//!
//! The imports in this module are used by most subjects, which import them with `use super::*`.

mod code;
mod context;
mod documents;
mod drawing;
mod editors;
mod first_frame;
mod first_token;
mod journal;
mod many_turns;
mod mcp;
mod mcp_soak;
mod policy;
mod python;
mod recall;
mod relay;
mod run_command;
mod sandbox;
mod search;
mod snapshot;
mod start_up;
mod subagents;
mod terminal;
mod travel;
mod turn;
mod wire_trace;
mod wires;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_core::{Timestamp, ids::SessionId, model::Slot, session::SessionSettings, turn::StopReason};
use agentd_proto::client::Client;
use agentd_store::{SqliteStore, StoreConfig};
use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    figures::{Figure, Samples, as_f64, millis, rate},
    report::Row,
    world::{self, Daemon, Home, ModelProcess},
};

/// A subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Time that the daemon and its socket add to the first token
    FirstToken,
    /// Deltas per second on one stream
    Relay,
    /// CPU time to draw a fast response at a terminal, and the echo of keys meanwhile
    Drawing,
    /// Time from the start of a chat to its first prompt at a terminal
    FirstFrame,
    /// A whole `agentctl run`
    Run,
    /// Time from spawning the daemon to its first response
    Start,
    /// Memory when idle and with 500 concurrent turns
    ManyTurns,
    /// 20 concurrent subagents on one model
    Subagents,
    /// 50 idle MCP servers, and the overhead of a call
    Mcp,
    /// Leftovers of MCP servers after 1,000 starts and stops
    McpSoak,
    /// Policy check of a command
    Policy,
    /// Recording of the changes of a command in a tree of 20,000 files
    Snapshot,
    /// Time that the sandbox adds to a command
    Sandbox,
    /// Durable events per second, and sessions of 10,000 items
    Journal,
    /// Search of a large journal
    Search,
    /// Export, import, replay, rewind and trace page of a long session
    Travel,
    /// Cost of a request before it is sent, and its share of new bytes
    Context,
    /// Comparison of the wires: first token, and repeated bytes of requests
    Wires,
    /// Cost of tracing requests
    WireTrace,
    /// Turns and loads through `agentctl acp`, and clients that watch all sessions
    Editors,
    /// Index, search and map of source code
    Code,
    /// Index and search of documents, compared with grep
    Documents,
    /// Recall at the end of a long conversation, compared with deepagents
    Recall,
}

impl Subject {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the time limit of a subject. All subjects except the long ones take less than three minutes together.
    pub(crate) const fn patience(self) -> Duration {
        match self {
            // The other product takes most of this time, and its installation the first time. Measuring all numbers of
            // turns takes longer.
            Self::Recall => Duration::from_secs(3600),
            Self::McpSoak => Duration::from_secs(180),
            Self::Wires | Self::Editors | Self::Code | Self::Documents | Self::Travel => Duration::from_secs(120),
            _ => Duration::from_secs(40),
        }
    }

    pub(crate) async fn measure(self) -> anyhow::Result<Vec<Row>> {
        match self {
            Self::FirstToken => first_token::measure().await,
            Self::Relay => relay::measure().await,
            Self::Drawing => drawing::measure().await,
            Self::FirstFrame => first_frame::measure().await,
            Self::Run => run_command::measure().await,
            Self::Start => start_up::measure().await,
            Self::ManyTurns => many_turns::measure().await,
            Self::Subagents => subagents::measure().await,
            Self::Mcp => mcp::measure().await,
            Self::McpSoak => mcp_soak::measure().await,
            Self::Policy => policy::measure().await,
            Self::Snapshot => snapshot::measure().await,
            Self::Sandbox => sandbox::measure().await,
            Self::Journal => journal::measure().await,
            Self::Search => search::measure().await,
            Self::Travel => travel::measure().await,
            Self::Context => context::measure().await,
            Self::Wires => wires::measure().await,
            Self::WireTrace => wire_trace::measure().await,
            Self::Editors => editors::measure().await,
            Self::Code => code::measure().await,
            Self::Documents => documents::measure().await,
            Self::Recall => recall::measure().await,
        }
    }
}
