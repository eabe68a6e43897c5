//! What was learnt of models, kept from one start of the daemon to the next: what their servers told, and what their refusals
//! and counts have shown.
//!
//! - `record`: what is known of one model, for how long it is believed, and how it is kept.
//! - this file: all of them, and the handle of one.

mod record;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{Timestamp, model::WindowSource, usage::Prices};

use self::record::ModelRecord;
pub(crate) use self::record::{LearntChange, RecordKey, WindowLimit};
use crate::{
    facts::server::ModelAbilities,
    http::{
        learning::{Change, RequestForm},
        window::PLAUSIBLE,
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
        let models = record::read_all(&path, now());
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
            if let Err(error) = record::write_all(path, &models) {
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
    /// The changes that its server demands.
    pub(crate) fn form(&self) -> RequestForm {
        let holding = |record: &ModelRecord| {
            record.changes.iter().filter(|learnt| learnt.holds()).map(|learnt| learnt.change.clone()).collect()
        };
        self.read(holding).unwrap_or_default()
    }

    /// All changes with which requests were taken, with those that do not hold yet.
    pub(crate) fn learnt(&self) -> Vec<LearntChange> {
        self.read(|record| record.changes.clone()).unwrap_or_default()
    }

    /// The id that the server told last.
    pub(crate) fn id(&self) -> Option<String> {
        self.read(|record| record.id.clone()).flatten()
    }

    /// The window that the server told last.
    pub(crate) fn told(&self) -> Option<u64> {
        self.read(|record| record.told).flatten()
    }

    /// The abilities that the server told last.
    pub(crate) fn abilities(&self) -> ModelAbilities {
        self.read(|record| record.abilities).flatten().unwrap_or_default()
    }

    /// The prices that the server listed last.
    pub(crate) fn prices(&self) -> Option<Prices> {
        self.read(|record| record.prices.clone()).flatten()
    }

    /// The window that a refusal or a count has shown.
    pub(crate) fn limit(&self) -> Option<WindowLimit> {
        self.read(|record| record.limit).flatten()
    }

    /// Counts changes with which a request was taken; returns those that were not known.
    pub(crate) fn count(&self, changes: &[Change]) -> Vec<Change> {
        let mut new = Vec::new();
        self.change(|record, now| {
            new = record.count(changes, now);
            !changes.is_empty()
        });
        new
    }

    /// Forgets changes that were needed by chance.
    pub(crate) fn refute(&self, unneeded: &BTreeSet<Change>) {
        if self.read(|record| record.changes.iter().any(|learnt| !learnt.holds())) == Some(true) {
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
            let before = record.clone();
            if window.is_some() && record.told.is_some() && window != record.told {
                record.limit = None;
            }
            (record.id, record.told) = (id.map(str::to_owned), window);
            record.abilities = Some(abilities).filter(|abilities| *abilities != ModelAbilities::default());
            record.prices = prices;
            before != *record
        });
    }

    /// Keeps the window that a refusal or a count has shown.
    pub(crate) fn limit_to(&self, tokens: u64, source: WindowSource) {
        if PLAUSIBLE.contains(&tokens) {
            self.change(|record, at| {
                record.limit = Some(WindowLimit { tokens, source, at });
                true
            });
        }
    }

    /// Forgets that window, which the server has refuted.
    pub(crate) fn lift_limit(&self) {
        self.change(|record, _| record.limit.take().is_some());
    }

    /// Forgets all that was learnt from refusals and counts.
    pub(crate) fn forget(&self) {
        self.change(|record, _| {
            let known = record.limit.is_some() || !record.changes.is_empty();
            record.limit = None;
            record.changes.clear();
            known
        });
    }

    fn read<T>(&self, of: impl FnOnce(&ModelRecord) -> T) -> Option<T> {
        let now = now();
        let mut state = self.all.state();
        let record = state.models.iter_mut().find(|record| record.key == self.key)?;
        record.forget_old(now);
        Some(of(record))
    }

    /// Changes the record, and has it written where something is another since.
    fn change(&self, change: impl FnOnce(&mut ModelRecord, i64) -> bool) {
        let now = now();
        let is_new = {
            let mut state = self.all.state();
            let known = state.models.iter().position(|record| record.key == self.key);
            let mut record = match known {
                Some(at) => state.models.swap_remove(at),
                None => ModelRecord::new(self.key.clone(), now),
            };
            let is_new = change(&mut record, now);
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
