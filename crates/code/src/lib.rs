//! Code search in one folder: chunks at definitions, ranked search, symbols, and a map of the important definitions.
//!
//! [`CodeFolder`] keeps the index of a folder up to date and answers questions. Files are parsed with tree-sitter,
//! whose grammars are C code that processes untrusted text. Run the parsers in a sandboxed process, like the document
//! readers. The crate needs no network, model or storage.
//!
//! ```no_run
//! use agentd_code::{CodeFolder, FolderConfig};
//!
//! let mut code = CodeFolder::new("project".as_ref(), FolderConfig::new(|path| !path.ends_with(".env")));
//! code.refresh();
//! for hit in code.search("how are sessions restored", "", 10) {
//!     println!("{}:{} {}", hit.path, hit.first_line, hit.text);
//! }
//! ```

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
mod worker;

pub use agentd_core::code::SkipReason;
pub use folder::{CodeFolder, FolderConfig};
pub use index::{CodeIndex, FileAnalysis, FileStamp};
pub use language::Language;
pub use search::{Hit, MAX_HITS, SearchQuery};
pub use source::{Chunk, MAX_CHUNK, MAX_PARSE_TIME, Parser, SourceFile};
pub use symbols::{MAX_OUTLINE, MAX_SYMBOL_DEFINITIONS, MAX_SYMBOL_REFERENCES};
pub use tags::{Definition, MAX_DEFINITIONS, MAX_NAME, MAX_REFERENCES, Tags};
pub use terms::terms;
pub use text::{MAX_ANSWER, MAX_BYTES, MAX_LINE, MAX_PARSED, decode};
pub use walk::{MAX_FILES, MAX_TOTAL_BYTES, MayRead, OuterRules, RefreshReport, RefreshStep};
pub use worker::{CodePool, PoolConfig, WORKER_ARGUMENT, run_worker};
