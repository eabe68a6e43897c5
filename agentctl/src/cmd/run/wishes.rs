//! Wishes for one turn: its agent, its tools, more instructions, less time.

use std::{fs, num::NonZeroU64, time::Duration};

use agentd_core::turn::{MAX_TURN_INSTRUCTIONS, TurnOptions};
use clap::Args;

use crate::failure::Failure;

/// Wishes that hold for the turn alone.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnWishes {
    /// Agent that works in this turn and in later ones of the session, which no model leaves; `main` ends that [default: the
    /// session's, else main]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only tools that this turn may use, separated by commas, or `none`
    #[arg(long, value_name = "NAMES")]
    tools: Option<String>,
    /// More instructions for this turn: a text, or `@FILE`
    #[arg(long, value_name = "TEXT")]
    append_system: Option<String>,
    /// Maximum time that the turn may work, in seconds, without the time that it waits for answers, and that standard input may
    /// take to end before it; then the exit code is 6
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<NonZeroU64>,
}

impl TurnWishes {
    /// The limit on time.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.get()))
    }

    /// The same for the daemon.
    ///
    /// # Errors
    /// When the file with instructions cannot be read, or there are none in it.
    pub(super) fn options(&self) -> Result<TurnOptions, Failure> {
        Ok(TurnOptions {
            agent: self.agent.clone(),
            instructions: self.append_system.as_deref().map(instructions).transpose()?,
            allowed_tools: self.tools.as_deref().map(names),
            time_ms: self.timeout.map(|seconds| seconds.get().saturating_mul(1000)),
            ..TurnOptions::default()
        })
    }
}

/// The names of a list; `none` is a list without any.
fn names(list: &str) -> Vec<String> {
    if list == "none" {
        return Vec::new();
    }
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The instructions themselves, or those of a file.
fn instructions(text: &str) -> Result<String, Failure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > MAX_TURN_INSTRUCTIONS as u64 {
        return Err(Failure::usage(format!(
            "{path} has {size} bytes; instructions have at most {MAX_TURN_INSTRUCTIONS}"
        ))
        .hint("hand a long text over with --file"));
    }
    fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read the instructions in {path}: {error}")).hint("name a text file")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tools_have_names() {
        assert_eq!(names("read_file, grep,"), ["read_file", "grep"]);
        assert_eq!(names("none"), Vec::<String>::new());
    }

    #[test]
    fn instructions_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.md");
        fs::write(&file, "Rhyme.").unwrap();
        let of_file = format!("@{}", file.display());
        assert_eq!(
            (instructions("Rhyme.").unwrap(), instructions(&of_file).unwrap()),
            ("Rhyme.".into(), "Rhyme.".into())
        );
        fs::write(&file, "x".repeat(MAX_TURN_INSTRUCTIONS + 1)).unwrap();
        for bad in [of_file.as_str(), "@/none/such"] {
            assert!(instructions(bad).unwrap_err().hint.is_some());
        }
    }
}
