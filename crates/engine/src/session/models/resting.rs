//! Models whose servers did not answer a moment ago, by which the sessions of a daemon save each other the wait.

use std::{collections::HashMap, time::Duration};

use agentd_core::model::ModelInfo;
use tokio::{sync::watch, time::Instant};

/// Models that are kept in mind at the most.
const MAX_MODELS: usize = 256;

/// Models that are given a rest.
#[derive(Debug)]
pub(crate) struct RestingModels(watch::Sender<HashMap<ModelPlace, (Instant, String)>>);

/// Address and id of a model.
type ModelPlace = (Option<String>, String);

impl Default for RestingModels {
    fn default() -> Self {
        Self(watch::Sender::new(HashMap::new()))
    }
}

impl RestingModels {
    /// Takes note that a model does not answer, and why.
    pub(crate) fn note(&self, model: &ModelInfo, why: &str) {
        self.0.send_modify(|known| {
            if known.len() >= MAX_MODELS {
                known.clear();
            }
            known.insert(place(model), (Instant::now(), why.to_owned()));
        });
    }

    /// Why a model did not answer within that time.
    pub(crate) fn since(&self, model: &ModelInfo, time: Duration) -> Option<String> {
        let known = self.0.borrow();
        if known.is_empty() {
            return None;
        }
        let (noted, why) = known.get(&place(model))?;
        (noted.elapsed() < time).then(|| why.clone())
    }
}

fn place(info: &ModelInfo) -> ModelPlace {
    (info.base_url.clone(), info.id.clone())
}
