//! Changes of a session's own state as undo sees them: told like changes of files, and taken back like them.
//!
//! What these files held is in the journal, a fact a change. So nothing is kept for them besides: a content that is wanted
//! is looked for there, by its hash.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use agentd_core::{
    Timestamp,
    error::StoreError,
    event::{EventKind, StateChange},
    ids::SessionId,
    ports::Store,
    state_files::{StateFileChange, StateFiles},
    tool::{FileChange, FileChangeKind, FileKind, FileState},
    undo::{UndoOutcome, Undone, UndoneFile, reversed},
};
use sha2::{Digest as _, Sha256};

/// Where tools see these files.
const ROOT: &str = "/state/";

/// Events that are read from the journal at once.
const PAGE: usize = 1000;

/// How long a diff is computed at the most; from then on it is coarser.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// Bytes of a diff that are shown.
const MAX_DIFF: usize = 64 * 1024;

/// What a call changed there, as changes of files are told.
pub(crate) fn changes_of(before: &StateFiles, changes: &[StateFileChange]) -> Vec<FileChange> {
    let last: BTreeMap<&str, Option<&str>> =
        changes.iter().map(|change| (change.path.as_str(), change.content.as_deref())).collect();
    let told = last.into_iter().filter_map(|(path, after)| {
        let before = before.get(path).map(|file| file.content.as_str());
        let kind = match (before, after) {
            (None, Some(_)) => FileChangeKind::Created,
            (Some(_), None) => FileChangeKind::Deleted,
            (Some(before), Some(after)) if before != after => FileChangeKind::Modified,
            _ => return None,
        };
        let (before, after) = (before.map(state), after.map(state));
        Some(FileChange { before, after, ..FileChange::new(format!("{ROOT}{path}"), kind) })
    });
    told.collect()
}

/// Changes on the disk, and those of the state.
pub(crate) fn apart(changes: Vec<FileChange>) -> (Vec<FileChange>, Vec<FileChange>) {
    changes.into_iter().partition(|change| !change.path.starts_with(ROOT))
}

/// The way back from changes of the state, from where it stands now.
#[derive(Debug, Default)]
pub(crate) struct WayBack {
    /// What comes of each file, and the changes that take it back.
    pub(crate) undone: Undone,
    /// What has to be stored for that.
    pub(crate) facts: Vec<StateFileChange>,
}

impl WayBack {
    /// Finds it, and changes nothing.
    pub(crate) async fn find(
        store: &dyn Store,
        session: SessionId,
        changes: &[FileChange],
        now: &StateFiles,
    ) -> Result<Self, StoreError> {
        let mut way = Self::default();
        if changes.is_empty() {
            return Ok(way);
        }
        let contents = contents(store, session, changes).await?;
        let mut files = now.clone();
        // What goes makes room for what comes.
        let (going, coming): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        for change in going.into_iter().chain(coming) {
            way.step(change, &contents, &mut files);
        }
        way.undone.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(way)
    }

    /// Whether nothing stands against it.
    pub(crate) fn is_whole(&self) -> bool {
        self.undone.files.iter().all(|file| matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already))
    }

    fn step(&mut self, change: &FileChange, contents: &HashMap<String, String>, files: &mut StateFiles) {
        use UndoOutcome::{Already, Conflict, Done, Failed};
        let path = change.path.trim_start_matches(ROOT);
        let now = files.get(path).map(|file| file.content.clone());
        let stands = now.as_deref().map(state);
        let held =
            |state: &Option<FileState>| state.as_ref().and_then(|state| contents.get(&state.hash)).map(String::as_str);
        let back = reversed(change);
        let (outcome, reason, diff) = if !change.is_recorded() {
            let reason = "what it held before was not recorded, or something else changed it in between".to_owned();
            (Failed, Some(reason), None)
        } else if stands == change.before {
            (Already, None, None)
        } else if stands != change.after {
            let reason = "it has been changed since".to_owned();
            (Conflict, Some(reason), Some(diff(&change.path, held(&change.after), now.as_deref())))
        } else if change.before.is_some() && held(&change.before).is_none() {
            (Failed, Some("what it held before is not in the journal".to_owned()), None)
        } else {
            let wanted = held(&change.before);
            let fact = StateFileChange { path: path.to_owned(), content: wanted.map(str::to_owned) };
            match files.check(&fact) {
                Ok(()) => {
                    let shown = diff(&change.path, now.as_deref(), wanted);
                    // When it was written is not looked at here.
                    files.apply(&fact, Timestamp::UNIX_EPOCH);
                    self.facts.push(fact);
                    self.undone.changes.push(back.clone());
                    (Done, None, Some(shown))
                }
                Err(refused) => (Failed, Some(refused.to_string()), None),
            }
        };
        self.undone.files.push(UndoneFile { path: change.path.clone(), change: back.change, outcome, reason, diff });
    }
}

/// The contents that these changes went between, by their hashes, as far as the journal has them.
async fn contents(
    store: &dyn Store,
    session: SessionId,
    changes: &[FileChange],
) -> Result<HashMap<String, String>, StoreError> {
    let states = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
    let mut wanted: HashSet<String> = states.map(|state| state.hash.clone()).collect();
    let mut found = HashMap::new();
    let mut after = 0;
    while !wanted.is_empty() {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for event in &page {
            let EventKind::StateChanged { change: StateChange::File(change) } = &event.kind else { continue };
            let Some(content) = &change.content else { continue };
            if let Some(hash) = wanted.take(&hash(content)) {
                found.insert(hash, content.clone());
            }
        }
    }
    Ok(found)
}

fn state(content: &str) -> FileState {
    FileState { kind: FileKind::File, hash: hash(content), size: content.len() as u64, mode: 0o644 }
}

/// A name for a text: its fingerprint.
pub(crate) fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn diff(path: &str, from: Option<&str>, to: Option<&str>) -> String {
    let name = |side: &str, text: Option<&str>| text.map_or("/dev/null".to_owned(), |_| format!("{side}{path}"));
    let compared = similar::TextDiffConfig::default()
        .timeout(DIFF_TIME)
        .diff_lines(from.unwrap_or_default(), to.unwrap_or_default());
    let mut shown = compared.unified_diff().header(&name("a", from), &name("b", to)).to_string();
    if shown.len() > MAX_DIFF {
        let whole = hash(&shown);
        shown.truncate(shown.floor_char_boundary(MAX_DIFF));
        shown.push_str(&format!("\n… (the rest of the diff is left out; sha256 of all of it {whole})\n"));
    }
    shown
}
