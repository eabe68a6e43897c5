//! How large the windows of models are: as configured, or as their servers said when a request did not fit.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentd_core::model::ModelInfo;

/// The least that is believed, in tokens: in less nothing can be done, and whoever says so may not mean well.
const LEAST: u64 = 1024;

/// Sizes of the windows of models, model by model, as learned since the daemon started.
#[derive(Debug, Default)]
pub struct ContextWindows(Mutex<HashMap<String, KnownWindow>>);

/// Size of one window, in tokens.
#[derive(Debug, Default)]
struct KnownWindow {
    /// Size that its server named.
    said: Option<u64>,
    /// The largest request that was answered: it did fit, whatever is said of larger ones.
    answered: u64,
    /// The window that was told as that of a server which cuts requests.
    told_cut: Option<u64>,
}

impl ContextWindows {
    /// The tokens that request and answer may have together. Never more than is configured: a person may want less.
    pub fn of(&self, info: &ModelInfo) -> u64 {
        let windows = self.map();
        let known = windows.get(&key(info)).and_then(|known| known.said.map(|said| said.max(known.answered)));
        known.map_or(info.context_window, |known| info.context_window.min(known))
    }

    /// Takes in that a request of so many tokens was answered.
    pub fn answered(&self, info: &ModelInfo, tokens: u64) {
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        known.answered = known.answered.max(tokens);
    }

    /// Takes in what a server said when it refused a request of about so many tokens, and says whether that is believed and
    /// less than was thought.
    pub fn learn(&self, info: &ModelInfo, refused: u64, said: u64) -> bool {
        if said >= self.of(info) {
            return false;
        }
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        // What did fit and is refused now says itself that the server has another window since.
        let fits_no_longer = refused <= known.answered;
        if said < LEAST || (said < known.answered && !fits_no_longer) {
            let answered = known.answered;
            tracing::info!("not believed: the window of {} has {said} tokens, and {answered} did fit", info.id);
            return false;
        }
        known.said = Some(said);
        known.answered = known.answered.min(said);
        true
    }

    /// The largest request that was answered, in tokens.
    pub fn largest(&self, info: &ModelInfo) -> u64 {
        self.map().get(&key(info)).map_or(0, |known| known.answered)
    }

    /// Forgets what was learnt of a window: it is measured anew.
    pub fn forget(&self, info: &ModelInfo) {
        self.map().remove(&key(info));
    }

    /// Returns whether a person is to be told that the server cuts requests to this size: once, and again where it is another.
    pub fn tell_cut(&self, info: &ModelInfo, window: u64) -> bool {
        self.map().entry(key(info)).or_default().told_cut.replace(window) != Some(window)
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, KnownWindow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same name may stand for another model on another server.
fn key(info: &ModelInfo) -> String {
    format!("{} {}", info.id, info.base_url.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model with a configured window of 8,192 tokens, behind this address.
    fn info(base_url: &str) -> ModelInfo {
        ModelInfo {
            id: "m".to_owned(),
            wire: "openai".to_owned(),
            base_url: Some(base_url.to_owned()),
            context_window: 8192,
            window_source: Default::default(),
            native_tools: true,
            embedded: false,
            echo_reasoning: false,
            sees_pictures: false,
            figures: Vec::new(),
        }
    }

    #[test]
    fn a_window_is_what_its_server_says_and_never_more_than_is_configured() {
        let windows = ContextWindows::default();
        assert_eq!(windows.of(&info("a")), 8192);
        assert!(!windows.learn(&info("a"), 9999, 9000) && !windows.learn(&info("a"), 9999, 8192));
        assert!(windows.learn(&info("a"), 9999, 4096) && !windows.learn(&info("a"), 9999, 4096));
        assert_eq!((windows.of(&info("a")), windows.of(&info("b"))), (4096, 8192));
        assert!(windows.learn(&info("a"), 9999, 2048));
        assert_eq!(windows.of(&ModelInfo { context_window: 1024, ..info("a") }), 1024);
    }

    #[test]
    fn no_window_is_believed_that_is_less_than_what_did_fit() {
        let info = info("a");
        let windows = ContextWindows::default();
        windows.answered(&info, 5000);
        windows.answered(&info, 3000);
        assert!(!windows.learn(&info, 9999, 4999));
        assert_eq!(windows.of(&info), 8192);
        assert!(windows.learn(&info, 9999, 6000));
        windows.answered(&info, 7000);
        assert_eq!(windows.of(&info), 7000, "what was said is refuted");
        let other = ModelInfo { id: "o".to_owned(), ..info };
        assert!(
            !windows.learn(&other, 9999, 0)
                && !windows.learn(&other, 9999, LEAST - 1)
                && windows.learn(&other, 9999, LEAST)
        );
    }

    #[test]
    fn a_server_that_takes_less_than_it_did_has_another_window_since() {
        let info = info("a");
        let windows = ContextWindows::default();
        windows.answered(&info, 7000);
        assert!(!windows.learn(&info, 7001, 4096), "that may be a word of somebody else");
        assert!(!windows.learn(&info, 5000, LEAST - 1));
        assert!(windows.learn(&info, 5000, 4096));
        assert_eq!(windows.of(&info), 4096);
        // What did fit before says nothing of the window that it has now.
        windows.answered(&info, 3000);
        assert!(windows.learn(&info, 3900, 3500) && !windows.learn(&info, 3900, 2500));
        windows.answered(&info, 6000);
        assert_eq!(windows.of(&info), 6000, "what was said is refuted");
    }
}
