//! Histories of other programs, as events.
//!
//! - [`read`]: reads a file. What it may be is said by whoever gives it; everything else about it is found out.
//! - `history`: what the formats have in common: turns, items, calls with their results, and what is left out.
//! - `claude_code`, `codex`, `opencode`: one format each. `lines`: lines of JSON, bounded.
//!
//! The files are those of anybody: lines and texts are bounded, what is not known is counted and left out, and nothing of
//! them is a permission here.

mod claude_code;
mod codex;
mod history;
mod lines;
mod opencode;

use std::{io::Read, str::FromStr};

use agentd_core::{archive::ArchivedSession, event::Event};

use crate::ArchiveError;
use history::HistoryBuilder;

/// Maximum size of a history, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// A program whose histories can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFormat {
    /// Claude Code: `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// Codex: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex,
    /// OpenCode: the output of `opencode export`.
    OpenCode,
}

impl ForeignFormat {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The program's own name.
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
        let known = [Self::ClaudeCode, Self::Codex, Self::OpenCode];
        known
            .into_iter()
            .find(|format| format.as_str() == name)
            .ok_or_else(|| format!("histories of {:?} cannot be read", name.chars().take(40).collect::<String>()))
    }
}

/// A history as events of a session.
#[derive(Debug)]
pub struct ForeignHistory {
    /// The session.
    pub session: ArchivedSession,
    /// Its events.
    pub events: Vec<Event>,
    /// Parts that were left out, in words.
    pub left_out: Vec<String>,
}

/// Reads the history of another program.
///
/// # Errors
/// When it is too large, none of that program, or holds nothing that was said.
pub fn read(source: impl Read, format: ForeignFormat) -> Result<ForeignHistory, ArchiveError> {
    // One byte more tells that there is too much.
    let mut source = source.take(MAX_BYTES + 1);
    let mut history = HistoryBuilder::new(format);
    match format {
        ForeignFormat::ClaudeCode => claude_code::read(&mut source, &mut history)?,
        ForeignFormat::Codex => lines::each(&mut source, &mut history, codex::take)?,
        ForeignFormat::OpenCode => opencode::read(&mut source, &mut history)?,
    }
    if source.limit() == 0 {
        return Err(ArchiveError::TooLarge(format!("a history may have {} MiB", MAX_BYTES >> 20)));
    }
    history.finish()
}
