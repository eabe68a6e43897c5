//! Options of a single turn: agent, tools, instructions, time limit, mentioned files, and the JSON Schema of the
//! answer. Also `--replay`, which plays a recording instead of a prompt, `--record`, and printing the result as one
//! JSON object.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_core::{
    answer_schema::{AnswerSchema, MAX_ANSWER_SCHEMA},
    event::{Event, EventKind},
    folder::Mounts,
    ids::SessionId,
    routing::Planning,
    session::Mount,
    turn::{MAX_TURN_INSTRUCTIONS, TurnOptions, TurnResult},
    visible,
};
use agentd_proto::client::{PlayMode, PlayRequest};
use clap::Args;

use super::{AtInterrupt, Output, renderer};
use crate::{
    cmd::replay,
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::Global,
    input::Prompt,
    mentions::{self, Bundle, MentionSource},
    mount::ProjectChoice,
    render::jsonl::{self, TurnNotes},
    repl::prepared,
    session::SessionTarget,
    terminal::{clean_line, note, note_lines},
    turn::Renderer,
};

/// Options for a single turn.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnArgs {
    /// Agent of this and later turns of the session, which models cannot change; `main` resets it [default: the
    /// session's, else main]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Tools that this turn may use, separated by commas, or `none`
    #[arg(long, value_name = "NAMES")]
    tools: Option<String>,
    /// Additional instructions for this turn: a text, or `@FILE`
    #[arg(long, value_name = "TEXT")]
    append_system: Option<String>,
    /// Time limit of the turn in seconds, without the time it waits for answers; also of reading standard input before
    /// it. If exceeded, the exit code is 6
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<NonZeroU64>,
}

impl TurnArgs {
    /// Returns the time limit for the turn.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.get()))
    }

    /// Converts the options to the form that the daemon expects.
    ///
    /// # Errors
    /// Fails if the file with instructions cannot be read or is too large.
    pub(super) fn resolve(&self) -> Result<TurnOptions, Failure> {
        Ok(TurnOptions {
            agent: self.agent.clone(),
            instructions: self.append_system.as_deref().map(read_instructions).transpose()?,
            allowed_tools: self.tools.as_deref().map(names),
            time_ms: self.timeout.map(|seconds| seconds.get().saturating_mul(1000)),
            ..TurnOptions::default()
        })
    }
}

/// Splits a list of names. `none` stands for the empty list.
fn names(list: &str) -> Vec<String> {
    if list == "none" {
        return Vec::new();
    }
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the instructions, which are given as text or as `@FILE`.
fn read_instructions(text: &str) -> Result<String, Failure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > MAX_TURN_INSTRUCTIONS as u64 {
        let message = format!("{path} has {size} bytes; the limit for instructions is {MAX_TURN_INSTRUCTIONS}");
        return Err(Failure::usage(message).hint("pass a long text with --file"));
    }
    fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("could not read the instructions in {path}: {error}")).hint("name a text file")
    })
}

/// Replaces a command at the start of the prompt by its text, as the chat does. Returns the planning that it requires.
///
/// # Errors
/// Fails if the command is invalid, unknown, or one that only the chat has.
pub(super) async fn expand_command(
    prompt: Option<&mut Prompt>,
    typed: &mut Option<String>,
    daemon: &Daemon,
    target: &SessionTarget,
) -> Result<Option<Planning>, Failure> {
    let (Some(prompt), Some(line)) = (prompt, typed.as_mut().filter(|line| line.starts_with('/'))) else {
        return Ok(None);
    };
    let project = target.current_mounts(daemon).await.project;
    let Some(input) = prepared::input_for_run(&daemon.client, project.as_ref(), line).await? else { return Ok(None) };
    prompt.replace_typed(&input.text, input.typed_bytes);
    *line = input.words().to_owned();
    Ok(input.plans.then_some(Planning::Always))
}

/// Collects the files mentioned on the command line, and reports files that are not attached.
pub(super) async fn collect_mentions(
    text: Option<&str>,
    source: MentionSource,
    daemon: &Daemon,
    target: &SessionTarget,
) -> Bundle {
    let Some(text) = text else { return Bundle::default() };
    let current_folder = Path::new("");
    let found = mentions::find(text, current_folder);
    // Files of this machine are never those of a session on another one.
    let has_own = !found.is_empty() && daemon.client.host().is_none();
    let mounts = if has_own { target.current_mounts(daemon).await } else { Mounts::default() };
    let bundle = Bundle::collect(found, &mounts, source);
    let missing = mentions::missing(text, current_folder);
    let place = if daemon.client.host().is_some() { " of this machine" } else { "" };
    let missing = missing.iter().map(|path| format!("#{path} is not a file{place} and is sent as text"));
    note_lines(bundle.notes.iter().cloned().chain(missing));
    bundle
}

/// Reads and validates the schema before any request is sent. Does not read beyond the maximum size of a schema.
pub(crate) fn read_schema(path: &Path) -> Result<AnswerSchema, Failure> {
    const HINT: &str = "--schema takes the path of a file that contains a JSON Schema";
    let shown = path.display();
    let failed = |error: io::Error| Failure::usage(format!("could not read the schema {shown}: {error}")).hint(HINT);
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::usage(format!("the schema {shown} is a folder")).hint(HINT));
    }
    file.take(MAX_ANSWER_SCHEMA as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > MAX_ANSWER_SCHEMA {
        return Err(Failure::usage(format!("the schema {shown} has more than {MAX_ANSWER_SCHEMA} bytes"))
            .hint("leave descriptions and examples out, or ask for the answer in parts"));
    }
    let not_utf8 = |_| Failure::usage(format!("the schema {shown} is not UTF-8")).hint("save it as UTF-8");
    let text = String::from_utf8(text).map_err(not_utf8)?;
    AnswerSchema::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|problem| Failure::usage(format!("{shown}: {}", problem.message)).hint(problem.hint))
}

/// Recordings of turns.
#[derive(Debug, Args)]
pub(super) struct RecordingChoice {
    /// Write a recording of the session to this file at the end of the turn, for --replay
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["replay", "detach", "ephemeral"])]
    pub(super) record: Option<PathBuf>,
    /// Play a recording without calling models, running tools or storing anything; ends at a request that differs from
    /// the recorded one
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
          conflicts_with_all = ["words", "session", "resume", "files", "detach", "title", "ephemeral", "schema"])]
    pub(super) replay: Option<PathBuf>,
    /// With --replay: run the tools, and play model answers
    #[arg(long, requires = "replay")]
    live_tools: bool,
    /// With --replay: call the configured model, and play tool results
    #[arg(long, requires = "replay", conflicts_with = "live_tools")]
    live_model: bool,
    /// With --replay: update the recording with the current requests
    #[arg(long, requires = "replay", conflicts_with_all = ["live_tools", "live_model"])]
    update: bool,
}

/// Plays the recording and shows its turns.
pub(super) async fn play(
    global: &Global,
    path: &Path,
    choice: &RecordingChoice,
    project: Option<&ProjectChoice>,
    output: Output,
    at_interrupt: Option<AtInterrupt>,
) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let mount = project_folder(project, daemon.client.host())?;
    let request = PlayRequest {
        text: Vec::new(),
        mode: match (choice.live_tools, choice.live_model) {
            (true, _) => PlayMode::LiveTools,
            (_, true) => PlayMode::LiveModel,
            _ => PlayMode::Strict,
        },
        writable: mount.as_ref().is_some_and(|mount| mount.writable),
        project: mount.map(|mount| mount.path),
        approve: at_interrupt == Some(AtInterrupt::Approve),
        update: choice.update,
    };
    let mut shown: Option<Box<dyn Renderer>> = None;
    let mut last: Option<TurnResult> = None;
    let report = replay::play(&daemon, path, request, &mut |event| {
        let open = || renderer(output, event.session_id, AtInterrupt::Deny, false);
        let renderer = shown.get_or_insert_with(open);
        renderer.event(event)?;
        if let EventKind::TurnEnded { result } = &event.kind {
            renderer.finish(result)?;
            (shown, last) = (None, Some((**result).clone()));
        }
        Ok(())
    })
    .await?;
    replay::print_problems(&report.problems);
    if !report.problems.is_empty() {
        return Ok(Exit::Failed);
    }
    if choice.update {
        note(&format!("updated {} with the current requests", path.display()));
    }
    Ok(last.map_or(Exit::Done, |result| Exit::of_turn(&result, Interactivity::Attended)))
}

/// Returns the project folder for a replay: the named folder, or the current one, which another machine does not have.
fn project_folder(project: Option<&ProjectChoice>, host: Option<&str>) -> Result<Option<Mount>, Failure> {
    let named = project.map(|project| project.resolve(host)).transpose()?.flatten();
    if host.is_some() {
        return Ok(named);
    }
    let current = || std::env::current_dir().map(|path| Mount { path, writable: false });
    let folder_error =
        |error| Failure::usage(format!("could not find the current folder: {error}")).hint("name one: -C DIR");
    named.map_or_else(|| current().map_err(folder_error), Ok).map(Some)
}

/// Writes a recording of the session to a file.
pub(super) async fn record(daemon: &Daemon, session: SessionId, path: &Path) -> anyhow::Result<()> {
    let text = daemon.client.record(&session.to_string()).await?;
    replay::write(path, &text)?;
    note(&format!("recorded: {}", path.display()));
    Ok(())
}

/// Checks that the recording can be written, before any paid model call.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let message = format!("no such folder: {}", folder.display());
        return Err(Failure::usage(message).hint("create it, or name another file"));
    }
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a folder", path.display())).hint("name a file in it"));
    }
    Ok(())
}

/// Renderer that prints only the result, as one JSON object.
#[derive(Debug)]
pub(super) struct ResultOnly {
    pub(super) session: SessionId,
    /// True if pending questions are reported because another client has to answer them.
    pub(super) waits: bool,
    pub(super) notes: TurnNotes,
}

impl Renderer for ResultOnly {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.notes.take(event);
        match &event.kind {
            EventKind::Warning { code, message, .. } if code == "input_stored" => self.note(&clean_line(message)),
            EventKind::InterruptRaised { interrupt } if self.waits => {
                self.note(&format!("the turn waits for an answer: agentctl answer {} …", interrupt.id))
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        let line = visible::json(jsonl::result(self.session, result, &self.notes)?.to_string());
        io::stdout().write_all(format!("{line}\n").as_bytes())
    }
}
