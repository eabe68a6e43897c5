//! The web, as far as it may be reached: the port [`Web`](agentd_core::ports::Web) over HTTP.
//!
//! A page is somebody else's word and may want to lead anywhere, so every address is looked at before a connection is
//! made to it, also those behind redirects, and every answer is bounded in size and time.
//!
//! - [`config`]: what a person sets; no call changes any of it.
//! - [`address`]: which addresses are public, and what is wrong with the others; pure. [`allow`]: those that a person
//!   allows besides. `own`: this machine's, which are not public either.
//! - `target`: whether an address of a page may be asked at all; `resolve`: names to addresses that were looked at.
//! - `redirect`: what becomes of a request that is sent on; pure. `hop`: one request on its way.
//! - `client`: the connections; `fetch`: from a request to its answer.
//! - `body`: what came, unpacked and bounded; `charset`: the same as text.
//! - [`search`]: search engines, one file a dialect.
//! - `failure`: what went wrong, in words.

pub mod address;
pub mod allow;
mod body;
mod charset;
mod client;
pub mod config;
mod failure;
mod fetch;
mod hop;
mod own;
mod redirect;
mod resolve;
pub mod search;
mod target;

pub use allow::AllowedHost;
pub use config::WebConfig;
pub use fetch::Fetcher;
pub use resolve::Lookup;
