//! Rules about files that a call comes upon without naming them.

use std::sync::Arc;

/// Rules about reading a file by its path, where nobody was asked whether a call may show it: whether they would let a
/// model read it without asking anybody. Where nobody has set any, all may be read.
#[derive(Clone, Default)]
pub struct ReadRules {
    read: Option<Arc<MayRead>>,
    change: Option<Arc<MayRead>>,
}

/// Test of whether the file of that path may be read, or changed.
type MayRead = dyn Fn(&str) -> bool + Send + Sync;

impl ReadRules {
    /// Rules that this function knows.
    #[must_use]
    pub fn new(allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { read: Some(Arc::new(allow)), change: None }
    }

    /// The same, where this function knows whether the call may change files that it does not name.
    #[must_use]
    pub fn with_changes(self, allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(allow)), ..self }
    }

    /// Returns whether the call may change the file, which it does not name, as it may change those that it names.
    #[must_use]
    pub fn allow_change(&self, path: &str) -> bool {
        self.allow(path) && self.change.as_ref().is_none_or(|allow| allow(path))
    }

    /// Returns whether the file may be read without asking.
    #[must_use]
    pub fn allow(&self, path: &str) -> bool {
        self.read.as_ref().is_none_or(|allow| allow(path))
    }
}

impl std::fmt::Debug for ReadRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRules").field("read", &self.read.is_some()).finish_non_exhaustive()
    }
}
