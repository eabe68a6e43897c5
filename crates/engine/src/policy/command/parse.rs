//! Text to a syntax tree, within bounds. The parser is a recursive one that backtracks: without bounds, a few hundred
//! brackets would keep it busy for ever, or end the stack.

use std::panic::{AssertUnwindSafe, catch_unwind};

use agentd_core::untrusted::is_unseen;
use brush_parser::{
    ParserOptions, SourceInfo, Token, ast,
    word::{self, WordPieceWithSource},
};

use super::crosscheck;

/// The longest command that is looked into.
pub(super) const MAX_BYTES: usize = 64 * 1024;
/// How deeply groups, loops and conditions may nest.
const MAX_NESTING: usize = 10;
/// How many expansions one command may have. They bound the recursion of the tokenizer.
const MAX_EXPANSIONS: usize = 256;
/// How many expansions one word may have.
const MAX_WORD_EXPANSIONS: usize = 12;

/// Why a text could not be taken apart.
pub(in crate::policy) type Unclear = &'static str;

/// The tree of a script.
pub(super) fn script(text: &str) -> Result<ast::Program, Unclear> {
    check_text(text)?;
    if expansions(text) > MAX_EXPANSIONS {
        return Err("it has more expansions than anybody would write");
    }
    guarded(|| {
        let options = options();
        let tokens = brush_parser::uncached_tokenize_str(text, &options.tokenizer_options())
            .map_err(|_| "its quotes or brackets do not match")?;
        check_nesting(&tokens)?;
        crosscheck::script(text, &tokens)?;
        brush_parser::parse_tokens(&tokens, &options, &SourceInfo::default())
            .map_err(|_| "it does not follow the shell's grammar")
    })
}

/// The pieces of a word.
pub(super) fn pieces(raw: &str) -> Result<Vec<WordPieceWithSource>, Unclear> {
    if expansions(raw) > MAX_WORD_EXPANSIONS {
        return Err("one of its words has more expansions than anybody would write");
    }
    guarded(|| word::parse(raw, &options()).map_err(|_| "one of its words could not be read"))
}

fn options() -> ParserOptions {
    // `bash -c` starts without extended globs.
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// Runs the parser so that a panic of it is an answer like any other, and so that what it logs, which would be the
/// command with all that is secret in it, is logged nowhere.
fn guarded<T>(parse: impl FnOnce() -> Result<T, Unclear>) -> Result<T, Unclear> {
    let quiet = tracing::subscriber::NoSubscriber::new();
    catch_unwind(AssertUnwindSafe(|| tracing::subscriber::with_default(quiet, parse)))
        .unwrap_or(Err("the parser failed on it"))
}

/// Refuses what bash and the parser might read differently, and what nobody writes into a command.
fn check_text(text: &str) -> Result<(), Unclear> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 64 KiB");
    }
    let mut before = ' ';
    for c in text.chars() {
        let odd = match c {
            '\n' | '\t' => false,
            c if c.is_ascii() => c.is_ascii_control(),
            // It chooses a form of the letter before it, such as the coloured one of a picture.
            '\u{fe0f}' | '\u{200d}' => before.is_ascii(),
            c => c.is_whitespace() || c.is_control() || is_unseen(c),
        };
        if odd {
            return Err("it holds characters that cannot be seen");
        }
        before = c;
    }
    Ok(())
}

/// How many expansions a text may hold at the most, counted without looking at quotes.
fn expansions(text: &str) -> usize {
    let bytes = text.as_bytes();
    let opens = |pair: &[u8]| matches!(pair, [b'$', b'(' | b'{' | b'['] | [b'<' | b'>', b'(']);
    bytes.windows(2).filter(|pair| opens(pair)).count() + bytes.iter().filter(|byte| **byte == b'`').count()
}

/// Refuses what nests too deeply. Tokens are counted, so quotes cannot hide anything; an end counts only where a
/// command could begin and where it ends what was begun last, so nothing can pretend to be an end.
fn check_nesting(tokens: &[Token]) -> Result<(), Unclear> {
    let mut open: Vec<&'static str> = Vec::new();
    let mut begins = true;
    for token in tokens {
        let (text, is_word) = match token {
            Token::Word(text, _) => (text.as_str(), true),
            Token::Operator(text, _) => (text.as_str(), false),
        };
        let pushed = match text {
            "(" | "((" if !is_word => Some(")"),
            "{" => Some("}"),
            "if" => Some("fi"),
            "case" => Some("esac"),
            "for" | "while" | "until" | "select" => Some("done"),
            "[[" => Some("]]"),
            "!" => None,
            _ => None,
        };
        if let Some(end) = pushed {
            open.push(end);
            if open.len() > MAX_NESTING {
                return Err("it nests too deeply");
            }
        } else if open.last() == Some(&text) && (begins || matches!(text, ")" | "]]")) {
            open.pop();
        }
        let keyword =
            matches!(text, "then" | "do" | "else" | "elif" | "{" | "if" | "while" | "until" | "!" | "in" | "time");
        let redirects = text.starts_with(['<', '>']);
        begins = if is_word {
            begins && keyword || matches!(text, "then" | "do" | "else" | "fi" | "done" | "esac" | "}")
        } else {
            !redirects
        };
    }
    Ok(())
}
