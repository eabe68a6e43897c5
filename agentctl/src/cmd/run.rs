//! `agentctl run`: runs one turn. The answer is printed to standard output, all other output to standard error.

mod options;

use std::{
    io::{self, Write as _},
    num::NonZeroU32,
    path::PathBuf,
    time::{Duration, Instant},
};

use agentd_core::{
    error::ErrorKind,
    ids::{SessionId, TurnId},
    input::InputPart,
    routing::Planning,
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use agentd_proto::client::{ClientErrorKind, StartRequest};
use clap::{Args, ValueEnum};
use serde_json::json;

use self::options::{RecordingChoice, ResultOnly, TurnArgs};
use super::attach::attend;
use crate::{
    daemon,
    exit::{Exit, Interactivity},
    failure::{self, Failure},
    flags::{Choice, Global, one_of},
    input::{self, Prompt},
    keyboard::Keyboard,
    mentions::MentionSource,
    model_name::ModelName,
    mount::{shown_mount, shown_mounts},
    project,
    render::{Human, Jsonl, jsonl::TurnNotes},
    report,
    session::{SessionChoice, SessionTarget, TurnChoice, Upload},
    terminal::{clean_line, is_attended, note},
    turn::{AtEnd, BuiltinNotice, Renderer, Signals, SocketLine},
};

const EXAMPLES: &str = "Examples:
  agentctl run 'What time is it?'
  git diff | agentctl run 'Review this'             a pipe is appended
  git diff | agentctl run 'Review this' --whole     fails if it does not fit
  agentctl run - < prompt.txt                       standard input is the prompt
  agentctl run 'And in UTC?' --continue             in the last session
  agentctl run --session 0193a5b2                   resume an interrupted turn
  agentctl run 'Explain #src/main.rs:10-40'         attaches these lines
  agentctl run 'Summarise it' --file report.txt     copied into uploads/
  agentctl run 'Add a test' -C .:rw --on-interrupt approve
  agentctl run 'Add a test' -C .:rw --mode auto    without asking, in the sandbox
  agentctl run 'Port it to async' -C .:rw --plan   approve a plan first
  agentctl run '/review src/x.rs'                  a command of yours or of the project
  agentctl run 'And the docs' --continue --if-busy queue   after the running turn
  agentctl run 'Fix the parser' --worktree=parser --detach   on a branch of its own
  agentctl run 'Check all links' --detach          in the background
  agentctl run 'How warm is it?' --schema celsius.json | jq .degrees
  agentctl run 'Read the diff' --agent reviewer --tools read_file,grep --timeout 300
  agentctl run 'Read the notes' --record notes.jsonl   to replay it later
  agentctl run --replay notes.jsonl                without model and network
  agentctl run 'Tell a story' --output lines | while read -r line; do …
  agentctl run 'List my files' --output json | jq -r .text";

/// Time limit for deleting an ephemeral session while its turn is still ending, and the delay between attempts.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(100);

fn after_help() -> String {
    let codes = Exit::TABLE.map(|(exit, meaning)| format!("  {:>3}  {meaning}\n", exit.code()));
    format!("{EXAMPLES}\n\nExit codes:\n{}", codes.concat().trim_end_matches('\n'))
}

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = after_help(), override_usage = "agentctl run [OPTIONS] [PROMPT]...\n       agentctl run [OPTIONS] -")]
pub(crate) struct RunArgs {
    /// Prompt for the model; `-` reads it from standard input
    #[arg(value_name = "PROMPT", num_args = 0.., hide_possible_values = true)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionChoice,
    #[command(flatten)]
    turn: TurnChoice,
    #[command(flatten)]
    options: TurnArgs,
    /// Maximum number of model calls
    #[arg(long, value_name = "N", value_parser = steps)]
    max_steps: Option<NonZeroU32>,
    /// File to copy into the session's uploads/ and name in the prompt; may be repeated
    #[arg(long = "file", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Exit with code 6 if the prompt does not fit into the model's context window; without this flag, a long prompt is
    /// stored in the session's uploads/, and the model sees its beginning
    #[arg(long)]
    whole: bool,
    /// Start with a plan that needs approval before anything is changed [default: as configured; without a value: always]
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always",
          value_parser = one_of(&WHEN_PLANNED))]
    plan: Option<Planning>,
    /// JSON Schema (file, at most 64 KiB) that the answer must match; standard output is just the JSON document. A
    /// mismatch is retried once, then the exit code is 7
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    schema: Option<PathBuf>,
    /// Behavior if the turn needs an answer [default: ask at a terminal, deny elsewhere, wait with --detach]
    #[arg(long, value_name = "ACTION")]
    on_interrupt: Option<AtInterrupt>,
    /// Behavior if a turn of the session is already running
    #[arg(long, value_name = "ACTION", default_value = "refuse", value_parser = one_of(&WHEN_BUSY))]
    if_busy: IfBusy,
    /// Start the turn in the background and print its session ID; `agentctl wait ID` prints its answer
    #[arg(long)]
    detach: bool,
    /// Title of the new session [default: the start of the prompt]
    #[arg(long, value_name = "TITLE", conflicts_with_all = ["session", "resume"])]
    title: Option<String>,
    /// Delete the new session with its files when this command ends
    #[arg(long, conflicts_with_all = ["session", "resume", "detach"])]
    ephemeral: bool,
    #[command(flatten)]
    recording: RecordingChoice,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// Values of the option `--plan`.
const WHEN_PLANNED: [Choice<Planning>; 3] = [
    ("always", "Plan every prompt", Planning::Always),
    ("auto", "Plan large coding tasks", Planning::Auto),
    ("never", "Do not plan", Planning::Never),
];

/// Values of the option `--if-busy`.
const WHEN_BUSY: [Choice<IfBusy>; 3] = [
    ("refuse", "Refuse with an error; the exit code is 75", IfBusy::Refuse),
    ("queue", "Run the prompt after the open turns", IfBusy::Queue),
    ("steer", "Add the prompt to the running turn, and show its answer", IfBusy::Steer),
];

/// Behaviour when a turn needs an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtInterrupt {
    /// Ask at the terminal
    Ask,
    /// Approve calls and answer questions with their default, while this command runs
    Approve,
    /// Deny it and continue the turn; the exit code is 5
    Deny,
    /// End the turn; the exit code is 5
    Fail,
    /// Wait for `agentctl answer`
    Wait,
}

impl AtInterrupt {
    fn for_daemon(self) -> OnInterrupt {
        match self {
            Self::Ask | Self::Wait => OnInterrupt::Wait,
            Self::Approve => OnInterrupt::Approve,
            Self::Deny => OnInterrupt::Deny,
            Self::Fail => OnInterrupt::Fail,
        }
    }

    fn interactivity(self) -> Interactivity {
        if self == Self::Ask { Interactivity::Attended } else { Interactivity::Unattended }
    }

    /// Returns the requested behaviour, or the default for the terminal.
    fn choose(asked: Option<Self>, has_terminal: bool, detach: bool) -> Result<Self, Failure> {
        match asked {
            None if detach => Ok(Self::Wait),
            Some(Self::Ask) if detach => Err(Failure::usage("--on-interrupt ask cannot be used with --detach")
                .hint("leave it out: the turn waits, and `agentctl attach` or `agentctl interrupts` asks")),
            None if has_terminal => Ok(Self::Ask),
            None => Ok(Self::Deny),
            Some(Self::Ask) if !has_terminal => {
                Err(Failure::usage("--on-interrupt ask requires a terminal on standard input and standard error")
                    .hint("choose approve, deny, fail or wait, or leave it out for deny"))
            }
            Some(choice) => Ok(choice),
        }
    }
}

/// Format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The answer
    Text,
    /// The text of the model, line by line, including text before tool calls
    Lines,
    /// One JSON object at the end of the turn
    Json,
    /// One line of JSON per event, then one for the result
    StreamJson,
}

impl Output {
    /// Returns true if the format is meant for programs.
    fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::StreamJson)
    }
}

fn steps(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "the number of steps must be a whole number, at least 1".to_owned())
}

/// Known session and turn, for the result of a run that fails in the client.
#[derive(Debug, Default)]
struct TurnProgress {
    session: Option<SessionId>,
    turn: Option<TurnId>,
    /// True once the result was printed.
    printed: bool,
}

/// Runs the command `agentctl run`.
pub(crate) async fn handle(global: &Global, args: RunArgs) -> anyhow::Result<Exit> {
    let started_at = Instant::now();
    let output = args.output;
    let mut progress = TurnProgress::default();
    let is_ephemeral = args.ephemeral;
    let outcome = run(global, args, &mut progress).await;
    if let (true, Some(session)) = (is_ephemeral, progress.session) {
        remove(global, session).await;
    }
    if let Err(error) = &outcome
        && output.is_json()
        && !progress.printed
        && !failure::is_broken_pipe(error)
    {
        let (failure, took) = (Failure::from_any(error), report::millis(started_at.elapsed()));
        report::json_line(&report::no_result(progress.session, progress.turn, &failure, took))?;
    }
    outcome
}

async fn run(global: &Global, args: RunArgs, progress: &mut TurnProgress) -> anyhow::Result<Exit> {
    if let Some(path) = &args.recording.replay {
        let project = args.turn.project.as_ref();
        return options::play(global, path, &args.recording, project, args.output, args.on_interrupt).await;
    }
    let recorded = args.recording.record.clone();
    recorded.as_deref().map(options::check).transpose()?;
    let has_terminal = is_attended();
    let at_interrupt = AtInterrupt::choose(args.on_interrupt, has_terminal, args.detach)?;
    let mut uploads = args.files.iter().map(|path| Upload::open(path)).collect::<Result<Vec<_>, _>>()?;
    let answer_schema = args.schema.as_deref().map(options::read_schema).transpose()?;
    let has_schema = answer_schema.is_some();
    let turn_options = args.options.resolve()?;
    let (mut typed, dash) = input::split_prompt(&args.words)?;
    let mut prompt = prompt(&args, typed.clone(), dash)?;

    let daemon = daemon::connect(global).await?;
    let target = SessionTarget::find(&daemon, &args.session, &args.turn).await?;
    let target = target.with_mode(&daemon, args.turn.mode).await?;
    let planning = options::expand_command(prompt.as_mut(), &mut typed, &daemon, &target).await?;
    let source = if has_terminal { MentionSource::Terminal } else { MentionSource::Program };
    let mentioned = options::collect_mentions(typed.as_deref(), source, &daemon, &target).await;
    for path in &mentioned.copies {
        uploads.push(Upload::open(path)?);
    }
    let prompt = prompt.map(|prompt| prompt.with_file_list(&mentioned.named));
    let typed_bytes = prompt.as_ref().and_then(|prompt| {
        // File names appended to the prompt were not typed by the user.
        prompt.typed_bytes.or((!uploads.is_empty()).then(|| prompt.text.trim_end().len() as u64))
    });
    // A slot applies only to this turn, not to the session.
    let (slot, model) = match args.turn.model {
        Some(ModelName::Slot(slot)) => (Some(slot), None),
        model => (None, model),
    };
    let target = target.with_model(&daemon, model.as_ref()).await?.with_title(args.title);
    if let (true, None, Some(mount)) = (has_terminal, &args.turn.project, target.project()) {
        let folder = shown_mounts(&target.mounts()).unwrap_or_else(|| shown_mount(mount));
        note(&format!("in view: {folder}; -C none shows nothing, -C .:rw makes it writable"));
    }
    // Reports project files that are ignored because the project is not trusted.
    if let Some(mount) = target.current_mounts(&daemon).await.project
        && let Some(report) = project::load_report(&daemon.client, Some(&mount.path)).await
        && let Some(notice) = project::notice(&report)
    {
        note(&format!("{notice}; {}", project::trust_hint(&report)));
    }
    let (target, prompt) = target.with_uploads(&daemon, uploads, prompt.map(|prompt| prompt.text)).await?;
    progress.session = target.id();
    let request = StartRequest {
        session: target.into_choice(),
        start: StartTurn {
            typed_bytes,
            whole: args.whole,
            answer_schema,
            slot,
            max_steps: args.max_steps.map(NonZeroU32::get),
            planning: args.plan.or(planning),
            on_interrupt: at_interrupt.for_daemon(),
            // Approvals end when this client disconnects.
            while_connected: at_interrupt == AtInterrupt::Approve && !args.detach,
            if_busy: args.if_busy,
            options: turn_options,
            ..daemon.turn(prompt)
        },
    };
    let at_end = if has_terminal { AtEnd::CancelUnlessHungUp } else { AtEnd::Cancel };
    let mut signals = Signals::listen(at_end)?;
    // Each quoted line range becomes a separate input part.
    let parts = mentioned.selections.into_iter().map(InputPart::Selection).collect();
    let (line, slots) = tokio::join!(SocketLine::start(&daemon, request, parts), daemon.client.models());
    let mut line = line?;
    if args.output == Output::StreamJson {
        line = line.with_children();
    }
    progress.session = Some(line.session());
    progress.turn = line.turn();
    // Reports the new worktree, and uncommitted files that it does not contain.
    if args.turn.worktree.is_some()
        && let Ok(view) = daemon.client.session(&line.session().to_string()).await
        && let Some(worktree) = &view.session.settings.worktree
    {
        note(&project::announced_worktree(worktree));
    }
    if args.detach {
        progress.printed = true;
        return print_detached(args.output, line.session(), line.turn());
    }

    let keyboard = Keyboard::of_terminal();
    let renderer = renderer(args.output, line.session(), at_interrupt, has_schema);
    let mut renderer = BuiltinNotice::new(renderer, slots.unwrap_or_default(), &daemon);
    // The prompt was not typed at the keyboard, so no text is restored to the input line.
    keyboard.typed(|typed| typed.begin_turn(String::new()));
    let client = (at_interrupt == AtInterrupt::Ask).then(|| daemon.client.clone());
    let result = attend(&mut line, &mut renderer, client, &mut signals, &keyboard, false).await?;
    progress.printed = true;
    if let Some(path) = recorded {
        options::record(&daemon, line.session(), &path).await?;
    }
    // `None` should not occur: a line that started a turn reports the end of the turn or fails.
    let exit = result.map_or(Exit::Failed, |result| Exit::of_turn(&result, at_interrupt.interactivity()));
    Ok(signals.exit(exit))
}

/// Deletes the session of an ephemeral run. Retries while the turn or one of its subagents is still ending.
async fn remove(global: &Global, session: SessionId) {
    let started_at = Instant::now();
    let failure = loop {
        let daemon = match daemon::connect_running(global).await {
            Ok(Some(daemon)) => daemon,
            Ok(None) => break "no daemon is running".to_owned(),
            Err(failure) => break failure.message,
        };
        match daemon.client.delete_session(&session.to_string()).await {
            Ok(()) => return,
            Err(error)
                if error.kind == ClientErrorKind::Answered(ErrorKind::Busy) && started_at.elapsed() < REMOVAL_LIMIT =>
            {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(error) => break error.message,
        }
    };
    let id = report::short_id(session);
    note(&clean_line(&format!("the session was not deleted ({failure}): agentctl sessions delete {id}")));
}

/// Prints the id of a detached turn's session.
fn print_detached(output: Output, session_id: SessionId, turn_id: Option<TurnId>) -> anyhow::Result<Exit> {
    match output {
        Output::Text | Output::Lines => {
            writeln!(io::stdout(), "{session_id}")?;
            note(&format!("the turn continues; follow it with: agentctl attach {session_id}"));
        }
        Output::Json | Output::StreamJson => {
            report::json_line(&json!({"type": "started", "session_id": session_id, "turn_id": turn_id}))?;
        }
    }
    Ok(Exit::Done)
}

/// Builds the prompt from the command line and standard input.
fn prompt(args: &RunArgs, text: Option<String>, dash: bool) -> Result<Option<Prompt>, Failure> {
    let prompt = input::join(text, input::piped(dash, args.options.timeout())?)?;
    let continues = args.session.session.is_some() || args.session.resume;
    match prompt {
        Some(prompt) => Ok(Some(prompt)),
        None if !args.files.is_empty() => Err(Failure::usage("--file requires a prompt")
            .hint("add a prompt, as in: agentctl run 'Summarise it' --file …")),
        None if continues && !dash => Ok(None),
        None => Err(Failure::usage("missing prompt").hint(
            "pass one: agentctl run 'What time is it?', or pipe one in; `agentctl run --continue` continues a turn \
             that was interrupted",
        )),
    }
}

fn renderer(output: Output, session: SessionId, at_interrupt: AtInterrupt, has_schema: bool) -> Box<dyn Renderer> {
    let waits = at_interrupt == AtInterrupt::Wait;
    let text_renderer = match output {
        Output::Lines => Human::stdio().line_by_line(),
        Output::Text if has_schema => Human::stdio().answer_alone(),
        _ => Human::stdio(),
    };
    match output {
        Output::Text | Output::Lines if waits => Box::new(text_renderer.showing_interrupts()),
        Output::Text | Output::Lines => Box::new(text_renderer),
        Output::Json => Box::new(ResultOnly { session, waits, notes: TurnNotes::default() }),
        Output::StreamJson => Box::new(Jsonl::new(io::stdout(), session)),
    }
}
