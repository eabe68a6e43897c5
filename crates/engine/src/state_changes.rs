//! Changes to a session's state files in the form used for undo, so that they are reported and reverted like changes to
//! files on disk.
//!
//! The contents of these files are in the journal, one fact per change. Therefore, nothing else is stored: an undo
//! looks up contents in the journal by hash.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use agentd_core::{
    Timestamp,
    error::StoreError,
    ids::SessionId,
    ports::Store,
    state_files::{StateFileChange, StateFiles},
    tool::{FileChange, FileChangeKind, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, inverse_change},
};
use sha2::{Digest as _, Sha256};

/// Prefix of the notice between the copied history and the fork's own. Models cannot write notices.
pub(crate) const FORK_NOTICE: &str = "This session is a fork:";

/// Path of the state files, as tools see it.
pub(crate) const ROOT: &str = "/state/";

/// Number of changes read from the journal at a time. Each change may contain a whole file.
const PAGE: usize = 32;

/// Time limit for all diffs of one revert. After this time, diffs become coarser.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// Maximum size of a diff, in bytes. The limit is larger than two texts of the maximum size.
const MAX_DIFF: usize = 1024 * 1024;

/// Converts a call's changes to state files to the form of file changes.
pub(crate) fn changes_of(before: &StateFiles, changes: &[StateFileChange]) -> Vec<FileChange> {
    let last: BTreeMap<&str, Option<&str>> =
        changes.iter().map(|change| (change.path.as_str(), change.content.as_deref())).collect();
    let reported = last.into_iter().filter_map(|(path, after)| {
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
    reported.collect()
}

/// Returns the changes of a call without a result, with their sequence numbers in order. Looks up the earlier contents
/// in the journal, back to the last reset.
pub(crate) async fn changes_without_result(
    store: &dyn Store,
    session: SessionId,
    reset_seq: u64,
    changes: &[(u64, StateFileChange)],
) -> Result<Vec<FileChange>, StoreError> {
    let Some((first, _)) = changes.first() else { return Ok(Vec::new()) };
    let mut unknown: HashSet<&str> = changes.iter().map(|(_, change)| change.path.as_str()).collect();
    let mut before = StateFiles::default();
    newest_first(store, session, *first, |seq, change| {
        let counts = seq > reset_seq;
        if counts && unknown.remove(change.path.as_str()) {
            before.apply(&change, Timestamp::UNIX_EPOCH);
        }
        counts && !unknown.is_empty()
    })
    .await?;
    let changes: Vec<StateFileChange> = changes.iter().map(|(_, change)| change.clone()).collect();
    Ok(changes_of(&before, &changes))
}

/// Splits changes into changes on disk and changes to the state.
pub(crate) fn split_state(changes: Vec<FileChange>) -> (Vec<FileChange>, Vec<FileChange>) {
    changes.into_iter().partition(|change| !change.path.starts_with(ROOT))
}

/// Plan for reverting changes to the state, starting from the current contents.
#[derive(Debug, Default)]
pub(crate) struct RevertPlan {
    /// Outcome for each file, and the reverting changes.
    pub(crate) undone: FilesReverted,
    /// Facts that must be stored to revert the changes.
    pub(crate) facts: Vec<StateFileChange>,
    /// Texts for the diffs: the path of each file and both versions.
    sides: Vec<(String, Option<String>, Option<String>)>,
}

impl RevertPlan {
    /// Creates the plan without changing anything. Files that have changed since are skipped and shown with a diff.
    /// With `shows_all`, reverted files also get a diff.
    pub(crate) async fn find(
        store: &dyn Store,
        session: SessionId,
        changes: &[FileChange],
        now: &StateFiles,
        shows_all: bool,
    ) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        if changes.is_empty() {
            return Ok(plan);
        }
        let contents = contents(store, session, changes, now).await?;
        let mut files = now.clone();
        // Removals come first, to make room for restored files.
        let (removed, restored): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        for change in removed.into_iter().chain(restored) {
            plan.step(change, &contents, &mut files, shows_all);
        }
        plan.show().await;
        plan.undone.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(plan)
    }

    /// Returns true if the plan has no conflicts and no failures.
    pub(crate) fn is_whole(&self) -> bool {
        self.undone.files.iter().all(|file| matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already))
    }

    fn step(
        &mut self,
        change: &FileChange,
        contents: &HashMap<String, String>,
        files: &mut StateFiles,
        shows_all: bool,
    ) {
        use UndoOutcome::{Already, Conflict, Done, Failed};
        let path = change.path.trim_start_matches(ROOT);
        let now = files.get(path).map(|file| file.content.clone());
        let current = now.as_deref().map(state);
        let content_of =
            |state: &Option<FileState>| state.as_ref().and_then(|state| contents.get(&state.hash)).map(String::as_str);
        let reverting_change = inverse_change(change);
        let (outcome, reason) = if !change.is_recorded() {
            let reason = "its earlier content was not recorded, or something else changed it in between".to_owned();
            (Failed, Some(reason))
        } else if current == change.before {
            (Already, None)
        } else if current != change.after {
            let reason = "it has been changed since".to_owned();
            self.compare(change, content_of(&change.after), now.as_deref());
            (Conflict, Some(reason))
        } else if change.before.is_some() && content_of(&change.before).is_none() {
            (Failed, Some("its earlier content is not in the journal".to_owned()))
        } else {
            let wanted = content_of(&change.before);
            let fact = StateFileChange { path: path.to_owned(), content: wanted.map(str::to_owned) };
            match files.check(&fact) {
                Ok(()) => {
                    if shows_all {
                        self.compare(change, now.as_deref(), wanted);
                    }
                    // The time of the change is irrelevant here.
                    files.apply(&fact, Timestamp::UNIX_EPOCH);
                    self.facts.push(fact);
                    self.undone.changes.push(reverting_change.clone());
                    (Done, None)
                }
                Err(refused) => (Failed, Some(refused.to_string())),
            }
        };
        let path = change.path.clone();
        self.undone.files.push(UndoneFile { path, change: reverting_change.change, outcome, reason, diff: None });
    }

    fn compare(&mut self, change: &FileChange, from: Option<&str>, to: Option<&str>) {
        self.sides.push((change.path.clone(), from.map(str::to_owned), to.map(str::to_owned)));
    }

    /// Computes the diffs on a blocking thread.
    async fn show(&mut self) {
        let sides = std::mem::take(&mut self.sides);
        if sides.is_empty() {
            return;
        }
        let compared = tokio::task::spawn_blocking(move || {
            let until = Instant::now() + DIFF_TIME;
            let compared = sides.into_iter().map(|(path, from, to)| {
                let diff = diff(&path, from.as_deref(), to.as_deref(), until);
                (path, diff)
            });
            compared.collect::<HashMap<_, _>>()
        });
        match compared.await {
            Ok(mut diffs) => {
                for file in &mut self.undone.files {
                    file.diff = diffs.remove(&file.path);
                }
            }
            Err(error) => tracing::warn!("could not show changes of the state: {error}"),
        }
    }
}

/// Returns the contents before and after these changes, keyed by hash. Contents found in neither the current state nor
/// the journal are omitted.
async fn contents(
    store: &dyn Store,
    session: SessionId,
    changes: &[FileChange],
    now: &StateFiles,
) -> Result<HashMap<String, String>, StoreError> {
    let states = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
    let mut wanted: HashMap<String, u64> = states.map(|state| (state.hash.clone(), state.size)).collect();
    let mut found = HashMap::new();
    let mut take = |content: &str| {
        let has_size = wanted.values().any(|size| *size == content.len() as u64);
        if has_size && let Some((hash, _)) = wanted.remove_entry(&hash(content)) {
            found.insert(hash, content.to_owned());
        }
        !wanted.is_empty()
    };
    let mut is_left = true;
    for file in changes.iter().filter_map(|change| now.get(change.path.trim_start_matches(ROOT))) {
        is_left = take(&file.content);
    }
    if is_left {
        newest_first(store, session, u64::MAX, |_, change| change.content.is_none_or(|content| take(&content))).await?;
    }
    Ok(found)
}

/// Visits changes to state files with sequence numbers below `before`, newest first, until `visit` returns false.
async fn newest_first(
    store: &dyn Store,
    session: SessionId,
    mut before: u64,
    mut visit: impl FnMut(u64, StateFileChange) -> bool + Send,
) -> Result<(), StoreError> {
    loop {
        let page = store.state_file_changes(session, before, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        before = *last;
        for (seq, change) in page {
            if !visit(seq, change) {
                return Ok(());
            }
        }
    }
}

fn state(content: &str) -> FileState {
    FileState { kind: FileKind::File, hash: hash(content), size: content.len() as u64, mode: 0o644 }
}

/// Returns the SHA-256 of a text in hexadecimal, used as the name of the content.
pub(crate) fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn diff(path: &str, from: Option<&str>, to: Option<&str>, until: Instant) -> String {
    let name = |side: &str, text: Option<&str>| text.map_or("/dev/null".to_owned(), |_| format!("{side}{path}"));
    let config = &mut similar::TextDiffConfig::default();
    let compared = config.deadline(until).diff_lines(from.unwrap_or_default(), to.unwrap_or_default());
    let mut shown = compared.unified_diff().header(&name("a", from), &name("b", to)).to_string();
    if shown.len() > MAX_DIFF {
        let whole = hash(&shown);
        shown.truncate(shown.floor_char_boundary(MAX_DIFF));
        shown.push_str(&format!("\n… (the rest of the diff is left out; sha256 of the whole diff: {whole})\n"));
    }
    shown
}
