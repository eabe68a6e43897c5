//! A second reading of a command, by bash's own rules for quotes, comments, substitutions and here-documents. The
//! parser's tokens are held against it: where both do not end each word at the same place, one of them would see a
//! command where the other sees a comment or a text, and nobody can tell what bash will run.
//!
//! - `reader`: the second reading. What is written in a way that versions of bash, or people, read differently is
//!   refused by it.
//! - `documents`: the texts behind `<<`.

mod documents;
mod reader;

use brush_parser::Token;

use self::reader::Reader;
use super::parse::Unclear;

const DIFFERENT: Unclear = "it can be read in more than one way";

/// A word or an operator of the second reading.
#[derive(Debug, Default)]
struct Lexeme {
    /// The text as it is written, without comments and joined lines.
    text: String,
    is_operator: bool,
    /// It holds a substitution, of which the parser keeps not every blank.
    nests: bool,
}

/// Whether both readings end everything at the same place.
pub(super) fn script(text: &str, tokens: &[Token]) -> Result<(), Unclear> {
    let lexemes = Reader::new(text).script()?;
    let same = |token: &Token, lexeme: &Lexeme| match token {
        Token::Word(word, _) => !lexeme.is_operator && equals(word, &lexeme.text, lexeme.nests),
        Token::Operator(operator, _) => lexeme.is_operator && *operator == lexeme.text,
    };
    let agrees =
        tokens.len() == lexemes.len() && tokens.iter().zip(&lexemes).all(|(token, lexeme)| same(token, lexeme));
    if agrees { Ok(()) } else { Err(DIFFERENT) }
}

/// Whether the parser found all scripts of a word, and no others.
pub(super) fn word(raw: &str, scripts: &[String]) -> Result<(), Unclear> {
    let found = Reader::new(raw).word_alone()?;
    let agrees = found.len() == scripts.len() && found.iter().zip(scripts).all(|(one, other)| equals(one, other, true));
    if agrees { Ok(()) } else { Err(DIFFERENT) }
}

fn equals(one: &str, other: &str, nests: bool) -> bool {
    let inked = |text: &str| text.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n')).collect::<Vec<u8>>();
    one == other || nests && inked(one) == inked(other)
}
