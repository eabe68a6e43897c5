//! What stands behind a `$`.

use std::{iter::Peekable, str::Chars};

/// Meaning of a `$` by what follows it.
pub(super) enum Dollar {
    /// Nothing: it is a letter like any other.
    Sign,
    /// A variable whose name takes this many bytes.
    Variable(usize),
    /// A command.
    Command,
    /// Text in double quotes that is translated.
    Translated,
    /// Text with escapes, and how many bytes it takes. None where its end or one of its escapes cannot be told.
    Escaped { text: Option<String>, length: usize },
    /// Anything else.
    Unclear(&'static str),
}

/// Reads what stands behind a `$`.
pub(super) fn read(rest: &str, in_quotes: bool) -> Dollar {
    let mut chars = rest.chars();
    match chars.next() {
        None | Some(' ' | '\t' | '\n') => Dollar::Sign,
        Some('"') if in_quotes => Dollar::Sign,
        Some('"') => Dollar::Translated,
        Some('\'') if !in_quotes => escaped(&rest[1..]),
        Some('(') if chars.next() == Some('(') => Dollar::Unclear("arithmetic can run commands"),
        Some('(') => Dollar::Command,
        Some('[') => Dollar::Unclear("arithmetic can run commands"),
        Some('\\') if chars.next() == Some('\n') => Dollar::Unclear("it has a line end after a `$`"),
        Some('$') if chars.next() == Some('{') => Dollar::Unclear("it holds `$${`"),
        Some('{') => parameter(&rest[1..]),
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            Dollar::Variable(rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count())
        }
        Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => Dollar::Variable(1),
        // A letter for bash, which may mean something else once more is put in.
        Some(_) => Dollar::Variable(0),
    }
}

/// `${name}`, with a default or without a part of it. What else can stand there may assign, or run commands.
fn parameter(rest: &str) -> Dollar {
    const UNCLEAR: Dollar = Dollar::Unclear("a variable's expansion may run commands or assign");
    let Some(end) = rest.find(['}', '$', '`', '\'', '"', '\\', '{', '(', ')', '[', '=', '@', '!', '\n', '#', '~'])
    else {
        return UNCLEAR;
    };
    let name = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let behind = &rest[name.min(end)..end];
    let mild = behind.is_empty()
        || behind.starts_with(['%', '/', '-', '+'])
        || [":-", ":+"].iter().any(|sign| behind.starts_with(sign));
    if rest[end..].starts_with('}') && name > 0 && mild { Dollar::Variable(end + 2) } else { UNCLEAR }
}

/// The text of `$'…'`, from behind its first quote.
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

/// The text of `$'…'`. None where it holds a NUL, at which bash would end the word.
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

/// The letter of a number in an escape. None where it has no digits, or is NUL.
fn digits(chars: &mut Peekable<Chars<'_>>, base: u32, most: usize, first: Option<u32>) -> Option<char> {
    let (mut value, mut seen) = (first.unwrap_or(0), usize::from(first.is_some()));
    while seen < most
        && let Some(digit) = chars.peek().and_then(|c| c.to_digit(base))
    {
        value = value.checked_mul(base)?.checked_add(digit)?;
        seen += 1;
        chars.next();
    }
    if seen == 0 { None } else { char::from_u32(value).filter(|c| *c != '\0') }
}
