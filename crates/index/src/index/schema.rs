//! The fields, and the terms that go into them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tantivy::{
    schema::{FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{PreTokenizedStream, PreTokenizedString, TextAnalyzer, Token, Tokenizer, TokenizerManager},
};

use crate::analyze::{self, Dictionary};

/// Counts up whenever the fields change: an index with other fields is made anew.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The ordinal that stands for the entry of a document, which is no chunk.
pub(crate) const ENTRY_ORDINAL: u32 = u32::MAX;

/// The fields of a chunk, and of the entry of a document.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub(crate) schema: Schema,
    /// The number of the document and the ordinal of the chunk in it: [`key`].
    pub(crate) key: Field,
    /// The number of the document. Numbers are never used twice, so that what was cut off belongs to nobody.
    pub(crate) owner: Field,
    /// By which chunks are ranked.
    pub(crate) words: Field,
    /// By which phrases are found.
    pub(crate) exact: Field,
    /// The words of headings and titles.
    pub(crate) heading: Field,
    /// The chunk itself, or the entry.
    pub(crate) record: Field,
}

/// A document's number and a chunk's ordinal as one.
pub(crate) const fn key(owner: u32, ordinal: u32) -> u64 {
    ((owner as u64) << 32) | ordinal as u64
}

/// The document's number and the chunk's ordinal.
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

/// The analyzers by the names that the fields give them. `gate` hears of every chunk that was taken apart.
pub(crate) fn analyzers(dictionary: &Arc<Dictionary>, gate: &Arc<Gate>) -> TokenizerManager {
    // It has the one that the library asks for, for fields which have no text.
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
                gate.passed();
                analyze::exact(text, &mut |token| {
                    tokens.push(Token { position: token.position as usize, text: token.text, ..Token::default() });
                });
            }
        }
        PreTokenizedString { text: String::new(), tokens }.into()
    }
}

/// Chunks on their way to be taken apart. The library's own queue holds ten thousand, whatever their size.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: Mutex<usize>,
    changed: Condvar,
}

/// Maximum number of chunks on their way.
const MOST_INSIDE: usize = 256;

impl Gate {
    /// Waits until there is room for one more, and takes it. Gives up after a while, as whoever takes them apart may be gone.
    pub(crate) fn enter(&self) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            self.changed.wait_timeout_while(inside, std::time::Duration::from_secs(1), |inside| *inside >= MOST_INSIDE);
        let (mut inside, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *inside += 1;
    }

    fn passed(&self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        *inside = inside.saturating_sub(1);
        self.changed.notify_one();
    }

    /// Nothing is on its way any longer.
    pub(crate) fn clear(&self) {
        *self.inside.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }
}
