//! How large the windows of models are: as configured, or as their servers said when a request did not fit.

use std::collections::HashMap;

use agentd_core::{error::ModelError, event::EventKind, model::ModelInfo};
use tokio::sync::watch;

use crate::turn::{Stop, TurnContext};

/// What servers said of their windows, model by model, since the daemon started.
#[derive(Debug)]
pub(crate) struct Windows(watch::Sender<HashMap<String, u64>>);

impl Default for Windows {
    fn default() -> Self {
        Self(watch::Sender::new(HashMap::new()))
    }
}

impl Windows {
    /// The tokens that request and answer may have together. Never more than is configured: a person may want less.
    pub(crate) fn of(&self, info: &ModelInfo) -> u64 {
        self.0.borrow().get(&key(info)).map_or(info.context_window, |said| info.context_window.min(*said))
    }

    /// Takes in what a server said, and says whether that is less than was thought.
    fn learn(&self, info: &ModelInfo, said: u64) -> bool {
        let is_less = said < self.of(info);
        if is_less {
            self.0.send_modify(|windows| {
                windows.insert(key(info), said);
            });
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
        };
        let windows = Windows::default();
        assert_eq!(windows.of(&info("a")), 8192);
        assert!(!windows.learn(&info("a"), 9000) && !windows.learn(&info("a"), 8192));
        assert!(windows.learn(&info("a"), 4096) && !windows.learn(&info("a"), 4096));
        assert_eq!((windows.of(&info("a")), windows.of(&info("b"))), (4096, 8192));
        assert!(windows.learn(&info("a"), 2048));
        assert_eq!(windows.of(&ModelInfo { context_window: 1024, ..info("a") }), 1024);
    }
}
