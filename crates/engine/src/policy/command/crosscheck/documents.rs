//! The texts behind `<<`: what tag ends them, and at which line.

use super::super::parse::Unclear;

/// A text that begins on the next line.
#[derive(Debug)]
pub(super) struct Document {
    /// The word behind the operator, as it is written.
    word: String,
    /// The line that ends it.
    tag: String,
    /// Nothing in it is expanded, and its lines are not joined.
    is_quoted: bool,
    /// `<<-`: tabs at the start of lines do not count.
    strips_tabs: bool,
    /// Where in the list of lexemes its text belongs.
    pub(super) place: usize,
}

/// A text that was read.
pub(super) struct Body {
    pub(super) text: String,
    /// The tag as it is written behind the operator, which the parser puts behind the text.
    pub(super) tag: String,
    /// Where what follows begins.
    pub(super) end: usize,
}

impl Document {
    /// Takes the word behind the operator. Only plain words, bare or in one pair of quotes, are read by everybody in
    /// the same way.
    pub(super) fn new(word: &str, strips_tabs: bool, place: usize) -> Result<Self, Unclear> {
        let inner = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
        let quoted = inner('\'').or_else(|| inner('"'));
        let tag = quoted.unwrap_or(word);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if tag.is_empty() || tag.starts_with('-') || !tag.bytes().all(is_plain) {
            return Err("the word behind `<<` is no plain one");
        }
        Ok(Self { word: word.to_owned(), tag: tag.to_owned(), is_quoted: quoted.is_some(), strips_tabs, place })
    }

    /// Reads it from where its first line begins. In brackets bash also ends it at the tag with a bracket behind it.
    pub(super) fn read(self, text: &str, start: usize, in_brackets: bool) -> Result<Body, Unclear> {
        const ENDS_ELSEWHERE: Unclear = "the lines behind `<<` may end at another place than they seem to";
        let (mut body, mut at) = (String::new(), start);
        // Bash joins lines before it looks for the tag, so that it may find the tag in pieces, or not at all.
        let mut joined: Option<String> = None;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let line = rest.split_inclusive('\n').next().unwrap_or_default();
            at += line.len();
            let shown = if self.strips_tabs { line.trim_start_matches('\t') } else { line };
            let bare = shown.strip_suffix('\n').unwrap_or(shown);
            if bare == self.tag && joined.is_none() {
                return Ok(Body { text: body, tag: self.word, end: at });
            }
            let joins = !self.is_quoted && (bare.len() - bare.trim_end_matches('\\').len()) % 2 == 1;
            let piece = if joins { &bare[..bare.len() - 1] } else { bare };
            let whole = joined.take().unwrap_or_default() + piece;
            let is_tag = bare == self.tag || whole == self.tag && !joins;
            if is_tag || in_brackets && whole.starts_with(&self.tag) {
                return Err(ENDS_ELSEWHERE);
            }
            joined = joins.then_some(whole);
            body.push_str(shown);
        }
        Err("the lines behind `<<` have no end")
    }
}
