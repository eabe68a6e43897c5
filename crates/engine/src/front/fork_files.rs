//! Files of a fork as they were at its turn.
//!
//! The journal tells what calls and undos did to files since, and the undo store holds what was there before. The fork's own copies
//! are taken back to it, file by file, where they are as those calls left them. The project is shared with the other session, so
//! nothing of it is changed: what its files held then is written below a folder of the fork.

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::EarlierFiles,
    folder::Mounts,
    ids::SessionId,
    item::{Item, ItemBody},
    ports::Store,
    tool::{FileChange, FileChangeKind, FileKind},
    undo::{UndoOutcome, folded},
};

use crate::{error::EngineError, session::registry::shared::Ports};

/// Events that are read from the journal at once.
const PAGE: usize = 1000;
/// Folders of a session's own tree that a fork has copies of.
const COPIED: [&str; 2] = ["uploads/", "outputs/"];
/// Trees of the person that sessions share.
const SHARED: [&str; 2] = ["/project/", "/folders/"];
/// Files that are named at the most, of each kind.
const NAMED: usize = 100;

/// Brings the files of a fork to that event, the end of that turn.
pub(super) async fn bring_back(
    ports: &Ports,
    from: SessionId,
    fork: SessionId,
    through: u64,
    turn: u64,
) -> Result<EarlierFiles, EngineError> {
    let changes = changes_behind(&*ports.store, from, through).await?;
    let folder = format!("outputs/at-turn-{turn}");
    let (own, shared): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| starts_with(change, &COPIED));
    let own: Vec<FileChange> = own.into_iter().map(as_copied).collect();
    let shared: Vec<FileChange> = shared
        .iter()
        .filter(|change| starts_with(change, &SHARED))
        .filter_map(|change| beside(change, &folder))
        .collect();
    let mut earlier = EarlierFiles::default();
    if own.is_empty() && shared.is_empty() {
        return Ok(earlier);
    }
    let workspace = ports.workspaces.open(fork, Mounts::default()).await?;
    for (changes, is_shared) in [(own, false), (shared, true)] {
        let done = ports.snapshots.undo(fork, &workspace, changes, false).await?;
        for file in done.files {
            match file.outcome {
                UndoOutcome::Done if is_shared => earlier.shared += 1,
                UndoOutcome::Done => earlier.restored += 1,
                UndoOutcome::Already => {}
                UndoOutcome::Conflict | UndoOutcome::Failed if earlier.left.len() < NAMED => {
                    let reason = file.reason.unwrap_or_default();
                    earlier.left.push(format!("{}: {reason}", file.path));
                }
                UndoOutcome::Conflict | UndoOutcome::Failed => {}
            }
        }
    }
    if earlier.shared > 0 {
        earlier.folder = folder;
    }
    Ok(earlier)
}

fn starts_with(change: &FileChange, folders: &[&str]) -> bool {
    folders.iter().any(|folder| change.path.starts_with(folder))
}

/// The change as it looks in copies, which are their owner's alone.
fn as_copied(mut change: FileChange) -> FileChange {
    for state in change.before.iter_mut().chain(&mut change.after) {
        state.mode = match state.kind {
            FileKind::File => (state.mode & 0o700) | 0o600,
            FileKind::Folder => 0o700,
            FileKind::Link => state.mode,
        };
    }
    change.shared = None;
    change
}

/// The change whose undo writes what a shared file held below that folder; none where it held nothing, or was no file.
fn beside(change: &FileChange, folder: &str) -> Option<FileChange> {
    let before = change.before.clone().filter(|before| before.kind == FileKind::File)?;
    let path = format!("{folder}{}", change.path);
    Some(FileChange { before: Some(before), ..FileChange::new(path, FileChangeKind::Deleted) })
}

/// Sum of all changes of files behind that event, those that took others back among them.
async fn changes_behind(store: &dyn Store, id: SessionId, through: u64) -> Result<Vec<FileChange>, EngineError> {
    let (mut after, mut changes) = (through, Vec::new());
    loop {
        let page = store.events(id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(folded(&changes)) };
        after = last.seq;
        for event in &page {
            if event.is_damaged() {
                let message =
                    "a part of what happened behind that turn is damaged on the disk: files cannot be brought back";
                return Err(EngineError::new(ErrorKind::Storage, message)
                    .with_hint("fork without --files, which copies them as they are now"));
            }
            changes.extend(files_of(event).iter().cloned());
        }
    }
}

fn files_of(event: &Event) -> &[FileChange] {
    match &event.kind {
        EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => &result.files,
        EventKind::StateChanged { change: StateChange::Undone { files, .. } } => files,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::FileState;

    use super::*;

    #[test]
    fn a_file_of_the_project_comes_back_beside_it() {
        let state = |kind| FileState { kind, hash: "ab".to_owned(), size: 1, mode: 0o644 };
        let change = |before, path: &str| FileChange {
            before,
            project: Some("/home/me/app".into()),
            ..FileChange::new(path, FileChangeKind::Modified)
        };
        let check = |before, path: &str, expected: Option<&str>| {
            let found = beside(&change(before, path), "outputs/at-turn-3");
            assert_eq!(found.as_ref().map(|found| found.path.as_str()), expected);
            if let Some(found) = found {
                assert!(found.is_recorded() && found.project.is_none() && found.after.is_none(), "{found:?}");
            }
        };
        check(Some(state(FileKind::File)), "/project/src/a.rs", Some("outputs/at-turn-3/project/src/a.rs"));
        check(Some(state(FileKind::File)), "/folders/lib/a", Some("outputs/at-turn-3/folders/lib/a"));
        check(Some(state(FileKind::Link)), "/project/link", None);
        check(Some(state(FileKind::Folder)), "/project/src/", None);
        check(None, "/project/new", None);
    }
}
