//! `$(…)` in words: documents and the output of commands.

use super::word::Word;

/// Commands that print a number, a time or a name of the machine: no option, no name of anything to do, and for the shell one
/// word.
const PRINT_A_WORD: &str =
    "nproc|nproc --all|git rev-parse HEAD|git rev-parse --short HEAD|date +%s|date +%F|uname -m|uname -s";

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
