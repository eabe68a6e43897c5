//! In-memory index of the files in a folder: terms with the chunks that contain them, definitions, and uses of names.
//!
//! A search library does not fit for three reasons: the ranking needs sums over a file's chunks and the definitions
//! during scoring, a file must be replaced within milliseconds, and nothing is stored on disk, so segments, commits and
//! merges would only add cost.

pub(crate) mod analysis;

use std::collections::HashMap;

use crate::{
    language::Language,
    source::ChunkSpan,
    tags::{Definition, SymbolKind},
    text,
};

pub use self::analysis::FileAnalysis;
pub(crate) use crate::terms::{Interner, count};

/// Metadata used to detect changes of a file. A file with an equal stamp is not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStamp {
    /// Modification time in nanoseconds since 1970.
    pub modified: u128,
    /// Size of the file in bytes.
    pub size: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedDefinition {
    /// Number of the definition's name in the interner.
    pub(crate) name: u32,
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    pub(crate) depth: u16,
    pub(crate) kind: SymbolKind,
}

#[derive(Debug, Clone)]
pub(crate) struct IndexedFile {
    pub(crate) path: Box<str>,
    pub(crate) stamp: FileStamp,
    pub(crate) language: Option<Language>,
    /// Factor for the file's scores, by the kind of file.
    pub(crate) weight: f32,
    /// Numbers of the terms in the file name.
    pub(crate) name_terms: Box<[u32]>,
    pub(crate) definitions: Box<[IndexedDefinition]>,
    /// Names that the file uses and their counts, sorted by number.
    pub(crate) uses: Box<[(u32, u16)]>,
    /// Range of the file's chunk numbers, excluding the end.
    pub(crate) chunks: (u32, u32),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedChunk {
    /// Slot of the chunk's file, or [`NO_FILE`].
    pub(crate) file: u32,
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    /// Index of the chunk's symbol in the file's definitions, or [`NO_SYMBOL`].
    pub(crate) symbol: u32,
    /// Sum of the weights of the chunk's terms.
    pub(crate) length: u32,
    /// True if most of the chunk is in a test module.
    pub(crate) is_test: bool,
    /// Digest of the chunk's text, as answers show it.
    pub(crate) digest: u64,
}

/// Value of [`IndexedChunk::file`] for a removed chunk.
pub(crate) const NO_FILE: u32 = u32::MAX;
/// Value of [`IndexedChunk::symbol`] for a chunk without a symbol.
pub(crate) const NO_SYMBOL: u32 = u32::MAX;

/// Searchable index of source files.
#[derive(Debug, Clone, Default)]
pub struct CodeIndex {
    terms: Interner,
    postings: Vec<Postings>,
    names: Interner,
    files: Vec<Option<IndexedFile>>,
    free_slots: Vec<u32>,
    by_path: HashMap<Box<str>, u32>,
    chunks: Vec<IndexedChunk>,
    live_chunks: usize,
    total_length: u64,
}

/// Minimum number of removed chunks that triggers a compaction.
const MIN_COMPACTION: usize = 4096;

impl CodeIndex {
    /// Adds a file, replacing a file with the same path.
    pub fn insert(&mut self, analysis: FileAnalysis, stamp: FileStamp) {
        self.remove(&analysis.path);
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.files.push(None);
            count(self.files.len() - 1)
        });
        let numbers = 0..count(analysis.terms.len());
        let terms: Vec<u32> = numbers.map(|number| self.terms.intern(analysis.terms.text(number))).collect();
        self.postings.resize_with(self.terms.len(), Postings::default);
        let first = count(self.chunks.len());
        // Test modules, used to mark their chunks.
        let is_tests = |it: &&Definition| it.kind == SymbolKind::Module && matches!(it.name.as_str(), "tests" | "test");
        let tests: Vec<&Definition> = analysis.definitions.iter().filter(is_tests).collect();
        for (ChunkSpan { first_line, last_line, symbol }, digest, counts) in &analysis.chunks {
            let number = count(self.chunks.len());
            let mut length = 0;
            for (term, weight) in counts {
                length += weight;
                let postings = terms.get(*term as usize).and_then(|term| self.postings.get_mut(*term as usize));
                if let Some(postings) = postings {
                    postings.push(number, *weight);
                }
            }
            self.total_length += u64::from(length);
            let (first_line, last_line, symbol) = (*first_line, *last_line, symbol.map_or(NO_SYMBOL, count));
            let is_test = tests.iter().any(|test| {
                let within = (last_line.min(test.last_line) + 1).saturating_sub(first_line.max(test.first_line));
                within * 2 > last_line - first_line
            });
            let digest = *digest;
            self.chunks.push(IndexedChunk { file: slot, first_line, last_line, symbol, length, is_test, digest });
        }
        self.live_chunks += analysis.chunks.len();
        let names = &mut self.names;
        let definitions = analysis.definitions.iter().map(|definition| IndexedDefinition {
            name: names.intern(&definition.name),
            first_line: definition.first_line,
            last_line: definition.last_line,
            depth: u16::try_from(definition.depth).unwrap_or(u16::MAX),
            kind: definition.kind,
        });
        let definitions = definitions.collect();
        let mut uses: Vec<(u32, u16)> =
            analysis.uses.iter().map(|(name, count)| (names.intern(name), *count)).collect();
        uses.sort_unstable();
        let name_terms = analysis.name_terms.iter().filter_map(|term| self.terms.get(term)).collect();
        let weight = text::weight(&analysis.path);
        let path: Box<str> = analysis.path.into();
        self.by_path.insert(path.clone(), slot);
        let (language, chunks) = (analysis.language, (first, count(self.chunks.len())));
        let uses = uses.into();
        let file = IndexedFile { path, stamp, language, weight, name_terms, definitions, uses, chunks };
        if let Some(place) = self.files.get_mut(slot as usize) {
            *place = Some(file);
        }
    }

    /// Removes a file. Returns false if it was not indexed.
    pub fn remove(&mut self, path: &str) -> bool {
        let Some(slot) = self.by_path.remove(path) else { return false };
        let Some(file) = self.files.get_mut(slot as usize).and_then(Option::take) else { return false };
        self.free_slots.push(slot);
        let (first, end) = file.chunks;
        for chunk in self.chunks.get_mut(first as usize..end as usize).unwrap_or_default() {
            chunk.file = NO_FILE;
            self.total_length -= u64::from(chunk.length);
            self.live_chunks -= 1;
        }
        // Removed chunks are skipped by searches but still use memory.
        let removed = self.chunks.len() - self.live_chunks;
        if removed >= MIN_COMPACTION && removed * 2 > self.live_chunks {
            self.compact();
        }
        true
    }

    /// Returns the stamp of an indexed file.
    pub fn stamp(&self, path: &str) -> Option<FileStamp> {
        Some(self.file(*self.by_path.get(path)?)?.stamp)
    }

    /// Iterates over the paths of all files, in no particular order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.live_files().map(|(_, file)| &*file.path)
    }

    pub(crate) fn file(&self, slot: u32) -> Option<&IndexedFile> {
        self.files.get(slot as usize)?.as_ref()
    }

    pub(crate) fn live_files(&self) -> impl Iterator<Item = (u32, &IndexedFile)> {
        self.files.iter().enumerate().filter_map(|(slot, file)| Some((count(slot), file.as_ref()?)))
    }

    /// Returns the number of file slots, including free ones.
    pub(crate) fn slots(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn chunk(&self, number: u32) -> Option<&IndexedChunk> {
        self.chunks.get(number as usize)
    }

    /// Iterates over the chunks, including those of removed files, each with its number.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u32, &IndexedChunk)> {
        (0..).zip(&self.chunks)
    }

    /// Returns the number of a term, or `None` if it occurs in no file.
    pub(crate) fn term(&self, term: &str) -> Option<u32> {
        self.terms.get(term)
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

    /// Removes all data of removed files, and frees reserved memory.
    pub fn compact(&mut self) {
        let mut numbers = vec![NO_FILE; self.chunks.len()];
        let mut chunks = Vec::with_capacity(self.live_chunks);
        for (old, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.file != NO_FILE) {
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
            // The chunks of a file stay consecutive.
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

    /// Drops terms that no longer occur in any chunk. Returns the previous terms.
    fn compact_terms(&mut self, numbers: &[u32]) -> Interner {
        let mut terms = Interner::default();
        let mut remaining = Vec::new();
        for (term, postings) in self.postings.iter().enumerate() {
            let mut live = Postings::default();
            let mut is_used = false;
            postings.for_each(&mut |chunk, weight| {
                if let Some(number) = numbers.get(chunk as usize).filter(|number| **number != NO_FILE) {
                    live.push(*number, weight);
                    is_used = true;
                }
            });
            if is_used {
                live.shrink();
                terms.intern(self.terms.text(count(term)));
                remaining.push(live);
            }
        }
        self.postings = remaining;
        std::mem::replace(&mut self.terms, terms)
    }

    /// Frees memory that was reserved while many files were added.
    pub(crate) fn shrink(&mut self) {
        self.postings.iter_mut().for_each(Postings::shrink);
        self.postings.shrink_to_fit();
        self.chunks.shrink_to_fit();
    }
}

/// BM25 parameter for the saturation of repeated terms.
const K1: f32 = 2.0;
/// BM25 parameter for the length normalisation.
const B: f32 = 0.75;

#[derive(Debug, Default)]
pub(crate) struct Scores {
    pub(crate) by_chunk: Vec<f32>,
    /// Sorted numbers of the chunks that contain any of the terms.
    pub(crate) touched: Vec<u32>,
}

impl CodeIndex {
    /// Scores chunks by weighted terms.
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
                if let Some(chunk) = self.chunk(number).filter(|chunk| chunk.file != NO_FILE) {
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

/// Chunks that contain a term, in ascending order, each with the term's weight. Stored as variable-length differences
/// and weights, which takes two bytes per entry for frequent terms.
#[derive(Debug, Default, Clone)]
pub(crate) struct Postings {
    bytes: Vec<u8>,
    last: u32,
}

impl Postings {
    /// Adds a chunk whose number is larger than all previous ones.
    pub(crate) fn push(&mut self, chunk: u32, weight: u32) {
        // Most weights are small and take one byte.
        write(&mut self.bytes, chunk.wrapping_sub(self.last));
        write(&mut self.bytes, weight);
        self.last = chunk;
    }

    /// Calls `visit` with each chunk and its weight.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u32, u32)) {
        let mut bytes = self.bytes.iter().copied();
        let mut chunk = 0_u32;
        while let Some(distance) = read(&mut bytes) {
            let Some(weight) = read(&mut bytes) else { return };
            chunk = chunk.wrapping_add(distance);
            visit(chunk, weight);
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let byte = bytes.next()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn postings_round_trip(entries in proptest::collection::btree_map(0..u32::MAX, 1..u32::MAX, 0..50)) {
            let mut postings = Postings::default();
            for (chunk, weight) in &entries {
                postings.push(*chunk, *weight);
            }
            let mut back = Vec::new();
            postings.for_each(&mut |chunk, weight| back.push((chunk, weight)));
            proptest::prop_assert_eq!(back, entries.into_iter().collect::<Vec<_>>());
        }
    }
}
