//! Task that follows the journal, one per signal so that a slow signal does not delay the other. The task exports one
//! turn after another, and stores the position once the collector has accepted a turn. No other task waits for the
//! export.

use std::{collections::VecDeque, io, path::Path, sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    agent::MAIN,
    error::StoreError,
    event::{Event, EventKind},
    ids::SessionId,
    ports::Store,
    session::EndedTurn,
};
use agentd_trace::{TurnTrace, nest_all, turns};
use prost::Message as _;
use tokio::{sync::watch, time::sleep};

use crate::{
    config::{Signal, TelemetryConfig},
    measures::Measures,
    names::{TRACEPARENT, TraceContext},
    otlp::{self, KeyValue, Resource, Scope, Temporality},
    position::{Position, PositionFile},
    send::{Collector, CollectorError, ExportOutcome},
    spans,
};

/// Number of turns read from the journal at once.
const BATCH: usize = 64;
/// Maximum number of spans per message, and their approximate maximum size in bytes. Servers accept 4 MiB by default.
const MAX_SPANS: usize = 400;
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum number of attempts to send a message that may itself cause the collector's failure.
const MAX_TRIES: u32 = 8;
/// Number of events read at once, and maximum number of events of one session.
const PAGE: usize = 1000;
const MAX_EVENTS: usize = 200_000;

/// Backoff after a failure: the first pause, which doubles with each failure, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Interval between checks without activity, and delay of a check after activity.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
const SETTLE_DELAY: Duration = Duration::from_millis(250);

/// Journal whose turns are exported.
pub type TurnSource = Arc<dyn Store>;

/// Returns the file that stores the position of a signal.
pub fn position_file(folder: &Path, signal: Signal) -> PositionFile {
    PositionFile::at(folder.join(format!("telemetry-{}.json", signal.as_str())))
}

/// Stores the current end of the journal as the position if there is no position yet, so that earlier turns are not
/// exported. Must be called before the first turn can start.
pub async fn anchor(signal: Signal, source: &TurnSource, folder: &Path) {
    let file = position_file(folder, signal);
    let anchored = async {
        // An unreadable file is reported when the position is used.
        if !matches!(file.load(), Ok(None)) {
            return Ok(());
        }
        let end = source.ended_turns(u64::MAX, 0).await.map_err(|error| error.to_string())?.end;
        let position = Position { place: end, turn_id: None, at: Timestamp::now() };
        file.save(position).map_err(|error| error.to_string())
    };
    if let Err(error) = anchored.await {
        tracing::warn!("could not write the telemetry position: {error}");
    }
}

/// Follows the journal for one signal. `activity` changes when a turn may have ended. Returns immediately if the signal
/// is not exported; otherwise, only returns on an error.
///
/// # Errors
/// Returns an error if the client cannot be created, for example because the collector's URL is invalid.
pub async fn follow<T: Clone>(
    signal: Signal,
    config: &TelemetryConfig,
    source: TurnSource,
    folder: &Path,
    mut activity: watch::Receiver<T>,
) -> Result<(), CollectorError> {
    let Some(signal_config) = config.signal(signal) else { return Ok(()) };
    let collector = Collector::new(signal, signal_config)?;
    let mut export = Export::begin(signal, config, source, position_file(folder, signal), collector).await;
    let mut pause = FIRST_PAUSE;
    loop {
        match export.step().await {
            Ok(true) => pause = FIRST_PAUSE,
            Ok(false) => {
                pause = FIRST_PAUSE;
                tokio::select! {
                    changed = activity.changed() => match changed {
                        // The end of a turn may be announced slightly before it is stored.
                        Ok(()) => sleep(SETTLE_DELAY).await,
                        Err(_) => sleep(CHECK_INTERVAL).await,
                    },
                    () = sleep(CHECK_INTERVAL) => {}
                }
            }
            Err(Delay { reason, after }) => {
                tracing::warn!(signal = signal.as_str(), "could not send telemetry; retrying later: {reason}");
                sleep(after.unwrap_or(pause).max(FIRST_PAUSE)).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

/// Reason why the export is retried later.
struct Delay {
    reason: String,
    after: Option<Duration>,
}

impl From<StoreError> for Delay {
    fn from(error: StoreError) -> Self {
        Self { reason: error.to_string(), after: None }
    }
}

struct Export {
    signal: Signal,
    content: bool,
    temporality: Temporality,
    resource: Resource,
    source: TurnSource,
    file: PositionFile,
    collector: Collector,
    position: Option<Position>,
    /// Turns that were found but have not been exported.
    queue: VecDeque<EndedTurn>,
    /// Number of accepted spans of the first queued turn.
    sent_spans: usize,
    /// Number of failed attempts to send the next message.
    tries: u32,
    measures: Measures,
    /// Start of the period covered by the measurements.
    since: Timestamp,
}

impl Export {
    async fn begin(
        signal: Signal,
        config: &TelemetryConfig,
        source: TurnSource,
        file: PositionFile,
        collector: Collector,
    ) -> Self {
        let reader = file.clone();
        let loaded = tokio::task::spawn_blocking(move || reader.load()).await.unwrap_or(Ok(None));
        let position = loaded.unwrap_or_else(|error| {
            tracing::warn!("could not read the telemetry position; starting with the next turn: {error}");
            None
        });
        let attributes = config.resource.iter().map(|(name, value)| KeyValue::new(name, value.as_str())).collect();
        Self {
            signal,
            content: config.content,
            temporality: config.temporality,
            resource: Resource { attributes },
            source,
            file,
            collector,
            position,
            queue: VecDeque::new(),
            sent_spans: 0,
            tries: 0,
            measures: Measures::default(),
            since: Timestamp::now(),
        }
    }

    /// Exports the next turn. Returns false if there is no further turn.
    async fn step(&mut self) -> Result<bool, Delay> {
        let position = match self.position {
            Some(position) => position,
            None => {
                // Turns before the first start of the export are not exported.
                let end = self.source.ended_turns(u64::MAX, 0).await?.end;
                self.note(Position { place: end, turn_id: None, at: Timestamp::now() }).await?
            }
        };
        if self.queue.is_empty() {
            self.queue = self.find(position).await?.into();
        }
        let Some(turn) = self.queue.front().copied() else { return Ok(false) };
        if let Some((tree, traceparent)) = self.read(turn).await? {
            match self.signal {
                Signal::Traces => self.send_spans(&tree, traceparent.as_deref()).await?,
                Signal::Metrics => self.send_measures(&tree).await?,
            }
        }
        self.note(Position::of(&turn)).await?;
        self.queue.pop_front();
        self.sent_spans = 0;
        Ok(true)
    }

    async fn note(&mut self, position: Position) -> Result<Position, Delay> {
        let file = self.file.clone();
        let saved = tokio::task::spawn_blocking(move || file.save(position)).await.map_err(io::Error::other);
        // Always updated in memory, so that an accepted turn is not exported again in this run.
        self.position = Some(position);
        if let Err(problem) = saved.and_then(|saved| saved) {
            tracing::warn!("could not write the telemetry position: {problem}");
        }
        Ok(position)
    }

    /// Returns the turns after the position. If the journal no longer contains the same turn at that position, returns
    /// the turns that ended later.
    async fn find(&mut self, position: Position) -> Result<Vec<EndedTurn>, Delay> {
        let page = self.source.ended_turns(position.place.saturating_sub(1), BATCH).await?;
        let is_current = match position.turn_id {
            Some(turn) => {
                page.turns.first().is_some_and(|first| first.place == position.place && first.turn_id == turn)
            }
            None => page.end >= position.place,
        };
        if is_current {
            return Ok(page.turns.into_iter().filter(|turn| turn.place > position.place).collect());
        }
        let mut after = 0;
        loop {
            let page = self.source.ended_turns(after, BATCH).await?;
            let later: Vec<EndedTurn> = page.turns.iter().filter(|turn| turn.at > position.at).copied().collect();
            match page.turns.last() {
                _ if !later.is_empty() => return Ok(later),
                Some(last) => after = last.place,
                None => {
                    self.note(Position { place: page.end, turn_id: None, ..position }).await?;
                    return Ok(Vec::new());
                }
            }
        }
    }

    /// Returns the trace of a turn and the `traceparent` of its client, or `None` if the turn was deleted.
    async fn read(&self, turn: EndedTurn) -> Result<Option<(TurnTrace, Option<String>)>, Delay> {
        let spans = self.source.turns(turn.session_id).await?;
        let Some(span) = spans.iter().find(|span| span.ended == Some(turn.seq)) else { return Ok(None) };
        let events = self.events(turn.session_id, span.began.saturating_sub(1), turn.seq).await?;
        let Some(mut tree) = turns(&events).into_iter().find(|tree| tree.turn_id == turn.turn_id) else {
            return Ok(None);
        };
        if tree.agent == MAIN
            && let Some(session) = self.source.session(turn.session_id).await?
            && let Some(agent) = session.agents.last()
        {
            tree.agent.clone_from(agent);
        }
        let traceparent = events.iter().find_map(|event| match &event.kind {
            EventKind::TurnStarted { environment, .. } if event.turn_id == Some(turn.turn_id) => {
                environment.iter().find(|(name, _)| *name == TRACEPARENT).map(|(_, value)| value.to_owned())
            }
            _ => None,
        });
        let child_turns = |session| async move { Ok::<_, Delay>(turns(&self.events(session, 0, u64::MAX).await?)) };
        nest_all(std::slice::from_mut(&mut tree), child_turns).await?;
        Ok(Some((tree, traceparent)))
    }

    async fn events(&self, session: SessionId, after: u64, last: u64) -> Result<Vec<Event>, Delay> {
        let (mut events, mut after): (Vec<Event>, u64) = (Vec::new(), after);
        while events.len() < MAX_EVENTS && after < last {
            let page = self.source.events(session, after, PAGE).await?;
            let Some(end) = page.last().map(|event| event.seq) else { break };
            events.extend(page.into_iter().filter(|event| event.seq <= last).map(Arc::unwrap_or_clone));
            after = end;
        }
        Ok(events)
    }

    async fn send_spans(&mut self, tree: &TurnTrace, traceparent: Option<&str>) -> Result<(), Delay> {
        let context = TraceContext::of(tree, traceparent);
        if !context.is_sampled {
            return Ok(());
        }
        let spans = spans::of_turn(tree, &context, self.content);
        let mut limit = MAX_MESSAGE_BYTES;
        while let Some(remaining) = spans.get(self.sent_spans..).filter(|remaining| !remaining.is_empty()) {
            let part = &remaining[..count_fitting(remaining, limit)];
            let scope_spans = vec![otlp::ScopeSpans { scope: Some(scope()), spans: part.to_vec() }];
            let message = otlp::ExportTraces {
                resource_spans: vec![otlp::ResourceSpans { resource: Some(self.resource.clone()), scope_spans }],
            };
            let size = message.encoded_len();
            match self.collector.export(message).await {
                ExportOutcome::TooLarge(_) if part.len() > 1 => limit = limit.min(size) / 2,
                outcome => {
                    let count = part.len();
                    self.process_outcome(outcome)?;
                    self.sent_spans += count;
                }
            }
        }
        Ok(())
    }

    async fn send_measures(&mut self, tree: &TurnTrace) -> Result<(), Delay> {
        let is_delta = self.temporality == Temporality::Delta;
        let mut measures = if is_delta { Measures::default() } else { self.measures.clone() };
        measures.add(tree);
        let now = Timestamp::now();
        let metrics = measures.encode(self.since, now, self.temporality);
        let scope_metrics = vec![otlp::ScopeMetrics { scope: Some(scope()), metrics }];
        let message = otlp::ExportMetrics {
            resource_metrics: vec![otlp::ResourceMetrics { resource: Some(self.resource.clone()), scope_metrics }],
        };
        let outcome = self.collector.export(message).await;
        self.process_outcome(outcome)?;
        if is_delta {
            self.since = now;
        } else {
            self.measures = measures;
        }
        Ok(())
    }

    /// Processes an outcome. A message that will never be accepted is dropped, so that it does not block later
    /// messages.
    fn process_outcome(&mut self, outcome: ExportOutcome) -> Result<(), Delay> {
        let signal = self.signal.as_str();
        self.tries += 1;
        match outcome {
            ExportOutcome::Retry { reason, after, is_doubtful } if !is_doubtful || self.tries < MAX_TRIES => {
                return Err(Delay { reason, after });
            }
            ExportOutcome::Accepted { rejected: 0 } => {}
            ExportOutcome::Accepted { rejected } => {
                tracing::warn!(signal, rejected, "the collector rejected part of a turn");
            }
            ExportOutcome::Rejected(reason) | ExportOutcome::TooLarge(reason) | ExportOutcome::Retry { reason, .. } => {
                tracing::warn!(signal, "the collector rejected a turn; skipping it: {reason}");
            }
        }
        self.tries = 0;
        Ok(())
    }
}

/// Returns the number of spans for the next message: as many as fit, but at least one.
fn count_fitting(spans: &[otlp::Span], limit: usize) -> usize {
    let mut size = 0;
    let fits = |span: &&otlp::Span| {
        size += span.encoded_len();
        size <= limit
    };
    spans.iter().take(MAX_SPANS).take_while(fits).count().max(1)
}

fn scope() -> Scope {
    Scope { name: "agentd".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}
