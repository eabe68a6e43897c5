//! How far a call is, told while it runs.

use std::{fmt, sync::Arc};

/// Where a tool tells how far it is. Without one that listens, nothing is told.
#[derive(Clone, Default)]
pub struct CallProgress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl CallProgress {
    /// Tells it to this function, which must not wait.
    #[must_use]
    pub fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Returns whether anybody listens.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Tells how far the call is, in one line. It is shown while the call runs, and forgotten when its result is there.
    pub fn tell(&self, line: &str) {
        if let Some(tell) = &self.0 {
            tell(format!("{}\n", line.replace(['\n', '\r'], " ")));
        }
    }
}

impl fmt::Debug for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallProgress").field(&self.0.is_some()).finish()
    }
}
