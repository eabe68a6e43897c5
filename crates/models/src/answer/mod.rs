//! What has been read of an answer so far. The dialects' readers fill it; the call empties it into chunks.

mod code_spans;
pub(crate) mod runaway;
pub(crate) mod text_protocol;
pub(crate) mod thoughts;

use std::collections::VecDeque;

use agentd_core::{
    context::ServerRemark,
    model::Finish,
    origin::ServerFields,
    usage::{Prices, Usage},
};

/// The calls that one answer may have.
pub(crate) const MAX_CALLS: usize = 128;

/// The bytes that the arguments of all calls of one answer may have together.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// The bytes of words that one answer may have. Clients get them whole, and twice in one message at worst, so this stays
/// far below what a message of the protocol may have (16 MiB). No model writes so much but by mistake.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Purpose of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Reasoning,
}

/// A call as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawCall {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) fields: ServerFields,
}

/// The answer as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Words that are not told yet, those of one kind together.
    pub(crate) pieces: VecDeque<(Kind, String)>,
    text_bytes: usize,
    /// Set once anything of the answer itself has come: an answer that breaks off from here on is taken back before another attempt.
    pub(crate) began: bool,
    /// Usage of this request, as its server has counted it, with money only if the server named it.
    pub(crate) usage: Option<Usage>,
    /// Tokens of its cache writes that are kept for an hour.
    pub(crate) hour_writes: u64,
    /// Remarks of the server on the request.
    pub(crate) remarks: Vec<ServerRemark>,
    /// Measure of everything in it: an event that does not change it only says that the server is alive.
    pub(crate) size: usize,
    /// Why it ended, once it has.
    pub(crate) finish: Option<Finish>,
    /// Text that was repeated without end, where the words that are told do not show it.
    pub(crate) runaway: Option<String>,
    /// Nothing more will come.
    pub(crate) done: bool,
}

impl Answer {
    pub(crate) fn push(&mut self, kind: Kind, words: &str) {
        if words.is_empty() {
            return;
        }
        self.began = true;
        self.size += words.len();
        let room = MAX_TEXT_BYTES - self.text_bytes;
        let kept = &words[..words.floor_char_boundary(room)];
        if kept.len() < words.len() {
            self.runaway.get_or_insert_with(|| format!("went on for more than {} MiB", MAX_TEXT_BYTES >> 20));
        }
        self.text_bytes += kept.len();
        match self.pieces.back_mut() {
            _ if kept.is_empty() => {}
            Some((last, words)) if *last == kind => words.push_str(kept),
            _ => self.pieces.push_back((kind, kept.to_owned())),
        }
    }

    /// Takes in a remark of the server, once, as long as there are few.
    pub(crate) fn remark(&mut self, reason: &str, tokens: u64) {
        let remark = ServerRemark::new(reason, tokens);
        let room = ServerRemark::MAX_PER_REQUEST.saturating_sub(self.remarks.len());
        let new = remark.filter(|remark| !self.remarks.contains(remark));
        self.remarks.extend(new.into_iter().take(room));
    }

    /// The usage with what it costs: as the server charges it, or by its prices.
    pub(crate) fn priced_usage(&self, prices: Option<&Prices>) -> Option<Usage> {
        let usage = self.usage?;
        let priced = || prices.map(|prices| prices.cost_microusd(&usage, self.hour_writes));
        Some(Usage { cost_microusd: usage.cost_microusd.or_else(priced), ..usage })
    }
}
