//! Words without secrets, before anybody sees them.

use std::sync::Arc;

type Cleaner = dyn Fn(&str) -> String + Send + Sync;

/// Takes secrets out of words. Servers may say what they were told: the keys that they are given.
#[derive(Clone, Default)]
pub struct Clean(Option<Arc<Cleaner>>);

impl Clean {
    /// By this function.
    #[must_use]
    pub fn new(clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(clean)))
    }

    /// The words without secrets.
    pub(crate) fn words(&self, words: &str) -> String {
        self.0.as_ref().map_or_else(|| words.to_owned(), |clean| clean(words))
    }
}

impl std::fmt::Debug for Clean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clean").field(&self.0.is_some()).finish()
    }
}
