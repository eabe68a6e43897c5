//! The models of a configuration, which can be replaced while turns run. A turn keeps the model that it started with.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use agentd_core::{
    model::{Slot, SlotInfo},
    ports::{Clock, Embeddings, FallbackModel, Model, Models, Store},
    route::Routes,
};
use agentd_models::{EmbeddingStore, EmbeddingsConfig, ModelConfigError, ModelRecords, ModelRouter};

use crate::{
    config::{Config, ModelLocation},
    embedded,
    failure::Failure,
};

/// Weights of the built-in model, in `models/` in the data folder.
const BUILT_IN_WEIGHTS: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Creates the models of a configuration.
pub struct ModelMaker {
    data: PathBuf,
    /// Recorded properties of models. A reload does not change them.
    records: Arc<ModelRecords>,
    routes: Routes,
    /// Journal and clock, to count the usage of embeddings.
    journal: (Arc<dyn Store>, Arc<dyn Clock>),
    /// Embedded models created so far. If a reload does not change a model's settings, the model stays loaded.
    embedded: Mutex<LoadedModels>,
}

/// Embedded models, by file and by idle time after which the memory is released.
type LoadedModels = Vec<((PathBuf, Duration), Arc<dyn Model>)>;

impl ModelMaker {
    pub(crate) fn new(data: &Path, routes: Routes, journal: (Arc<dyn Store>, Arc<dyn Clock>)) -> Self {
        let records = ModelRecords::open(data.join("model-facts.json"));
        Self { data: data.to_path_buf(), records, routes, journal, embedded: Mutex::default() }
    }

    /// Creates the models, without calling a server or loading weights.
    ///
    /// # Errors
    /// Fails if a URL or a header is invalid.
    pub fn make(&self, config: &Config) -> Result<SlotModels, Failure> {
        let mut servers = BTreeMap::new();
        let mut files = BTreeMap::new();
        for (slot, model) in &config.models {
            match model {
                ModelLocation::Server(model) => drop(servers.insert(*slot, (**model).clone())),
                ModelLocation::Gguf(path) => drop(files.insert(*slot, path.clone())),
            }
        }
        // A file in the base slot replaces the built-in model, also in all slots that fall back to it.
        let weights = files
            .remove(&Slot::Base)
            .or_else(|| config.daemon.named_weights())
            .unwrap_or_else(|| self.built_in_weights());
        let mut in_use = Vec::new();
        let base = self.embedded(config, weights, &mut in_use);
        let local = files.into_iter().map(|(slot, path)| (slot, self.embedded(config, path, &mut in_use))).collect();
        let router = ModelRouter::with_records(&servers, base, Arc::clone(&self.records), self.routes.clone());
        let router = router.map_err(|error| {
            Failure::usage(error.to_string()).with_source(error).with_hint("fix it in models.yaml or in MODEL_*")
        })?;
        let embeddings = config.embeddings.clone().map(|embeddings| self.embeddings(embeddings)).transpose();
        let embeddings = embeddings.map_err(|error| {
            Failure::usage(format!("invalid embeddings: {error}")).with_hint("fix them in models.yaml")
        })?;
        *self.embedded.lock().unwrap_or_else(PoisonError::into_inner) = in_use;
        Ok(SlotModels { router, local, embeddings })
    }

    fn embeddings(&self, mut config: EmbeddingsConfig) -> Result<Arc<dyn Embeddings>, ModelConfigError> {
        // The only relative path is that of the files of sessions.
        config.folders.iter_mut().for_each(|folder| *folder = self.data.join(&*folder));
        let folder = self.data.join("embeddings");
        Ok(Arc::new(EmbeddingStore::new(config, folder, self.routes.clone(), self.journal.clone())?))
    }

    /// Returns the file of the built-in model: the user's own file, or the file that a package installed beside the
    /// binary.
    fn built_in_weights(&self) -> PathBuf {
        let own = self.data.join("models").join(BUILT_IN_WEIGHTS);
        let packaged =
            agentd_proto::packaged::models().map(|folder| folder.join(BUILT_IN_WEIGHTS)).filter(|path| path.is_file());
        if own.exists() { own } else { packaged.unwrap_or(own) }
    }

    fn embedded(&self, config: &Config, path: PathBuf, in_use: &mut LoadedModels) -> Arc<dyn Model> {
        let key = (path, config.daemon.embedded.idle_release.0);
        let loaded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
        let model = match loaded.iter().chain(in_use.iter()).find(|(loaded_key, _)| *loaded_key == key) {
            Some((_, model)) => Arc::clone(model),
            None => embedded::model(key.0.clone(), key.1),
        };
        in_use.push((key, Arc::clone(&model)));
        model
    }
}

/// Models on servers, and models in files that have their own slot.
pub struct SlotModels {
    router: ModelRouter,
    local: BTreeMap<Slot, Arc<dyn Model>>,
    embeddings: Option<Arc<dyn Embeddings>>,
}

/// Models that the engine uses, which a reload may replace.
pub struct ReloadableModels(pub(crate) RwLock<Arc<SlotModels>>);

impl ReloadableModels {
    /// Replaces the models. Running calls continue with the old models.
    pub fn replace(&self, models: SlotModels) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(models);
    }

    fn current(&self) -> Arc<SlotModels> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Models for ReloadableModels {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        let SlotModels { router, local, .. } = &*self.current();
        local.get(&slot).cloned().unwrap_or_else(|| router.get(slot))
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        let SlotModels { router, local, .. } = &*self.current();
        if local.contains_key(&slot) { None } else { router.named(slot, id) }
    }

    fn own_slots(&self) -> Vec<Slot> {
        let SlotModels { router, local, .. } = &*self.current();
        let own = router.own_slots();
        Slot::ALL.into_iter().filter(|slot| own.contains(slot) || local.contains_key(slot)).collect()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        let SlotModels { router, local, .. } = &*self.current();
        if local.contains_key(&slot) {
            return Vec::new();
        }
        // The model of a fallback slot may run in this process.
        let resolve_local = |fallback: FallbackModel| match local.get(&fallback.slot) {
            Some(model) => FallbackModel { model: Arc::clone(model), ..fallback },
            None => fallback,
        };
        router.fallbacks(slot).into_iter().map(resolve_local).collect()
    }

    fn list(&self) -> Vec<SlotInfo> {
        let SlotModels { router, local, .. } = &*self.current();
        let own = |info: SlotInfo| match local.get(&info.slot) {
            Some(model) => SlotInfo { slot: info.slot, falls_back_to: None, model: model.info().clone() },
            None => info,
        };
        router.list().into_iter().map(own).collect()
    }

    fn embeddings(&self) -> Option<Arc<dyn Embeddings>> {
        self.current().embeddings.clone()
    }
}
