//! Settings of the embedded model, and its status for callers.

use std::{
    num::NonZero,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;

/// Context length for which SmolLM2 was trained, and the maximum for any model.
pub const DEFAULT_CONTEXT: u32 = 8192;

/// Settings of the embedded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedConfig {
    /// Path of the GGUF file, which is not opened before the first request.
    pub path: PathBuf,
    /// Maximum number of positions. The model's own limit also applies.
    pub context: u32,
    /// Idle time after which the weights are released.
    pub idle: Duration,
    /// Maximum number of tokens in an answer.
    pub max_tokens: u32,
}

/// Model server that listens on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Name for `agentctl models add`.
    pub name: &'static str,
    /// Display name of the server.
    pub title: &'static str,
    /// Base URL of the server.
    pub url: String,
}

/// Looks for model servers on this host.
pub type Neighbours = fn() -> BoxFuture<'static, Vec<Neighbour>>;

impl EmbeddedConfig {
    /// Creates the default settings for a file: 8192 positions, released after 10 minutes, and answers of at most 400
    /// tokens.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), context: DEFAULT_CONTEXT, idle: Duration::from_secs(600), max_tokens: 400 }
    }

    /// Returns the display name of the model: the file name without its quantisation, as in `SmolLM2-135M-Instruct
    /// (built in)`. The name is derived from the path alone, so that it is known without loading the model.
    pub fn model_id(&self) -> String {
        format!("{} (built in)", self.name())
    }

    pub(crate) fn name(&self) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = match stem.rsplit_once(['.', '-']) {
            Some((name, suffix)) if is_quantisation(suffix) => name,
            _ => &stem,
        };
        if name.is_empty() { "model" } else { name }.to_owned()
    }
}

/// Returns true if a part of a file name is a quantisation, such as `Q4_1`, `IQ3_M`, `f16` or `BF16`.
fn is_quantisation(suffix: &str) -> bool {
    let suffix = suffix.to_ascii_uppercase();
    let digits = suffix.trim_start_matches('I').trim_start_matches('Q');
    let quantised = suffix.len() > digits.len() && digits.starts_with(|c: char| c.is_ascii_digit());
    quantised || ["F16", "BF16", "F32"].contains(&suffix.as_str())
}

/// Returns the number of threads that the embedded model should use: all cores but one, at least one.
///
/// The number is read once from `CANDLE_NUM_THREADS` and `RAYON_NUM_THREADS` when the first model is loaded. Both must
/// be in the environment before any thread starts, so `main` sets them unless the user has. One core is left to the
/// daemon because the workers wait in spin loops: if a busy thread runs next to as many workers as cores, the model
/// drops to a sixth of its speed.
pub fn recommended_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1).max(1)
}

/// State of the embedded model, and counters since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbeddedStatus {
    /// True while the weights are in memory.
    pub loaded: bool,
    /// Number of times the weights were loaded.
    pub loads: u64,
    /// True while a request is being processed.
    pub busy: bool,
    /// Number of prompt and answer tokens that were computed, without reused ones.
    pub evaluated_tokens: u64,
    /// Number of tokens that were generated for answers.
    pub generated_tokens: u64,
}

/// Status as updated by the worker.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<EmbeddedStatus>);

impl Counters {
    pub(crate) fn status(&self) -> MutexGuard<'_, EmbeddedStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_name_is_the_file_name_without_quantisation() {
        let check = |path: &str, expected: &str| {
            assert_eq!(EmbeddedConfig::new(path).model_id(), format!("{expected} (built in)"), "{path}");
        };
        check("/data/models/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct");
        check("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Llama-3.2-1B-Instruct");
        check("tiny-bf16.gguf", "tiny");
        check("model-IQ3_M.gguf", "model");
        check("SmolLM2-135M-Instruct.gguf", "SmolLM2-135M-Instruct");
        check("quick.gguf", "quick");
        check("/", "model");
    }
}
