//! PageRank: importance of files by who uses them.

use super::graph::Graph;
use crate::index::count;

/// Share of the rank that goes along the edges.
const DAMPING: f32 = 0.85;
/// Rounds; ranks differ little after them.
const ROUNDS: usize = 10;

/// Rank of each slot; all together 1.
pub(super) fn page_rank(graph: &Graph<'_>) -> Vec<f32> {
    let slots = graph.edges.len();
    // Rank begins everywhere, and less in tests.
    let mut start: Vec<f32> = (0..count(slots)).map(|slot| graph.file_weight(slot)).collect();
    let sum: f32 = start.iter().sum();
    start.iter_mut().for_each(|start| *start /= sum.max(f32::MIN_POSITIVE));
    let mut ranks = start.clone();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0_f32; slots];
        let mut passed = 0.0;
        for ((rank, edges), total) in ranks.iter().zip(&graph.edges).zip(&graph.totals) {
            let factor = DAMPING * rank / total;
            for edge in edges {
                if let Some(place) = next.get_mut(edge.to as usize) {
                    let share = factor * edge.weight;
                    *place += share;
                    passed += share;
                }
            }
        }
        // What is not passed on goes back to where all begins.
        let back = 1.0 - passed;
        for (place, start) in next.iter_mut().zip(&start) {
            *place += back * start;
        }
        ranks = next;
    }
    ranks
}
