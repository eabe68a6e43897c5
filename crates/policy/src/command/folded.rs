//! Lines with commands in brackets and in words, unfolded where everybody reads them alike. Of a line that holds anything else
//! nothing comes.

use super::{
    Line, Part, Stdin,
    lexer::{LexerOutput, Token, lex_folded},
    line::{check_text, has_keywords, pipelines},
    read,
    word::Word,
};

/// Commands that print a number, a time or a name of the machine: no option, no name of anything to do, and for the shell one
/// word.
const PRINT_A_WORD: &str =
    "nproc|nproc --all|git rev-parse HEAD|git rev-parse --short HEAD|date +%s|date +%F|uname -m|uname -s";

/// Maximum length of a line that is unfolded, in bytes: longer ones are judged as they stand.
const MAX_BYTES: usize = 16 << 10;

/// Appends the text or the output of a `$(…)` to a word, and returns the length of it without the `$`. Returns `None` if its
/// end is not certain, and for an output unless `outputs` are wanted.
pub(super) fn put(word: &mut Word, rest: &str, in_quotes: bool, outputs: bool) -> Option<usize> {
    let inside = rest.strip_prefix('(')?;
    if let Some((text, length)) = in_quotes.then(|| document(inside)).flatten() {
        word.text.push_str(text);
        return Some(length + 1);
    }
    let (command, _) = inside.split_once(')').filter(|_| outputs)?;
    if command.contains(['(', '$', '`', '\\', '#', '<', '{', '\n', '!']) {
        return None;
    }
    let is_known = PRINT_A_WORD.split('|').any(|known| known == command.trim());
    word.varies |= !is_known;
    // To print the output of a command is as harmless as to print its exit code.
    word.text.push_str(if is_known { "0" } else { "$?" });
    word.inner.push(command.to_owned());
    Some(command.len() + 2)
}

/// `cat <<'EOF'`, with nothing behind it but lines of text, their end and the bracket.
fn document(inside: &str) -> Option<(&str, usize)> {
    let (head, body) = inside.strip_prefix("cat <<")?.split_once('\n')?;
    let quoted = head.trim_start_matches(' ').strip_prefix('\'').and_then(|head| head.strip_suffix('\''));
    let end = quoted.unwrap_or(head);
    if end.is_empty() || !end.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    // Some shells end a document at a line that only begins with its end.
    let begins = |line: &&str| line.trim_start_matches([' ', '\t']).starts_with(end);
    let length: usize = body.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
    let (text, last) = body.split_at(length);
    let behind = last.strip_prefix(end)?.strip_prefix('\n')?.trim_start_matches([' ', '\t', '\n']).strip_prefix(')')?;
    let is_literal = quoted.is_some() || !text.contains(['$', '`', '\\']);
    is_literal.then(|| (text.trim_end_matches('\n'), inside.len() - behind.len()))
}

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
