//! The web, as far as it may be reached.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use super::ReadRules;
use crate::{
    error::WebError,
    web::{WebAnswer, WebFind, WebRequest},
};

/// Asks servers. Which of them may be reached is its own affair, and no argument of a call changes that.
/// Dropping what is asked ends it, and closes what was open for it.
pub trait Web: Debug + Send + Sync {
    /// Returns whether a request could be sent, as far as that is certain without asking anybody.
    ///
    /// # Errors
    /// As of [`Self::fetch`].
    fn check(&self, request: &WebRequest) -> Result<(), WebError>;

    /// Asks a server, and those that it sends the request on to, as far as `rules` let a model go there without asking.
    /// An answer of any status is an answer.
    fn fetch(&self, request: WebRequest, rules: ReadRules) -> BoxFuture<'_, Result<WebAnswer, WebError>>;

    /// Asks the search engine of the configuration for at most that many pages, the best first.
    fn search(&self, query: String, most: usize) -> BoxFuture<'_, Result<Vec<WebFind>, WebError>>;
}
