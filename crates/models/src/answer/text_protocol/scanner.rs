//! The stream of an answer: words go on at once, and what may be a call is held back to the end of the answer.
//!
//! Only structure decides, no word is read. A call runs at the end of the answer: behind it come nothing but calls, marks
//! and results that the model invents, and before it no call among words, as nobody knows which was meant. Calls in code do
//! not run, unless the answer is nothing but that code.

use std::{ops::Range, sync::Arc};

use agentd_core::{model::UnrunReason, tool::ToolSpec};

use super::call::{self, Balance, FENCE, marks};
use crate::answer::{RawCall, code_spans::CodeSpans};

/// The bytes of an object that are waited for; larger ones are words.
const MAX_HELD: usize = 1 << 20;

/// Looks for calls in the words of one answer.
#[derive(Debug)]
pub(crate) struct Scanner {
    tools: Arc<[ToolSpec]>,
    /// True where the text is the place for calls; elsewhere the server should have read them.
    reads: bool,
    /// Text that is held back. Empty while words go on.
    held: String,
    /// The words before it.
    before: CodeSpans,
    has_words: bool,
    /// The object that the held text begins with, as far as it was looked at.
    balance: Balance,
    /// True once the held text begins with a call or a mark: the end of the answer decides.
    is_found: bool,
    /// The tool of a call among the words.
    doubtful: Option<String>,
}

/// Findings at the end of an answer.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// The words that were still held.
    pub(crate) words: String,
    pub(crate) call: Option<RawCall>,
    /// A call that does not run.
    pub(crate) unrun: Option<(String, UnrunReason)>,
}

/// Meaning of the held text from some place on.
enum Look {
    /// Words up to here.
    Words(usize),
    /// Nothing yet.
    Open,
    /// An object that has not ended and may become a call.
    Begun(usize),
    /// A call begins here, or the fence around it.
    Call,
    /// The mark of a spelling.
    Mark,
}

impl Scanner {
    pub(crate) fn new(tools: Arc<[ToolSpec]>, reads: bool) -> Self {
        let (held, before, balance) = (String::new(), CodeSpans::default(), Balance::default());
        Self { tools, reads, held, before, has_words: false, balance, is_found: false, doubtful: None }
    }

    /// Takes the next piece and returns the words that can go on.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut at = 0;
        while !self.is_found && at < self.held.len() {
            match self.look(at) {
                Look::Words(end) => self.pass(&mut at, end),
                Look::Call | Look::Mark => self.is_found = true,
                Look::Open | Look::Begun(_) => break,
            }
        }
        self.held.drain(..at).collect()
    }

    /// The end of the answer, which may have been cut there.
    pub(crate) fn finish(&mut self, is_cut: bool) -> ScanResult {
        let (mut at, mut mark) = (0, None);
        while at < self.held.len() {
            match self.look(at) {
                Look::Words(end) => {
                    self.pass(&mut at, end);
                    continue;
                }
                Look::Begun(start) if is_cut => match call::begun(&self.held[start..], &self.tools) {
                    Some(name) => return self.unrun(mark.unwrap_or(at), name, UnrunReason::Cut),
                    None => break,
                },
                Look::Open | Look::Begun(_) => break,
                Look::Call => {}
                Look::Mark => {
                    mark.get_or_insert(at);
                }
            }
            match call::only_calls(&self.held[at..], !self.has_words, &self.tools) {
                Ok(_) if self.doubtful.is_some() => break,
                Ok(call) if self.reads => {
                    self.held.truncate(at);
                    return ScanResult { words: std::mem::take(&mut self.held), call: Some(call), unrun: None };
                }
                Ok(call) => return self.unrun(at, call.name, UnrunReason::Foreign),
                Err(_) if !self.reads => break,
                Err(end) => {
                    self.doubt(at..at + end);
                    let end = at + end.max(1);
                    self.pass(&mut at, end);
                }
            }
        }
        // Other spellings than JSON end with a mark, unless the limit has cut them.
        let is_whole = self.held.trim_end().ends_with(['>', ']', '}']) && self.doubtful.is_none();
        let named = mark.filter(|_| is_whole || is_cut).and_then(|at| {
            let name = call::named_in(&self.held[at..], &self.tools)?;
            Some((at, name))
        });
        if let Some((at, name)) = named {
            return self.unrun(at, name, if is_cut { UnrunReason::Cut } else { UnrunReason::Foreign });
        }
        let unrun = self.doubtful.take().map(|name| (name, UnrunReason::Doubtful));
        ScanResult { words: std::mem::take(&mut self.held), call: None, unrun }
    }

    /// Returns the held text as words, and begins again: what came so far is no answer.
    pub(crate) fn give_up(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        *self = Self::new(Arc::clone(&self.tools), self.reads);
        held
    }

    /// The words before a call that does not run, which itself is left out.
    fn unrun(&mut self, at: usize, name: String, why: UnrunReason) -> ScanResult {
        self.held.truncate(at);
        ScanResult { words: std::mem::take(&mut self.held), call: None, unrun: Some((name, why)) }
    }

    /// Passes the words up to `end`.
    fn pass(&mut self, at: &mut usize, end: usize) {
        let words = &self.held[*at..end];
        self.before.add(words);
        self.has_words |= words.chars().any(char::is_alphanumeric);
        self.balance = Balance::default();
        *at = end;
    }

    /// Notes a call of a known tool among the words, which may have been meant as one.
    fn doubt(&mut self, words: Range<usize>) {
        if self.reads && self.doubtful.is_none() {
            self.doubtful = call::begun(&self.held[words], &self.tools);
        }
    }

    fn look(&mut self, at: usize) -> Look {
        let rest = &self.held[at..];
        match rest.find(|letter| matches!(letter, '{' | '`' | '<' | '[') || (letter == 't' && !self.has_words)) {
            None => return Look::Words(self.held.len()),
            Some(0) => {}
            Some(words) => return Look::Words(at + words),
        }
        let is_first = !self.has_words;
        if rest.starts_with('{') {
            return self.object(at);
        }
        if let Some(code) = rest.strip_prefix(FENCE).filter(|_| is_first && !self.before.is_code()) {
            let code = call::without_label(code);
            let start = self.held.len() - code.len();
            return match code.chars().next() {
                _ if start - at > call::MAX_OPENING => Look::Words(at + FENCE.len()),
                None => Look::Open,
                Some('{') => self.object(start),
                Some(_) => Look::Words(start),
            };
        }
        let may_begin = |mark: &str| mark.starts_with(rest);
        if is_first && may_begin(FENCE) {
            Look::Open
        } else if self.before.is_code() {
            Look::Words(at + 1)
        } else if marks(is_first).any(|mark| rest.starts_with(mark)) {
            Look::Mark
        } else if marks(is_first).any(may_begin) {
            Look::Open
        } else {
            Look::Words(at + 1)
        }
    }

    fn object(&mut self, start: usize) -> Look {
        let is_code = self.has_words && self.before.is_code();
        // At the beginning of a line of a fence it does not run, but may have been meant.
        let is_doubtful = self.before.is_fenced() && self.before.last() == Some('\n');
        if (is_code && !is_doubtful) || (self.has_words && !self.reads) {
            return Look::Words(start + 1);
        }
        let object = &self.held[start..];
        match call::may_begin(object, self.reads) {
            Some(true) => {}
            Some(false) => return Look::Words(start + 1),
            None => return Look::Open,
        }
        let Some(end) = self.balance.end(object.as_bytes()) else {
            return match object.len() > MAX_HELD {
                true => Look::Words(self.held.len()),
                false if is_code => Look::Open,
                false => Look::Begun(start),
            };
        };
        let end = start + end;
        self.balance = Balance::default();
        match call::read(&self.held[start..end], &self.tools) {
            Some(call) if !is_code && (self.reads || call::is_known(&call.name, &self.tools)) => Look::Call,
            Some(_) => {
                self.doubt(start..end);
                Look::Words(end)
            }
            None => Look::Words(end),
        }
    }
}

#[cfg(test)]
mod tests;
