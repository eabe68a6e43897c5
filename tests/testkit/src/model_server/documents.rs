//! Documents about models, which a server hands out beside its answers: the list of models, and what some kinds of server
//! tell elsewhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::MODEL_ID;

/// Delivery of one document.
#[derive(Debug, Clone)]
pub(super) enum Handing {
    /// It is there.
    There(Value),
    /// There is none.
    Missing,
    /// The server says nothing.
    Silence,
}

/// The documents of a server, and the questions for them.
#[derive(Debug, Default)]
pub(super) struct Documents {
    set: BTreeMap<String, Handing>,
    /// The paths that were asked for, oldest first.
    pub(super) asked: Vec<String>,
}

impl Documents {
    /// Sets what a path has.
    pub(super) fn set(&mut self, path: &str, handing: Handing) {
        self.set.insert(path.to_owned(), handing);
    }

    /// Hands out what a path has; none where it is no path of a document.
    pub(super) fn ask(&mut self, path: &str) -> Option<Handing> {
        let known = self.set.get(path).cloned();
        let usual = || path.ends_with("/models").then(|| Handing::There(listing([json!({"id": MODEL_ID})])));
        let handing = known.or_else(usual)?;
        self.asked.push(path.to_owned());
        Some(handing)
    }
}

/// A list of these models.
pub fn listing(models: impl IntoIterator<Item = Value>) -> Value {
    let object = |mut model: Value| {
        model["object"] = "model".into();
        model
    };
    let models: Vec<Value> = models.into_iter().map(object).collect();
    json!({"object": "list", "data": models})
}
