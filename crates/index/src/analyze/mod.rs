//! Tokenization of documents and queries; pure.
//!
//! Documents and queries use the same functions, so equal spellings yield equal terms:
//!
//! - [`normal`]: compatibility normalisation (`ｆｕｌｌ　ｗｉｄｔｈ`, `ﬁ`) with a mapping back to the original text, and runs in
//!   one script.
//! - [`exact`](mod@exact): words as written, with the parts of `camelCase`, and character pairs for scripts without
//!   spaces. Positions allow searches for exact phrases.
//! - [`language`]: language detection by function words, and stop words.
//! - [`words`](mod@words): stems, words from the Chinese dictionary, and character pairs for other scripts without
//!   spaces. Chunks are ranked by these terms.

pub mod exact;
pub mod language;
pub mod normal;
pub mod words;

pub use exact::{Form, Token, exact};
pub use language::Language;
pub use words::{Dictionary, stem, stems, words};

/// Version of the tokenization. Increment it when a text yields different terms than before: an index with another
/// version is rebuilt.
pub const ANALYSIS_VERSION: u32 = 3;
