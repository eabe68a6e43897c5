//! Lines with commands in brackets and in words, unfolded where everybody reads them alike. Of a line that holds anything else
//! nothing comes.

use super::{
    Line, Part, Stdin,
    lexer::{LexerOutput, Token, lex_folded},
    line::{check_text, has_keywords, pipelines},
    read,
};

/// Maximum length of a line that is unfolded, in bytes: longer ones are judged as they stand.
const MAX_BYTES: usize = 16 << 10;

/// The pipelines of a line, with those in brackets and, in front of them, those whose output is put into words.
pub(crate) fn unfolded(text: &str) -> Option<Vec<Vec<Part>>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    check_text(text).ok()?;
    let LexerOutput { tokens, doubt: None } = lex_folded(text) else { return None };
    // What one command of a group leaves the next one reads.
    let reads = |token: &Token| match token {
        Token::Redirect(_, name) => name.contains('<'),
        token => matches!(token, Token::Document(_)),
    };
    if has_keywords(&tokens) || tokens.iter().any(reads) {
        return None;
    }
    let outer = pipelines(&tokens).ok()?;
    let inner: Option<Vec<_>> = outer.iter().flatten().map(inner).collect();
    Some(inner?.into_iter().flatten().chain(outer).collect())
}

/// The pipelines whose output a part has in its words. They read what the part reads.
fn inner(part: &Part) -> Option<Vec<Vec<Part>>> {
    let values = part.assigns.iter().map(|assign| &assign.value);
    let words = part.words.iter().chain(values).chain(part.redirects.iter().map(|redirect| &redirect.target));
    let mut found = Vec::new();
    for text in words.flat_map(|word| &word.inner) {
        let Line::Plain(pipelines) = read(text) else { return None };
        found.extend(pipelines);
    }
    let inherits = |found: &&mut Part| found.stdin == Stdin::Inherited;
    found.iter_mut().flatten().filter(inherits).for_each(|found| found.stdin = part.stdin);
    Some(found)
}
