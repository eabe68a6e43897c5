//! `agentctl start`, `stop` and `status`: lifecycle of the daemon. `config` and `reload`: the daemon's configuration
//! and its sources. `storage` and `clean`: disk usage, and removal of data that has not been used for long.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use agentd_core::storage::{CleanReport, CleanedPart, StoragePart, StorageView};
use agentd_proto::{
    client::{Client, ConfigOrigin, DaemonStatus, RecoveredTurn},
    lock_file::LockHolder,
};
use clap::{Args, Subcommand};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Map, Value, json};

use crate::{
    daemon::{self, Daemon, DaemonLocation, SearchResult, ShellNote, silent_error},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, FactSheet, Table, count, span},
    terminal::{clean_line, note, note_lines},
};

/// Time for the daemon to exit after its own deadline.
const STOP_MARGIN: Duration = Duration::from_secs(15);

/// Time that an unresponsive daemon has to exit by itself before it is signalled.
const EXIT_LIMIT: Duration = Duration::from_secs(3);

/// Delay between checks of the daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Default time for running turns to end. The daemon's own default may be shorter.
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

The exit code is 3 if no daemon is running; the command does not start one.")]
pub(crate) struct StatusArgs {}

/// Runs the command `agentctl start`.
pub(crate) async fn start(daemon: Daemon, json: bool, _: StartArgs) -> anyhow::Result<Exit> {
    let hello = daemon.client.hello();
    let state = if daemon.started { "started" } else { "already running" };
    let (version, socket) = (clean_line(&hello.version), daemon.socket.display());
    report::note(
        json,
        &json!({ "started": daemon.started, "pid": hello.pid, "version": hello.version, "socket": daemon.socket }),
        &format!("agentd {version} {state} (pid {}, {socket})", hello.pid),
    )
}

/// Stops the daemon and waits until it has exited. Accepts daemons of other versions, so that they can be replaced.
pub(crate) async fn stop(global: &Global, args: StopArgs) -> anyhow::Result<Exit> {
    let drain = args.within.map(Duration::from_secs);
    let location = DaemonLocation::of(global)?;
    let (started_at, mut was_found) = (Instant::now(), false);
    let pid = loop {
        match location.search(|client, _| Ok(client)).await {
            SearchResult::Reached(client, _) => {
                let pid = client.stop(drain).await?;
                if client.host().is_some() {
                    return stopped_elsewhere(&client, drain.unwrap_or(DEFAULT_DRAIN) + STOP_MARGIN).await;
                }
                break pid;
            }
            // The daemon may already be exiting, and a signal would interrupt that.
            SearchResult::Silent(..) if started_at.elapsed() < EXIT_LIMIT => {
                was_found = true;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            SearchResult::Silent(_, error) => {
                if let Some(holder) = location.holder() {
                    break signal_stop(&holder).ok_or_else(|| silent_error(&holder, error.as_ref()))?;
                }
            }
            SearchResult::NotRunning => {
                note(if was_found { "the daemon has stopped" } else { "no daemon is running" });
                return Ok(Exit::Done);
            }
            SearchResult::Unusable(error) => return Err(error.into()),
        }
    };
    if daemon::wait_for_exit(pid, drain.unwrap_or(DEFAULT_DRAIN) + STOP_MARGIN).await.is_err() {
        return Err(Failure::unreachable(format!("the daemon was asked to stop and is still running (pid {pid})"))
            .hint(format!("it may wait for a tool; end it with `kill {pid}`, or `kill -9 {pid}`: the journal survives"))
            .into());
    }
    note("the daemon has stopped");
    Ok(Exit::Done)
}

/// Waits until the daemon of another machine no longer answers.
async fn stopped_elsewhere(client: &Client, limit: Duration) -> anyhow::Result<Exit> {
    let end = async {
        while !client.status().await.is_err_and(|error| error.is_unreachable()) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let still_running = |_| Failure::unreachable("the daemon was asked to stop and is still running");
    tokio::time::timeout(limit, end).await.map_err(still_running)?;
    note("the daemon has stopped");
    Ok(Exit::Done)
}

/// Sends SIGTERM to an unresponsive daemon, and returns its process id. The kernel reports the id of the process that
/// holds the data folder's lock; ids stored in files are not trusted.
fn signal_stop(holder: &LockHolder) -> Option<u32> {
    let pid = holder.pid?;
    let target = Pid::from_raw(i32::try_from(pid).ok()?);
    kill(target, Signal::SIGTERM).ok()?;
    // A suspended process (Ctrl-Z, a debugger) handles SIGTERM only after it continues.
    let _ = kill(target, Signal::SIGCONT);
    note(&format!("the daemon does not answer; it was sent a signal to stop (pid {pid})"));
    Some(pid)
}

/// Runs the command `agentctl status`.
pub(crate) async fn status(global: &Global, _: StatusArgs) -> anyhow::Result<Exit> {
    let Some(daemon) = daemon::connect_running(global).await? else {
        let socket = DaemonLocation::of(global)?.socket();
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
    json!({
        "running": true,
        "version": status.version,
        "pid": status.pid,
        "uptime_ms": report::millis(status.uptime),
        "resident_bytes": status.resident_bytes,
        "live_sessions": status.live_sessions,
        "running_turns": status.running_turns,
        "waiting_turns": status.waiting_turns,
        "recovered": status.recovered,
        "socket": status.socket,
        "data_dir": status.data_dir,
        "config_sources": status.config_sources,
        "problems": status.problems,
        "environment": notes,
        "sandbox": status.sandbox,
    })
}

fn print(status: &DaemonStatus, notes: &[ShellNote]) -> anyhow::Result<()> {
    let memory = status.resident_bytes.map(|bytes| format!(", {} MiB", bytes / 1024 / 1024)).unwrap_or_default();
    let uptime = span(report::millis(status.uptime));
    let (running, waiting) = (status.running_turns, status.waiting_turns);
    let sessions = report::count(status.live_sessions, "session");
    let mut facts = FactSheet::new(10, clean_line);
    facts.line("daemon", format!("agentd {}, pid {}, up {uptime}{memory}", status.version, status.pid));
    facts.line("turns", format!("{running} running, {waiting} waiting for an answer, {sessions} in memory"));
    facts.line("socket", status.socket.to_string_lossy());
    facts.line("data", status.data_dir.to_string_lossy());
    facts.each("sandbox", status.sandbox.as_ref().map(report::sandbox));
    facts.line("config", status.config_sources.join(", "));
    let notes = notes.iter().map(|note| ("shell", &note.message, &note.hint));
    let problems = status.problems.iter().map(|problem| ("problem", &problem.message, &problem.hint));
    for (name, message, hint) in notes.chain(problems) {
        facts.line(name, message);
        facts.line("", format!("hint: {hint}"));
    }
    let recovered = status.recovered.iter();
    facts.each("recovered", recovered.map(|turn| format!("session {}: {}", turn.session_id, recovery_text(turn))));
    facts.print()
}

/// Describes a turn that was open when the daemon started, and its outcome.
fn recovery_text(turn: &RecoveredTurn) -> String {
    let calls = [("finished", &turn.finished), ("never run", &turn.never_ran), ("outcome unknown", &turn.unknown)];
    let end = if turn.goes_on { "the turn continues" } else { "the turn was interrupted and can be resumed" };
    calls
        .into_iter()
        .filter(|(_, calls)| !calls.is_empty())
        .map(|(outcome, calls)| format!("{outcome}: {}", calls.join(", ")))
        .chain([end.to_owned()])
        .collect::<Vec<_>>()
        .join("; ")
}

/// Source shown for default values.
const BUILT_IN: &str = "built-in";

/// Examples for the help of `config`.
pub(crate) const CONFIG_HELP: &str = "Examples:
  agentctl config show                 the values that you have set, and their sources
  agentctl config show --all           all values and their sources
  agentctl config show --chain         the steps around each turn, in order
  agentctl config show --json | jq '.values[\"models.base.base_url\"]'

Secrets are shown as •••, and long values are cut; --json shows them in full. `agentd --check-config` finds errors.";

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the daemon's settings and their sources, or the chain around its turns
    Show {
        /// Show the chain: the links that process each request and call, in order
        #[arg(long, conflicts_with = "all")]
        chain: bool,
        /// Show defaults, too
        #[arg(long)]
        all: bool,
        /// Print everything as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command `agentctl config`.
pub(crate) async fn config(daemon: Daemon, _: bool, command: ConfigCommand) -> anyhow::Result<Exit> {
    let ConfigCommand::Show { chain, all, json } = command;
    let view = daemon.client.config().await?;
    if json {
        let links: Vec<Value> =
            view.chain.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        let (mut origins, mut values) = (Map::new(), Map::new());
        for ConfigOrigin { key, origin, value } in view.origins {
            values.extend(value.map(|value| (key.clone(), value)));
            origins.insert(key, Value::String(origin));
        }
        let output = json!({ "sources": view.sources, "origins": origins, "values": values, "chain": links });
        return report::json(&output);
    }
    if chain {
        let rows =
            view.chain.into_iter().enumerate().map(|(number, (name, about))| [(number + 1).to_string(), name, about]);
        Table::with_long_end(["#", "LINK", "PURPOSE AND POSITION"], rows).print("no links")?;
        return Ok(Exit::Done);
    }
    writeln!(anstream::stdout(), "sources, weakest first: {}", clean_line(&view.sources.join(", ")))?;
    let all_settings = view.origins.len();
    let output: Vec<_> = view.origins.into_iter().filter(|setting| all || setting.origin != BUILT_IN).collect();
    let shipped = all_settings - output.len();
    let rows = output.into_iter().map(|ConfigOrigin { key, origin, value }| {
        let value = value.map(|value| clean_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        [key, value.unwrap_or_default(), origin]
    });
    Table::with_long_end(["KEY", "VALUE", "SET BY"], rows).print("no setting differs from its default")?;
    if shipped > 0 {
        note(&format!("{}; --all lists them", count(shipped, "default")));
    }
    Ok(Exit::Done)
}

/// The arguments of `reload`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl reload                 read all configuration files again
  agentctl reload --json
  agentctl policy test ~/.config/agentd/hitl_rules.yaml && agentctl reload

A configuration with an error changes nothing: the error is shown with its line, and the daemon keeps the old one. \
Changed rules apply to the next call of every session.")]
pub(crate) struct ReloadArgs {}

/// Runs the command `agentctl reload`.
pub(crate) async fn reload(global: &Global, _: ReloadArgs) -> anyhow::Result<Exit> {
    let Some(daemon) = daemon::connect_running(global).await? else {
        let hint = "the daemon reads the configuration when it starts";
        anyhow::bail!(Failure::unreachable("no daemon is running").hint(hint));
    };
    let reloaded = daemon.client.reload().await?;
    let output = json!({ "config_sources": reloaded.config_sources, "notes": reloaded.notes });
    report::show(global.json, &output, || {
        report::lines([format!("reloaded: {}", clean_line(&reloaded.config_sources.join(", ")))])?;
        note_lines(&reloaded.notes);
        Ok(())
    })
}

/// The arguments of `storage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl storage
  agentctl storage --json | jq '.parts[] | select(.part == \"journal\").bytes'

`agentctl clean --dry-run` shows what can be removed; `retention` in agentd.yaml configures automatic cleaning.")]
pub(crate) struct StorageArgs {}

/// The arguments of `clean`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl clean --dry-run                  what would be removed now
  agentctl clean
  agentctl clean --json | jq .parts
  agentctl sessions pin 0193a5b2            exempt a session from cleaning

`retention` in agentd.yaml sets the ages. Sessions that are in use, waiting for an answer or pinned are left alone.")]
pub(crate) struct CleanArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command `agentctl storage`.
pub(crate) async fn storage(daemon: Daemon, json: bool, _: StorageArgs) -> anyhow::Result<Exit> {
    let view = daemon.client.storage().await?;
    report::show(json, &view, || print_storage(&view))
}

fn print_storage(view: &StorageView) -> anyhow::Result<()> {
    let rows = view.parts.iter().filter(|part| part.files > 0).map(|part| {
        let description = description(part.part, view);
        [part.part.as_str().to_owned(), report::bytes(part.bytes), part.files.to_string(), description]
    });
    Table::of(["PART", "SIZE", "FILES", "WHAT"], rows).print("no data yet")?;
    let all = view.parts.iter().map(|part| part.bytes).sum();
    report::lines([format!("\n{} in total; {} free on the disk", report::bytes(all), report::bytes(view.free_bytes))])?;
    for (sessions, state) in [
        (view.removed_sessions, "still to be overwritten; the journal shrinks meanwhile"),
        (view.stuck_sessions, "cannot be overwritten, as the journal is damaged; see `agentctl doctor`"),
    ] {
        if sessions > 0 {
            note(&format!("{} {state}", report::count(sessions, "deleted session")));
        }
    }
    Ok(())
}

fn description(part: StoragePart, view: &StorageView) -> String {
    let text = match part {
        StoragePart::Journal => {
            return format!("messages and events of sessions; {} of it free", report::bytes(view.journal_spare_bytes));
        }
        StoragePart::JournalLog => "changes not yet moved into the journal",
        StoragePart::Audit => "decisions on calls and their outcomes",
        StoragePart::Index => "the document index; rebuilt when needed",
        StoragePart::Workspaces => "the files of sessions",
        StoragePart::Undo => "contents of files before turns changed them",
        StoragePart::Memories => "memories of all sessions",
        StoragePart::Models => "the weights of built-in models",
        StoragePart::Skills => "the skills bundled with agentd",
        StoragePart::SkillEnvironments => "packages that skills need",
        StoragePart::Logs => "the daemon's log",
        StoragePart::Traces => "requests to models, as they were sent",
        StoragePart::Other => "",
    };
    text.to_owned()
}

/// Runs the command `agentctl clean`.
pub(crate) async fn clean(daemon: Daemon, json: bool, args: CleanArgs) -> anyhow::Result<Exit> {
    let report = daemon.client.clean(args.dry_run, "agentctl").await?;
    report::show(json, &report, || report::lines(cleaned(&report, args.dry_run)))?;
    note_lines(&report.problems);
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

fn cleaned(report: &CleanReport, dry_run: bool) -> Vec<String> {
    let mut lines: Vec<String> = report
        .parts
        .iter()
        .map(|part| {
            let sessions = (part.sessions > 0).then(|| report::count(part.sessions, "session"));
            let sessions = sessions.map(|count| match part.part {
                CleanedPart::Sessions => count,
                _ => format!("of {count}"),
            });
            let files = (part.files > 0).then(|| report::count(part.files, "file"));
            let of: Vec<_> = [sessions, files, Some(report::bytes(part.bytes))].into_iter().flatten().collect();
            format!("{:<12}{}", part.part.as_str(), of.join(", "))
        })
        .collect();
    let all = report::bytes(report.bytes());
    lines.push(match (report.parts.is_empty(), dry_run) {
        (true, _) => "nothing is old enough to be removed".to_owned(),
        (false, true) => format!("{all} would be removed; run `agentctl clean` to remove it"),
        (false, false) => format!("{all} removed"),
    });
    if report.kept_sessions > 0 {
        let skipped = report::count(report.kept_sessions, "session");
        lines.push(format!("{skipped} left alone: in use, waiting or pinned"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_report_is_summarised_in_a_few_lines() {
        let mut report = CleanReport::default();
        assert_eq!(cleaned(&report, true), ["nothing is old enough to be removed"]);
        report.add(CleanedPart::Workspaces, 2, 3, 2048);
        report.add(CleanedPart::Sessions, 1, 0, 1024);
        report.add(CleanedPart::Audit, 0, 1, 1024);
        report.kept_sessions = 1;
        let output = cleaned(&report, false);
        assert_eq!(output[0], "workspaces  of 2 sessions, 3 files, 2.0 KiB");
        assert_eq!(output[1], "audit       1 file, 1.0 KiB");
        assert_eq!(output[2], "sessions    1 session, 1.0 KiB");
        assert_eq!(output[3..], ["4.0 KiB removed", "1 session left alone: in use, waiting or pinned"]);
        assert_eq!(cleaned(&report, true)[3], "4.0 KiB would be removed; run `agentctl clean` to remove it");
    }
}
