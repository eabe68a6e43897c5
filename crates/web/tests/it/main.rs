//! Tests of the public interface, with servers on loopback. `127.0.0.1` stands for an address that the user allows,
//! `127.0.0.2` for an address that must not be contacted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod answers;
mod private;
mod searching;
mod server;

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    error::WebError,
    ports::{ReadRules, Web as _},
    web::{WebAnswer, WebRequest},
};
use agentd_web::{Fetcher, Lookup, WebConfig};
use futures_util::{FutureExt as _, future::BoxFuture};

/// Scripted name server: the addresses of each name, one list per lookup. The last list is repeated.
#[derive(Debug, Default)]
struct Names(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let addresses = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let answers = |(name, lists): &(&str, &[&[&str]])| {
            ((*name).to_owned(), lists.iter().map(addresses).collect::<Vec<Vec<IpAddr>>>())
        };
        Arc::new(Self(Mutex::new(names.iter().map(answers).collect())))
    }
}

impl Lookup for Names {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut names = self.0.lock().unwrap();
        let found =
            names.get_mut(&host).map(|answers| if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() });
        async move { found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name")) }.boxed()
    }
}

fn config() -> WebConfig {
    WebConfig {
        allow: vec!["127.0.0.1".parse().unwrap()],
        max_bytes: 100_000,
        timeout: Duration::from_secs(60),
        ..WebConfig::default()
    }
}

fn web() -> Fetcher {
    Fetcher::with_lookup(config(), Arc::new(Names::default()))
}

async fn fetch(web: &Fetcher, url: &str) -> Result<WebAnswer, WebError> {
    web.fetch(WebRequest::get(url), ReadRules::default()).await
}
