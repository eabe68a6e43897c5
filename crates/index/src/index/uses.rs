//! When a document was last used, and what may therefore go.

use std::{
    collections::HashMap,
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use super::{config::IndexConfig, id::DocumentId, view::Entry};

const FILE: &str = "uses.json";

/// When documents were last used, in seconds since 1970. What is lost of it in a crash makes a document go a little early, and
/// it is indexed again when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    times: Mutex<HashMap<DocumentId, u64>>,
}

impl Uses {
    /// Loads the uses that were stored in this folder.
    pub(crate) fn load(&self, folder: &Path) {
        let read = fs::read(folder.join(FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = read.unwrap_or_default();
    }

    /// Writes it down, without what is not there any longer.
    pub(crate) fn save(&self, folder: &Path, is_there: impl Fn(&DocumentId) -> bool) -> io::Result<()> {
        let bytes = {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.retain(|id, _| is_there(id));
            serde_json::to_vec(&*times)?
        };
        let draft = folder.join("uses.json.new");
        fs::write(&draft, bytes)?;
        fs::rename(draft, folder.join(FILE))
    }

    /// These were used.
    pub(crate) fn touch<'a>(&self, ids: impl Iterator<Item = &'a DocumentId>, now: u64) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            match times.get_mut(id) {
                Some(time) => *time = now,
                None => drop(times.insert(*id, now)),
            }
        }
    }

    /// When a document was last of use to somebody.
    pub(crate) fn last(&self, entry: &Entry) -> u64 {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(&entry.id).copied().unwrap_or_default().max(entry.indexed_at)
    }
}

/// Which documents go, of those that are there with the time of their last use: all that nobody needed for long, and of those
/// that nobody needed lately as many as take up more than is allowed, the oldest first.
pub(crate) fn leaving<'a>(
    entries: impl Iterator<Item = (&'a Entry, u64)>,
    bytes: u64,
    now: u64,
    config: &IndexConfig,
) -> Vec<&'a Entry> {
    let mut entries: Vec<(&Entry, u64)> = entries.collect();
    entries.sort_by_key(|(entry, used)| (*used, entry.owner));
    let all: u64 = entries.iter().map(|(entry, _)| u64::from(entry.chunks)).sum::<u64>().max(1);
    let mut excess = bytes.saturating_sub(config.most_bytes);
    let mut leaving = Vec::new();
    for (entry, used) in entries {
        let unused = now.saturating_sub(used);
        let is_gone = unused >= config.gone_after.as_secs();
        let is_early = excess > 0 && unused >= config.stale_after.as_secs();
        if is_gone || is_early {
            let share = u128::from(bytes) * u128::from(entry.chunks.max(1)) / u128::from(all);
            excess = excess.saturating_sub(u64::try_from(share).unwrap_or(u64::MAX));
            leaving.push(entry);
        }
    }
    leaving
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{index::id::ContentHash, kind::Kind};

    const HOUR: u64 = 3600;

    fn entry(owner: u32) -> Entry {
        let id = DocumentId::new(ContentHash::of(&owner.to_le_bytes()), Kind::Pdf, 1);
        Entry { id, title: None, about: Default::default(), chunks: 10, indexed_at: 0, owner }
    }

    fn check(hours_unused: &[u64], bytes: u64, expected: &[u32]) {
        let mut config = IndexConfig::new("x".into(), Arc::new(|| 0));
        config.most_bytes = 1000;
        let now = 10_000 * HOUR;
        let entries: Vec<(Entry, u64)> =
            (0..).zip(hours_unused).map(|(owner, hours)| (entry(owner), now - hours * HOUR)).collect();
        let told = leaving(entries.iter().map(|(entry, used)| (entry, *used)), bytes, now, &config);
        assert_eq!(told.iter().map(|entry| entry.owner).collect::<Vec<_>>(), expected, "{hours_unused:?} {bytes}");
    }

    #[test]
    fn what_is_not_used_goes_and_what_is_stale_goes_early_for_room() {
        check(&[0, 23, 25, 719], 1000, &[]);
        check(&[0, 720, 25, 721], 1000, &[3, 1]);
        check(&[0, 23, 25, 40], 1001, &[3]);
        check(&[0, 23, 25, 40], 2000, &[3, 2]);
        check(&[0, 1], 5000, &[]);
    }
}
