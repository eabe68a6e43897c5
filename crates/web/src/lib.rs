//! The web, as far as it may be reached: the port [`Web`](agentd_core::ports::Web) over HTTP.
//!
//! A page is somebody else's word and may want to lead anywhere, so every address is looked at before a connection is
//! made to it, also those behind redirects, and every answer is bounded in size and time.
//!
//! - [`config`]: what a person sets, addresses that are allowed besides public ones among it; no call changes any of it.
//! - [`address`]: which addresses are public, and what is wrong with the others; pure.
//! - `target`: whether an address of a page may be asked at all, and this machine's own, which are not public either.
//! - `client`: names to addresses that were looked at, and the connections.
//! - `hop`: one request on its way, and what becomes of it where it is sent on; pure. `fetch`: from a request to its answer.
//! - `body`: what came, unpacked and bounded, and the same as text.
//! - [`search`]: search engines.
//! - `failure`: what went wrong, in words.

pub mod address;
mod body;
mod client;
pub mod config;
mod failure;
mod fetch;
mod hop;
pub mod search;
mod target;

pub use client::Lookup;
pub use config::{AllowedHost, WebConfig};
pub use fetch::Fetcher;
