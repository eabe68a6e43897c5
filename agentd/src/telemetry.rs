//! What is recorded for others than the session: turns for an OpenTelemetry collector, where a person names one, by tasks beside
//! everything else, which nothing waits for; and requests to models as they are on the wire, where a session or the configuration
//! says so.

use std::{path::PathBuf, sync::Arc};

use agentd_core::ports::{Clock, Store};
use agentd_engine::Activity;
use agentd_exchange::{ExchangeLog, ExchangeLogConfig};
use agentd_telemetry::{
    Signal, TelemetryConfig,
    config::ConfiguredTelemetry,
    export::{self, position_file},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{config::Config, environment::Environment, redact::Redactor};

/// The setting for no collector.
const NONE: &str = "none";

/// Tasks that send. They end with this.
#[derive(Debug, Default)]
pub(crate) struct Exporters(Vec<JoinHandle<()>>);

impl Drop for Exporters {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Starts to send what ends from now on, or has ended since the last run and was not acknowledged. Where nobody asks for it,
/// the position of an earlier run is forgotten: what happens now is not sent later.
pub(crate) async fn start(
    config: &Config,
    env: &Environment,
    data: PathBuf,
    store: Arc<dyn Store>,
    activity: &watch::Receiver<Activity>,
) -> Exporters {
    let settings = &config.daemon.telemetry;
    let configured = ConfiguredTelemetry {
        endpoint: Some(settings.endpoint.as_str()).filter(|endpoint| *endpoint != NONE),
        content: settings.content,
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut exporters = Exporters::default();
    let telemetry = match TelemetryConfig::read(|name| env.text(name), configured) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            // A slip in a variable forgets nothing: what is due is sent once it is mended.
            tracing::warn!("telemetry is off: {error}");
            return exporters;
        }
    };
    for signal in Signal::ALL {
        let sent = telemetry.as_ref().filter(|telemetry| telemetry.signal(signal).is_some());
        let Some(telemetry) = sent.cloned() else {
            if let Err(error) = position_file(&data, signal).forget() {
                tracing::warn!("an old position of telemetry cannot be removed: {error}");
            }
            continue;
        };
        export::anchor(signal, &store, &data).await;
        tracing::info!(signal = signal.as_str(), content = telemetry.content, "turns are sent to a collector");
        let (store, data, activity) = (Arc::clone(&store), data.clone(), activity.clone());
        exporters.0.push(tokio::spawn(async move {
            if let Err(error) = export::follow(signal, &telemetry, store, &data, activity).await {
                tracing::warn!("telemetry is off: {error}");
            }
        }));
    }
    exporters
}

/// The log of requests to models. Nothing is opened before there is something to keep.
pub(crate) fn exchanges(config: &Config, folder: PathBuf, redactor: Redactor, clock: Arc<dyn Clock>) -> ExchangeLog {
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
