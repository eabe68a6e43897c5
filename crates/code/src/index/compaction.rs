//! Compaction: an index without the entries of removed files.

use super::{CodeIndex, Interner, Postings, REMOVED, count};

/// Fewer removed chunks are not worth the work.
const WORTH_IT: usize = 4096;

impl CodeIndex {
    /// Compacts if more than a third of the chunks are removed: searching skips them, but they take memory.
    pub(super) fn compact_if_worth_it(&mut self) {
        let removed = self.chunks.len() - self.live_chunks;
        if removed >= WORTH_IT && removed * 2 > self.live_chunks {
            self.compact();
        }
    }

    /// Gives up everything that removed files left, and memory that was taken in advance.
    pub fn compact(&mut self) {
        let mut numbers = vec![REMOVED; self.chunks.len()];
        let mut chunks = Vec::with_capacity(self.live_chunks);
        for (old, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.file != REMOVED) {
            if let Some(number) = numbers.get_mut(old) {
                *number = count(chunks.len());
            }
            chunks.push(*chunk);
        }
        let old_terms = self.compact_terms(&numbers);
        self.chunks = chunks;
        let mut names = Interner::default();
        for file in self.files.iter_mut().flatten() {
            let (first, end) = file.chunks;
            // A file's chunks are neighbours, and stay so.
            let first = numbers.get(first as usize).copied().filter(|_| first < end).unwrap_or(0);
            file.chunks = (first, first + (end - file.chunks.0));
            let name_terms = file.name_terms.iter().filter_map(|term| self.terms.get(old_terms.text(*term)));
            file.name_terms = name_terms.collect();
            for definition in &mut file.definitions {
                definition.name = names.intern(self.names.text(definition.name));
            }
            for (name, _) in &mut file.uses {
                *name = names.intern(self.names.text(*name));
            }
            file.uses.sort_unstable();
        }
        self.names = names;
    }

    /// Drops terms that no chunk has any more, and returns those that there were.
    fn compact_terms(&mut self, numbers: &[u32]) -> Interner {
        let mut terms = Interner::default();
        let mut kept = Vec::new();
        for (term, postings) in self.postings.iter().enumerate() {
            let mut live = Postings::default();
            let mut is_used = false;
            postings.for_each(&mut |chunk, weight| {
                if let Some(number) = numbers.get(chunk as usize).filter(|number| **number != REMOVED) {
                    live.push(*number, weight);
                    is_used = true;
                }
            });
            if is_used {
                live.shrink();
                terms.intern(self.terms.text(count(term)));
                kept.push(live);
            }
        }
        self.postings = kept;
        std::mem::replace(&mut self.terms, terms)
    }
}

impl CodeIndex {
    /// Gives back memory that was taken in advance while many files were added.
    pub(crate) fn shrink(&mut self) {
        self.postings.iter_mut().for_each(Postings::shrink);
        self.postings.shrink_to_fit();
        self.chunks.shrink_to_fit();
    }
}
