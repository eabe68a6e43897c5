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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::samples::{call, item, result, user};

    fn history(results: &[usize]) -> Vec<Arc<Item>> {
        let mut items = vec![user("Look")];
        for (n, count) in results.iter().enumerate() {
            let id = format!("c{n}");
            items.extend([call(&id, "grep"), result(&id, "grep", &format!("[{n}] {}", "word ".repeat(*count)))]);
        }
        items
    }

    fn moved(history: &[Arc<Item>], chosen: &[Arc<Item>]) -> Vec<Arc<Item>> {
        let offloaded =
            chosen.iter().map(|item| OffloadedResult { item: item.id, path: "/large_tool_results/c.txt".to_owned() });
        let compaction = Compaction { offloaded: offloaded.collect(), ..Compaction::default() };
        let mut history = [history, &[item(ItemBody::Compaction(compaction))]].concat();
        apply(&mut history);
        history
    }

    fn texts(history: &[Arc<Item>]) -> Vec<String> {
        let text = |item: &'_ Arc<Item>| match &item.body {
            ItemBody::ToolResult(result) => Some(result.text.clone()),
            _ => None,
        };
        history.iter().filter_map(text).collect()
    }

    #[test]
    fn large_old_results_are_offloaded_first() {
        let before = history(&[1000, 10, 4000, 1000]);
        let chosen = results(&before, TurnId::generate(), 5500).unwrap();
        let after = moved(&before, &chosen);
        let shown = texts(&after);
        assert!(
            shown[2].starts_with(MARK) && shown[2].contains("/large_tool_results/c.txt") && shown[2].contains("[2]"),
            "{shown:?}"
        );
        assert!(shown[0].starts_with(MARK) && !shown[1].starts_with(MARK) && !shown[3].starts_with(MARK), "{shown:?}");
        let mut repeated = after.clone();
        apply(&mut repeated);
        assert_eq!(texts(&repeated), shown, "applying it twice changes nothing");
        assert_eq!(last(&after).map(|(_, compaction)| compaction.offloaded.len()), Some(2));
    }

    #[test]
    fn offload_is_skipped_if_insufficient_or_in_running_turn() {
        let before = history(&[1000, 1000]);
        assert_eq!(results(&before, TurnId::generate(), 50_000), None);
        assert_eq!(results(&before, before[2].turn_id, 1200), None);
        assert_eq!(results(&history(&[10; 20]), TurnId::generate(), 1), None);
    }
}
