//! Offloading: moves old call results to files before anything is summarised. A line with the name of the file replaces
//! each moved result. Pure.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    context::{Compaction, OffloadedResult},
    ids::{ItemId, TurnId},
    item::{Item, ItemBody},
    tool::ToolResult,
};

use crate::{text::grouped, tokens::estimate};

/// Minimum size of an offloaded result, in tokens.
const MIN_TOKENS: u64 = 150;
/// Length of the start of a result that stays visible, in characters.
const EXCERPT: usize = 160;
/// Start of the line that replaces a result.
const MARK: &str = "[Moved to a file to make room:";

/// Selects results to free about `needed` tokens, large and old results first, excluding the running turn. Returns
/// `None` if all results together do not free enough.
pub fn results(history: &[Arc<Item>], running: TurnId, needed: u64) -> Option<Vec<Arc<Item>>> {
    let earlier = history.iter().enumerate().filter(|(_, item)| item.turn_id != running);
    let results = earlier.filter_map(|(index, item)| match &item.body {
        ItemBody::ToolResult(result) if !is_moved(result) => Some((index, estimate(&result.text), item)),
        _ => None,
    });
    let mut candidates: Vec<_> = results.filter(|(_, tokens, _)| *tokens >= MIN_TOKENS).collect();
    let all = history.len() as u64;
    candidates.sort_by_key(|(index, tokens, _)| std::cmp::Reverse(tokens.saturating_mul(all - *index as u64)));
    let (mut freed, mut chosen) = (0, Vec::new());
    for (index, tokens, item) in candidates {
        if freed >= needed {
            break;
        }
        freed += tokens - MIN_TOKENS / 2;
        chosen.push((index, Arc::clone(item)));
    }
    chosen.sort_by_key(|(index, _)| *index);
    (freed >= needed && !chosen.is_empty()).then(|| chosen.into_iter().map(|(_, item)| item).collect())
}

/// Replaces the results that were offloaded by compactions in a history.
pub fn apply(history: &mut [Arc<Item>]) {
    let undone: Vec<ItemId> = compactions(history).filter_map(|(_, compaction)| compaction.restores).collect();
    let offloaded = compactions(history).filter(|(id, _)| !undone.contains(id)).flat_map(|(_, found)| &found.offloaded);
    let moved: HashMap<ItemId, String> =
        offloaded.map(|OffloadedResult { item, path }| (*item, path.clone())).collect();
    if moved.is_empty() {
        return;
    }
    for item in history {
        let (Some(path), ItemBody::ToolResult(result)) = (moved.get(&item.id), &item.body) else { continue };
        if !is_moved(result) {
            let text = line(&result.text, path);
            let body = ItemBody::ToolResult(ToolResult { text, ..result.clone() });
            *item = Arc::new(Item { body, ..Item::clone(item) });
        }
    }
}

/// Returns the last compaction that offloaded results and was not undone.
pub fn last(history: &[Arc<Item>]) -> Option<(ItemId, &Compaction)> {
    let undone: Vec<ItemId> = compactions(history).filter_map(|(_, compaction)| compaction.restores).collect();
    compactions(history).filter(|(id, compaction)| !compaction.offloaded.is_empty() && !undone.contains(id)).last()
}

fn compactions(history: &[Arc<Item>]) -> impl Iterator<Item = (ItemId, &Compaction)> {
    history.iter().filter_map(|item| match &item.body {
        ItemBody::Compaction(compaction) => Some((item.id, compaction)),
        _ => None,
    })
}

fn is_moved(result: &ToolResult) -> bool {
    result.text.starts_with(MARK)
}

fn line(text: &str, path: &str) -> String {
    let bytes = grouped(text.len());
    let first: String = text.chars().take(EXCERPT).collect();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{MARK} {bytes} bytes, all of them in {path}; read or grep that file if you need them. It begins: {first}]")
}
