//! Lines that chunks of a text stand in.

use super::Chunk;
use crate::document::DocumentPlace;

/// Gives each chunk the lines that it stands in. `first` is the number of the text's first line.
pub(super) fn number(chunks: &mut [Chunk], text: &str, first: u32) {
    let ends = |text: Option<&str>| {
        let ends = text.unwrap_or_default().bytes().filter(|byte| *byte == b'\n').count();
        u32::try_from(ends).unwrap_or(u32::MAX)
    };
    let (mut at, mut line) = (0, first);
    for chunk in chunks {
        // Chunks come in order, though each begins a little before the end of the one before.
        if chunk.bytes.start < at {
            (at, line) = (0, first);
        }
        line = line.saturating_add(ends(text.get(at..chunk.bytes.start)));
        at = chunk.bytes.start;
        let last = line.saturating_add(ends(text.get(chunk.bytes.clone())));
        chunk.place = DocumentPlace::Lines { first: line, last };
    }
}
