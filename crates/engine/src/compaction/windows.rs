//! How large the windows of models are: as configured, or as their servers said when a request did not fit.

use std::collections::HashMap;

use agentd_core::{error::ModelError, event::EventKind, model::ModelInfo};
use tokio::sync::watch;

use crate::turn::{Stop, TurnContext};

/// The least that is believed, in tokens: in less nothing can be done, and whoever says so may not mean well.
const LEAST: u64 = 1024;

/// What is known of the windows of models, model by model, since the daemon started.
#[derive(Debug)]
pub(crate) struct Windows(watch::Sender<HashMap<String, Known>>);

/// What is known of one window, in tokens.
#[derive(Debug, Default)]
struct Known {
    /// What its server said.
    said: Option<u64>,
    /// The largest request that was answered: it did fit, whatever is said.
    answered: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self(watch::Sender::new(HashMap::new()))
    }
}

impl Windows {
    /// The tokens that request and answer may have together. Never more than is configured: a person may want less.
    pub(crate) fn of(&self, info: &ModelInfo) -> u64 {
        let windows = self.0.borrow();
        let known = windows.get(&key(info)).and_then(|known| known.said.map(|said| said.max(known.answered)));
        known.map_or(info.context_window, |known| info.context_window.min(known))
    }

    /// Takes in that a request of so many tokens was answered.
    pub(crate) fn answered(&self, info: &ModelInfo, tokens: u64) {
        let key = key(info);
        if self.0.borrow().get(&key).is_none_or(|known| known.answered < tokens) {
            self.0.send_modify(|windows| {
                let known = windows.entry(key).or_default();
                known.answered = known.answered.max(tokens);
            });
        }
    }

    /// Takes in what a server said, and says whether that is believed and less than was thought.
    fn learn(&self, info: &ModelInfo, said: u64) -> bool {
        let key = key(info);
        let answered = self.0.borrow().get(&key).map_or(0, |known| known.answered);
        let is_less = said < self.of(info);
        if is_less && said < LEAST.max(answered) {
            tracing::info!("not believed: the window of {} has {said} tokens, and {answered} did fit", info.id);
            return false;
        }
        if is_less {
            self.0.send_modify(|windows| windows.entry(key).or_default().said = Some(said));
        }
        is_less
    }
}

/// The same name may stand for another model on another server.
fn key(info: &ModelInfo) -> String {
    format!("{} {}", info.id, info.base_url.as_deref().unwrap_or_default())
}

/// Takes in what an error says of the model's window, if it does, and tells it.
pub(crate) async fn learn(context: &TurnContext, info: &ModelInfo, error: &ModelError) -> Result<(), Stop> {
    let Some(said) = error.window().filter(|said| context.windows.learn(info, *said)) else { return Ok(()) };
    let message = format!(
        "the window of {} has {said} tokens, as its server says, not {}: that holds until the daemon stops; set \
         context_window in models.yaml to keep it",
        info.id, info.context_window
    );
    context.recorder.fact(EventKind::Warning { code: "window_learned".to_owned(), message }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_what_its_server_says_and_never_more_than_is_configured() {
        let info = |base_url: &str| ModelInfo {
            id: "m".to_owned(),
            wire: "openai".to_owned(),
            base_url: Some(base_url.to_owned()),
            context_window: 8192,
            native_tools: true,
            embedded: false,
            echo_reasoning: false,
        };
        let windows = Windows::default();
        assert_eq!(windows.of(&info("a")), 8192);
        assert!(!windows.learn(&info("a"), 9000) && !windows.learn(&info("a"), 8192));
        assert!(windows.learn(&info("a"), 4096) && !windows.learn(&info("a"), 4096));
        assert_eq!((windows.of(&info("a")), windows.of(&info("b"))), (4096, 8192));
        assert!(windows.learn(&info("a"), 2048));
        assert_eq!(windows.of(&ModelInfo { context_window: 1024, ..info("a") }), 1024);
    }

    #[test]
    fn no_window_is_believed_that_is_less_than_what_did_fit() {
        let info = ModelInfo {
            id: "m".to_owned(),
            wire: "openai".to_owned(),
            base_url: None,
            context_window: 8192,
            native_tools: true,
            embedded: false,
            echo_reasoning: false,
        };
        let windows = Windows::default();
        windows.answered(&info, 5000);
        windows.answered(&info, 3000);
        assert!(!windows.learn(&info, 4999));
        assert_eq!(windows.of(&info), 8192);
        assert!(windows.learn(&info, 6000));
        windows.answered(&info, 7000);
        assert_eq!(windows.of(&info), 7000, "what was said is refuted");
        let other = ModelInfo { id: "o".to_owned(), ..info };
        assert!(!windows.learn(&other, 0) && !windows.learn(&other, LEAST - 1) && windows.learn(&other, LEAST));
    }
}
