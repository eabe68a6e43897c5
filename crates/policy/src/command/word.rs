//! Parses the parts of a word that a shell expands: here documents and command output in `$(…)`, and other expansions
//! after a `$`.

use std::{iter::Peekable, str::Chars};

/// One word of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Word {
    /// Text of the word without quotes and escapes. Expansions are included as written.
    pub(crate) text: String,
    /// Text of the word as written.
    pub(crate) raw: String,
    /// True if the word contains variables, command output or a home folder, so that its value is unknown before the
    /// command runs.
    pub(crate) varies: bool,
    /// True if the word contains a glob, which is replaced by file names.
    pub(crate) globs: bool,
    /// True if the word contains `{a,b}`, which may expand to several words.
    pub(crate) braces: bool,
    /// True if any part of the word was quoted or escaped.
    pub(crate) quoted: bool,
    /// Commands whose output becomes part of the word.
    pub(crate) inner: Vec<String>,
}

impl Word {
    /// Creates a word from known text.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { raw: quoted(&text), text, ..Self::default() }
    }

    /// Appends unknown text to the word.
    pub(crate) fn and_more(self) -> Self {
        Self { text: self.text + "$", varies: true, ..self }
    }

    /// Returns true if the value of the word is known before the command runs, except for the names that a glob
    /// matches.
    pub(crate) fn is_static(&self) -> bool {
        !self.varies && !self.braces
    }

    /// Returns true if the word means exactly its text, without any expansion.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_static() && !self.globs
    }

    /// Returns the text after the last slash, or an empty string if the word is not plain.
    pub(crate) fn file_name(&self) -> &str {
        if self.is_plain() { self.text.rsplit('/').next().unwrap_or_default() } else { "" }
    }
}

/// Returns true for characters that have no special meaning to the shell.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+' | b'=' | b'-')
}

/// Returns the text, in single quotes if necessary.
pub(super) fn quoted(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands that print a number, a time or a host name. Their output is a single word for the shell, and is never an
/// option or the name of an action.
const PRINT_A_WORD: &str =
    "nproc|nproc --all|git rev-parse HEAD|git rev-parse --short HEAD|date +%s|date +%F|uname -m|uname -s";

/// Appends the text or the output of a `$(…)` to a word, and returns the length of the `$(…)` without the `$`. Returns
/// `None` if the end is uncertain, or if `outputs` is false and the text is not a here document.
pub(super) fn append_substitution(word: &mut Word, rest: &str, in_quotes: bool, outputs: bool) -> Option<usize> {
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
    // The output of these commands is as harmless as an exit status.
    word.text.push_str(if is_known { "0" } else { "$?" });
    word.inner.push(command.to_owned());
    Some(command.len() + 2)
}

/// Parses `cat <<'EOF'`, followed only by lines of text, the delimiter and the closing bracket.
fn document(inside: &str) -> Option<(&str, usize)> {
    let (head, body) = inside.strip_prefix("cat <<")?.split_once('\n')?;
    let quoted = head.trim_start_matches(' ').strip_prefix('\'').and_then(|head| head.strip_suffix('\''));
    let end = quoted.unwrap_or(head);
    if end.is_empty() || !end.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    // Some shells end a here document at any line that starts with the delimiter.
    let begins = |line: &&str| line.trim_start_matches([' ', '\t']).starts_with(end);
    let length: usize = body.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
    let (text, last) = body.split_at(length);
    let after = last.strip_prefix(end)?.strip_prefix('\n')?.trim_start_matches([' ', '\t', '\n']).strip_prefix(')')?;
    let is_literal = quoted.is_some() || !text.contains(['$', '`', '\\']);
    is_literal.then(|| (text.trim_end_matches('\n'), inside.len() - after.len()))
}

/// Meaning of a `$`, determined by the text after it.
pub(super) enum Dollar {
    /// A literal `$` character.
    Sign,
    /// A variable with the length of its name in bytes.
    Variable(usize),
    /// A command substitution `$(…)`.
    Command,
    /// Text in double quotes that is translated (`$"…"`).
    Translated,
    /// Text with escapes (`$'…'`), and its length in bytes. `text` is `None` if the end is missing or an escape is
    /// invalid.
    Escaped { text: Option<String>, length: usize },
    /// Anything else, with the reason.
    Unclear(&'static str),
}

/// Classifies the text after a `$`.
pub(super) fn dollar(rest: &str, in_quotes: bool) -> Dollar {
    let mut chars = rest.chars();
    match chars.next() {
        None | Some(' ' | '\t' | '\n') => Dollar::Sign,
        Some('"') if in_quotes => Dollar::Sign,
        Some('"') => Dollar::Translated,
        Some('\'') if !in_quotes => escaped(&rest[1..]),
        Some('(') if chars.next() == Some('(') => Dollar::Unclear("arithmetic can run commands"),
        Some('(') => Dollar::Command,
        Some('[') => Dollar::Unclear("arithmetic can run commands"),
        Some('\\') if chars.next() == Some('\n') => Dollar::Unclear("it has a newline after a `$`"),
        Some('$') if chars.next() == Some('{') => Dollar::Unclear("it has `$${`"),
        Some('{') => parameter(&rest[1..]),
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            Dollar::Variable(rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count())
        }
        Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => Dollar::Variable(1),
        // A literal `$` in bash, which may become an expansion if more text is appended.
        Some(_) => Dollar::Variable(0),
    }
}

/// Parses `${name}`, with a default or with a part removed. Other forms may assign or run commands.
fn parameter(rest: &str) -> Dollar {
    const UNCLEAR: Dollar = Dollar::Unclear("a parameter expansion may run commands or assign");
    let Some(end) = rest.find(['}', '$', '`', '\'', '"', '\\', '{', '(', ')', '[', '=', '@', '!', '\n', '#', '~'])
    else {
        return UNCLEAR;
    };
    let name = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let after = &rest[name.min(end)..end];
    let is_harmless = after.is_empty()
        || after.starts_with(['%', '/', '-', '+'])
        || [":-", ":+"].iter().any(|sign| after.starts_with(sign));
    if rest[end..].starts_with('}') && name > 0 && is_harmless { Dollar::Variable(end + 2) } else { UNCLEAR }
}

/// Returns the text of `$'…'`, starting after its first quote.
fn escaped(rest: &str) -> Dollar {
    let mut escapes = false;
    let end = rest.char_indices().find(|(_, c)| {
        let ends = *c == '\'' && !escapes;
        escapes = *c == '\\' && !escapes;
        ends
    });
    match end {
        Some((end, _)) => Dollar::Escaped { text: ansi_c(&rest[..end]), length: end + 2 },
        None => Dollar::Escaped { text: None, length: rest.len() + 1 },
    }
}

/// Decodes the text of `$'…'`. Returns `None` for a NUL, which would end the word in bash, and for an unknown escape.
fn ansi_c(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'e' | 'E' => out.push('\x1b'),
            'f' => out.push('\x0c'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\x0b'),
            c @ ('\\' | '\'' | '"' | '?') => out.push(c),
            c @ '0'..='7' => out.push(digits(&mut chars, 8, 3, c.to_digit(8)).filter(char::is_ascii)?),
            'x' => out.push(digits(&mut chars, 16, 2, None).filter(char::is_ascii)?),
            'u' => out.push(digits(&mut chars, 16, 4, None)?),
            'U' => out.push(digits(&mut chars, 16, 8, None)?),
            _ => return None,
        }
    }
    Some(out)
}

/// Returns the character for the number in an escape. Returns `None` if there are no digits or the character is NUL.
fn digits(chars: &mut Peekable<Chars<'_>>, base: u32, max_digits: usize, first: Option<u32>) -> Option<char> {
    let (mut value, mut count) = (first.unwrap_or(0), usize::from(first.is_some()));
    while count < max_digits
        && let Some(digit) = chars.peek().and_then(|c| c.to_digit(base))
    {
        value = value.checked_mul(base)?.checked_add(digit)?;
        count += 1;
        chars.next();
    }
    if count == 0 { None } else { char::from_u32(value).filter(|c| *c != '\0') }
}
