//! `agentctl wait`: waits until nothing runs in a session, and tells what its last turn came to.

use std::{io::Write as _, time::Duration};

use agentd_core::{
    error::ErrorKind, event::EventKind, ids::SessionId, interrupt::Interrupt, turn::TurnResult, visible,
};
use agentd_proto::client::SessionView;
use clap::Args;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::Global,
    render::{
        closing,
        jsonl::{self, TurnNotes},
    },
    repl::replay::{LOOKED_AT, begins},
    report::{self, short_id},
    terminal::look::TerminalStyle,
    turn::{Arrival, Line as _, SocketLine},
};

/// The arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  id=$(agentctl run 'Check all links' --detach) && agentctl wait $id
  agentctl wait last --timeout 600
  agentctl wait last --json | jq -r .text

Prints the answer of the last turn, also if it ended before, and exits as `run` does: 0 done, 1 failed, 6 a limit. \
Turns that were queued are waited for, too. Exit code 124 says that --timeout is over and the turn goes on. An approval \
that is open keeps the turn waiting.")]
pub(crate) struct WaitArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Maximum time to wait, in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Waits for the last turn and prints its result.
pub(crate) async fn handle(global: &Global, args: WaitArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session = daemon.client.find_session(&args.session).await.map_err(|error| put_off(error.into()))?;
    let result = last_result(&daemon, session);
    let end = match args.timeout {
        None => result.await?,
        Some(seconds) => match timeout(Duration::from_secs(seconds), result).await {
            Ok(end) => end?,
            Err(_) => {
                let way = format!("the turn goes on: agentctl attach {}", short_id(session));
                report::note(global.json, &json!({ "type": "waiting", "session_id": session }), &way)?;
                return Ok(Exit::StillRunning);
            }
        },
    };
    let Some((result, notes)) = end else {
        return Err(Failure::usage("no turn has run in this session")
            .hint("agentctl run --session ID 'prompt'")
            .into());
    };
    tell(global, session, &result, &notes)?;
    Ok(Exit::of_turn(&result, Interactivity::Unattended))
}

/// The result of the last turn of the session, once none runs in it.
async fn last_result(daemon: &Daemon, session: SessionId) -> anyhow::Result<Option<(TurnResult, TurnNotes)>> {
    let mut last = None;
    loop {
        let view = match daemon.client.session(&session.to_string()).await {
            Ok(view) => view,
            // The daemon was stopped behind the turn's end, which is known.
            Err(_) if last.is_some() => return Ok(last),
            Err(error) => return Err(put_off(error.into()).into()),
        };
        if view.live_turn.is_none() && last.is_some() {
            return Ok(last);
        }
        view.pending.iter().for_each(tell_interrupt);
        let Some(first) = first_event(daemon, &view).await? else { return Ok(None) };
        let mut line = SocketLine::attach(daemon, session, first.saturating_sub(1)).await.map_err(put_off)?;
        let (mut notes, begun) = (TurnNotes::default(), view.session.summary.last_seq);
        while let Some(arrival) = line.next().await.map_err(put_off)? {
            let Arrival::Event(event) = arrival else { continue };
            notes.take(&event);
            match event.kind {
                EventKind::InterruptRaised { interrupt } if event.seq > begun => tell_interrupt(&interrupt),
                EventKind::TurnEnded { result } => last = Some((*result, std::mem::take(&mut notes))),
                _ => {}
            }
        }
        if view.live_turn.is_none() {
            return Ok(last);
        }
    }
}

/// A stop of the daemon is a pause of the turn: it can be resumed.
fn put_off(failure: Failure) -> Failure {
    match failure.kind {
        ErrorKind::ShuttingDown => Failure { exit: Exit::PutOff, ..failure },
        _ => failure,
    }
}

/// Says that somebody has to answer before the turn goes on.
fn tell_interrupt(interrupt: &Interrupt) {
    crate::terminal::note(&format!("the turn waits for an answer: agentctl answer {} …", interrupt.id));
}

/// Number of the event with which the last turn began; none where there was none.
async fn first_event(daemon: &Daemon, view: &SessionView) -> anyhow::Result<Option<u64>> {
    if let Some((_, first)) = view.session.open_turn {
        return Ok(Some(first));
    }
    let items = daemon.client.items(&view.session.summary.id.to_string(), 0, LOOKED_AT).await;
    let items = items.map_err(|error| put_off(error.into()))?;
    // Of a turn that is longer than what was looked at, its end is enough.
    Ok(begins(&items, u64::MAX).pop().or_else(|| items.first().map(|item| item.seq)))
}

fn tell(global: &Global, session: SessionId, result: &TurnResult, notes: &TurnNotes) -> anyhow::Result<()> {
    if global.json {
        return report::json(&jsonl::result(session, result, notes)?);
    }
    if !result.text.is_empty() {
        report::lines([visible::lines(result.text.trim_end_matches('\n'))])?;
    }
    let mut err = anstream::stderr().lock();
    closing::lines(result, 0, TerminalStyle::detect()).iter().try_for_each(|line| writeln!(err, "{line}"))?;
    Ok(())
}
