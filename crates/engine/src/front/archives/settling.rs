//! Imports that a stop of the daemon has cut off: the files of one whose session is there are put in their place, others
//! are removed. What the journal holds of them it removes itself.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::Engine;
use crate::error::EngineError;

impl Engine {
    /// Settles what imports have left behind. Called at start, before any import.
    ///
    /// # Errors
    /// When the files cannot be looked at.
    pub async fn settle_imports(&self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let settled = tokio::task::spawn_blocking(move || {
            let Some(transport) = shared.parts.workspaces.transport() else { return Ok(()) };
            let runtime = Handle::current();
            // Where the journal cannot be read, nothing is removed.
            transport
                .settle(&|id| runtime.block_on(shared.parts.store.session(id)).map_or(true, |found| found.is_some()))
        });
        match settled.await {
            Ok(settled) => Ok(settled?),
            Err(error) => {
                tracing::error!("settling imports ended early: {error}");
                Ok(())
            }
        }
    }
}
