//! Files that people handed over, as far as no turn has begun with them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    event::{EventKind, StateChange},
    files::Picture,
};

/// Files handed over that a model is still to be told of, at the most: of more the oldest are not named.
const MAX_HANDED_OVER: usize = 100;

/// Files that people handed over, as far as no turn has begun with them. Pure: the sum of a session's events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingAttachments {
    /// Their paths, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    /// Pictures for models, of those that are pictures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pictures: BTreeMap<String, Picture>,
}

impl PendingAttachments {
    /// Paths that the next turn is to tell, the oldest first.
    #[must_use]
    pub fn next(&self) -> Vec<String> {
        self.waiting.clone()
    }

    /// Returns whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Picture for models of a file that waits, where it is one.
    #[must_use]
    pub fn picture(&self, path: &str) -> Option<&Picture> {
        self.pictures.get(path)
    }

    /// Takes in a fact, and says whether it changed anything.
    pub fn apply(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::StateChanged { change: StateChange::HandedOver { path, picture } } => {
                // One that is written again is told once.
                self.waiting.retain(|known| known != path);
                self.waiting.push(path.clone());
                match picture {
                    Some(picture) => drop(self.pictures.insert(path.clone(), picture.clone())),
                    None => drop(self.pictures.remove(path)),
                }
                let most = MAX_HANDED_OVER.min(self.waiting.len());
                for forgotten in self.waiting.drain(..self.waiting.len() - most) {
                    self.pictures.remove(&forgotten);
                }
                true
            }
            // What is told of them is stored with the turn's input. Turns that only compact, or never run, tell nothing.
            EventKind::TurnStarted { handed_over, .. } if !handed_over.is_empty() => {
                self.waiting.retain(|known| !handed_over.contains(known));
                self.pictures.retain(|known, _| !handed_over.contains(known));
                true
            }
            _ => false,
        }
    }
}
