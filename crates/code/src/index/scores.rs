//! BM25: scores of chunks by the terms that they have.

use super::{CodeIndex, REMOVED};

/// Saturation of repeated terms.
const K1: f32 = 2.0;
/// Share of the length in the score.
const B: f32 = 0.75;

/// Scores of all chunks.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    /// Score of each chunk by its number.
    pub(crate) by_chunk: Vec<f32>,
    /// Numbers of the chunks that have any of the terms, sorted.
    pub(crate) touched: Vec<u32>,
}

impl CodeIndex {
    /// Scores chunks by terms, each with a weight.
    pub(crate) fn scores(&self, terms: &[(String, f32)]) -> Scores {
        let mut by_chunk = vec![0.0_f32; self.chunks.len()];
        let mut touched = Vec::new();
        let mut live = Vec::new();
        let average = self.total_length as f32 / self.live_chunks.max(1) as f32;
        for (term, weight) in terms {
            let postings = self.terms.get(term).and_then(|term| self.postings.get(term as usize));
            let Some(postings) = postings else { continue };
            live.clear();
            postings.for_each(&mut |number, count| {
                if let Some(chunk) = self.chunk(number).filter(|chunk| chunk.file != REMOVED) {
                    live.push((number, count, chunk.length));
                }
            });
            let (all, with) = (self.live_chunks as f32, live.len() as f32);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (number, count, length) in &live {
                let count = *count as f32;
                let length = *length as f32 / average.max(1.0);
                let score = rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
                if let Some(place) = by_chunk.get_mut(*number as usize) {
                    if *place == 0.0 {
                        touched.push(*number);
                    }
                    *place += weight * score;
                }
            }
        }
        touched.sort_unstable();
        Scores { by_chunk, touched }
    }
}
