//! Things that are remembered, of which the oldest is forgotten where there are too many.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// At most `MOST` values by their keys. The one that was written first goes first, so that more keys than there is room for cost
/// some of the values and never all of them at once.
#[derive(Debug)]
pub(super) struct BoundedCache<K, V, const MOST: usize> {
    /// Each with the time at which it was written.
    values: HashMap<K, (u64, V)>,
    /// The keys by that time.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V, const MOST: usize> Default for BoundedCache<K, V, MOST> {
    fn default() -> Self {
        Self { values: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Copy + Eq + Hash, V, const MOST: usize> BoundedCache<K, V, MOST> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        while self.values.len() >= MOST {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.values.remove(&oldest);
        }
        self.order.insert(self.next, key);
        self.values.insert(key, (self.next, value));
        self.next += 1;
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some((written, _)) = self.values.remove(key) {
            self.order.remove(&written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_alone_where_there_is_no_more_room() {
        let mut cache = BoundedCache::<u32, u32, 3>::default();
        (0..3).for_each(|key| cache.insert(key, key));
        // Written anew, it is the newest.
        cache.insert(0, 10);
        cache.insert(3, 3);
        let kept = |cache: &BoundedCache<u32, u32, 3>| (0..5).map(|key| cache.get(&key).copied()).collect::<Vec<_>>();
        assert_eq!(kept(&cache), [Some(10), None, Some(2), Some(3), None]);
        cache.remove(&2);
        cache.insert(4, 4);
        assert_eq!(kept(&cache), [Some(10), None, None, Some(3), Some(4)]);
        assert_eq!((cache.values.len(), cache.order.len()), (3, 3));
    }
}
