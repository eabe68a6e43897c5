//! Signs that a server still reads the project: what it answers then is not the whole truth. Pure.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::protocol::{Progress, ProgressKind};

/// Work that is remembered as under way.
const MAX_PROGRESS: usize = 64;
/// Time after which work whose end was never told counts as done.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Work of a server that it has told of.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Start of each piece of work, by its token.
    progress: HashMap<String, Instant>,
    /// The server's own word, which counts more; none where it says nothing of it.
    is_quiescent: Option<bool>,
}

impl Loading {
    pub(super) fn progress(&mut self, told: &Progress, now: Instant) {
        let token = told.token.to_string();
        match told.value.kind {
            Some(ProgressKind::Begin) if self.progress.len() < MAX_PROGRESS => drop(self.progress.insert(token, now)),
            Some(ProgressKind::End) => drop(self.progress.remove(&token)),
            _ => {}
        }
    }

    pub(super) fn status(&mut self, is_quiescent: bool) {
        self.is_quiescent = Some(is_quiescent);
    }

    pub(super) fn is_under_way(&self, now: Instant) -> bool {
        match self.is_quiescent {
            Some(is_quiescent) => !is_quiescent,
            None => self.progress.values().any(|begun| now < *begun + MAX_AGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_loads_while_it_says_so() {
        let (mut loading, begun) = (Loading::default(), Instant::now());
        let tell = |loading: &mut Loading, token: serde_json::Value, kind: &str| {
            let told = serde_json::from_value(json!({"token": token, "value": {"kind": kind}})).unwrap();
            loading.progress(&told, begun);
        };
        assert!(!loading.is_under_way(begun));
        tell(&mut loading, json!(1), "begin");
        tell(&mut loading, json!("1"), "begin");
        tell(&mut loading, json!(1), "end");
        tell(&mut loading, json!("1"), "other");
        assert!(loading.is_under_way(begun));
        assert!(!loading.is_under_way(begun + MAX_AGE), "an end that is never told");
        tell(&mut loading, json!("1"), "end");
        assert!(!loading.is_under_way(begun));
        loading.status(false);
        assert!(loading.is_under_way(begun));
        loading.status(true);
        tell(&mut loading, json!(2), "begin");
        assert!(!loading.is_under_way(begun), "its own word counts more");
    }
}
