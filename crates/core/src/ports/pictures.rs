//! Pictures as models are shown them.

use futures_util::future::BoxFuture;

use crate::{error::WorkspaceError, files::PreparedPicture};

/// Makes pictures fit for models.
pub trait Pictures: Send + Sync {
    /// Turns a picture upright and makes it no larger than models make use of. None where the bytes are no picture of a kind
    /// that models see.
    ///
    /// # Errors
    /// Of kind `InvalidInput` where it is damaged or more than the limits allow, with what to do.
    fn prepare<'a>(&'a self, content: &'a [u8]) -> BoxFuture<'a, Result<Option<PreparedPicture>, WorkspaceError>>;
}
