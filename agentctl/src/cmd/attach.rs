//! `agentctl chat`, `attach` and `wait`. `chat` starts the conversation of [`crate::repl`]; `attach` follows the live
//! turn of a session; `wait` waits until a session is idle and prints the result of its last turn.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    ids::SessionId,
    interrupt::Interrupt,
    session::{SessionStatus, SessionSummary},
    turn::TurnResult,
    visible,
};
use agentd_proto::client::{Client, SessionView};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::{CommandLine, Global},
    keyboard::Keyboard,
    render::{
        Human, Jsonl, closing,
        jsonl::{self, TurnNotes},
    },
    repl::{
        self, TerminalAsker,
        replay::{LOOKED_AT, begins},
    },
    report::{self, short_id},
    session::{SessionChoice, SessionTarget, TurnChoice},
    terminal::{TerminalStyle, attention::Attention, is_attended, look, note},
    turn::{
        self, Arrival, Asides, Asker, AtEnd, BuiltinNotice, Destination, ForeseeingAsker, Line as _, NonInteractive,
        Renderer, Signals, SocketLine,
    },
};

/// Number of sessions searched for running turns.
const MAX_SESSIONS: usize = 1000;
/// Maximum number of sessions listed for an ambiguous choice.
const MAX_LISTED: usize = 6;
/// Maximum characters in a title in such a list.
const MAX_TITLE: usize = 40;

/// The arguments of `attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl attach                                         follow the running turn, from its start
  agentctl attach 0193a5b2                                the same, of this session
  agentctl attach 0193a5b2 --after 0                      print the whole session first
  agentctl attach 0193a5b2 --after 41 --output stream-json

Ends with the turn, or at once if none is running. At a terminal you can answer its questions, and Enter sends what you \
type to the running turn. Ctrl-D or `q` leaves and the turn continues; Ctrl-C twice cancels the turn. Other signals end \
this command and leave the turn running.")]
pub(crate) struct AttachArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: the one with a running turn]
    session: Option<String>,
    /// Start after this event number [default: at the running turn]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// Format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The answer
    Text,
    /// One line of JSON per event, and one for the result of each turn
    StreamJson,
}

/// Runs the command `agentctl attach`.
pub(crate) async fn handle(daemon: Daemon, _: bool, args: AttachArgs) -> anyhow::Result<Exit> {
    let named = match args.session {
        Some(session) => session,
        None => match running(&daemon).await? {
            Some(session) => session.to_string(),
            None => {
                note("no turn is running");
                return Ok(Exit::Done);
            }
        },
    };
    let view = daemon.client.session(&named).await?;
    let session = view.session.summary.id;
    let before_turn = match (view.live_turn, view.session.open_turn) {
        (Some(_), Some((_, first_seq))) => first_seq.saturating_sub(1),
        _ => view.session.summary.last_seq,
    };
    if view.live_turn.is_none() && args.after.is_none() {
        note("no turn is running in this session");
        return Ok(Exit::Done);
    }
    // The turn belongs to another client, so it continues when this client leaves.
    let mut signals = Signals::listen(AtEnd::Leave)?;
    let keyboard = Keyboard::of_terminal();
    let after = args.after.unwrap_or(before_turn);
    let (line, slots) = tokio::join!(SocketLine::attach(&daemon, session, after), daemon.client.models());
    let mut line = line?;
    if args.output == Output::StreamJson {
        line = line.with_children();
    }
    let can_ask = is_attended();
    let make_renderer = || Human::stdio().showing_input();
    let renderer: Box<dyn Renderer> = match args.output {
        Output::Text if can_ask => Box::new(make_renderer()),
        Output::Text => Box::new(make_renderer().showing_interrupts()),
        Output::StreamJson => Box::new(Jsonl::new(io::stdout(), session)),
    };
    let mut renderer = BuiltinNotice::new(renderer, slots.unwrap_or_default(), &daemon);
    let client = can_ask.then(|| daemon.client.clone());
    let result = attend(&mut line, &mut renderer, client, &mut signals, &keyboard, can_ask).await?;
    // The exit code is that of the live turn, not of a replayed one.
    let live = result.filter(|result| Some(result.turn_id) == view.live_turn);
    Ok(live.map_or(Exit::Done, |result| Exit::of_turn(&result, Interactivity::Attended)))
}

/// Follows a turn with the user at the terminal. `client` is used to preview edits; without a client, no questions are
/// asked.
pub(super) async fn attend(
    line: &mut SocketLine,
    renderer: &mut dyn Renderer,
    client: Option<Client>,
    signals: &mut Signals,
    keyboard: &Keyboard,
    is_guest: bool,
) -> anyhow::Result<Option<TurnResult>> {
    let mut asker: Box<dyn Asker> = match client {
        Some(client) => Box::new(ForeseeingAsker::new(TerminalAsker::new(keyboard.clone()), client)),
        None => Box::new(NonInteractive),
    };
    let (asker, attention) = (asker.as_mut(), Attention::of_terminal());
    let asides = &mut Asides::default();
    let person = turn::Person { asker, signals, keyboard, asides, route: |_| Destination::Turn, attention, is_guest };
    let result = turn::drive(line, renderer, person).await;
    keyboard.report_unsent();
    result
}

/// Finds the session with a running turn, if any.
///
/// # Errors
/// Fails if turns are running in several sessions.
async fn running(daemon: &Daemon) -> Result<Option<SessionId>, Failure> {
    let mut sessions = daemon.client.sessions(MAX_SESSIONS).await?;
    sessions.retain(|session| matches!(session.status, SessionStatus::Running | SessionStatus::Waiting));
    if let [_, _, ..] = sessions.as_slice() {
        let one = |session: &SessionSummary| {
            (report::cut(&visible::line(&session.title), MAX_TITLE), session.updated_at, session.id)
        };
        return Err(Failure::usage(format!("turns are running in {} sessions", sessions.len()))
            .hint(report::choice_hint(sessions.iter().map(one), MAX_LISTED)));
    }
    Ok(sessions.first().map(|session| session.id))
}

/// The arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  id=$(agentctl run 'Check all links' --detach) && agentctl wait $id
  agentctl wait last --timeout 600
  agentctl wait last --json | jq -r .text

Prints the answer of the last turn, even if it has already ended, and exits as `run` does: 0 done, 1 failed, 6 a \
limit. Also waits for queued turns. Exit code 124 means that --timeout expired and the turn is still running. A \
pending approval keeps the turn waiting.")]
pub(crate) struct WaitArgs {
    /// Session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Maximum time to wait, in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Runs the command `agentctl wait`.
pub(crate) async fn handle_wait(daemon: Daemon, json: bool, args: WaitArgs) -> anyhow::Result<Exit> {
    let session = daemon.client.find_session(&args.session).await.map_err(|error| as_postponed(error.into()))?;
    let result = last_result(&daemon, session);
    let limit = args.timeout.map_or(Duration::MAX, Duration::from_secs);
    let Ok(end) = timeout(limit, result).await else {
        let text = format!("the turn is still running: agentctl attach {}", short_id(session));
        report::note(json, &json!({ "type": "waiting", "session_id": session }), &text)?;
        return Ok(Exit::StillRunning);
    };
    let Some((result, notes)) = end? else {
        anyhow::bail!(Failure::usage("no turn has run in this session").hint("agentctl run --session ID 'prompt'"));
    };
    if json {
        report::json(&jsonl::result(session, &result, &notes)?)?;
    } else {
        print_result(&result)?;
    }
    Ok(Exit::of_turn(&result, Interactivity::Unattended))
}

/// Waits until no turn runs in the session, and returns the result of the last turn. Returns `None` if no turn has run.
async fn last_result(daemon: &Daemon, session: SessionId) -> anyhow::Result<Option<(TurnResult, TurnNotes)>> {
    let mut last = None;
    loop {
        let view = match daemon.client.session(&session.to_string()).await {
            Ok(view) => view,
            // The daemon stopped after the end of the turn was received.
            Err(_) if last.is_some() => return Ok(last),
            Err(error) => return Err(as_postponed(error.into()).into()),
        };
        if view.live_turn.is_none() && last.is_some() {
            return Ok(last);
        }
        view.pending.iter().for_each(report_question);
        let Some(first) = first_event(daemon, &view).await? else { return Ok(None) };
        let mut line = SocketLine::attach(daemon, session, first.saturating_sub(1)).await.map_err(as_postponed)?;
        let (mut notes, begun) = (TurnNotes::default(), view.session.summary.last_seq);
        while let Some(arrival) = line.next().await.map_err(as_postponed)? {
            let Arrival::Event(event) = arrival else { continue };
            notes.take(&event);
            match event.kind {
                EventKind::InterruptRaised { interrupt } if event.seq > begun => report_question(&interrupt),
                EventKind::TurnEnded { result } => last = Some((*result, std::mem::take(&mut notes))),
                _ => {}
            }
        }
        if view.live_turn.is_none() {
            return Ok(last);
        }
    }
}

/// Maps a daemon stop to `Postponed`, because the turn can be resumed.
fn as_postponed(failure: Failure) -> Failure {
    match failure.kind {
        ErrorKind::ShuttingDown => Failure { exit: Exit::Postponed, ..failure },
        _ => failure,
    }
}

/// Reports that the turn waits for an answer.
fn report_question(interrupt: &Interrupt) {
    note(&format!("the turn waits for an answer: agentctl answer {} …", interrupt.id));
}

/// Returns the number of the first event of the last turn. Returns `None` if no turn has run.
async fn first_event(daemon: &Daemon, view: &SessionView) -> anyhow::Result<Option<u64>> {
    if let Some((_, first)) = view.session.open_turn {
        return Ok(Some(first));
    }
    let items = daemon.client.items(&view.session.summary.id.to_string(), 0, LOOKED_AT).await;
    let items = items.map_err(|error| as_postponed(error.into()))?;
    // If the turn is longer than the loaded items, the first loaded item is used.
    Ok(begins(&items, u64::MAX).pop().or_else(|| items.first().map(|item| item.seq)))
}

fn print_result(result: &TurnResult) -> anyhow::Result<()> {
    if !result.text.is_empty() {
        report::lines([visible::lines(result.text.trim_end_matches('\n'))])?;
    }
    let mut err = anstream::stderr().lock();
    closing::lines(result, 0, TerminalStyle::detect()).iter().try_for_each(|line| writeln!(err, "{line}"))?;
    Ok(())
}

/// The arguments of `chat`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl chat                        new session, like `agentctl` alone, which takes the same options
  agentctl chat 'Why is the build red?'
  agentctl chat --continue             resume the last session of this folder
  agentctl chat --resume               choose a session to resume
  agentctl chat --resume last          resume this one
  agentctl chat -C ~/src/app:rw        with a folder that tools may change
  agentctl chat --mode plan            plan without changing anything
  agentctl chat --model gpt-5          with a model of the server
  printf 'Hello!\\n' | agentctl chat    each line is a turn

/help lists the commands of the chat. Ctrl-C cancels the turn, twice quits; Ctrl-D leaves.")]
pub(crate) struct ChatArgs {
    /// First message
    #[arg(value_name = "WORDS", num_args = 0..)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionChoice,
    /// Choose a session to resume, or resume this one, as --session does
    #[arg(long = "resume", value_name = "SESSION", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["session", "resume", "worktree"])]
    choose: Option<String>,
    /// Print plain lines and read whole lines, for screen readers; same as TERM=dumb
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    turn: TurnChoice,
}

impl ChatArgs {
    /// Returns the first word of the message that could be a misspelled command.
    pub(crate) fn single_word(&self) -> Option<&str> {
        self.words.iter().map(String::as_str).find(|word| !word.contains(char::is_whitespace))
    }
}

/// Runs the command `agentctl chat`.
pub(crate) async fn handle_chat(global: &Global, args: ChatArgs, command_line: CommandLine) -> anyhow::Result<Exit> {
    if args.plain && !look::is_plain() {
        let hint = "use TERM=dumb agentctl chat";
        anyhow::bail!(Failure::usage(format!("could not restart for --plain: {}", look::become_plain())).hint(hint));
    }
    let chooses = args.choose.as_ref().is_some_and(String::is_empty);
    if chooses && !args.words.is_empty() {
        let failure = Failure::usage("--resume without a session takes no message");
        return Err(failure.hint("name the session: --resume last").into());
    }
    let session = args.session.session.or(args.choose.filter(|_| !chooses));
    let choice = SessionChoice { session, ..args.session };
    let daemon = daemon::connect(global).await?;
    let target = SessionTarget::find(&daemon, &choice, &args.turn).await?;
    let target = target.with_mode(&daemon, args.turn.mode).await?;
    let target = target.with_model(&daemon, args.turn.model.as_ref()).await?;
    let text = if chooses { "/resume".to_owned() } else { args.words.join(" ") };
    let first = Some(text).filter(|text| !text.trim().is_empty());
    repl::run(daemon, target, first, command_line).await
}
