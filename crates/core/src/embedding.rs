//! Embeddings: vectors of texts, computed by a server, so that texts are also found by their meaning.

use serde::{Deserialize, Serialize};

/// Texts of one source: the code of a folder, or a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextGroup {
    /// Name of the group, which is the name of its file of vectors.
    pub name: String,
    /// All texts with their keys, which change whenever the text does.
    pub texts: Vec<(u64, String)>,
}

/// Returns the name of a group of this kind, `code` or `document`, for the path of a folder or the ID of a document.
pub fn group_name(kind: &str, id: &str) -> String {
    format!("{kind}-{:016x}", digest(id))
}

/// Report on the texts of a session that have no vector yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingReport {
    /// Number of texts that had no vector.
    pub texts: u64,
    /// Number of tokens in these texts, estimated.
    pub tokens: u64,
    /// True if the texts were sent, false if they were only counted.
    pub sent: bool,
    /// URL of the server and ID of the model.
    pub server: String,
}

/// Texts that are similar to a query, as the index of the group and the key, most similar first.
pub type SimilarTexts = Vec<(usize, u64)>;

/// Returns the digest of a text (FNV-1a). It only needs to be stable and fast, because a wrong vector has no other
/// effect than a wrong rank.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the weight of a position in a ranking, from 1 for the first one, which is 0. The sum of a text's weights in
/// two rankings is its weight in the fused ranking (reciprocal rank fusion).
pub fn rank_weight(position: usize) -> f32 {
    const DAMPING: f32 = 60.0;
    (DAMPING + 1.0) / (DAMPING + 1.0 + position as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_stable_and_weights_decrease() {
        // Published test vectors of FNV-1a.
        assert_eq!((digest(""), digest("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
        assert!(rank_weight(0) == 1.0 && rank_weight(1) < 1.0 && rank_weight(999) > 0.0);
        assert_eq!(group_name("code", "a"), "code-af63dc4c8601ec8c");
    }
}
