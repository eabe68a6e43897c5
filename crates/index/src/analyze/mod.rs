//! Text as the terms by which it is found; pure.
//!
//! What is indexed and what is asked for go the same way, so whatever is written alike is found alike:
//!
//! - [`normal`]: compatibility forms become plain ones (`ｆｕｌｌ　ｗｉｄｔｈ`, `ﬁ`), and every piece remembers where it came from;
//!   where words end, and where scripts without spaces begin.
//! - [`exact`](mod@exact): every word as it is written, parts of `camelCase` beside the whole, and scripts without spaces as pairs of
//!   letters; with positions, so that phrases are found to the letter.
//! - [`language`]: the language of a text, told by its smallest words; words that say nothing about what a text is about.
//! - [`words`](mod@words): words by their stems, Chinese words of a dictionary, pairs of letters of other scripts without spaces; by these chunks are
//!   ranked.

pub mod exact;
pub mod language;
pub mod normal;
pub mod words;

pub use exact::{Form, Token, exact};
pub use language::Language;
pub use words::{Dictionary, stem, stems, words};

/// Counts up whenever the same text gives other terms than before: an index made by another version is made anew.
pub const ANALYSIS_VERSION: u32 = 3;
