//! `agentctl attach`: follows the live turn of a session.

use std::io::{self, IsTerminal as _};

use agentd_core::{
    Timestamp,
    ids::SessionId,
    session::{SessionStatus, SessionSummary},
    visible,
};
use clap::{Args, ValueEnum};

use crate::{
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::Global,
    keyboard::Keyboard,
    render::{Human, Jsonl},
    repl::TerminalAsker,
    report,
    terminal::attention::Attention,
    turn::{
        self, Asker, AtEnd, ForeseeingAsker, NonInteractive, Renderer, Signals, SocketLine, builtin::BuiltinNotice,
    },
};

/// Sessions among which those with a running turn are looked for.
const LOOKED_AT: usize = 1000;
/// The sessions that are named where several could be meant.
const NAMED: usize = 6;
/// Characters of a title there.
const TITLE: usize = 40;

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
    /// The session: id, title, number in `sessions list`, or `last` [default: the one in which a turn runs]
    session: Option<String>,
    /// Start after this event number [default: at the running turn]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// Form of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The answer
    Text,
    /// A line of JSON for each event, and one for the result of each turn
    StreamJson,
}

/// Follows.
pub(crate) async fn handle(global: &Global, args: AttachArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let named = match args.session {
        Some(session) => session,
        None => match running(&daemon).await? {
            Some(session) => session.to_string(),
            None => {
                crate::terminal::note("no turn is running");
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
        crate::terminal::note("no turn is running in this session");
        return Ok(Exit::Done);
    }
    // The turn is somebody else's, or was: it goes on without this client.
    let mut signals = Signals::listen(AtEnd::Leave)?;
    let keyboard = Keyboard::of_terminal();
    let after = args.after.unwrap_or(before_turn);
    let (line, slots) = tokio::join!(SocketLine::attach(&daemon, session, after), daemon.client.models());
    let mut line = line?;
    if args.output == Output::StreamJson {
        line = line.with_children();
    }
    let asks = io::stdin().is_terminal() && io::stderr().is_terminal();
    let human = || Human::stdio().showing_input();
    let renderer: Box<dyn Renderer> = match args.output {
        Output::Text if asks => Box::new(human()),
        Output::Text => Box::new(human().showing_interrupts()),
        Output::StreamJson => Box::new(Jsonl::new(io::stdout(), session)),
    };
    let mut renderer = BuiltinNotice::new(renderer, slots.unwrap_or_default(), &daemon);
    let asking = || ForeseeingAsker::new(TerminalAsker::new(keyboard.clone()), daemon.client.clone());
    let mut asker: Box<dyn Asker> = if asks { Box::new(asking()) } else { Box::new(NonInteractive) };
    let person = turn::Person {
        asker: asker.as_mut(),
        signals: &mut signals,
        keyboard: &keyboard,
        may_steer: |_| true,
        attention: Attention::of_terminal(),
        is_guest: asks,
    };
    let result = turn::drive(&mut line, &mut renderer, person).await;
    keyboard.tell_unsent();
    let result = result?;
    // Of turns of the past nobody asked how they ended.
    let live = result.filter(|result| Some(result.turn_id) == view.live_turn);
    Ok(live.map_or(Exit::Done, |result| Exit::of_turn(&result, Interactivity::Attended)))
}

/// The session in which a turn runs, if one does.
///
/// # Errors
/// When there are several.
async fn running(daemon: &Daemon) -> Result<Option<SessionId>, Failure> {
    let mut sessions = daemon.client.sessions(LOOKED_AT).await?;
    sessions.retain(|session| matches!(session.status, SessionStatus::Running | SessionStatus::Waiting));
    if let [_, _, ..] = sessions.as_slice() {
        let now = Timestamp::now();
        let one = |session: &SessionSummary| {
            let title = report::cut(&visible::line(&session.title), TITLE);
            format!("{title} · {} · {}", report::ago(session.updated_at, now), report::short_id(session.id))
        };
        let named: Vec<String> = sessions.iter().take(NAMED).map(one).collect();
        let more = if sessions.len() > NAMED { "; …" } else { "" };
        return Err(Failure::usage(format!("turns are running in {} sessions", sessions.len()))
            .hint(format!("name one by the end of its id: {}{more}", named.join("; "))));
    }
    Ok(sessions.first().map(|session| session.id))
}
