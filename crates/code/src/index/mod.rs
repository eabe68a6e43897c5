//! Index of a folder's files, in memory: terms with the chunks that have them, definitions, and uses of names.
//!
//! An index of its own, because the ranking needs the sums of a file's chunks and the definitions while it scores, because
//! a file must be replaced within milliseconds, and because nothing of it is stored: a library's segments, commits and
//! merges would be in the way of all three.

pub(crate) mod analysis;
mod postings;

use std::collections::HashMap;

pub use self::analysis::FileAnalysis;
use self::postings::Postings;
pub(crate) use crate::terms::{Interner, count};
use crate::{file_kind, language::Language, tags::SymbolKind};

/// Change of a file as its folder tells it: if neither differs, the file is not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStamp {
    /// Time of the last change, in nanoseconds since 1970.
    pub modified: u128,
    /// Size in bytes.
    pub size: u64,
}

/// Definition in the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedDefinition {
    /// Number of its name.
    pub(crate) name: u32,
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    pub(crate) depth: u16,
    pub(crate) kind: SymbolKind,
}

/// File in the index.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFile {
    pub(crate) path: Box<str>,
    pub(crate) stamp: FileStamp,
    pub(crate) language: Option<Language>,
    pub(crate) lines: u32,
    /// Factor on scores by the kind of file.
    pub(crate) weight: f32,
    /// Numbers of the terms of its name.
    pub(crate) name_terms: Box<[u32]>,
    pub(crate) definitions: Box<[IndexedDefinition]>,
    /// Names that the file uses, sorted by number, and how often.
    pub(crate) uses: Box<[(u32, u16)]>,
    /// Numbers of its chunks, first and end.
    pub(crate) chunks: (u32, u32),
}

/// Chunk in the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedChunk {
    /// Slot of its file, [`REMOVED`] if that is gone.
    pub(crate) file: u32,
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    /// Index of its symbol in the definitions of the file, [`NO_SYMBOL`] without one.
    pub(crate) symbol: u32,
    /// Sum of the weights of its terms.
    pub(crate) length: u32,
    /// Set if most of it is in a module of tests beside the code.
    pub(crate) is_test: bool,
}

/// File of a chunk that is removed.
pub(crate) const REMOVED: u32 = u32::MAX;
/// Symbol of a chunk without one.
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
    lines: u64,
}

/// Fewer removed chunks are not worth compacting.
const WORTH_IT: usize = 4096;

impl CodeIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, in place of the one with the same path.
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
        let tests = analysis.test_modules();
        for chunk in &analysis.chunks {
            let number = count(self.chunks.len());
            let mut length = 0;
            for (term, weight) in &chunk.counts {
                length += weight;
                let postings = terms.get(*term as usize).and_then(|term| self.postings.get_mut(*term as usize));
                if let Some(postings) = postings {
                    postings.push(number, *weight);
                }
            }
            self.total_length += u64::from(length);
            let symbol = chunk.symbol.map_or(NO_SYMBOL, count);
            let (first_line, last_line) = (chunk.first_line, chunk.last_line);
            let is_test = tests.iter().any(|(first, last)| {
                let within = (last_line.min(*last) + 1).saturating_sub(first_line.max(*first));
                within * 2 > last_line - first_line
            });
            self.chunks.push(IndexedChunk { file: slot, first_line, last_line, symbol, length, is_test });
        }
        self.live_chunks += analysis.chunks.len();
        self.lines += u64::from(analysis.lines);
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
        let weight = file_kind::weight(&analysis.path);
        let path: Box<str> = analysis.path.into();
        self.by_path.insert(path.clone(), slot);
        let file = IndexedFile {
            path,
            stamp,
            language: analysis.language,
            lines: analysis.lines,
            weight,
            name_terms,
            definitions,
            uses: uses.into(),
            chunks: (first, count(self.chunks.len())),
        };
        if let Some(place) = self.files.get_mut(slot as usize) {
            *place = Some(file);
        }
    }

    /// Removes a file with all its entries, and tells whether it was there.
    pub fn remove(&mut self, path: &str) -> bool {
        let Some(slot) = self.by_path.remove(path) else { return false };
        let Some(file) = self.files.get_mut(slot as usize).and_then(Option::take) else { return false };
        self.free_slots.push(slot);
        self.lines -= u64::from(file.lines);
        let (first, end) = file.chunks;
        for chunk in self.chunks.get_mut(first as usize..end as usize).unwrap_or_default() {
            chunk.file = REMOVED;
            self.total_length -= u64::from(chunk.length);
            self.live_chunks -= 1;
        }
        self.compact_if_worth_it();
        true
    }

    /// Stamp of a file, if the index has it.
    pub fn stamp(&self, path: &str) -> Option<FileStamp> {
        self.file_of(path).map(|file| file.stamp)
    }

    /// Paths of all files, in no order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.live_files().map(|(_, file)| &*file.path)
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.by_path.len()
    }

    /// Number of chunks.
    pub fn chunk_count(&self) -> usize {
        self.live_chunks
    }

    /// Number of lines of all files.
    pub fn line_count(&self) -> u64 {
        self.lines
    }

    /// Number of different terms, including those of files that were removed lately.
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    pub(crate) fn file_of(&self, path: &str) -> Option<&IndexedFile> {
        self.file(*self.by_path.get(path)?)
    }

    pub(crate) fn file(&self, slot: u32) -> Option<&IndexedFile> {
        self.files.get(slot as usize)?.as_ref()
    }

    pub(crate) fn live_files(&self) -> impl Iterator<Item = (u32, &IndexedFile)> {
        self.files.iter().enumerate().filter_map(|(slot, file)| Some((count(slot), file.as_ref()?)))
    }

    /// Number of slots of files, of which some may be free.
    pub(crate) fn slots(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn chunk(&self, number: u32) -> Option<&IndexedChunk> {
        self.chunks.get(number as usize)
    }

    /// Number of a term, if any file has it.
    pub(crate) fn term(&self, term: &str) -> Option<u32> {
        self.terms.get(term)
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

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

    /// Gives back memory that was taken in advance while many files were added.
    pub(crate) fn shrink(&mut self) {
        self.postings.iter_mut().for_each(Postings::shrink);
        self.postings.shrink_to_fit();
        self.chunks.shrink_to_fit();
    }
}

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
