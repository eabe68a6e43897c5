//! Plans which part of the history is replaced and which part is retained. Pure.

use std::{collections::HashSet, sync::Arc};

use agentd_core::{
    context::{CompactionCause, CompactionStrategy},
    ids::CallId,
    item::{Item, ItemBody, NoticeTopic},
};

use crate::{history, meter};

/// Minimum number of messages for requesting a summary from a model.
pub const MIN_MESSAGES: usize = 15;
/// Minimum number of long messages for requesting a summary from a model. Together, the messages must have at least
/// `MIN_TOKENS` tokens.
const MIN_LONG_MESSAGES: usize = 4;
const MIN_TOKENS: u64 = 4000;
/// Number of recent messages that are retained if the window has space for them.
const RECENT_MESSAGES: usize = 10;
/// Percentage of the window that is retained.
const RECENT_PERCENT: u64 = 15;
/// Maximum percentage of the window for the last [`RECENT_MESSAGES`].
const RECENT_MAX_PERCENT: u64 = 30;
/// Windows below this size in tokens retain at most [`RECENT_PERCENT`], regardless of the number of messages. The
/// summary also uses a part of the window, so the next compaction would follow soon if more were retained.
const SMALL_WINDOW: u64 = 8192;

/// Message limit if only the window limits the history. Exceeds the number of messages that any window is likely to
/// fit, and is lower than the number of items read into memory.
const DEFAULT_MESSAGE_LIMIT: usize = 5000;

/// Percentage of the window at which the history is reduced before the next request.
pub const RELIEF_PERCENT: u64 = 85;
/// Percentage of the window to which offloading must reduce the history. Each offloading makes the server recompute
/// everything after the first offloaded result, so smaller reductions are not worthwhile.
const OFFLOADED_PERCENT: u64 = 60;

/// Returns true if the history must be reduced before a request of this size.
pub fn is_relief_due(tokens: u64, window: u64) -> bool {
    u128::from(tokens) * 100 >= u128::from(window) * u128::from(RELIEF_PERCENT)
}

/// Returns the number of tokens that offloading must free to be worthwhile.
pub fn to_offload(tokens: u64, window: u64) -> u64 {
    tokens.saturating_sub(window / 100 * OFFLOADED_PERCENT)
}

/// Returns the configured message limit, or the default.
pub fn message_limit(set: Option<usize>) -> usize {
    set.unwrap_or(DEFAULT_MESSAGE_LIMIT)
}

/// Limits for the history.
#[derive(Debug, Clone, Copy)]
pub struct HistoryBudget {
    /// Tokens of the window available to the history, excluding tools and instructions.
    pub window: u64,
    /// Maximum number of messages.
    pub max_messages: usize,
    /// True if reasoning is sent back to the model and therefore uses space.
    pub echo_reasoning: bool,
}

/// Division of the history: items before `split` are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Index of the first retained item.
    pub split: usize,
    /// Number of messages in the history before the compaction.
    pub messages: usize,
    /// True if the replaced part is large enough for a summary by a model.
    pub worth_a_model: bool,
}

/// Decides which items are replaced. Returns `None` if nothing can be replaced.
pub fn plan(items: &[Arc<Item>], cause: CompactionCause, budget: HistoryBudget) -> Option<Plan> {
    let splits = splits(items);
    let split = match cause {
        CompactionCause::Limit => by_messages(items, &splits, budget.max_messages / 2),
        // An explicit request is executed regardless of the available space.
        CompactionCause::Model | CompactionCause::Person => by_tokens(items, &splits, budget, true),
        CompactionCause::Critical | CompactionCause::Overflow => {
            // The window is full even if the estimate is lower, so at least half of the history is replaced.
            let half = tokens(items, budget) / 2 * 100 / RECENT_MAX_PERCENT;
            let split = by_tokens(items, &splits, HistoryBudget { window: budget.window.min(half), ..budget }, false);
            let is_critical = cause == CompactionCause::Critical;
            split.map(|split| if is_critical { preamble(items, &splits, split, budget) } else { split })
        }
    }?;
    let messages = count(items);
    // A summary alone is not summarised again: each time, details would be lost without freeing space.
    let replaced = &items[..split];
    let replaces_messages =
        replaced.iter().any(|item| history::counts(item) && !matches!(item.body, ItemBody::Compaction(_)));
    let has_long_ones = count(replaced) >= MIN_LONG_MESSAGES && tokens(replaced, budget) >= MIN_TOKENS;
    replaces_messages.then_some(Plan { split, messages, worth_a_model: has_long_ones || messages >= MIN_MESSAGES })
}

/// Counts the messages of a history.
pub fn count(items: &[Arc<Item>]) -> usize {
    items.iter().filter(|item| history::counts(item)).count()
}

/// Counts messages for the message limit. An answer, its calls and their results together count as one message.
pub fn count_answers(items: &[Arc<Item>]) -> usize {
    let (mut count, mut in_answer) = (0, false);
    for item in items.iter().filter(|item| history::counts(item)) {
        let is_answer = matches!(item.body, ItemBody::AgentMessage { .. } | ItemBody::ToolCall(_));
        let is_result = matches!(item.body, ItemBody::ToolResult(_));
        let continues_answer = is_result || (is_answer && in_answer);
        count += usize::from(!continues_answer);
        in_answer = is_answer;
    }
    count
}

/// Like `count_answers`, but only counts messages before the running turn.
pub fn count_before_turn(items: &[Arc<Item>]) -> usize {
    let begin = items.iter().rposition(starts_turn).unwrap_or(0);
    count_answers(&items[..begin])
}

/// Returns the estimated tokens of the items.
fn tokens(items: &[Arc<Item>], budget: HistoryBudget) -> u64 {
    items.iter().map(|item| meter::guess(item, budget.echo_reasoning)).sum()
}

/// Returns the valid split positions, which are never between a call and its result or within an answer.
fn splits(items: &[Arc<Item>]) -> Vec<usize> {
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut splits = Vec::new();
    for (index, item) in items.iter().enumerate() {
        // If a call has no result before the next user input, its turn was cancelled and no result will follow.
        if starts_turn(item) || is_handed_over(item) {
            open.clear();
        }
        let before = index.checked_sub(1).map(|before| &items[before]);
        let starts_answer = before.is_some_and(|before| match &item.body {
            // A notice about files that came with an input must stay with this input.
            ItemBody::UserMessage { .. } => !is_handed_over(before),
            ItemBody::Notice { .. } => true,
            // An answer starts after a result or after an input.
            ItemBody::AgentMessage { .. } | ItemBody::Reasoning { .. } | ItemBody::ToolCall(_) => {
                matches!(before.body, ItemBody::ToolResult(_) | ItemBody::UserMessage { .. } | ItemBody::Notice { .. })
            }
            ItemBody::ToolResult(_) | ItemBody::Compaction(_) => false,
        });
        if starts_answer && open.is_empty() {
            splits.push(index);
        }
        match &item.body {
            ItemBody::ToolCall(call) => drop(open.insert(&call.call_id)),
            ItemBody::ToolResult(result) => drop(open.remove(&result.call_id)),
            _ => {}
        }
    }
    // If no call is running, everything may be replaced, because the summary contains the user's requests.
    if open.is_empty() && !items.is_empty() {
        splits.push(items.len());
    }
    splits
}

/// Returns the earliest split at the start of a turn after which at most `limit` messages are retained. Never splits
/// the running turn.
fn by_messages(items: &[Arc<Item>], splits: &[usize], limit: usize) -> Option<usize> {
    let turn = turn_start(items, items.iter().rposition(starts_turn)?);
    let begins_turn = |at: usize| {
        let input = items.get(at).filter(|item| is_handed_over(item)).map_or(at, |_| at + 1);
        items.get(input).is_some_and(starts_turn)
    };
    let turn_starts = splits.iter().copied().filter(|split| begins_turn(*split));
    let fits = |split: &usize| count_answers(&items[*split..turn.max(*split)]) <= limit;
    turn_starts.take_while(|split| *split <= turn).find(fits)
}

/// Returns the earliest split after which the remaining items fit into a percentage of the window, or are only the last
/// messages if these are small. If `asked`, retains only the last messages.
fn by_tokens(items: &[Arc<Item>], splits: &[usize], budget: HistoryBudget, asked: bool) -> Option<usize> {
    let part = |percent: u64| budget.window / 100 * percent;
    let fits = |split: &usize| {
        let rest = &items[*split..];
        let tokens = tokens(rest, budget);
        let few = count(rest) <= RECENT_MESSAGES;
        let limit = if budget.window < SMALL_WINDOW { RECENT_PERCENT } else { RECENT_MAX_PERCENT };
        (tokens <= part(RECENT_PERCENT) && (few || !asked)) || (few && tokens <= part(limit))
    };
    if fits(&0) {
        return None;
    }
    // The retained part shrinks with each later split, so the first split that fits retains the most.
    let first = splits.partition_point(|split| !fits(split));
    splits.get(first).copied()
}

/// Returns the split before the newest input if the part from there on fits, so that the latest input is not summarised
/// while other items can be.
fn preamble(items: &[Arc<Item>], splits: &[usize], split: usize, budget: HistoryBudget) -> usize {
    let Some(begin) = items.iter().rposition(starts_turn).map(|input| turn_start(items, input)) else { return split };
    let rest = &items[begin..];
    let fits = count(rest) <= RECENT_MESSAGES && tokens(rest, budget) <= budget.window / 100 * RECENT_MAX_PERCENT;
    if split > begin && fits && splits.contains(&begin) { begin } else { split }
}

/// Returns the start of the turn with this input, including the notice about the input's files.
fn turn_start(items: &[Arc<Item>], input: usize) -> usize {
    if input > 0 && is_handed_over(&items[input - 1]) { input - 1 } else { input }
}

/// Returns true if the item announces files of the following input.
fn is_handed_over(item: &Arc<Item>) -> bool {
    matches!(item.body, ItemBody::Notice { topic: NoticeTopic::Files, .. })
}

/// Returns true if the item is the input that starts a turn.
fn starts_turn(item: &Arc<Item>) -> bool {
    matches!(item.body, ItemBody::UserMessage { steered: false, .. })
}

/// Cause and strategy of a compaction that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionRequest {
    /// Reason for the compaction.
    pub cause: CompactionCause,
    /// Strategy for shortening the history.
    pub strategy: CompactionStrategy,
}

/// Returns the message limit of a history. If the user undid a compaction in order to see all messages, the limit
/// leaves room for half of `max_messages` beyond the messages that were visible then.
pub fn limit(max_messages: usize, visible: u64) -> usize {
    match usize::try_from(visible).unwrap_or(usize::MAX) {
        0 => max_messages,
        visible => visible.saturating_add(max_messages / 2).max(max_messages),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::samples::{call, handed_over, result, says, user};

    const BUDGET: HistoryBudget = HistoryBudget { window: 1000, max_messages: 40, echo_reasoning: false };

    /// Creates turns with the given number of calls and tokens per result.
    fn session(turns: &[(u8, usize)]) -> Vec<Arc<Item>> {
        let mut items = Vec::new();
        for (turn, (calls, tokens)) in turns.iter().enumerate() {
            items.push(user(&format!("turn {turn}")));
            for n in 0..*calls {
                let id = format!("{turn}_{n}");
                items.push(call(&id, "grep"));
                items.push(result(&id, "grep", &"word".repeat(*tokens)));
            }
            items.push(says("done"));
        }
        items
    }

    #[test]
    fn attachments_stay_with_their_message() {
        for calls in [3, 25] {
            let mut items = session(&[(0, 0), (calls, 40)]);
            items.push(handed_over("uploads/a.png"));
            items.extend([user("What is it?"), says("A cat.")]);
            for cause in [CompactionCause::Limit, CompactionCause::Critical, CompactionCause::Overflow] {
                let Some(plan) = plan(&items, cause, HistoryBudget { max_messages: 20, ..BUDGET }) else { continue };
                assert!(
                    !starts_turn(items.get(plan.split).unwrap_or(&items[0])) || plan.split == 2,
                    "{cause:?} {plan:?}"
                );
                assert!(plan.split <= items.len() - 3 || plan.split == items.len(), "{cause:?} {plan:?}");
            }
            let limit = plan(&items, CompactionCause::Limit, HistoryBudget { max_messages: 10, ..BUDGET }).unwrap();
            assert!(is_handed_over(&items[limit.split]) || calls == 3, "{limit:?}");
        }
    }

    proptest! {
        #[test]
        fn calls_and_results_are_never_separated(
            turns in proptest::collection::vec((0u8..5, 0usize..200), 1..40),
            limit in proptest::bool::ANY,
        ) {
            let items = session(&turns);
            let cause = if limit { CompactionCause::Limit } else { CompactionCause::Critical };
            if let Some(plan) = plan(&items, cause, BUDGET) {
                let mut open = HashSet::new();
                for item in &items[..plan.split] {
                    match &item.body {
                        ItemBody::ToolCall(call) => drop(open.insert(call.call_id.clone())),
                        ItemBody::ToolResult(result) => drop(open.remove(&result.call_id)),
                        _ => {}
                    }
                }
                prop_assert!(open.is_empty());
                prop_assert!(plan.split > 0);
            }
        }
    }
}
