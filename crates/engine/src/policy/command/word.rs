//! What a word means once its quotes are gone.

use std::{iter::Peekable, str::Chars};

use brush_parser::{
    ast,
    word::{Parameter, ParameterExpr, SpecialParameter, WordPiece, WordPieceWithSource},
};

use super::{
    crosscheck,
    parse::{self, Unclear},
};

/// A word of a command.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Word {
    /// The word without quotes and escapes. What will be expanded stands as it is written.
    pub(in crate::policy) text: String,
    /// The word as it is written.
    pub(in crate::policy) raw: String,
    /// It holds variables, arithmetic or a home folder: nobody knows it beforehand.
    pub(in crate::policy) varies: bool,
    /// It holds the output of a command, which is a part of its own.
    pub(in crate::policy) substitutes: bool,
    /// File names are put in its place.
    pub(in crate::policy) globs: bool,
    /// It holds `{a,b}`: it may become several words.
    pub(in crate::policy) braces: bool,
    /// Some of it was quoted or escaped.
    pub(in crate::policy) quoted: bool,
    /// The scripts inside it.
    pub(in crate::policy) scripts: Vec<String>,
    /// A `[` stood in it, which a `]` would make a glob.
    pub(in crate::policy) bracket: bool,
    /// Why it could not be read in full.
    pub(in crate::policy) unclear: Option<Unclear>,
}

impl Word {
    /// Reads a word as it is written.
    pub(super) fn read(raw: &str) -> Self {
        let mut word = Self { raw: raw.to_owned(), ..Self::default() };
        if raw.bytes().all(is_plain) {
            raw.clone_into(&mut word.text);
            return word;
        }
        match parse::pieces(raw) {
            Ok(pieces) => {
                for piece in pieces {
                    word.take(piece, raw, false);
                }
            }
            Err(why) => {
                raw.clone_into(&mut word.text);
                word.unclear = Some(why);
            }
        }
        if word.unclear.is_none() && raw.contains(['$', '`']) {
            word.unclear = crosscheck::word(raw, &word.scripts).err();
        }
        word.braces = word.braces && raw.contains([',', '.']);
        word
    }

    /// A word that is known already.
    pub(super) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { raw: super::shown::quoted(&text), text, ..Self::default() }
    }

    /// A word that a program puts together while it runs.
    pub(super) fn unknown(raw: impl Into<String>) -> Self {
        let raw = raw.into();
        Self { text: raw.clone(), raw, varies: true, ..Self::default() }
    }

    /// Whether it is known before it runs, up to the file names that a glob stands for.
    pub(in crate::policy) fn is_static(&self) -> bool {
        !self.varies && !self.substitutes && !self.braces && self.unclear.is_none()
    }

    /// The text after the last slash, where the word is known.
    pub(in crate::policy) fn file_name(&self) -> &str {
        if self.is_static() && !self.globs { self.text.rsplit('/').next().unwrap_or_default() } else { "" }
    }

    fn take(&mut self, piece: WordPieceWithSource, raw: &str, in_quotes: bool) {
        let written = raw.get(piece.start_index..piece.end_index).unwrap_or(raw);
        if let WordPiece::Text(text) = &piece.piece
            && text.match_indices('$').any(|(at, _)| expands(raw, piece.start_index + at + 1))
        {
            self.unclear = Some("it holds an expansion that could not be read");
        }
        match piece.piece {
            WordPiece::Text(text) if in_quotes => self.text.push_str(&text.replace("\\\n", "")),
            WordPiece::Text(text) => self.take_bare(&text),
            WordPiece::SingleQuotedText(text) => {
                self.quoted = true;
                self.text.push_str(&text);
            }
            WordPiece::AnsiCQuotedText(text) => {
                self.quoted = true;
                match ansi_c(&text) {
                    Some(text) => self.text.push_str(&text),
                    None => self.not_understood(written, "it holds an escape that ends a word early"),
                }
            }
            WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.quoted = true;
                for piece in pieces {
                    self.take(piece, raw, true);
                }
            }
            WordPiece::EscapeSequence(text) => {
                self.quoted = true;
                let rest = text.strip_prefix('\\').unwrap_or(&text);
                if rest != "\n" {
                    self.text.push_str(rest);
                }
            }
            WordPiece::TildePrefix(_) => self.varying(written),
            WordPiece::CommandSubstitution(script) => {
                self.substitutes = true;
                self.text.push_str(written);
                self.scripts.push(script);
            }
            WordPiece::BackquotedCommandSubstitution(script) => {
                self.substitutes = true;
                self.text.push_str(written);
                if script.contains('\\') {
                    self.unclear = Some("it escapes inside backquotes");
                }
                self.scripts.push(script);
            }
            WordPiece::ArithmeticExpression(ast::UnexpandedArithmeticExpr { value }) => {
                if value.contains(['`', '[', '='])
                    || value.contains("$(")
                    || value.contains("++")
                    || value.contains("--")
                {
                    self.unclear = Some("its arithmetic may run commands or assign");
                }
                self.varying(written);
            }
            WordPiece::ParameterExpansion(expression) => self.take_parameter(&expression, written),
        }
    }

    /// Text without quotes, in which globs, braces and home folders mean something.
    fn take_bare(&mut self, text: &str) {
        self.bracket |= text.contains('[');
        self.globs |= text.contains(['*', '?']) || (self.bracket && text.contains(']'));
        self.braces |= text.contains('{') && text != "{}";
        self.varies |= text.contains("=~") || text.contains(":~");
        if text.contains('`') || text.contains("$(") {
            self.unclear = Some("it holds an expansion that could not be read");
        }
        self.text.push_str(&text.replace("\\\n", ""));
    }

    fn take_parameter(&mut self, expression: &ParameterExpr, written: &str) {
        match expression {
            // What bash itself counts: it holds no text of anybody's choice.
            ParameterExpr::Parameter {
                parameter:
                    Parameter::Special(
                        SpecialParameter::PositionalParameterCount
                        | SpecialParameter::LastExitStatus
                        | SpecialParameter::ProcessId
                        | SpecialParameter::LastBackgroundProcessId,
                    ),
                indirect: false,
            } => self.text.push_str(written),
            ParameterExpr::Parameter {
                parameter: Parameter::Named(_) | Parameter::Positional(_) | Parameter::Special(_),
                ..
            } => {
                self.varying(written);
            }
            _ => {
                if written.contains(['`', '='])
                    || written.contains("$(")
                    || written.contains("@P")
                    || written.contains("<(")
                {
                    self.not_understood(written, "a variable's expansion may run commands or assign");
                } else {
                    self.varying(written);
                }
            }
        }
    }

    fn varying(&mut self, written: &str) {
        self.varies = true;
        self.text.push_str(written);
    }

    fn not_understood(&mut self, written: &str, why: Unclear) {
        self.unclear = Some(why);
        self.text.push_str(written);
    }
}

/// Whether a `$` in front of this place would make bash expand something.
fn expands(raw: &str, at: usize) -> bool {
    let next = raw.as_bytes().get(at).copied().unwrap_or(b' ');
    next.is_ascii_alphanumeric() || b"_{([@*#?!-$'\"".contains(&next) && !(matches!(next, b'"') && at + 1 == raw.len())
}

/// Letters that mean nothing to the shell.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+' | b'=' | b'-')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_go_and_the_text_stays() {
        let check = |raw: &str, text: &str| {
            let word = Word::read(raw);
            assert_eq!((word.text.as_str(), word.is_static()), (text, true), "{raw}");
        };
        check("rm", "rm");
        check(r"\rm", "rm");
        check("'r'm", "rm");
        check("r\"\"m", "rm");
        check(r"$'\x72m'", "rm");
        check(r"$'\162m'", "rm");
        check(r"$'\u0072m'", "rm");
        check("$\"rm\"", "rm");
        check("r\\\nm", "rm");
        check("\"r\\\nm\"", "rm");
        check("'a b'", "a b");
        check(r#""a\"b""#, "a\"b");
        check(r#""a\nb""#, r"a\nb");
        check("''", "");
        check("{}", "{}");
    }

    #[test]
    fn what_nobody_can_know_is_known_as_such() {
        let check = |raw: &str| assert!(!Word::read(raw).is_static(), "{raw}");
        for raw in [
            "$x",
            "\"$x\"",
            "${x}",
            "${x:-y}",
            "$(date)",
            "`date`",
            "$((1+1))",
            "~",
            "~root/x",
            "a{b,c}",
            "{1..3}",
            "${x@P}",
            "${!x}",
            r"$'rm\0x'",
            "$[1+1]",
            "${x:=y}",
            "PATH=~/bin",
            "$@",
            "$0",
            "$-",
            "$_",
            "~1",
            "~99999999999999999999",
            "${99999999999999999999}",
        ] {
            check(raw);
        }
    }
}
