//! What a word means once its quotes are gone, and `$(…)` in words: documents and the output of commands.

/// A word of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Word {
    /// The word without quotes and escapes. What will be expanded stands as it is written.
    pub(crate) text: String,
    /// The word as it is written.
    pub(crate) raw: String,
    /// It holds variables, the output of a command or a home folder: nobody knows it beforehand.
    pub(crate) varies: bool,
    /// File names are put in its place.
    pub(crate) globs: bool,
    /// It holds `{a,b}`: it may become several words.
    pub(crate) braces: bool,
    /// Some of it was quoted or escaped.
    pub(crate) quoted: bool,
    /// Commands whose output is put into it.
    pub(crate) inner: Vec<String>,
}

impl Word {
    /// A word that is known already.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { raw: quoted(&text), text, ..Self::default() }
    }

    /// The same word with something behind it that nobody knows.
    pub(crate) fn and_more(self) -> Self {
        Self { text: self.text + "$", varies: true, ..self }
    }

    /// Returns whether it is known before it runs, up to the file names that a glob stands for.
    pub(crate) fn is_static(&self) -> bool {
        !self.varies && !self.braces
    }

    /// Returns whether it is just what it says: nothing is put in its place.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_static() && !self.globs
    }

    /// The text after the last slash, where the word is known.
    pub(crate) fn file_name(&self) -> &str {
        if self.is_plain() { self.text.rsplit('/').next().unwrap_or_default() } else { "" }
    }
}

/// Letters that mean nothing to the shell.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+' | b'=' | b'-')
}

/// Text in single quotes, where it needs any.
pub(super) fn quoted(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

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
