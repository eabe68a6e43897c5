//! File analysis: extracts all data that the index needs from a file. Any thread can run the analysis; only
//! [`insert`](crate::CodeIndex::insert) needs the index.

use std::collections::HashMap;

use agentd_core::embedding::digest;
use hashbrown::DefaultHashBuilder;

use crate::{
    language::Language,
    source::{ChunkSpan, SourceFile},
    tags::{Definition, SymbolKind},
    terms::{Interner, Stems, TermCounts, TermTable},
    text::{MAX_ANSWER, MAX_LINE, start_of},
};

/// Weight of a name at its definition, added to its weight as a word.
const DEFINITION_WEIGHT: u32 = 2;
/// Weight of a symbol's name in a chunk from the middle of the symbol.
const CONTINUATION_WEIGHT: u32 = 1;
const FILE_NAME_WEIGHT: u32 = 2;
const FOLDER_WEIGHT: u32 = 1;

/// Terms and symbols of a file, ready for the index.
#[derive(Debug)]
pub struct FileAnalysis {
    pub(crate) path: String,
    pub(crate) language: Option<Language>,
    pub(crate) definitions: Vec<Definition>,
    pub(crate) uses: Vec<(Box<str>, u16)>,
    pub(crate) terms: Interner,
    /// Terms of the file name.
    pub(crate) name_terms: Vec<String>,
    /// Lines and symbol of each chunk, with the digest of its text and its terms.
    pub(crate) chunks: Vec<(ChunkSpan, u64, TermCounts)>,
}

/// Generic file names, which are replaced by the folder name.
const EMPTY_NAMES: [&str; 5] = ["__init__", "index", "lib", "main", "mod"];

/// Analyses a parsed file.
pub(crate) fn analyse(source: SourceFile<'_>, stems: &mut Stems) -> FileAnalysis {
    let mut table = TermTable::default();
    let path = source.path;
    let mut chunks = Vec::with_capacity(source.spans.len());
    {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        let mut next = 0;
        let definitions = &source.tags.definitions;
        for (chunk, span) in source.chunks().zip(&source.spans) {
            if chunk.text.len() > MAX_LINE {
                for line in chunk.text.split_inclusive('\n') {
                    table.add(start_of(line, MAX_LINE), 1, stems);
                }
            } else {
                table.add(chunk.text, 1, stems);
            }
            let own = next;
            while let Some(definition) = definitions.get(next).filter(|it| it.first_line <= chunk.last_line) {
                table.add(&definition.name, DEFINITION_WEIGHT, stems);
                next += 1;
            }
            if let Some(symbol) = chunk.symbol.filter(|_| own == next) {
                table.add(&symbol.name, CONTINUATION_WEIGHT, stems);
            }
            table.add(stem, FILE_NAME_WEIGHT, stems);
            table.add(folders, FOLDER_WEIGHT, stems);
            chunks.push((*span, digest(start_of(chunk.text, MAX_ANSWER)), table.finish_chunk()));
        }
    }
    let (terms, uses, name_terms) = (table.terms, uses(&source), name_terms(path, stems));
    let (path, language, definitions) = (path.to_owned(), source.language, source.tags.definitions);
    FileAnalysis { path, language, definitions, uses, terms, name_terms, chunks }
}

/// Returns the terms of a file name without its extension.
fn name_terms(path: &str, stems: &mut Stems) -> Vec<String> {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_empty = EMPTY_NAMES.contains(&stem);
    let stem = if is_empty { parts.find(|folder| *folder != "src").unwrap_or(stem) } else { stem };
    let mut found = Vec::new();
    stems.terms(stem, &mut |term| {
        if !found.iter().any(|known| known == term) {
            found.push(term.to_owned());
        }
    });
    found
}

/// Counts the names that a file uses. Includes the names that the file defines, as they show which file a name belongs
/// to.
fn uses(source: &SourceFile<'_>) -> Vec<(Box<str>, u16)> {
    let mut counts: HashMap<&str, u16, DefaultHashBuilder> = HashMap::default();
    for reference in &source.tags.references {
        let name = source.text.get(reference.clone()).unwrap_or_default();
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }
    for block in source.tags.definitions.iter().filter(|definition| definition.kind == SymbolKind::Impl) {
        let count = counts.entry(&block.name).or_default();
        *count = count.saturating_add(1);
    }
    counts.into_iter().map(|(name, count)| (name.into(), count)).collect()
}
