//! Nests the turns of subagents in the trees of the turns that spawned them.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use agentd_core::{Timestamp, ids::SessionId};

use crate::{
    arena::clamp,
    span::{Span, SpanKind, SubagentSpan, TurnTrace},
};

/// Maximum number of subagent sessions that one call to [`nest_all`] reads.
const MAX_SESSIONS: usize = 500;

/// Maximum number and maximum depth of nested turns, because a damaged journal could contain a cycle.
const MAX_TURNS: usize = 2000;
const MAX_DEPTH: usize = 8;

/// Returns the subagent sessions that worked for these turns.
pub fn subagent_sessions(turns: &[TurnTrace]) -> BTreeSet<SessionId> {
    turns.iter().flat_map(TurnTrace::walk).filter_map(subagent).map(|subagent| subagent.session_id).collect()
}

/// Nests the turns of all sessions that worked for `trees`, directly or indirectly. `read` loads the turns of a
/// session.
///
/// # Errors
/// Returns an error if a session cannot be read.
pub async fn nest_all<E, F>(trees: &mut [TurnTrace], read: impl Fn(SessionId) -> F) -> Result<(), E>
where
    F: Future<Output = Result<Vec<TurnTrace>, E>>,
{
    let mut known = BTreeMap::new();
    let mut pending = subagent_sessions(trees);
    while let Some(session) = pending.pop_first() {
        if known.len() < MAX_SESSIONS && !known.contains_key(&session) {
            let turns = read(session).await?;
            pending.extend(subagent_sessions(&turns));
            known.insert(session, turns);
        }
    }
    nest(trees, &known);
    Ok(())
}

/// Nests the turns of subagent sessions in `turns`. `known` contains the turns of each such session.
pub fn nest(turns: &mut [TurnTrace], known: &BTreeMap<SessionId, Vec<TurnTrace>>) {
    nest_below(turns, known, &Cell::new(MAX_TURNS), MAX_DEPTH);
}

fn nest_below(turns: &mut [TurnTrace], known: &BTreeMap<SessionId, Vec<TurnTrace>>, quota: &Cell<usize>, depth: usize) {
    if depth == 0 {
        return;
    }
    let mut begins: BTreeMap<SessionId, BTreeSet<u64>> = BTreeMap::new();
    for work in turns.iter().flat_map(TurnTrace::walk).filter_map(subagent) {
        begins.entry(work.session_id).or_default().insert(work.after);
    }
    // A later turn may have resumed the session and may be missing in `turns`. Such a turn began after the spawning
    // turn ended.
    let part = |work: &SubagentSpan, settled: Option<Timestamp>| -> Vec<TurnTrace> {
        let next =
            begins.get(&work.session_id).and_then(|all| all.range(work.after.saturating_add(1)..).next().copied());
        let is_part = |turn: &&TurnTrace| {
            let is_before_next =
                next.map_or_else(|| settled.is_none_or(|settled| turn.at <= settled), |next| turn.first_seq <= next);
            turn.first_seq > work.after && is_before_next
        };
        let all = known.get(&work.session_id).into_iter().flatten().filter(is_part);
        let mut part: Vec<TurnTrace> = all.take(quota.get()).cloned().collect();
        quota.set(quota.get() - part.len());
        part.iter_mut().for_each(|turn| turn.agent.clone_from(&work.name));
        nest_below(&mut part, known, quota, depth - 1);
        part
    };
    for turn in turns {
        let of_turn = |work: &SubagentSpan| part(work, turn.settled_at);
        turn.spans.iter_mut().for_each(|span| fill(span, &of_turn));
        clamp(turn, turn.at, turn.end);
    }
}

fn fill(span: &mut Span, part: &impl Fn(&SubagentSpan) -> Vec<TurnTrace>) {
    span.children.iter_mut().for_each(|child| fill(child, part));
    if let SpanKind::Subagent(work) = &mut span.kind {
        work.turns = part(work);
    }
    let shown = span.children.iter().filter_map(subagent).filter(|work| !work.turns.is_empty());
    let repeated: BTreeSet<SessionId> = shown.map(|work| work.session_id).collect();
    // The parent repeats the questions of its subagents. They are only shown where they were asked.
    span.children
        .retain(|child| !matches!(&child.kind, SpanKind::Interrupt(asked) if repeated.contains(&asked.session_id)));
}

fn subagent(span: &Span) -> Option<&SubagentSpan> {
    match &span.kind {
        SpanKind::Subagent(subagent) => Some(subagent),
        _ => None,
    }
}
