//! What the words of a query can add to a score, so that a search knows when it has seen enough.

use super::{board::MOST_OF_A_WORD, concept::Concept};

/// The most that a chunk can have of the concepts so far, and the most that those to come can add.
pub(super) struct Bounds {
    pub(super) so_far: f32,
    pub(super) to_come: f32,
}

impl Bounds {
    /// Before the first of these.
    pub(super) fn before(concepts: &[Concept]) -> Self {
        Self { so_far: 0.0, to_come: concepts.iter().map(most).sum() }
    }

    /// Goes on to the next one.
    pub(super) fn pass(&mut self, concept: &Concept) {
        self.so_far += most(concept);
        // Rounding must not make it less than nothing: of chunks with equal scores none would be left.
        self.to_come = (self.to_come - most(concept)).max(0.0);
    }

    /// Returns whether chunks without the concepts so far may be out of the question, where so much is beaten by other segments.
    pub(super) fn may_close(&self, beaten: f32) -> bool {
        self.to_come < self.so_far.max(beaten)
    }
}

fn most(concept: &Concept) -> f32 {
    concept.weight * MOST_OF_A_WORD
}
