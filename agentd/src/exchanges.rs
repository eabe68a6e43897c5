//! Requests to models and their answers, as they are on the wire: kept where a session or the configuration says so.

use std::{path::PathBuf, sync::Arc};

use agentd_core::ports::Clock;
use agentd_exchange::{ExchangeLog, ExchangeLogConfig};

use crate::{config::Config, redact::Redactor};

/// The log of a daemon. Nothing is opened before there is something to keep.
pub(crate) fn log(config: &Config, folder: PathBuf, redactor: Redactor, clock: Arc<dyn Clock>) -> ExchangeLog {
    let settings = &config.daemon.trace;
    ExchangeLog::new(ExchangeLogConfig {
        folder,
        is_on: settings.requests,
        max_file_bytes: settings.max_file_bytes.0,
        max_files: u32::try_from(settings.max_files.0).unwrap_or(u32::MAX),
        clean: Arc::new(move |text| redactor.clean(text)),
        clock,
    })
}
