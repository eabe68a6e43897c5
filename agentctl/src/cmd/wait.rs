//! `agentctl wait`: waits until nothing runs in a session, and tells what its last turn came to.

use std::{io::Write as _, time::Duration};

use agentd_core::{event::EventKind, ids::SessionId, turn::TurnResult, visible};
use agentd_proto::client::SessionView;
use clap::Args;
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
Turns that were queued are waited for, too. With --timeout, exit code 75 says that it goes on. An approval that is open \
keeps the turn waiting: `agentctl interrupts` lists it.")]
pub(crate) struct WaitArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Seconds to wait at the most
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Waits.
pub(crate) async fn handle(global: &Global, args: WaitArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let session = daemon.client.find_session(&args.session).await?;
    let ended = ended(&daemon, session);
    let end = match args.timeout {
        None => ended.await?,
        Some(seconds) => match timeout(Duration::from_secs(seconds), ended).await {
            Ok(end) => end?,
            Err(_) => {
                crate::terminal::note(&format!("the turn goes on: agentctl attach {}", short_id(session)));
                return Ok(Exit::PutOff);
            }
        },
    };
    let Some((result, notes)) = end else {
        return Err(Failure::usage("no turn has run in this session").hint("agentctl run --session ID 'prompt'").into());
    };
    tell(global, session, &result, &notes)?;
    Ok(Exit::of_turn(&result, Interactivity::Unattended))
}

/// The last turn of the session, once none runs in it.
async fn ended(daemon: &Daemon, session: SessionId) -> anyhow::Result<Option<(TurnResult, TurnNotes)>> {
    let mut last = None;
    loop {
        let view = daemon.client.session(&session.to_string()).await?;
        if view.live_turn.is_none() && last.is_some() {
            return Ok(last);
        }
        let Some(first) = first_event(daemon, &view).await? else { return Ok(None) };
        let mut line = SocketLine::attach(daemon, session, first.saturating_sub(1)).await?;
        let mut notes = TurnNotes::default();
        while let Some(arrival) = line.next().await? {
            let Arrival::Event(event) = arrival else { continue };
            notes.take(&event);
            if let EventKind::TurnEnded { result } = event.kind {
                last = Some((*result, std::mem::take(&mut notes)));
            }
        }
        if view.live_turn.is_none() {
            return Ok(last);
        }
    }
}

/// Number of the event with which the last turn began; none where there was none.
async fn first_event(daemon: &Daemon, view: &SessionView) -> anyhow::Result<Option<u64>> {
    if let Some((_, first)) = view.session.open_turn {
        return Ok(Some(first));
    }
    let items = daemon.client.items(&view.session.summary.id.to_string(), 0, LOOKED_AT).await?;
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
