//! Recordings on the client's side: read from a file, played by the daemon, written back; `agentctl sessions record` makes one.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use agentd_core::{error::ErrorKind, event::Event};
use agentd_proto::client::{PlayMode, PlayProblem, PlayReport, PlayRequest, PlayStep};
use anstream::eprintln;
use clap::Args;
use serde_json::json;

use super::own_file;
use crate::{daemon::Daemon, exit::Exit, failure::Failure, report, terminal::sanitize::clean};

/// Largest recording that the daemon reads, in bytes.
const LARGEST: u64 = 64 << 20;

/// Way to play a recording.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlayWishes {
    /// Parts that are real.
    pub(crate) mode: PlayMode,
    /// Folder of the project.
    pub(crate) project: Option<PathBuf>,
    /// Set if tools that run may change it.
    pub(crate) writable: bool,
    /// Set if calls that need an approval run, where tools run.
    pub(crate) approve: bool,
    /// Set if the recording is written anew with the requests of this play.
    pub(crate) update: bool,
}

/// Plays the recording of a file. Each event goes to `see`.
///
/// # Errors
/// When the file cannot be read or is no recording, when `see` fails, or when the connection is lost.
pub(crate) async fn play(
    daemon: &Daemon,
    path: &Path,
    wishes: PlayWishes,
    see: &mut (dyn FnMut(&Event) -> anyhow::Result<()> + Send),
) -> anyhow::Result<PlayReport> {
    let PlayWishes { mode, project, writable, approve, update } = wishes;
    let text = read(path)?;
    let request = PlayRequest { text, mode, project, writable, approve, update };
    let mut steps = daemon.client.play(request).await?;
    let mut updated = Vec::new();
    while let Some(step) = steps.next().await? {
        match step {
            PlayStep::Event(event) => see(&event)?,
            PlayStep::Piece(piece) => updated.extend_from_slice(&piece),
            PlayStep::Over(report) => {
                if update && !updated.is_empty() {
                    write(path, &updated)?;
                }
                return Ok(report);
            }
        }
    }
    Err(Failure::new(ErrorKind::Internal, "the replay ended without a word").into())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = Failure::of_file("read", path);
    let refuse = |error| failed(error).hint("name a recording: `agentctl sessions record last -o FILE` makes one");
    let file = fs::File::open(path).map_err(refuse)?;
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(refuse)?;
    if text.len() as u64 > LARGEST {
        return Err(Failure::usage(format!("{} is larger than {} MiB", path.display(), LARGEST >> 20)));
    }
    Ok(text)
}

/// Puts a recording in the place of the file, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let text =
        std::str::from_utf8(text).map_err(|_| Failure::new(ErrorKind::Internal, "the recording is not UTF-8"))?;
    let failed = Failure::of_file("write", path);
    Ok(own_file::replace(path, text).map_err(|error| failed(error).hint("name another file"))?)
}

/// Tells on standard error what did not go as recorded.
pub(crate) fn tell(problems: &[PlayProblem]) {
    for problem in problems {
        eprintln!("{}", shown(problem));
    }
}

/// A problem as people read it.
pub(crate) fn shown(problem: &PlayProblem) -> String {
    let PlayProblem { turn, step, message, diff, .. } = problem;
    let mut shown = clean(&format!("turn {turn}, answer {step}: {message}"));
    if !diff.is_empty() {
        let diff = clean(diff);
        shown.push_str("\n  - recorded, + now");
        for line in diff.lines() {
            shown.push_str(&format!("\n  {line}"));
        }
    }
    shown
}

/// The arguments of `sessions record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions record last -o greeting.jsonl
  agentctl run --replay greeting.jsonl        play it: no model, no network
  agentctl sessions record 0193a5b2 | jq -r 'select(.fact == \"result\").tool'

A recording holds all that came from outside: inputs, answers of models, results of tools, answers of people. Secrets are \
taken out. The requests to the model are those that the session comes to under the present configuration: a replay is held to \
them. `agentctl test` plays a folder of recordings.")]
pub(crate) struct RecordArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// File to write; standard output where absent
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Records.
pub(crate) async fn record(daemon: &Daemon, args: RecordArgs, json: bool) -> anyhow::Result<Exit> {
    if let Some(path) = args.output.as_ref().filter(|path| !args.force && path.exists()) {
        return Err(Failure::usage(format!("{} exists", path.display())).hint("--force replaces it").into());
    }
    let id = daemon.client.find_session(&args.session).await?.to_string();
    let text = daemon.client.record(&id).await?;
    let Some(path) = args.output else {
        io::stdout().write_all(&text)?;
        return Ok(Exit::Done);
    };
    write(&path, &text)?;
    let told = json!({ "session_id": id, "file": path, "bytes": text.len() });
    report::show(json, &told, || report::lines([path.display()]))
}
