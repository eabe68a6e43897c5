//! Streams of a PDF, which are packed.

use std::borrow::Cow;

use hayro_syntax::object::Stream;

/// Bytes of a stream as they were before they were packed. A stream that cannot be unpacked is none.
pub(super) fn unpacked<'a>(stream: &Stream<'a>) -> Option<Cow<'a, [u8]>> {
    stream.decoded_data().ok()
}
