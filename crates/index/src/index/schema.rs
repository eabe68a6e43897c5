//! Index fields and their tokenizers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use agentd_core::mutex::lock;
use tantivy::{
    schema::{FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{PreTokenizedStream, PreTokenizedString, TextAnalyzer, Token, Tokenizer, TokenizerManager},
};

use crate::analyze::{self, Dictionary};

/// Version of the fields. Increment it with every change: an index with another version is rebuilt.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Ordinal of a document's entry, to distinguish it from chunks.
pub(crate) const ENTRY_ORDINAL: u32 = u32::MAX;

/// Fields of chunks and entries.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub(crate) schema: Schema,
    /// Document number and chunk ordinal, see [`key`].
    pub(crate) key: Field,
    /// Document number. Numbers are never reused, so that chunks of an interrupted document never belong to another
    /// document.
    pub(crate) owner: Field,
    /// Stemmed terms, for ranking.
    pub(crate) words: Field,
    /// Exact terms with positions, for phrases.
    pub(crate) exact: Field,
    /// Terms of headings and titles.
    pub(crate) heading: Field,
    /// Serialised chunk or entry.
    pub(crate) record: Field,
}

/// Combines a document number and a chunk ordinal.
pub(crate) const fn key(owner: u32, ordinal: u32) -> u64 {
    ((owner as u64) << 32) | ordinal as u64
}

/// Splits a key into document number and chunk ordinal.
pub(crate) const fn split_key(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

impl Fields {
    pub(crate) fn new() -> Self {
        let text = |tokenizer: &str, option| {
            let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_index_option(option);
            TextOptions::default().set_indexing_options(indexing)
        };
        let mut schema = Schema::builder();
        Self {
            key: schema.add_u64_field("key", INDEXED | FAST),
            owner: schema.add_u64_field("owner", INDEXED),
            words: schema.add_text_field("words", text("words", IndexRecordOption::WithFreqs)),
            exact: schema.add_text_field("exact", text("exact", IndexRecordOption::WithFreqsAndPositions)),
            heading: schema.add_text_field("heading", text("heading", IndexRecordOption::WithFreqs)),
            record: schema.add_bytes_field("record", STORED),
            schema: schema.build(),
        }
    }
}

/// Registers the tokenizers under the names that the fields use. `gate` is notified of every tokenized chunk.
pub(crate) fn analyzers(dictionary: &Arc<Dictionary>, gate: &Arc<Gate>) -> TokenizerManager {
    // Includes the library's default tokenizer, which the library requests for fields without text.
    let manager = TokenizerManager::default();
    let words = Analyzer::Words(Arc::clone(dictionary));
    manager.register("words", TextAnalyzer::from(words.clone()));
    manager.register("heading", TextAnalyzer::from(words));
    manager.register("exact", TextAnalyzer::from(Analyzer::Exact(Arc::clone(gate))));
    manager
}

#[derive(Clone)]
enum Analyzer {
    Words(Arc<Dictionary>),
    Exact(Arc<Gate>),
}

impl Tokenizer for Analyzer {
    type TokenStream<'a> = PreTokenizedStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> PreTokenizedStream {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        match self {
            Self::Words(dictionary) => analyze::words(text, dictionary, &mut |text| {
                tokens.push(Token { position: tokens.len(), text, ..Token::default() });
            }),
            Self::Exact(gate) => {
                gate.leave();
                analyze::exact(text, &mut |token| {
                    tokens.push(Token { position: token.position as usize, text: token.text, ..Token::default() });
                });
            }
        }
        PreTokenizedString { text: String::new(), tokens }.into()
    }
}

/// Limits the number of chunks that wait for tokenization. The library's own queue admits ten thousand chunks,
/// regardless of their size.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    waiting: Mutex<usize>,
    changed: Condvar,
}

/// Maximum number of waiting chunks.
const MAX_WAITING: usize = 256;

impl Gate {
    /// Waits for a free slot and reserves it. Proceeds after one second in any case, since the library's thread may
    /// have died.
    pub(crate) fn enter(&self) {
        let waiting = lock(&self.waiting);
        let waited = self
            .changed
            .wait_timeout_while(waiting, std::time::Duration::from_secs(1), |waiting| *waiting >= MAX_WAITING);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *waiting += 1;
    }

    fn leave(&self) {
        let mut waiting = lock(&self.waiting);
        *waiting = waiting.saturating_sub(1);
        self.changed.notify_one();
    }

    /// Resets the count once no chunks are waiting.
    pub(crate) fn clear(&self) {
        *lock(&self.waiting) = 0;
    }
}
