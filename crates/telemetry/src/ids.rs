//! Ids of traces and spans: the same for the same turn, whenever and however often it is sent.

use agentd_core::ids::{SessionId, TurnId};
use agentd_trace::TurnTrace;
use sha2::{Digest as _, Sha256};

/// The variable with which a client says of which trace it is a part.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// The flag of a `traceparent` whose trace is kept.
const SAMPLED: u8 = 1;

/// Place of a turn in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace.
    pub trace_id: [u8; 16],
    /// The span of the client that the turn is a part of.
    pub parent: Option<[u8; 8]>,
    /// Set unless the client leaves its trace out: then its parts are left out, too.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Place of a turn: in the client's trace where it has one, else in one of its own.
    #[must_use]
    pub fn of(turn: &TurnTrace, traceparent: Option<&str>) -> Self {
        if let Some(context) = traceparent.and_then(Self::parse) {
            return context;
        }
        let id = turn.trace_id.map_or_else(|| turn.turn_id.as_uuid(), |id| id.as_uuid());
        Self { trace_id: *id.as_bytes(), parent: None, is_sampled: true }
    }

    /// Reads a `traceparent` of W3C Trace Context. Later versions may have more fields.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let is_known = bytes::<1>(version)? != [0xff] && (version != "00" || fields.next().is_none());
        let (trace_id, parent) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let [flags] = bytes::<1>(flags)?;
        let context = Self { trace_id, parent: Some(parent), is_sampled: flags & SAMPLED != 0 };
        (is_known && trace_id != [0; 16] && parent != [0; 8]).then_some(context)
    }
}

/// Bytes of so many lower-case hexadecimal digits.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 2 * N || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Id of a span, by its session, its turn and its name in the turn. Never zero, which stands for none.
#[must_use]
pub fn span_id(session: SessionId, turn: TurnId, name: &str) -> [u8; 8] {
    let mut hash = Sha256::new();
    hash.update(session.as_uuid().as_bytes());
    hash.update(turn.as_uuid().as_bytes());
    hash.update(name.as_bytes());
    let digest = hash.finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&digest[..8]);
    id[7] |= 1;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_whole_or_not_at_all() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(good).unwrap();
        assert_eq!((context.trace_id[0], context.parent.unwrap()[7], context.is_sampled), (0x0a, 0x31, true));
        assert!(!TraceContext::parse(&good.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceContext::parse(&format!("{}-later", good.replacen("00", "01", 1))).is_some());
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ids_are_the_same_each_time_and_differ_by_name() {
        let (session, turn) = (SessionId::generate(), TurnId::generate());
        assert_eq!(span_id(session, turn, "m1"), span_id(session, turn, "m1"));
        assert_ne!(span_id(session, turn, "m1"), span_id(session, turn, "m2"));
        assert_ne!(span_id(session, turn, ""), [0; 8]);
    }
}
