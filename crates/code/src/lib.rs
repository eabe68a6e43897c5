//! Code of one folder: chunks at definitions, ranked search, symbols, and a map of what matters.
//!
//! [`CodeFolder`] keeps the index of a folder current and answers questions. Files are parsed by tree-sitter, whose grammars
//! are C that reads foreign text: run it where documents are read, in a confined process. Nothing here needs a network, a
//! model or a disk of its own.
//!
//! ```no_run
//! use agentd_code::{CodeFolder, FolderConfig};
//!
//! let mut code = CodeFolder::new("project".as_ref(), FolderConfig::default());
//! code.refresh();
//! for answer in code.search("how are sessions restored", 10) {
//!     println!("{}:{} {}", answer.hit.path, answer.hit.first_line, answer.text);
//! }
//! ```

mod chunk;
mod folder;
mod index;
mod language;
mod map;
mod search;
mod source;
mod symbols;
mod tags;
mod terms;
mod text;
mod walk;

pub use chunk::{Chunk, MAX_CHUNK};
pub use folder::{Answer, CodeFolder, FolderConfig, MAX_ANSWER};
pub use index::{CodeIndex, FileAnalysis, FileStamp};
pub use language::Language;
pub use map::MapFocus;
pub use search::{Hit, HitSymbol, MAX_HITS, Ranking, SearchQuery};
pub use source::{MAX_PARSE_TIME, Parser, SourceFile};
pub use symbols::{
    MAX_OUTLINE, MAX_SYMBOL_DEFINITIONS, MAX_SYMBOL_REFERENCES, OutlineEntry, SourceLine, SymbolLocations,
};
pub use tags::{Definition, MAX_DEFINITIONS, MAX_NAME, MAX_REFERENCES, Reference, ReferenceKind, SymbolKind, Tags};
pub use terms::terms;
pub use text::{MAX_BYTES, MAX_LINE, MAX_PARSED, SkipReason, decode};
pub use walk::{MAX_FILES, MAX_TOTAL_BYTES, MayRead, RefreshReport, is_secret};
