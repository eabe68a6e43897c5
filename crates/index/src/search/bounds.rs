//! The most that the words of a query can add to a score, so that a search knows when it has seen enough.

/// The most that a chunk can have of the words so far, and the most that those to come can add.
pub(super) struct Bounds {
    so_far: f32,
    pub(super) to_come: f32,
}

impl Bounds {
    /// Before the first of words that can each add so much.
    pub(super) fn before(words: impl Iterator<Item = f32>) -> Self {
        Self { so_far: 0.0, to_come: words.sum() }
    }

    /// Goes past a word that can add so much.
    pub(super) fn pass(&mut self, most: f32) {
        self.so_far += most;
        // Rounding must not make it less than nothing: of chunks with equal scores none would be left.
        self.to_come = (self.to_come - most).max(0.0);
    }

    /// Returns whether chunks without the words so far may be out of the question, where so much is beaten by other segments.
    pub(super) fn may_close(&self, beaten: f32) -> bool {
        self.to_come < self.so_far.max(beaten)
    }
}
