//! What was learnt of models, kept from one start of the daemon to the next: what their servers told, and what their refusals
//! and counts have shown. A record is what was learnt of one model at one address, as it is configured now. The file of all records
//! can be lost without harm: everything in it can be learnt anew.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    Timestamp,
    model::{WindowSource, is_model_id},
    usage::Prices,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    config::ModelConfig,
    facts::server::ModelAbilities,
    http::{
        failure::PLAUSIBLE,
        learning::{Change, RequestForm},
    },
};

/// Records that are kept. The one that was not used for the longest time makes way.
const MAX_RECORDS: usize = 256;

/// Everything that was learnt of models.
#[derive(Debug, Default)]
pub struct ModelRecords {
    /// None where they end with the process.
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    models: Vec<ModelRecord>,
    /// Something is not written yet.
    unwritten: bool,
    /// Somebody writes.
    writing: bool,
}

impl ModelRecords {
    /// Those of a file, which may be missing or damaged. It is written when something is learnt.
    pub fn open(path: PathBuf) -> Arc<Self> {
        let models = read_all(&path, now());
        Arc::new(Self { path: Some(path), state: Mutex::new(State { models, ..State::default() }) })
    }

    /// The record of one model.
    pub(crate) fn of(self: &Arc<Self>, key: RecordKey) -> RecordHandle {
        RecordHandle { all: Arc::clone(self), key }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the file written, beside all else: nobody waits for it, and what is lost can be learnt anew.
    fn save(self: &Arc<Self>) {
        {
            let mut state = self.state();
            state.unwritten = true;
            if self.path.is_none() || std::mem::replace(&mut state.writing, true) {
                return;
            }
        }
        let all = Arc::clone(self);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || all.write())),
            Err(_) => all.write(),
        }
    }

    fn write(&self) {
        let Some(path) = &self.path else { return };
        loop {
            let models = {
                let mut state = self.state();
                if !std::mem::take(&mut state.unwritten) {
                    state.writing = false;
                    return;
                }
                state.models.clone()
            };
            if let Err(error) = write_all(path, &models) {
                tracing::warn!("what was learnt of models cannot be kept in {}: {error}", path.display());
            }
        }
    }
}

/// The record of one model.
#[derive(Debug, Clone)]
pub(crate) struct RecordHandle {
    all: Arc<ModelRecords>,
    key: RecordKey,
}

impl RecordHandle {
    /// All that is known of the model by now.
    pub(crate) fn known(&self) -> ModelRecord {
        let now = now();
        let mut state = self.all.state();
        let Some(record) = state.models.iter_mut().find(|record| record.key == self.key) else {
            return ModelRecord::new(self.key.clone(), now);
        };
        record.forget_old(now);
        record.clone()
    }

    /// Counts changes with which a request was taken; returns those that were not known.
    pub(crate) fn count(&self, changes: &[Change]) -> Vec<Change> {
        let mut new = Vec::new();
        self.change(|record, now| new = record.count(changes, now));
        new
    }

    /// Forgets changes that were needed by chance.
    pub(crate) fn refute(&self, unneeded: &BTreeSet<Change>) {
        if self.known().changes.iter().any(|learnt| !learnt.holds()) {
            self.change(|record, _| record.refute(unneeded));
        }
    }

    /// Keeps what the server tells. Where that is another window than before, the server is another since, and nothing holds
    /// that was seen of the old one.
    pub(crate) fn tell(
        &self,
        id: Option<&str>,
        window: Option<u64>,
        abilities: ModelAbilities,
        prices: Option<Prices>,
    ) {
        self.change(|record, _| {
            if window.is_some() && record.told.is_some() && window != record.told {
                record.limit = None;
            }
            (record.id, record.told) = (id.map(str::to_owned), window);
            record.abilities = Some(abilities).filter(|abilities| *abilities != ModelAbilities::default());
            record.prices = prices;
        });
    }

    /// Keeps the window that a refusal or a count has shown.
    pub(crate) fn limit_to(&self, tokens: u64, source: WindowSource) {
        if PLAUSIBLE.contains(&tokens) {
            self.change(|record, at| record.limit = Some(WindowLimit { tokens, source, at }));
        }
    }

    /// Forgets that window, which the server has refuted.
    pub(crate) fn lift_limit(&self) {
        self.change(|record, _| record.limit = None);
    }

    /// Forgets all that was learnt from refusals and counts.
    pub(crate) fn forget(&self) {
        self.change(|record, _| {
            record.limit = None;
            record.changes.clear();
        });
    }

    /// Changes the record, and has it written where something is another since.
    fn change(&self, change: impl FnOnce(&mut ModelRecord, i64)) {
        let now = now();
        let is_new = {
            let mut state = self.all.state();
            let known = state.models.iter().position(|record| record.key == self.key);
            let mut record = match known {
                Some(at) => state.models.swap_remove(at),
                None => ModelRecord::new(self.key.clone(), now),
            };
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
            self.all.save();
        }
    }
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Seconds for which something is believed that only a refusal or a count has shown. Servers are changed, and then say
/// nothing of it.
const BELIEVED: i64 = 30 * DAY;

/// The same of what servers refuse.
const REMEMBERED: i64 = 7 * DAY;

const DAY: i64 = 24 * 60 * 60;

/// Changes that one record has at the most.
const MAX_CHANGES: usize = 32;

/// The longest address that is kept, in bytes.
const MAX_ADDRESS: usize = 1024;

/// The subject of a record: a model as it is configured. Where the configuration is changed, another record begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RecordKey {
    /// The address without password and query.
    address: String,
    /// The configured id; empty for the first that the server lists.
    model: String,
    wire: String,
    /// Fingerprint of the settings that change requests. No secret goes into it.
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

/// A change with which a request was taken that had been refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LearntChange {
    pub(crate) change: Change,
    /// When it was last, in seconds since 1970.
    at: i64,
    /// Number of refusals. Earlier versions counted none and believed the first.
    #[serde(default = "believed")]
    times: u32,
}

fn believed() -> u32 {
    2
}

impl LearntChange {
    /// Returns true if requests are changed by it.
    fn holds(&self) -> bool {
        self.times >= self.change.needed()
    }

    /// Standing of the change, for people.
    pub(crate) fn standing(&self) -> String {
        if !self.holds() {
            return "refused once".to_owned();
        }
        let until = Timestamp::from_second(self.at.saturating_add(REMEMBERED)).map(|until| until.to_string());
        format!("refused, remembered until {}", until.as_deref().unwrap_or_default().get(..10).unwrap_or_default())
    }
}

/// A window that is smaller than its server tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowLimit {
    /// Its tokens.
    pub(crate) tokens: u64,
    /// A refusal or a silent cut.
    pub(crate) source: WindowSource,
    /// When it was seen, in seconds since 1970.
    at: i64,
}

/// Everything learnt of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelRecord {
    #[serde(flatten)]
    pub(crate) key: RecordKey,
    /// When it was last used, in seconds since 1970.
    used: i64,
    /// The id that the server told, where none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The window that the server told, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) told: Option<u64>,
    /// The abilities that the server told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abilities: Option<ModelAbilities>,
    /// The prices that the server listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prices: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<WindowLimit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<LearntChange>,
}

impl ModelRecord {
    fn new(key: RecordKey, now: i64) -> Self {
        Self { key, used: now, id: None, told: None, abilities: None, prices: None, limit: None, changes: Vec::new() }
    }

    /// Returns whether there is anything in it.
    fn is_empty(&self) -> bool {
        *self == Self::new(self.key.clone(), self.used)
    }

    /// The changes that its server demands.
    pub(crate) fn form(&self) -> RequestForm {
        RequestForm(self.changes.iter().filter(|learnt| learnt.holds()).map(|learnt| learnt.change.clone()).collect())
    }

    /// The record without what cannot be believed: a file may be damaged, and others may have written it.
    fn sound(mut self, now: i64) -> Option<Self> {
        if self.key.address.len() > MAX_ADDRESS || self.used > now {
            return None;
        }
        self.id = self.id.filter(|id| is_model_id(id));
        self.told = self.told.filter(|tokens| PLAUSIBLE.contains(tokens));
        self.prices = self.prices.filter(Prices::are_sound);
        self.limit = self.limit.filter(|limit| PLAUSIBLE.contains(&limit.tokens) && limit.at <= now);
        self.changes.retain(|learnt| learnt.change.is_sound() && learnt.at <= now);
        self.changes.truncate(MAX_CHANGES);
        self.forget_old(now);
        (!self.is_empty()).then_some(self)
    }

    /// Forgets what was learnt too long ago.
    fn forget_old(&mut self, now: i64) {
        let is_fresh = |at: i64, seconds: i64| now.saturating_sub(at) < seconds;
        self.limit = self.limit.filter(|limit| is_fresh(limit.at, BELIEVED));
        self.changes.retain(|learnt| is_fresh(learnt.at, REMEMBERED));
    }

    /// Counts changes with which a request was taken; returns those that were not known.
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

    /// Forgets changes that were needed by chance.
    fn refute(&mut self, unneeded: &BTreeSet<Change>) {
        self.changes.retain(|learnt| learnt.holds() || !unneeded.contains(&learnt.change));
    }
}

/// The bytes of a file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Version of the file's form. A file of another one is not read.
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct RecordFile<M> {
    version: u64,
    models: M,
}

/// Reads the records, each as far as it can be read.
fn read_all(path: &Path, now: i64) -> Vec<ModelRecord> {
    let text = match bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{} cannot be read, so servers are asked anew: {error}", path.display());
            return Vec::new();
        }
    };
    match serde_json::from_slice::<RecordFile<Vec<&RawValue>>>(&text) {
        Ok(file) if file.version == VERSION => {
            let record = |text: &RawValue| serde_json::from_str::<ModelRecord>(text.get()).ok()?.sound(now);
            file.models.into_iter().take(MAX_RECORDS).filter_map(record).collect()
        }
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!("{} is damaged, so servers are asked anew: {error}", path.display());
            Vec::new()
        }
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(io::Error::other("it is no file of at most 1 MiB"));
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Writes the records in place of those that are there: all or nothing, for their owner only.
fn write_all(path: &Path, models: &[ModelRecord]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&RecordFile { version: VERSION, models })?;
    let draft = path.with_extension("draft");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&text)?;
    file.flush()?;
    drop(file);
    fs::rename(&draft, path)
}
