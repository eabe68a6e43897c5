//! Conversion of histories from other applications to events.
//!
//! - [`read`]: reads a file in a format that the caller specifies.
//! - `history`: common parts of the formats: turns, items, calls with their results, and counts of skipped content.
//! - `claude_code`, `codex`, `opencode`: one format each. `lines`: bounded lines of JSON.
//!
//! The files are untrusted: lines and texts are bounded, unknown content is counted and skipped, and nothing in them
//! grants a permission.

mod claude_code;
mod codex;
mod history;
mod lines;
mod opencode;

use std::{io::Read, str::FromStr};

use agentd_core::{archive::ArchivedSession, event::Event};

use crate::ArchiveError;
use history::HistoryBuilder;

/// Maximum size of a history in bytes.
const MAX_BYTES: u64 = 256 << 20;

agentd_core::names! {
    /// Application whose histories can be read, with its name on the command line.
    pub enum ForeignFormat {
        /// History of Claude Code: `~/.claude/projects/*/*.jsonl`.
        ClaudeCode = "claude-code",
        /// History of Codex: `~/.codex/sessions/**/rollout-*.jsonl`.
        Codex = "codex",
        /// OpenCode: the output of `opencode export`.
        OpenCode = "opencode",
    }
}

impl ForeignFormat {
    /// Returns the application's display name.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
        }
    }
}

impl FromStr for ForeignFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let unsupported = || format!("unsupported history format {:?}", name.chars().take(40).collect::<String>());
        Self::from_name(name).ok_or_else(unsupported)
    }
}

/// History converted to the events of a session.
#[derive(Debug)]
pub struct ForeignHistory {
    /// Description of the session.
    pub session: ArchivedSession,
    /// Events of the session in order.
    pub events: Vec<Event>,
    /// Kinds of skipped content, with their counts.
    pub left_out: Vec<String>,
}

/// Reads the history of another application.
///
/// # Errors
/// Fails if the history is too large, does not come from that application, or contains no messages.
pub fn read(source: impl Read, format: ForeignFormat) -> Result<ForeignHistory, ArchiveError> {
    // One additional byte shows whether the limit is exceeded.
    let mut source = source.take(MAX_BYTES + 1);
    let mut history = HistoryBuilder::new(format);
    match format {
        ForeignFormat::ClaudeCode => claude_code::read(&mut source, &mut history)?,
        ForeignFormat::Codex => lines::each(&mut source, &mut history, codex::read_message)?,
        ForeignFormat::OpenCode => opencode::read(&mut source, &mut history)?,
    }
    if source.limit() == 0 {
        return Err(ArchiveError::TooLarge(format!("the history exceeds {} MiB", MAX_BYTES >> 20)));
    }
    history.finish()
}
