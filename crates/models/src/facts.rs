//! Facts about a model: as configured, and asked of its server where nobody configured them. That is done once, at the time
//! of the first request, so that neither a start of the daemon nor a first token waits for it.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentd_core::model::{ModelInfo, WindowSource};
use tokio::{sync::OnceCell, time::Instant};

use crate::{
    config::{DEFAULT_WINDOW, ModelConfig, Wire},
    http::Target,
    server::{self, ServerFacts},
};

/// The id of a model that nobody named: it is sent where the server lists none either.
const UNNAMED_MODEL: &str = "default";

/// The time for which a server that could not be asked is left in peace.
const REST: Duration = Duration::from_secs(60);

/// Facts about one model.
#[derive(Debug)]
pub(crate) struct ModelFacts {
    configured: ModelInfo,
    /// The same with what the server told.
    complete: OnceCell<ModelInfo>,
    /// When the server may be asked again.
    rests_until: Mutex<Option<Instant>>,
    /// Set once it was asked, whatever came of it.
    asked: AtomicBool,
}

impl ModelFacts {
    /// Facts that are known from the configuration alone.
    pub(crate) fn configured(config: &ModelConfig, target: &Target) -> Self {
        let is_set = config.context_window.is_some();
        let configured = ModelInfo {
            id: if config.id.is_empty() { UNNAMED_MODEL.to_owned() } else { config.id.clone() },
            wire: config.wire.as_str().to_owned(),
            base_url: Some(target.shown().to_owned()),
            context_window: config.context_window.unwrap_or(DEFAULT_WINDOW),
            window_source: if is_set { WindowSource::Configured } else { WindowSource::Default },
            native_tools: config.uses_native_tools(),
            embedded: false,
            echo_reasoning: config.echo_reasoning,
            sees_pictures: config.sees_pictures && config.wire == Wire::OpenAi,
        };
        Self { configured, complete: OnceCell::new(), rests_until: Mutex::default(), asked: AtomicBool::new(false) }
    }

    /// All that is known now.
    pub(crate) fn info(&self) -> &ModelInfo {
        self.complete.get().unwrap_or(&self.configured)
    }

    /// Asks the server for what is missing, unless it was asked.
    pub(crate) async fn look_up(&self, target: &Target, config: &ModelConfig) {
        let lacks_something = config.id.is_empty() || config.context_window.is_none();
        if !lacks_something || self.complete.initialized() || self.rests() {
            return;
        }
        let ask = || async {
            match server::ask(target, config).await {
                // A server that lists nothing now may list something later, and its first model is the one that is asked.
                Some(ServerFacts { id: None, .. }) if config.needs_id() => Err(()),
                Some(facts) => Ok(self.with(facts, config)),
                None => {
                    // A request that must name its model asks each time, as the server may be starting.
                    if !config.needs_id() {
                        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
                    }
                    Err(())
                }
            }
        };
        self.asked.store(true, Ordering::Relaxed);
        if let Ok(info) = self.complete.get_or_try_init(ask).await {
            tracing::debug!(
                model = info.id,
                window = info.context_window,
                source = info.window_source.as_str(),
                "known"
            );
        }
    }

    /// Returns whether the server was asked, whatever came of it.
    pub(crate) fn were_asked_for(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn rests(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The configured facts, and the server's where there are none.
    fn with(&self, facts: ServerFacts, config: &ModelConfig) -> ModelInfo {
        let mut info = self.configured.clone();
        if let Some(id) = facts.id.filter(|_| config.id.is_empty()) {
            info.id = id;
        }
        if let (None, Some(window)) = (config.context_window, facts.window.tokens(DEFAULT_WINDOW)) {
            (info.context_window, info.window_source) = (window, WindowSource::Server);
        }
        info
    }
}
