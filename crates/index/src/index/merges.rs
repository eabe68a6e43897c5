//! When segments of the index are merged.

use tantivy::merge_policy::LogMergePolicy;

/// Number of segments of about the same size that are merged. A search looks for each word in each segment, which is the most of its
/// work; merging more seldom writes less.
const LEAST_SEGMENTS: usize = 3;
/// Chunks of a segment up to which its size does not matter.
const SMALL: u32 = 1000;
/// Sizes up to four times the smaller one are about the same, as a binary logarithm.
const SAME_SIZE: f64 = 2.0;
/// Share of the chunks of a segment that may be of removed documents. Their text is in the files until it is merged.
const REMOVED: f32 = 0.3;

/// Leaves about two segments of each size.
pub(super) fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(LEAST_SEGMENTS);
    policy.set_min_layer_size(SMALL);
    policy.set_level_log_size(SAME_SIZE);
    policy.set_del_docs_ratio_before_merge(REMOVED);
    policy
}
