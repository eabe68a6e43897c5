//! One record: what was learnt of one model at one address, as it is configured now. And the file of all records, which can be lost
//! without harm: everything in it can be learnt anew.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use agentd_core::{
    Timestamp,
    model::{WindowSource, is_model_id},
    usage::Prices,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{MAX_RECORDS, PLAUSIBLE};
use crate::{config::ModelConfig, facts::server::ModelAbilities, http::learning::Change};

/// Seconds for which something is believed that only a refusal or a count has shown. Servers are changed, and then say
/// nothing of it.
pub(super) const BELIEVED: i64 = 30 * DAY;

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
    pub(super) at: i64,
    /// Number of refusals. Earlier versions counted none and believed the first.
    #[serde(default = "believed")]
    times: u32,
}

fn believed() -> u32 {
    2
}

impl LearntChange {
    /// Returns true if requests are changed by it.
    pub(super) fn holds(&self) -> bool {
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
    pub(super) at: i64,
}

/// Everything learnt of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelRecord {
    #[serde(flatten)]
    pub(super) key: RecordKey,
    /// When it was last used, in seconds since 1970.
    pub(super) used: i64,
    /// The id that the server told, where none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// The window that the server told, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) told: Option<u64>,
    /// The abilities that the server told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) abilities: Option<ModelAbilities>,
    /// The prices that the server listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prices: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<WindowLimit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<LearntChange>,
}

impl ModelRecord {
    pub(super) fn new(key: RecordKey, now: i64) -> Self {
        Self { key, used: now, id: None, told: None, abilities: None, prices: None, limit: None, changes: Vec::new() }
    }

    /// Returns whether there is anything in it.
    pub(super) fn is_empty(&self) -> bool {
        let nothing_told = self.id.is_none() && self.told.is_none() && self.abilities.is_none();
        nothing_told && self.prices.is_none() && self.limit.is_none() && self.changes.is_empty()
    }

    /// The record without what cannot be believed: a file may be damaged, and others may have written it.
    pub(super) fn sound(mut self, now: i64) -> Option<Self> {
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

    /// Forgets what was learnt too long ago; says whether there was something.
    pub(super) fn forget_old(&mut self, now: i64) -> bool {
        let is_fresh = |at: i64, seconds: i64| now.saturating_sub(at) < seconds;
        let before = (self.limit, self.changes.len());
        self.limit = self.limit.filter(|limit| is_fresh(limit.at, BELIEVED));
        self.changes.retain(|learnt| is_fresh(learnt.at, REMEMBERED));
        before != (self.limit, self.changes.len())
    }

    /// Counts changes with which a request was taken; returns those that were not known.
    pub(super) fn count(&mut self, changes: &[Change], now: i64) -> Vec<Change> {
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

    /// Forgets changes that were needed by chance; returns whether there was one.
    pub(super) fn refute(&mut self, unneeded: &BTreeSet<Change>) -> bool {
        let before = self.changes.len();
        self.changes.retain(|learnt| learnt.holds() || !unneeded.contains(&learnt.change));
        self.changes.len() < before
    }
}

/// The bytes of a file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Version of the file's form. A file of another one is not read.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct WireFile<'a> {
    version: u64,
    #[serde(borrow)]
    models: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    version: u64,
    models: &'a [ModelRecord],
}

/// Reads the records, each as far as it can be read.
pub(super) fn read_all(path: &Path, now: i64) -> Vec<ModelRecord> {
    let text = match bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{} cannot be read, so servers are asked anew: {error}", path.display());
            return Vec::new();
        }
    };
    match serde_json::from_slice::<WireFile<'_>>(&text) {
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
pub(super) fn write_all(path: &Path, models: &[ModelRecord]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&WrittenFile { version: VERSION, models })?;
    let draft = path.with_extension("draft");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&text)?;
    file.flush()?;
    drop(file);
    fs::rename(&draft, path)
}
