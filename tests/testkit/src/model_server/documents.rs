//! Documents about models that a server provides in addition to replies: the list of models, and other information that
//! some kinds of servers provide.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::MODEL_ID;

/// Delivery of one document.
#[derive(Debug, Clone)]
pub(super) enum DocumentReply {
    /// Responds with this document.
    Content(Value),
    /// Responds with status 404.
    Missing,
    /// Never sends a response.
    Silence,
}

/// Documents of a server, and the requests for them.
#[derive(Debug, Default)]
pub(super) struct Documents {
    set: BTreeMap<String, DocumentReply>,
    /// Requested paths, oldest first.
    pub(super) asked: Vec<String>,
}

impl Documents {
    /// Sets the document at a path.
    pub(super) fn set(&mut self, path: &str, document_reply: DocumentReply) {
        self.set.insert(path.to_owned(), document_reply);
    }

    /// Records the request, and returns the document at the path, or `None` if there is none.
    pub(super) fn ask(&mut self, path: &str) -> Option<DocumentReply> {
        let document = self.set.get(path).cloned();
        let usual = || path.ends_with("/models").then(|| DocumentReply::Content(listing([json!({"id": MODEL_ID})])));
        let document_reply = document.or_else(usual)?;
        self.asked.push(path.to_owned());
        Some(document_reply)
    }
}

/// Returns a document that lists these models.
pub fn listing(models: impl IntoIterator<Item = Value>) -> Value {
    let object = |mut model: Value| {
        model["object"] = "model".into();
        model
    };
    let models: Vec<Value> = models.into_iter().map(object).collect();
    json!({"object": "list", "data": models})
}
