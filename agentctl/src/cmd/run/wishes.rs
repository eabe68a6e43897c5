//! Wishes for one turn: its agent, its tools, more instructions, less time; files that the prompt mentions; the JSON Schema that
//! an answer has to match.

use std::{
    fs::{self, File},
    io::Read as _,
    num::NonZeroU64,
    path::Path,
    time::Duration,
};

use agentd_core::{
    answer_schema::{AnswerSchema, MAX_ANSWER_SCHEMA},
    folder::Mounts,
    turn::{MAX_TURN_INSTRUCTIONS, TurnOptions},
};
use clap::Args;

use crate::{
    daemon::Daemon,
    failure::Failure,
    mentions::{self, Bundle, MentionSource},
    session::SessionTarget,
    terminal,
};

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

/// Finds the files that words of the command line name, and says what is not handed over.
pub(super) async fn mentioned(
    words: Option<&str>,
    source: MentionSource,
    daemon: &Daemon,
    place: &SessionTarget,
) -> Bundle {
    let Some(words) = words else { return Bundle::default() };
    let here = Path::new("");
    let found = mentions::find(words, here);
    let mounts = if found.is_empty() { Mounts::default() } else { place.mounts_there(daemon).await };
    let bundle = Bundle::collect(found, &mounts, source);
    let missing = mentions::missing(words, here);
    let missing = missing.iter().map(|path| format!("#{path} names no file; it is only text"));
    for note in bundle.notes.iter().cloned().chain(missing) {
        terminal::note(&terminal::sanitize::clean_line(&note));
    }
    bundle
}

/// Reads the file, before anything is sent anywhere. No more of it is read than a schema may have.
pub(crate) fn read_schema(path: &Path) -> Result<AnswerSchema, Failure> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        Failure::usage(format!("could not read the schema {shown}: {error}"))
            .hint("--schema takes the path of a file that holds a JSON Schema")
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::usage(format!("the schema {shown} is a folder"))
            .hint("--schema takes the path of a file that holds a JSON Schema"));
    }
    file.take(MAX_ANSWER_SCHEMA as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > MAX_ANSWER_SCHEMA {
        return Err(Failure::usage(format!("the schema {shown} has more than {MAX_ANSWER_SCHEMA} bytes"))
            .hint("leave descriptions and examples out, or ask for the answer in parts"));
    }
    let text = String::from_utf8(text)
        .map_err(|_| Failure::usage(format!("the schema {shown} is no UTF-8")).hint("save it as UTF-8"))?;
    AnswerSchema::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|problem| Failure::usage(format!("{shown}: {}", problem.message)).hint(problem.hint))
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
