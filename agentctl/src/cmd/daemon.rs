//! `agentctl start`, `stop` and `status`: the daemon's life.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use agentd_proto::{
    client::{DaemonStatus, RecoveredTurn},
    lock_file::LockHolder,
};
use clap::Args;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::{
    daemon::{self, DaemonPlace, ShellNote, Sight, Versions, silent},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, span},
    terminal::sanitize,
};

/// Time that the daemon gets to be gone, beyond its own deadline.
const STOP_MARGIN: Duration = Duration::from_secs(15);

/// The time that a daemon which no longer answers may take to be gone before it is told by a signal.
const ENDING: Duration = Duration::from_secs(3);

/// Between two looks at it.
const GLANCE: Duration = Duration::from_millis(50);

/// Default time for running turns to end; the daemon's own default may be shorter.
const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// The arguments of `start`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl start                  start the daemon, if it is not running
  agentctl start --json

Commands that need the daemon start it, too; `status` and `stop` do not.")]
pub(crate) struct StartArgs {}

/// The arguments of `stop`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl stop                   finish running turns, then stop
  agentctl stop --within 0        stop at once; turns can be resumed later

`agentctl run --session ID` resumes a turn.")]
pub(crate) struct StopArgs {
    /// Time for running turns to finish, in seconds
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
}

/// The arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl status                 is it running, and what is it doing?
  agentctl status --json
  agentctl status >/dev/null || echo 'no daemon'

The exit code is 3 if no daemon is running; none is started.")]
pub(crate) struct StatusArgs {}

/// Starts the daemon.
pub(crate) async fn start(global: &Global, _: StartArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let hello = daemon.client.hello();
    let what = if daemon.started { "started" } else { "already running" };
    let (version, place) = (sanitize::clean_line(&hello.version), daemon.socket.display());
    report::note(
        global.json,
        &json!({ "started": daemon.started, "pid": hello.pid, "version": hello.version, "socket": daemon.socket }),
        &format!("agentd {version} {what} (pid {}, {place})", hello.pid),
    )
}

/// Stops the daemon and waits until it is gone. A daemon of another version is stopped too: that is how one gets rid
/// of it.
pub(crate) async fn stop(global: &Global, args: StopArgs) -> anyhow::Result<Exit> {
    let drain = args.within.map(Duration::from_secs);
    let place = DaemonPlace::of(global)?;
    let (begun, mut was_there) = (Instant::now(), false);
    let pid = loop {
        match place.look(Versions::Any).await {
            Sight::Reached(client, _) => break client.stop(drain).await?,
            // It may be about to end: a signal would cut that short.
            Sight::Silent(..) if begun.elapsed() < ENDING => {
                was_there = true;
                tokio::time::sleep(GLANCE).await;
            }
            Sight::Silent(_, error) => {
                if let Some(holder) = place.holder() {
                    break signal_stop(&holder).ok_or_else(|| silent(&holder, error.as_ref()))?;
                }
            }
            Sight::Nobody => {
                crate::terminal::note(if was_there { "the daemon has stopped" } else { "no daemon is running" });
                return Ok(Exit::Done);
            }
            Sight::Unusable(error) => return Err(error.into()),
        }
    };
    if daemon::wait_gone(pid, drain.unwrap_or(DEFAULT_DRAIN) + STOP_MARGIN).await.is_err() {
        return Err(Failure::unreachable(format!("the daemon was asked to stop and is still running (pid {pid})"))
            .hint(format!("it may wait for a tool; end it with `kill {pid}`, or `kill -9 {pid}`: the journal survives"))
            .into());
    }
    crate::terminal::note("the daemon has stopped");
    Ok(Exit::Done)
}

/// Tells a daemon that does not answer to stop, by a signal, and returns its process id. The number is the kernel's, of the
/// process that holds the data folder's lock right now: none is believed that stands in a file.
fn signal_stop(holder: &LockHolder) -> Option<u32> {
    let pid = holder.pid?;
    let target = Pid::from_raw(i32::try_from(pid).ok()?);
    kill(target, Signal::SIGTERM).ok()?;
    // One that was stopped (Ctrl-Z, a debugger) hears of it when it goes on.
    let _ = kill(target, Signal::SIGCONT);
    crate::terminal::note(&format!("the daemon does not answer; it was sent a signal to stop (pid {pid})"));
    Some(pid)
}

/// Tells how the daemon is doing.
pub(crate) async fn status(global: &Global, _: StatusArgs) -> anyhow::Result<Exit> {
    let Some(daemon) = daemon::connect_running(global).await? else {
        let socket = DaemonPlace::of(global)?.socket();
        report::show(global.json, &json!({ "running": false, "socket": socket }), || {
            report::lines([format!("no daemon is running at {}", socket.display())])
        })?;
        return Ok(Exit::Unreachable);
    };
    let status = daemon.client.status().await?;
    let notes = daemon.shell_notes(daemon.is_builtin().await);
    report::show(global.json, &as_json(&status, &notes), || print(&status, &notes))
}

fn as_json(status: &DaemonStatus, notes: &[ShellNote]) -> serde_json::Value {
    let recovered = status.recovered.iter().map(|turn| {
        json!({
            "session_id": turn.session_id,
            "turn_id": turn.turn_id,
            "finished": turn.finished,
            "never_ran": turn.never_ran,
            "unknown": turn.unknown,
            "goes_on": turn.goes_on,
        })
    });
    json!({
        "running": true,
        "version": status.version,
        "pid": status.pid,
        "uptime_ms": report::millis(status.uptime),
        "resident_bytes": status.resident_bytes,
        "live_sessions": status.live_sessions,
        "running_turns": status.running_turns,
        "waiting_turns": status.waiting_turns,
        "recovered": recovered.collect::<Vec<_>>(),
        "socket": status.socket,
        "data_dir": status.data_dir,
        "config_sources": status.config_sources,
        "problems": status.problems.iter().map(|problem| json!({
            "subject": problem.subject, "message": problem.message, "hint": problem.hint,
        })).collect::<Vec<_>>(),
        "environment": notes,
        "sandbox": status.sandbox.as_ref().map(|sandbox| {
            json!({
                "mode": sandbox.mode,
                "runs": sandbox.runs,
                "landlock": sandbox.landlock,
                "seccomp": sandbox.seccomp,
                "namespaces": sandbox.namespaces,
                "network": sandbox.network,
                "weaknesses": sandbox.weaknesses,
            })
        }),
    })
}

fn print(status: &DaemonStatus, notes: &[ShellNote]) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let memory = status.resident_bytes.map(|bytes| format!(", {} MiB", bytes / 1024 / 1024)).unwrap_or_default();
    let uptime = span(report::millis(status.uptime));
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<10}{}", sanitize::clean_line(value));
    line("daemon", &format!("agentd {}, pid {}, up {uptime}{memory}", status.version, status.pid))?;
    line(
        "turns",
        &format!(
            "{} running, {} waiting for an answer, {} in memory",
            status.running_turns,
            status.waiting_turns,
            report::count(status.live_sessions, "session")
        ),
    )?;
    line("socket", &status.socket.display().to_string())?;
    line("data", &status.data_dir.display().to_string())?;
    if let Some(sandbox) = &status.sandbox {
        line("sandbox", &report::sandbox(sandbox))?;
    }
    line("config", &status.config_sources.join(", "))?;
    for note in notes {
        line("shell", &note.message)?;
        line("", &format!("hint: {}", note.hint))?;
    }
    for problem in &status.problems {
        line("problem", &problem.message)?;
        line("", &format!("hint: {}", problem.hint))?;
    }
    for turn in &status.recovered {
        line("recovered", &format!("session {}: {}", turn.session_id, put_in_order(turn)))?;
    }
    Ok(())
}

/// Describes a turn that the daemon found open at its start, and what became of it.
fn put_in_order(turn: &RecoveredTurn) -> String {
    let calls = [("finished", &turn.finished), ("never run", &turn.never_ran), ("outcome unknown", &turn.unknown)];
    let end = if turn.goes_on { "it goes on" } else { "it was ended and can be continued" };
    calls
        .into_iter()
        .filter(|(_, calls)| !calls.is_empty())
        .map(|(what, calls)| format!("{what}: {}", calls.join(", ")))
        .chain([end.to_owned()])
        .collect::<Vec<_>>()
        .join("; ")
}
