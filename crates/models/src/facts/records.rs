//! Persistent records of learnt facts about models: reports from their servers, and findings from refusals and token
//! counts. A record belongs to one model at one URL with its current configuration. The file can be lost without harm,
//! as everything can be learnt again.

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agentd_core::{
    Timestamp,
    model::{WindowSource, is_model_id},
    mutex::lock,
    usage::Prices,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    config::ModelConfig,
    facts::server::ModelAbilities,
    http::{
        failure::PLAUSIBLE,
        refusals::{Change, RequestForm},
    },
};

/// Maximum number of records. The least recently used one is replaced.
const MAX_RECORDS: usize = 256;

/// Records of all models.
#[derive(Debug, Default)]
pub struct ModelRecords {
    /// Path of the file, or `None` if the records are not persistent.
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    models: Vec<ModelRecord>,
    /// True if there are unsaved changes.
    has_unsaved: bool,
    /// True while a task writes the file.
    is_writing: bool,
}

impl ModelRecords {
    /// Loads the records from a file, which may be missing or damaged. The file is written after changes.
    pub fn open(path: PathBuf) -> Arc<Self> {
        let models = read_all(&path, now());
        Arc::new(Self { path: Some(path), state: Mutex::new(State { models, ..State::default() }) })
    }

    /// Returns a handle to the record of one model.
    pub(crate) fn of(self: &Arc<Self>, key: RecordKey) -> RecordHandle {
        RecordHandle { records: Arc::clone(self), key }
    }

    /// Writes the file in the background. Nothing waits for it, as lost records can be learnt again.
    fn save(self: &Arc<Self>) {
        {
            let mut state = lock(&self.state);
            state.has_unsaved = true;
            if self.path.is_none() || std::mem::replace(&mut state.is_writing, true) {
                return;
            }
        }
        let records = Arc::clone(self);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || records.write())),
            Err(_) => records.write(),
        }
    }

    fn write(&self) {
        let Some(path) = &self.path else { return };
        loop {
            let models = {
                let mut state = lock(&self.state);
                if !std::mem::take(&mut state.has_unsaved) {
                    state.is_writing = false;
                    return;
                }
                state.models.clone()
            };
            if let Err(error) = write_all(path, &models) {
                tracing::warn!("could not save learnt facts about models to {}: {error}", path.display());
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RecordHandle {
    records: Arc<ModelRecords>,
    key: RecordKey,
}

impl RecordHandle {
    /// Returns the current record of the model, without expired facts.
    pub(crate) fn current(&self) -> ModelRecord {
        let now = now();
        let mut state = lock(&self.records.state);
        let Some(record) = state.models.iter_mut().find(|record| record.key == self.key) else {
            return ModelRecord::new(self.key.clone(), now);
        };
        record.forget_old(now);
        record.clone()
    }

    /// Counts the changes with which a request was accepted, and returns the new ones.
    pub(crate) fn count(&self, changes: &[Change]) -> Vec<Change> {
        let mut new = Vec::new();
        self.change(|record, now| new = record.count(changes, now));
        new
    }

    /// Removes changes that turned out to be unnecessary.
    pub(crate) fn refute(&self, unneeded: &BTreeSet<Change>) {
        if self.current().changes.iter().any(|learnt| !learnt.is_applied()) {
            self.change(|record, _| record.refute(unneeded));
        }
    }

    /// Stores facts that the server reported. A changed window means a changed server, so a limit observed on the old
    /// server is removed.
    pub(crate) fn store(
        &self,
        id: Option<&str>,
        window: Option<u64>,
        abilities: ModelAbilities,
        prices: Option<Prices>,
    ) {
        self.change(|record, _| {
            if window.is_some() && record.reported_window.is_some() && window != record.reported_window {
                record.limit = None;
            }
            (record.id, record.reported_window) = (id.map(str::to_owned), window);
            record.abilities = Some(abilities).filter(|abilities| *abilities != ModelAbilities::default());
            record.prices = prices;
        });
    }

    /// Stores a window size inferred from a refusal or a token count.
    pub(crate) fn limit_to(&self, tokens: u64, source: WindowSource) {
        if PLAUSIBLE.contains(&tokens) {
            self.change(|record, at| record.limit = Some(WindowLimit { tokens, source, at }));
        }
    }

    /// Removes the observed window, which an answer has refuted.
    pub(crate) fn lift_limit(&self) {
        self.change(|record, _| record.limit = None);
    }

    /// Removes everything learnt from refusals and token counts.
    pub(crate) fn forget(&self) {
        self.change(|record, _| {
            record.limit = None;
            record.changes.clear();
        });
    }

    /// Changes the record, and saves the file if the record has changed.
    fn change(&self, change: impl FnOnce(&mut ModelRecord, i64)) {
        let now = now();
        let is_new = {
            let mut state = lock(&self.records.state);
            let index = state.models.iter().position(|record| record.key == self.key);
            let known = index.map(|index| state.models.swap_remove(index));
            let mut record = known.unwrap_or_else(|| ModelRecord::new(self.key.clone(), now));
            let before = record.clone();
            change(&mut record, now);
            let is_new = record != before;
            record.used = now;
            if !record.is_empty() {
                if state.models.len() >= MAX_RECORDS {
                    let oldest = state.models.iter().enumerate().min_by_key(|(_, record)| record.used);
                    if let Some((at, _)) = oldest {
                        state.models.swap_remove(at);
                    }
                }
                state.models.push(record);
            }
            is_new
        };
        if is_new {
            self.records.save();
        }
    }
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Validity in seconds of an observed window. Servers get reconfigured without notice.
const WINDOW_VALIDITY: i64 = 30 * DAY;

/// Validity in seconds of learnt changes.
const CHANGE_VALIDITY: i64 = 7 * DAY;

const DAY: i64 = 24 * 60 * 60;

/// Maximum number of changes per record.
const MAX_CHANGES: usize = 32;

/// Maximum length of a URL in bytes.
const MAX_ADDRESS: usize = 1024;

/// Key of a record: a model with its configuration. A changed configuration starts a new record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RecordKey {
    /// URL without password and query.
    address: String,
    /// Configured ID, or empty for the first model that the server lists.
    model: String,
    wire: String,
    /// Hash of the settings that affect requests. Contains no secret.
    settings: String,
}

impl RecordKey {
    pub(crate) fn new(address: &str, config: &ModelConfig) -> Self {
        let mut hasher = DefaultHasher::new();
        (config.native_tools, config.echo_reasoning, config.sees_pictures).hash(&mut hasher);
        (config.temperature.map(f64::to_bits), config.max_tokens, config.context_window).hash(&mut hasher);
        (config.thinking, config.effort).hash(&mut hasher);
        config.body.iter().for_each(|(name, value)| (name, value.to_string()).hash(&mut hasher));
        Self {
            address: address.to_owned(),
            model: config.id.clone(),
            wire: config.wire.as_str().to_owned(),
            settings: format!("{:016x}", hasher.finish()),
        }
    }
}

/// Change with which a request was accepted after it had been refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LearntChange {
    pub(crate) change: Change,
    /// Last occurrence, in seconds since 1970.
    at: i64,
    /// Number of refusals. Earlier versions did not count refusals, and applied a change after the first one.
    #[serde(default = "default_times")]
    times: u32,
}

fn default_times() -> u32 {
    2
}

impl LearntChange {
    /// Returns true if the change is applied to requests.
    fn is_applied(&self) -> bool {
        self.times >= self.change.required_refusals()
    }

    /// Returns the status of the change, for display.
    pub(crate) fn status(&self) -> String {
        if !self.is_applied() {
            return "refused once".to_owned();
        }
        let until = Timestamp::from_second(self.at.saturating_add(CHANGE_VALIDITY)).map(|until| until.to_string());
        format!("refused, remembered until {}", until.as_deref().unwrap_or_default().get(..10).unwrap_or_default())
    }
}

/// Observed window that is smaller than the reported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowLimit {
    /// Size of the window in tokens.
    pub(crate) tokens: u64,
    /// Source: a refusal or a silent truncation.
    pub(crate) source: WindowSource,
    /// Time of the observation, in seconds since 1970.
    at: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelRecord {
    #[serde(flatten)]
    pub(crate) key: RecordKey,
    /// Last use, in seconds since 1970.
    used: i64,
    /// ID reported by the server, if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Window reported by the server, in tokens.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported_window: Option<u64>,
    /// Abilities reported by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abilities: Option<ModelAbilities>,
    /// Prices listed by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prices: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<WindowLimit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<LearntChange>,
}

impl ModelRecord {
    fn new(key: RecordKey, now: i64) -> Self {
        Self {
            key,
            used: now,
            id: None,
            reported_window: None,
            abilities: None,
            prices: None,
            limit: None,
            changes: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::new(self.key.clone(), self.used)
    }

    /// Returns the changes that the server requires.
    pub(crate) fn form(&self) -> RequestForm {
        RequestForm(
            self.changes.iter().filter(|learnt| learnt.is_applied()).map(|learnt| learnt.change.clone()).collect(),
        )
    }

    /// Removes implausible values, and rejects an invalid record: the file may be damaged or edited.
    fn validated(mut self, now: i64) -> Option<Self> {
        if self.key.address.len() > MAX_ADDRESS || self.used > now {
            return None;
        }
        self.id = self.id.filter(|id| is_model_id(id));
        self.reported_window = self.reported_window.filter(|tokens| PLAUSIBLE.contains(tokens));
        self.prices = self.prices.filter(Prices::are_plausible);
        self.limit = self.limit.filter(|limit| PLAUSIBLE.contains(&limit.tokens) && limit.at <= now);
        self.changes.retain(|learnt| learnt.change.is_sound() && learnt.at <= now);
        self.changes.truncate(MAX_CHANGES);
        self.forget_old(now);
        (!self.is_empty()).then_some(self)
    }

    /// Removes facts that have expired.
    fn forget_old(&mut self, now: i64) {
        let is_fresh = |at: i64, seconds: i64| now.saturating_sub(at) < seconds;
        self.limit = self.limit.filter(|limit| is_fresh(limit.at, WINDOW_VALIDITY));
        self.changes.retain(|learnt| is_fresh(learnt.at, CHANGE_VALIDITY));
    }

    /// Counts the changes with which a request was accepted, and returns the new ones.
    fn count(&mut self, changes: &[Change], now: i64) -> Vec<Change> {
        let mut new = Vec::new();
        for change in changes {
            if let Some(learnt) = self.changes.iter_mut().find(|learnt| learnt.change == *change) {
                (learnt.times, learnt.at) = (learnt.times.saturating_add(1), now);
            } else {
                if self.changes.len() >= MAX_CHANGES {
                    self.changes.remove(0);
                }
                self.changes.push(LearntChange { change: change.clone(), at: now, times: 1 });
                new.push(change.clone());
            }
        }
        new
    }

    /// Removes changes that turned out to be unnecessary.
    fn refute(&mut self, unneeded: &BTreeSet<Change>) {
        self.changes.retain(|learnt| learnt.is_applied() || !unneeded.contains(&learnt.change));
    }
}

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Version of the file format. Files of other versions are ignored.
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct RecordFile<M> {
    version: u64,
    models: M,
}

/// Reads the records and skips invalid ones.
fn read_all(path: &Path, now: i64) -> Vec<ModelRecord> {
    let text = match bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("could not read {}; querying the servers again: {error}", path.display());
            return Vec::new();
        }
    };
    match serde_json::from_slice::<RecordFile<Vec<&RawValue>>>(&text) {
        Ok(file) if file.version == VERSION => {
            let record = |text: &RawValue| serde_json::from_str::<ModelRecord>(text.get()).ok()?.validated(now);
            file.models.into_iter().take(MAX_RECORDS).filter_map(record).collect()
        }
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!("{} is damaged; querying the servers again: {error}", path.display());
            Vec::new()
        }
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(io::Error::other("not a regular file of at most 1 MiB"));
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces the file atomically, with mode 0600.
fn write_all(path: &Path, models: &[ModelRecord]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&RecordFile { version: VERSION, models })?;
    let draft = path.with_extension("draft");
    fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?.write_all(&text)?;
    fs::rename(&draft, path)
}
