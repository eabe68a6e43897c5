//! Compaction, which replaces the older part of a history by a summary. Also reports compactions and their undo.

use std::io;

use agentd_core::{
    context::{CompactionReport, CompactionStrategy, Window},
    event::{Event, EventKind},
    ids::SessionId,
    item::ItemBody,
    turn::{StartTurn, StopReason, TurnResult},
};
use agentd_proto::client::{SessionChoice, StartRequest};
use anyhow::Result;
use serde_json::json;

use crate::{
    daemon::Daemon,
    exit::{Exit, Interactivity},
    failure::Failure,
    flags::Choice,
    keyboard::Keyboard,
    render::{
        Human, closing,
        context::{percent, short},
    },
    report,
    terminal::{QUIET, TerminalStyle, WARN, attention::Attention, clean_line, note, paint},
    turn::{self, Asides, Destination, NonInteractive, Renderer, Signals, SocketLine},
};

/// Values of the summary strategy.
pub(crate) const STRATEGIES: [Choice<CompactionStrategy>; 3] = [
    ("auto", "Chosen by the size of the window", CompactionStrategy::Auto),
    ("compact", "In detail: paths, commands and results", CompactionStrategy::Compact),
    ("summarize", "Short: what is needed to continue", CompactionStrategy::Summarize),
];

/// Outcome of a compaction turn.
#[derive(Debug)]
pub(crate) struct CompactOutcome {
    /// Report of the compaction; `None` if there was nothing to do or it did not complete.
    pub(crate) report: Option<CompactionReport>,
    pub(crate) result: TurnResult,
}

/// Runs a turn that only compacts the history.
///
/// # Errors
/// Fails if the daemon refuses the turn, the connection is lost, or the user leaves before the turn ends.
pub(crate) async fn compact(
    daemon: &Daemon,
    session: SessionId,
    strategy: CompactionStrategy,
    shown: bool,
    signals: &mut Signals,
    keyboard: &Keyboard,
) -> Result<CompactOutcome> {
    let request = StartRequest {
        session: SessionChoice::Existing(session.to_string()),
        start: StartTurn { compact: Some(strategy), ..daemon.turn(None) },
    };
    signals.forget();
    let mut line = SocketLine::start(daemon, request, Vec::new()).await?;
    let mut watch = CompactionWatcher { shown: shown.then(Human::stdio), report: None };
    let (asker, asides, is_guest) = (&mut NonInteractive, &mut Asides::default(), false);
    let (route, attention) = (|_: &str| Destination::Later, Attention::Off);
    let person = turn::Person { asker, signals, keyboard, asides, route, attention, is_guest };
    let result = turn::drive(&mut line, &mut watch, person).await?;
    let result = result.ok_or_else(|| Failure::unreachable("the daemon did not report how the compaction ended"))?;
    Ok(CompactOutcome { report: watch.report, result })
}

impl CompactOutcome {
    /// Prints the outcome for people.
    ///
    /// # Errors
    /// Fails if standard output is closed.
    pub(crate) fn print(&self) -> Result<()> {
        let look = TerminalStyle::detect();
        match &self.report {
            Some(report) => report::lines(lines(report, look.out_color))?,
            None if self.result.stop_reason == StopReason::Completed => report::lines([clean_line(&self.result.text)])?,
            None => closing::lines(&self.result, 0, look).iter().for_each(|line| note(line)),
        }
        Ok(())
    }

    /// Returns the exit code of the outcome.
    pub(crate) fn exit(&self) -> Exit {
        Exit::of_turn(&self.result, Interactivity::Attended)
    }
}

/// Formats the report as lines: sizes, the summary, and preserved messages.
fn lines(report: &CompactionReport, color: bool) -> Vec<String> {
    let CompactionReport { messages_before, messages_after, tokens_before, tokens_after, .. } = report;
    let mut lines = vec![format!(
        "compacted  {messages_before} to {messages_after} messages, about {} to {} tokens ({} %)",
        short(*tokens_before),
        short(*tokens_after),
        percent(*tokens_after, *tokens_before),
    )];
    let detail = match report.strategy {
        CompactionStrategy::Auto | CompactionStrategy::Compact => "in detail",
        CompactionStrategy::Summarize => "short",
        CompactionStrategy::Truncate => "only certain facts",
        CompactionStrategy::Offload => "none, old results were moved to files",
    };
    let by = report.model.as_deref().map_or("without a model".to_owned(), |model| format!("by {}", clean_line(model)));
    lines.push(format!("summary    {detail}, {by}"));
    lines.extend(report.path.as_deref().map(|path| format!("in full    {}", clean_line(path))));
    let pinned = report.pinned.len();
    lines.extend((pinned > 0).then(|| format!("kept       your messages, verbatim ({pinned})")));
    let problem = report.problem.as_deref();
    lines.extend(problem.map(|problem| paint(color, WARN, &format!("! {}", clean_line(problem)))));
    lines.push(paint(color, QUIET, "undo with: agentctl compact --undo"));
    lines
}

/// Reports that a compaction was undone.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn report_undone(session: SessionId, window: Window, undone: &CompactionReport, json: bool) -> Result<Exit> {
    let CompactionReport { messages_before, tokens_before, .. } = undone;
    let tokens = short(*tokens_before);
    report::show(json, &json!({ "session_id": session, "window": window, "undone": undone }), || {
        report::lines(&[
            format!("undone: the model sees the {messages_before} messages again, about {tokens} tokens"),
            "they are compacted again automatically when they no longer fit, or after many more messages".to_owned(),
        ])
    })
}

/// Renderer that follows the turn and stores its compaction report.
struct CompactionWatcher {
    shown: Option<Human<io::Stdout, io::Stderr>>,
    report: Option<CompactionReport>,
}

impl Renderer for CompactionWatcher {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::ItemCompleted { item, .. } = &event.kind
            && let ItemBody::Compaction(compaction) = &item.body
        {
            if !compaction.summary.is_empty() {
                self.report = Some(compaction.report.clone());
            }
            return Ok(());
        }
        self.shown.as_mut().map_or(Ok(()), |human| human.event(event))
    }

    /// Prints no result, because the command reports the outcome itself.
    fn finish(&mut self, _: &TurnResult) -> io::Result<()> {
        self.pause()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.shown.as_mut().map_or(Ok(()), Renderer::pause)
    }
}
