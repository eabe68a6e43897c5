//! When segments of the index are merged: seldom while documents come in, and once they do not, until few are left.

use tantivy::merge_policy::{LogMergePolicy, MergePolicy, NoMergePolicy};

/// Number of segments of about the same size that are merged at rest. A search looks for each word in each segment, which is the most
/// of its work.
const LEAST_SEGMENTS: usize = 3;
/// Chunks of a segment up to which its size does not matter.
const SMALL: u32 = 1000;
/// Sizes up to four times the smaller one are about the same, as a binary logarithm.
const SAME_SIZE: f64 = 2.0;
/// Chunks of a segment above which it is merged no more: a merge reads the texts of a segment, some 300 bytes a chunk, into memory.
const LARGE: usize = 100_000;
/// Share of the chunks of a segment that may be of removed documents before a rest writes all segments of its size anew: what is
/// removed stays in the files until then.
const REMOVED: f32 = 0.3;

/// Merges while documents come in, which takes time from them. An index in memory is gone before a merge is worth its time.
pub(super) fn at_work(in_memory: bool) -> Box<dyn MergePolicy> {
    if in_memory {
        return Box::new(NoMergePolicy);
    }
    let mut policy = LogMergePolicy::default();
    policy.set_max_docs_before_merge(LARGE);
    Box::new(policy)
}

/// Merges while nothing else is done: about two segments of each size are left.
pub(super) fn at_rest() -> Box<dyn MergePolicy> {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(LEAST_SEGMENTS);
    policy.set_min_layer_size(SMALL);
    policy.set_level_log_size(SAME_SIZE);
    policy.set_max_docs_before_merge(LARGE);
    policy.set_del_docs_ratio_before_merge(REMOVED);
    Box::new(policy)
}
