//! The client of the daemon: domain types in and out, no message of the wire.
//!
//! [`Client::connect`] shakes hands first and tells apart what can be wrong there. A [`Client`] is cheap to clone and
//! connects again by itself when the daemon was restarted; open streams end with [`ClientErrorKind::Lost`].
//!
//! - [`connect`](self): this file, with the handshake and the calls about the daemon.
//! - `sessions`, `archives`, `documents`, `turns`, `policy`, `projects`, `daemon`, `watch`: the other calls. `error`: what can
//!   go wrong.

mod archives;
mod connect;
mod daemon;
mod documents;
mod error;
mod policy;
mod projects;
mod sessions;
mod turns;
mod watch;

pub use archives::{ExportPart, ExportStream, PlayMode, PlayProblem, PlayReport, PlayRequest, PlayStep, PlayStream};
pub use connect::Client;
pub use error::{ClientError, ClientErrorKind};
pub use sessions::too_large as upload_too_large;
pub use turns::{EventStream, SessionChoice, StartRequest, TurnFrame, TurnSender, TurnStream};
pub use watch::{WatchEvent, WatchStream};

pub use crate::view::{
    AuditChange, AuditComparison, Comparison, ConfigOrigin, ConfigView, DaemonStatus, ExportedContent, Finding,
    ForkReply, Hello, LanguageServer, McpServerState, McpServerView, NewSession, NumberedItem, PolicyCall, PruneReport,
    RecoveredTurn, ReloadOutcome, RuleText, SandboxState, SessionView,
};
