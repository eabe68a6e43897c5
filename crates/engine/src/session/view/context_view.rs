//! What fills a window, part by part, and what would be cut next: for people.

use std::sync::Arc;

use agentd_context::{
    compaction::plan,
    footprint::{self, Fingerprint},
    history,
    meter::{ContextMeter, Next},
    tokens::TokenCalibration,
    toolset::ToolSet,
};
use agentd_core::{
    context::{ContextView, Segment, SegmentKind, TokenLevel},
    item::{Item, ItemBody, NoticeSource, NoticeTopic},
    model::{Message, ModelInfo},
};

/// Ways of making room.
const RELIEF: &str =
    "old tool results are moved to files, or, where that is not enough, the older part is replaced by a summary";

/// Where the next request would come from.
pub(crate) struct ContextViewInput<'a> {
    pub(crate) model: &'a ModelInfo,
    /// The tokens that request and answer may have together.
    pub(crate) window: u64,
    pub(crate) instructions: &'a str,
    pub(crate) tools: &'a ToolSet,
    pub(crate) history: &'a [Arc<Item>],
    pub(crate) scales: &'a TokenCalibration,
    /// The last count; none while a turn is open, which counts for itself.
    pub(crate) meter: Option<&'a ContextMeter>,
    /// None where the window alone decides.
    pub(crate) max_messages: Option<usize>,
    /// The messages that were seen when a compaction was taken back; 0 where none was.
    pub(crate) held: u64,
}

/// Content of the window.
pub(crate) fn view(standing: &ContextViewInput<'_>) -> ContextView {
    let mut parts: Vec<(SegmentKind, Fingerprint, u32)> = Vec::new();
    let mut add = |kind, print, count| match parts.iter_mut().find(|(known, ..)| *known == kind) {
        Some((_, sum, total)) => {
            *sum = sum.and(print);
            *total += count;
        }
        None => parts.push((kind, print, count)),
    };
    let system = Message::System { text: standing.instructions.to_owned() };
    // The embedded model is shown neither: what it may do is decided around it.
    if !standing.model.embedded {
        add(SegmentKind::Tools, standing.tools.print, count(standing.tools.specs.len()));
        add(SegmentKind::Instructions, footprint::print(&system), 1);
    }
    let mut sources: Vec<(&str, u64)> = Vec::new();
    for source in standing.history.iter().flat_map(|item| memory_sources(item)) {
        match sources.iter_mut().find(|(name, _)| *name == source.name) {
            Some((_, bytes)) => *bytes += source.bytes,
            None => sources.push((&source.name, source.bytes)),
        }
    }
    for message in &history::messages(standing.history, standing.model.echo_reasoning) {
        add(history::kind(message), footprint::print(message), 1);
    }
    // What the server counted last is the truth; the parts share it as the guess has them.
    let guess = parts.iter().map(|(_, print, _)| print.tokens).sum::<u64>().max(1);
    let expected = match standing.meter {
        Some(meter) => {
            let next = Next { model: standing.model, tools: standing.tools.print };
            meter.expected(standing.scales, next, || guess)
        }
        None => standing.scales.apply(&standing.model.id, guess),
    };
    let scale = |tokens: u64| {
        let part = u128::from(tokens) * u128::from(expected) / u128::from(guess);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let mut segments: Vec<Segment> = parts
        .into_iter()
        .map(|(kind, print, count)| Segment {
            kind,
            source: String::new(),
            bytes: print.bytes,
            tokens: scale(print.tokens),
            count,
        })
        .flat_map(
            |segment| if segment.kind == SegmentKind::Memory { by_source(segment, &sources) } else { vec![segment] },
        )
        .collect();
    // What was lost by rounding belongs to the largest part, so that the parts make the whole.
    let rest = expected.saturating_sub(segments.iter().map(|segment| segment.tokens).sum());
    if let Some(largest) = segments.iter_mut().max_by_key(|segment| segment.tokens) {
        largest.tokens += rest;
    }
    let tokens = expected;
    let window = standing.window;
    let messages = plan::count_answers(standing.history);
    ContextView {
        model: standing.model.id.clone(),
        window,
        tokens,
        level: TokenLevel::of(tokens, window),
        segments,
        messages: count(messages),
        max_messages: standing.max_messages.map_or(0, count),
        next_cuts: next_cuts(standing, tokens, messages),
        imported: false,
    }
}

/// The files whose words an item tells, where it tells memory.
fn memory_sources(item: &Item) -> &[NoticeSource] {
    match &item.body {
        ItemBody::Notice { topic: NoticeTopic::Memory | NoticeTopic::FolderMemory, sources, .. } => sources,
        _ => &[],
    }
}

/// A segment, file by file; what stands around them is left as it is.
fn by_source(mut whole: Segment, sources: &[(&str, u64)]) -> Vec<Segment> {
    let (tokens, bytes) = (whole.tokens, whole.bytes.max(1));
    let mut parts = Vec::new();
    for (name, size) in sources {
        let size = (*size).min(whole.bytes);
        let part = tokens.saturating_mul(size) / bytes;
        whole.bytes -= size;
        whole.tokens -= part.min(whole.tokens);
        parts.push(Segment { source: (*name).to_owned(), bytes: size, tokens: part, ..whole.clone() });
    }
    parts.push(whole);
    parts
}

fn next_cuts(standing: &ContextViewInput<'_>, tokens: u64, messages: usize) -> Vec<String> {
    let window = standing.window;
    let relief = if standing.held == 0 { window / 100 * plan::RELIEF_PERCENT } else { window };
    let left = relief.saturating_sub(tokens);
    let mut cuts = Vec::new();
    if let Some(most) = standing.max_messages {
        let limit = plan::limit(most, standing.held);
        // However many a history may have that was fetched back: what is left then is half of what others may have, so
        // that it is not due again with the next message.
        let rest = most / 2;
        cuts.push(if messages > limit {
            format!("At the next turn the oldest turns are set aside, down to {rest} messages.")
        } else {
            let more = limit - messages;
            format!("After {more} more messages the oldest turns are set aside, down to {rest} messages.")
        });
    }
    if left == 0 {
        cuts.push(format!("Before the next call {RELIEF}."));
    } else {
        cuts.push(format!("After about {left} more tokens {RELIEF}."));
    }
    cuts
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
