//! `agentctl run --replay`: a recording in the place of a prompt, and `--record`: a recording of the turn that was.

use std::path::{Path, PathBuf};

use agentd_core::{event::EventKind, ids::SessionId, session::Mount, turn::TurnResult};
use agentd_proto::client::PlayMode;
use clap::Args;

use super::{AtInterrupt, Output, renderer};
use crate::{
    cmd::replay::{self, PlayWishes},
    daemon::{self, Daemon},
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::Global,
    mount::ProjectChoice,
    turn::Renderer,
};

/// Recordings of turns.
#[derive(Debug, Args)]
pub(super) struct RecordingChoice {
    /// Write a recording of the session to this file at the end of the turn, to be played with --replay
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["replay", "detach", "ephemeral"])]
    pub(super) record: Option<PathBuf>,
    /// Play a recording: no model is asked, nothing runs, nothing is kept; a request that differs from the recorded one ends it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
          conflicts_with_all = ["words", "session", "resume", "files", "detach", "title", "ephemeral", "schema"])]
    pub(super) replay: Option<PathBuf>,
    /// With --replay: run the tools, and play the answers of the model
    #[arg(long, requires = "replay")]
    live_tools: bool,
    /// With --replay: ask the configured model, and play the results of the tools
    #[arg(long, requires = "replay", conflicts_with = "live_tools")]
    live_model: bool,
    /// With --replay: write the requests as they are now into the recording
    #[arg(long, requires = "replay", conflicts_with_all = ["live_tools", "live_model"])]
    update: bool,
}

/// Plays the recording and shows its turns.
pub(super) async fn handle(
    global: &Global,
    path: &Path,
    choice: &RecordingChoice,
    project: Option<&ProjectChoice>,
    output: Output,
    at_interrupt: Option<AtInterrupt>,
) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let mount = folder(project)?;
    let wishes = PlayWishes {
        mode: match (choice.live_tools, choice.live_model) {
            (true, _) => PlayMode::LiveTools,
            (_, true) => PlayMode::LiveModel,
            _ => PlayMode::Strict,
        },
        project: Some(mount.path),
        writable: mount.writable,
        approve: at_interrupt == Some(AtInterrupt::Approve),
        update: choice.update,
    };
    let mut shown: Option<Box<dyn Renderer>> = None;
    let mut last: Option<TurnResult> = None;
    let report = replay::play(&daemon, path, wishes, &mut |event| {
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
    replay::tell(&report.problems);
    if !report.problems.is_empty() {
        return Ok(Exit::Failed);
    }
    if choice.update {
        crate::terminal::note(&format!("{} has the requests as they are now", path.display()));
    }
    Ok(last.map_or(Exit::Done, |result| Exit::of_turn(&result, Interactivity::Attended)))
}

/// The folder that a recorded project is: the one that was named, or the current one.
fn folder(project: Option<&ProjectChoice>) -> Result<Mount, Failure> {
    let named = project.map(ProjectChoice::resolve).transpose()?.flatten();
    let current = || std::env::current_dir().map(|path| Mount { path, writable: false });
    let lost = |error| Failure::usage(format!("could not find the current folder: {error}")).hint("name one: -C DIR");
    named.map_or_else(|| current().map_err(lost), Ok)
}

/// Writes a recording of the session of a turn that has ended.
pub(super) async fn record(daemon: &Daemon, session: SessionId, path: &Path) -> anyhow::Result<()> {
    let text = daemon.client.record(&session.to_string()).await?;
    replay::write(path, &text)?;
    crate::terminal::note(&format!("recorded: {}", path.display()));
    Ok(())
}

/// Refuses a file that could not be written, before a model is paid.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(
            Failure::usage(format!("there is no folder {}", folder.display())).hint("make it, or name another file")
        );
    }
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a folder", path.display())).hint("name a file in it"));
    }
    Ok(())
}
