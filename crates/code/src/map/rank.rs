//! PageRank: importance of files by who uses them, seen from the files in focus.

use std::collections::HashSet;

use super::graph::Graph;
use crate::index::count;

/// Share of the rank that goes along the edges.
const DAMPING: f32 = 0.85;
/// Rounds; ranks differ little after the first ten.
const ROUNDS: usize = 20;

/// Rank of each slot; all together 1.
pub(super) fn page_rank(graph: &Graph<'_>, focus: &HashSet<u32>) -> Vec<f32> {
    let slots = graph.edges.len();
    let is_start = |slot: u32| graph.is_file(slot) && (focus.is_empty() || focus.contains(&slot));
    let starts = (0..count(slots)).filter(|slot| is_start(*slot)).count().max(1) as f32;
    let start: Vec<f32> = (0..count(slots)).map(|slot| if is_start(slot) { 1.0 / starts } else { 0.0 }).collect();
    let mut ranks = start.clone();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0_f32; slots];
        let mut lost = 0.0;
        for ((rank, edges), total) in ranks.iter().zip(&graph.edges).zip(&graph.totals) {
            if *total <= 0.0 {
                lost += rank;
                continue;
            }
            for (to, weight) in edges {
                if let Some(place) = next.get_mut(*to as usize) {
                    *place += DAMPING * rank * weight / total;
                }
            }
        }
        // What has no edges gives its rank back to where all begins.
        let back = 1.0 - DAMPING + DAMPING * lost;
        for (place, start) in next.iter_mut().zip(&start) {
            *place += back * start;
        }
        ranks = next;
    }
    ranks
}
