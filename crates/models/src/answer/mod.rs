//! The answer read so far. The dialects' readers fill it, and the call converts it into chunks.

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

/// Maximum number of calls in one answer.
pub(crate) const MAX_CALLS: usize = 128;

/// Maximum total size of call arguments in one answer, in bytes.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Maximum text size of one answer, in bytes. Clients receive the complete text, in the worst case twice in one
/// message, so the limit is far below the protocol's message size limit (16 MiB). Longer text always means that the
/// model malfunctions.
const MAX_TEXT_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Reasoning,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawCall {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) fields: ServerFields,
}

/// Answer read so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Text that has not been emitted yet. Adjacent text of one kind is merged.
    pub(crate) pieces: VecDeque<(Kind, String)>,
    text_bytes: usize,
    /// True once any part of the answer itself has arrived. From then on, an answer that breaks off is discarded before
    /// another attempt.
    pub(crate) began: bool,
    /// Usage of this request as counted by the server. It includes a cost only if the server sent one.
    pub(crate) usage: Option<Usage>,
    /// Tokens written to the cache with a lifetime of one hour.
    pub(crate) hour_writes: u64,
    pub(crate) remarks: Vec<ServerRemark>,
    /// Size of all content. An event that does not change it is only a keep-alive.
    pub(crate) size: usize,
    /// Reason for the end, once the answer has ended.
    pub(crate) finish: Option<Finish>,
    /// Description of an endless repetition that the emitted text does not show.
    pub(crate) runaway: Option<String>,
    /// True if nothing more will arrive.
    pub(crate) done: bool,
}

impl Answer {
    pub(crate) fn push(&mut self, kind: Kind, text: &str) {
        if text.is_empty() {
            return;
        }
        self.began = true;
        self.size += text.len();
        let capacity = MAX_TEXT_BYTES - self.text_bytes;
        let accepted = &text[..text.floor_char_boundary(capacity)];
        if accepted.len() < text.len() {
            self.runaway.get_or_insert_with(|| format!("exceeded {} MiB", MAX_TEXT_BYTES >> 20));
        }
        self.text_bytes += accepted.len();
        match self.pieces.back_mut() {
            _ if accepted.is_empty() => {}
            Some((last, text)) if *last == kind => text.push_str(accepted),
            _ => self.pieces.push_back((kind, accepted.to_owned())),
        }
    }

    /// Adds a remark from the server, without duplicates and up to a limit.
    pub(crate) fn remark(&mut self, reason: &str, tokens: u64) {
        let remark = ServerRemark::new(reason, tokens);
        let capacity = ServerRemark::MAX_PER_REQUEST.saturating_sub(self.remarks.len());
        let new = remark.filter(|remark| !self.remarks.contains(remark));
        self.remarks.extend(new.into_iter().take(capacity));
    }

    /// Returns the usage with its cost: as charged by the server, or computed from `prices`.
    pub(crate) fn priced_usage(&self, prices: Option<&Prices>) -> Option<Usage> {
        let usage = self.usage?;
        let priced = || prices.map(|prices| prices.cost_microusd(&usage, self.hour_writes));
        Some(Usage { cost_microusd: usage.cost_microusd.or_else(priced), ..usage })
    }
}
