//! `agentd.yaml`: everything that is not about models or single tools.

use std::{path::PathBuf, time::Duration};

use super::{
    ConfigError, ErrorPlace, Sources,
    groups::{DaemonLayer, DaemonSettings, IndexSettings, ServiceLayer, ServiceSettings, TurnLayer},
    layers::Subject,
    origin::{Origin, Origins},
    value::{Auto, log_filter},
    yaml,
};

/// The variable for `turns.max_message_history`.
const HISTORY: &str = "MAX_MESSAGE_HISTORY";

/// The variable for `service.log_level`.
const LOG: &str = "AGENTD_LOG";

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<DaemonSettings, ConfigError> {
    let mut sum = DaemonLayer::default();
    let variables = sources.env.texts();
    for file in sources.files_about(Subject::Daemon) {
        let mut layer: DaemonLayer = yaml::parse(file, &variables, origins)?;
        let sandbox = layer.sandbox.iter_mut().flat_map(|sandbox| [&mut sandbox.read, &mut sandbox.write]);
        let weights = layer.embedded.iter_mut().flat_map(|embedded| &mut embedded.weights);
        for path in sandbox.flatten().flatten().chain(weights) {
            path.place(file, sources)?;
        }
        sum.overlay(layer, &file.origin, origins);
    }

    if let Some(text) = sources.env.text(HISTORY) {
        let number =
            Auto::parse(text).map_err(|why| ConfigError::new(ErrorPlace::Variable(HISTORY.to_owned()), why))?;
        let turns = Some(TurnLayer { max_message_history: Some(number), ..TurnLayer::default() });
        sum.overlay(DaemonLayer { turns, ..DaemonLayer::default() }, &Origin::Variable(HISTORY), origins);
    }
    let variable = sources.env.text(LOG).map(|level| (level, Origin::Variable(LOG)));
    let flag = sources.flags.log_level.as_deref().map(|level| (level, Origin::Flag("--log-level")));
    for (level, origin) in variable.into_iter().chain(flag) {
        let service = Some(ServiceLayer { log_level: Some(level.to_owned()), ..ServiceLayer::default() });
        sum.overlay(DaemonLayer { service, ..DaemonLayer::default() }, &origin, origins);
    }
    let settings = sum.complete()?;
    settings.index.check(origins)?;
    settings.service.check(origins)?;
    Ok(settings)
}

impl IndexSettings {
    /// Makes sure that chunks move on, and that nothing goes before it is stale.
    fn check(&self, origins: &Origins) -> Result<(), ConfigError> {
        let refuse = |key: &str, why: &str| Err(ConfigError::new(origins.place(key), format!("{key} {why}")));
        if self.chunk_overlap.0 * 2 > self.chunk_chars.0 {
            return refuse("index.chunk_overlap", "is at most half of index.chunk_chars");
        }
        if self.row_overlap.0 * 2 > self.chunk_rows.0 {
            return refuse("index.row_overlap", "is at most half of index.chunk_rows");
        }
        if self.keep.0 < self.stale_after.0 {
            return refuse("index.keep", "is at least index.stale_after");
        }
        Ok(())
    }
}

impl ServiceSettings {
    /// A filter that cannot be read would otherwise silence the log without a word.
    fn check(&self, origins: &Origins) -> Result<(), ConfigError> {
        if log_filter(&self.log_level).is_some() {
            return Ok(());
        }
        let error =
            ConfigError::new(origins.place("service.log_level"), format!("`{}` is not a log level", self.log_level));
        Err(error.with_hint("write error, warn, info, debug or trace, or a filter such as `info,agentd_models=debug`"))
    }
}

impl DaemonSettings {
    /// The weights of the embedded model: a named file, or nothing for those that came with agentd.
    pub fn named_weights(&self) -> Option<PathBuf> {
        let weights = &self.embedded.weights;
        (weights.text != "auto").then(|| weights.path.clone())
    }

    /// Time limit for running turns at a stop.
    pub fn drain_deadline(&self) -> Duration {
        self.service.drain_deadline.0
    }
}
