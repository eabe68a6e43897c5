//! The Chinese dictionary.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jieba_rs::Jieba;

/// The Chinese dictionary: tens of megabytes, so it is loaded when first needed and can be put away again.
#[derive(Default)]
pub struct Dictionary {
    loaded: Mutex<Option<LoadedDictionary>>,
}

struct LoadedDictionary {
    jieba: Arc<Jieba>,
    used_at: Instant,
}

impl Dictionary {
    /// Loads it, unless it is loaded. That takes a part of a second.
    pub fn warm(&self) {
        drop(self.get());
    }

    /// Puts it away until it is needed again, unless it was needed lately.
    pub fn rest(&self, unused_for: Duration) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.as_ref().is_some_and(|loaded| loaded.used_at.elapsed() >= unused_for) {
            *loaded = None;
        }
    }

    /// Returns whether it takes up memory.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The words of Chinese letters and the words within words: what is indexed.
    pub fn all_words(&self, letters: &str, tell: &mut dyn FnMut(String)) {
        for token in self.get().cut_for_search(letters, true) {
            tell(token.word.to_owned());
        }
    }

    /// The words of Chinese letters, one after the other: what is asked for.
    #[must_use]
    pub fn cut(&self, letters: &str) -> Vec<String> {
        self.get().cut(letters, true).into_iter().map(|token| token.word.to_owned()).collect()
    }

    fn get(&self) -> Arc<Jieba> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let used_at = Instant::now();
        let loaded = loaded.get_or_insert_with(|| LoadedDictionary { jieba: Arc::new(Jieba::new()), used_at });
        loaded.used_at = used_at;
        Arc::clone(&loaded.jieba)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("is_loaded", &self.is_loaded()).finish()
    }
}
