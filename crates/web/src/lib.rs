//! Bounded access to the web: the port [`Web`](agentd_core::ports::Web) over HTTP.
//!
//! Pages are untrusted and may link or redirect to any address. Every address, including the targets of redirects, is
//! therefore checked before connecting, and every response is limited in size and time.
//!
//! - [`config`]: the user's settings, including allowed targets that are not public. No tool call can change them.
//! - [`address`]: classifies addresses as public or not public, with the reason; no I/O.
//! - `target`: checks URLs, and recognises the host's own addresses, which are not treated as public.
//! - `client`: resolves names to checked addresses, and makes the connections.
//! - `hop`: a single request and its redirection; no I/O. `fetch`: performs a request up to its final response.
//! - `body`: unpacks a bounded response body, and decodes it as text.
//! - [`search`]: search engines.
//! - `failure`: error messages.

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
