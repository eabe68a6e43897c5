//! Checks of the models: servers that answer, windows whose size somebody told, weights that are there.

use std::{
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use agentd_core::model::{SlotInfo, WindowSource};
use agentd_proto::packaged;
use url::Url;

use super::Check;
use crate::daemon::{Daemon, Weights};

/// Time limit for connecting to a model's server.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Checks the model of each slot: its server is reached, or its weights are there.
pub(super) async fn checks(daemon: &Daemon) -> Vec<Check> {
    let slots = match daemon.client.models_looked_up().await {
        Ok(slots) => slots,
        Err(error) => return vec![Check::failure("models", &error.into())],
    };
    let mut checks = Vec::new();
    for slot in slots.into_iter().filter(|slot| slot.falls_back_to.is_none()) {
        // Names are looked up and connections made by waiting: not on the thread that serves our own connection.
        if slot.model.embedded {
            checks.push(builtin(daemon, &slot).await);
            continue;
        }
        let checked = tokio::task::spawn_blocking(move || model(&slot)).await;
        checks.extend(checked.ok());
    }
    if checks.is_empty() {
        checks.push(Check::fail(
            "models",
            "no slot has a model",
            "name one in models.yaml, or set MODEL_BASIC_BASE_URL",
        ));
    }
    checks
}

fn model(slot: &SlotInfo) -> Check {
    const NAME: &str = "model";
    let what = format!("{}: {}", slot.slot, slot.model.id);
    if slot.model.wire == "embedded" {
        return Check::fail(
            NAME,
            format!("{}: this agentd was built without a model of its own", slot.slot),
            "name a model server in models.yaml or MODEL_BASIC_BASE_URL, or build with the feature `builtin-model`",
        );
    }
    let Some(url) = &slot.model.base_url else { return Check::ok(NAME, what) };
    match address(url).ok_or_else(|| "it is not an http or https address".to_owned()).and_then(|at| connects(&at)) {
        Ok(()) => window(slot, format!("{what} at {url}")),
        Err(why) => Check::fail(
            NAME,
            format!("{what}: nothing answers at {url}: {why}"),
            "start the server, or correct the address in models.yaml or MODEL_BASIC_BASE_URL",
        ),
    }
}

/// The size of a window is worth a word where nobody told it, or where less is read than is sent.
fn window(slot: &SlotInfo, what: String) -> Check {
    let tokens = slot.model.context_window;
    let say = "set context_window in models.yaml, or MODEL_BASIC_CONTEXT_WINDOW and its like";
    match slot.model.window_source {
        WindowSource::Default => Check::warn(
            "model",
            format!("{what}; nobody says how large its window is, {tokens} tokens are assumed"),
            format!("{say}; `agentctl models test` looks whether so many are read"),
        ),
        WindowSource::Cut => Check::warn(
            "model",
            format!("{what}; its server reads only {tokens} tokens of a request, and says nothing of it"),
            format!(
                "give it a larger window (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx of the model), then `agentctl models \
                 test`; where that is wrong, {say}"
            ),
        ),
        WindowSource::Configured | WindowSource::Catalogue | WindowSource::Server | WindowSource::Refusal => {
            Check::ok("model", what)
        }
    }
}

/// The built-in model works if its weights are there.
async fn builtin(daemon: &Daemon, slot: &SlotInfo) -> Check {
    let what = format!("{}: {}", slot.slot, slot.model.id);
    match Weights::find(daemon).await {
        Weights::File(file) => {
            // What this shell has for a better one is told as such.
            let hint = if daemon.shell_notes(true).is_empty() {
                "for a better one set MODEL_BASIC_BASE_URL, or name one in models.yaml"
            } else {
                "for a better one, see `environment`"
            };
            Check::warn("model", format!("{what}: the small built-in model ({})", file.display()), hint)
        }
        Weights::Missing(path) => Check::fail(
            "model",
            format!("{what}: there are no weights at {}", path.display()),
            format!(
                "download them with `{}`, or name a model: MODEL_BASIC_BASE_URL or models.yaml",
                packaged::fetch_command()
            ),
        ),
    }
}

/// Host and port of a URL.
fn address(url: &str) -> Option<(String, u16)> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some((url.host_str()?.trim_matches(['[', ']']).to_owned(), url.port_or_known_default()?))
}

fn connects((host, port): &(String, u16)) -> Result<(), String> {
    let mut last = "the name has no address".to_owned();
    for address in (host.as_str(), *port).to_socket_addrs().map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_urls() {
        #[track_caller]
        fn check(url: &str, expected: Option<(&str, u16)>) {
            assert_eq!(address(url), expected.map(|(host, port)| (host.to_owned(), port)));
        }
        check("http://127.0.0.1:8080/v1", Some(("127.0.0.1", 8080)));
        check("https://models.example/v1", Some(("models.example", 443)));
        check("http://me:key@host/v1", Some(("host", 80)));
        check("http://[::1]:9/v1", Some(("::1", 9)));
        check("http://[::1]/v1", Some(("::1", 80)));
        check("ftp://host", None);
        check("http://", None);
        check("http://host:port", None);
    }

    #[test]
    fn a_server_that_listens_is_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = ("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        assert_eq!(connects(&at), Ok(()));
        drop(listener);
        assert!(connects(&at).is_err());
    }
}
