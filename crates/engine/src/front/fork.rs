//! Creates sessions that continue from a copy of another session's history.
//!
//! The events up to the end of a turn are copied with their sequence numbers. Therefore, the fork's model gets the same
//! history as the source session's model at that point, including compactions, and compacted items can be found. After
//! that, the sessions share nothing except a common project folder.
//!
//! The files of a fork can be reverted to that turn, because the journal records the later file changes by calls and
//! undos, and the undo store has the earlier contents. The fork's own copies are reverted one by one if they are
//! unchanged since those calls. The shared project is never changed; the earlier contents of its files are written to a
//! folder of the fork.

use std::sync::Arc;

use agentd_core::{
    context::{HistoryFile, Window},
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::{EarlierFiles, FilesCopied},
    folder::Mounts,
    ids::SessionId,
    import_origin::ImportOrigin,
    item::{Item, ItemBody},
    ports::Store,
    session::{NewFork, SessionMode, SessionSettings, TurnSpan},
    tool::{FileChange, FileChangeKind, FileKind},
    undo::{UndoOutcome, folded},
};

use crate::{
    config::Ports,
    error::{EngineError, Result},
    front::Engine,
    recovery::reading,
    session::{SessionHandle, normalise_title, registry::shared::SessionNews},
    state_changes::FORK_NOTICE,
    turn::recorder::whole,
};

/// Maximum length of the source session's title within a fork's title, in characters.
const MAX_SOURCE_TITLE: usize = 150;

/// Options of a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForkOptions {
    /// Number of the last turn to copy, from 1. `None` copies all turns before an open turn.
    pub at_turn: Option<u64>,
    /// Title of the fork. `None` uses the source session's title with `(fork)`.
    pub title: Option<String>,
    /// True to revert the fork's files to that turn. Otherwise, they are copies of the current files.
    pub earlier_files: bool,
}

/// Result of forking a session.
pub struct ForkedSession {
    /// Handle of the new session.
    pub session: SessionHandle,
    /// Number of the last copied turn.
    pub turn: u64,
    /// Files copied to the fork.
    pub files: FilesCopied,
    /// Files that were reverted to that turn, if requested.
    pub earlier: Option<EarlierFiles>,
}

/// Point at which a history is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForkPoint {
    /// Sequence number of the last copied event.
    through: u64,
    /// Number of the last copied turn.
    turn: u64,
}

impl Engine {
    /// Creates a session that continues from a copy of another session's history, up to the end of the given turn or up
    /// to an open turn. Settings, todos and the state files of that time are copied; files on disk are copied as they
    /// are now, or reverted to that time. Grants and pending questions are not copied.
    ///
    /// # Errors
    /// Fails if there is no such session or turn, the turn has not ended, or the journal or the files cannot be
    /// written.
    pub async fn fork_session(&self, from: SessionId, wishes: ForkOptions) -> Result<ForkedSession> {
        let ports = &self.shared.ports;
        // Loading the session settles turns that were open when the daemon last stopped.
        let stored = self.session(from).await?.show().await?.session;
        let fork_point = fork_point(&ports.store.turns(from).await?, stored.summary.last_seq, wishes.at_turn)?;
        let history = history_file(&*ports.store, from, fork_point.through).await?;
        let (id, at) = (SessionId::generate(), ports.clock.now());
        let files_of = stored.settings.files_of(from);
        if wishes.earlier_files && files_of != from {
            let message = "this session shares the files of another one, so they cannot be restored to its turns";
            return Err(EngineError::new(ErrorKind::Conflict, message)
                .with_hint(format!("fork it without --files, or fork session {files_of} with --files")));
        }
        // A fork is never a subagent. A mode that allows more is a permission like a grant, and is not copied.
        let mode = if stored.settings.mode == SessionMode::Plan { SessionMode::Plan } else { SessionMode::Ask };
        let settings = SessionSettings { grants: Vec::new(), parent: None, pinned: false, mode, ..stored.settings };
        // Only events before the cut were imported from elsewhere; later events are stored by this daemon.
        let before_cut =
            |origin: &ImportOrigin| ImportOrigin { events: origin.events.min(fork_point.through), context: None };
        let imported = settings.imported.as_deref().map(|origin| Box::new(before_cut(origin)));
        let settings = SessionSettings { imported, ..settings };
        let title = fork_title(wishes.title.as_deref(), &stored.summary.title)?;
        let made = async {
            let files = ports.workspaces.copy(files_of, id, history).await?;
            let earlier = match wishes.earlier_files {
                true => Some(revert_files(ports, from, id, fork_point).await?),
                false => None,
            };
            let mut changes =
                vec![StateChange::Forked { from, turn: fork_point.turn }, StateChange::Settings { settings }];
            changes.extend(title.map(|title| StateChange::Title { title }));
            let mut facts: Vec<EventKind> =
                changes.into_iter().map(|change| EventKind::StateChanged { change }).collect();
            // A notice must belong to a turn, which is the last copied turn.
            if let Some(turn_id) =
                reading::last(&*ports.store, from, 0, fork_point.through, |event| event.turn_id).await?
            {
                let text = format!(
                    "{FORK_NOTICE} everything before this is a copy of another session's history, up to the end of \
                     its turn {}. {} temp/ is empty. Check a file before you rely on it.",
                    fork_point.turn,
                    describe_files(earlier.as_ref(), fork_point.turn)
                );
                facts.extend(whole(Item::new(turn_id, ItemBody::notice(text))));
            }
            let numbered = facts.into_iter().zip(fork_point.through + 1..);
            let first = numbered.map(|(kind, seq)| Arc::new(Event { session_id: id, turn_id: None, seq, at, kind }));
            let fork = NewFork { id, at, from, through: fork_point.through, first: first.collect() };
            ports.store.fork_session(fork).await?;
            Ok::<_, EngineError>((files, earlier))
        };
        let made = made.await;
        if made.is_err() {
            // Otherwise, a partial copy, or files without a session, would remain forever.
            let _ = ports.workspaces.remove(id).await;
        }
        let (files, earlier) = made?;
        self.shared.news.publish(SessionNews::Created(id));
        Ok(ForkedSession { session: self.session(id).await?, turn: fork_point.turn, files, earlier })
    }
}

/// Finds the point at which the history is cut, which is never inside a turn.
fn fork_point(turns: &[TurnSpan], head: u64, at_turn: Option<u64>) -> Result<ForkPoint> {
    let is_open = |turn: &TurnSpan, at: u64| turn.began <= at && turn.ended.is_none_or(|ended| ended > at);
    let mut through = match at_turn {
        None => turns.iter().find(|turn| turn.ended.is_none()).map_or(head, |open| open.began - 1),
        Some(number) => {
            let chosen = usize::try_from(number).ok().and_then(|number| turns.get(number.checked_sub(1)?));
            let unknown = || {
                let message = format!("this session has no turn {number}; it has {}", turns.len());
                let hint = "turns are counted from 1; without a number, all ended turns are copied";
                EngineError::not_found(message, hint)
            };
            let chosen = chosen.ok_or_else(unknown)?;
            chosen.ended.ok_or_else(|| turn_not_ended(number))?
        }
    };
    // A queued turn that never ran may be recorded inside another turn.
    while let Some((index, around)) = turns.iter().enumerate().find(|(_, turn)| is_open(turn, through)) {
        through = around.ended.ok_or_else(|| turn_not_ended(index as u64 + 1))?;
    }
    match turns.iter().filter(|turn| turn.began <= through).count() as u64 {
        0 => {
            let message = "no turn of this session has ended, so there is nothing to fork";
            let hint = "wait for its first turn to end, or start a new session";
            Err(EngineError::new(ErrorKind::Conflict, message).with_hint(hint))
        }
        turn => Ok(ForkPoint { through, turn }),
    }
}

fn turn_not_ended(number: u64) -> EngineError {
    let hint =
        "wait for it to end, answer its question, or cancel it; without a number, all turns before it are copied";
    EngineError::busy(format!("turn {number} of this session has not ended"), hint)
}

/// Returns the history file of the compaction that is in effect at the given event.
async fn history_file(store: &dyn Store, id: SessionId, through: u64) -> Result<Option<HistoryFile>> {
    let window = reading::last(store, id, 0, through, window_of).await?.unwrap_or_default();
    let Some(before) = window.summary.checked_sub(1) else { return Ok(None) };
    let event = store.events(id, before, 1).await?.into_iter().next();
    Ok(event.and_then(|event| match &event.kind {
        EventKind::ItemCompleted { item: Item { body: ItemBody::Compaction(compaction), .. }, .. } => {
            Some(compaction.file.clone()).filter(|file| !file.name.is_empty())
        }
        _ => None,
    }))
}

/// Returns the window of the history that is set by an event.
fn window_of(event: &Event) -> Option<Window> {
    match &event.kind {
        EventKind::ItemCompleted { item: Item { body: ItemBody::Compaction(compaction), .. }, .. } => {
            let window = Window { after: compaction.through, summary: event.seq, held: 0 };
            Some(window).filter(|_| !compaction.summary.is_empty())
        }
        EventKind::StateChanged { change: StateChange::Window { window } } => Some(*window),
        EventKind::StateChanged { change: StateChange::Reset } => {
            Some(Window { after: event.seq, ..Window::default() })
        }
        _ => None,
    }
}

/// Describes the fork's files to the model.
fn describe_files(earlier: Option<&EarlierFiles>, turn: u64) -> String {
    let Some(EarlierFiles { folder, left, .. }) = earlier else {
        return "uploads/ and outputs/ are copies from the time of the fork, and may differ from the history;"
            .to_owned();
    };
    let mut text = format!("uploads/ and outputs/ are as they were at the end of turn {turn};");
    if !left.is_empty() {
        text.push_str(&format!(" {} could not be restored, and have later content;", left.len()));
    }
    if !folder.is_empty() {
        text.push_str(&format!(
            " /project and /folders are as they are now; {folder}/ holds the earlier content of their files that \
             changed since;"
        ));
    }
    text
}

/// Returns the requested title of a fork, or one that distinguishes the two sessions.
fn fork_title(requested: Option<&str>, source: &str) -> Result<Option<String>> {
    let default = || format!("{} (fork)", source.chars().take(MAX_SOURCE_TITLE).collect::<String>());
    let name = requested.map(str::to_owned).or_else(|| (!source.is_empty()).then(default));
    name.map(|name| normalise_title(&name)).transpose()
}

/// Folders in a session's own tree that are copied to a fork.
const COPIED_FOLDERS: [&str; 2] = ["uploads/", "outputs/"];
/// User folders that sessions share.
const SHARED_FOLDERS: [&str; 2] = ["/project/", "/folders/"];
/// Maximum number of files listed as not reverted.
const MAX_LISTED: usize = 100;

/// Reverts a fork's files to their state at event `through`, the end of turn `turn`.
async fn revert_files(ports: &Ports, from: SessionId, fork: SessionId, point: ForkPoint) -> Result<EarlierFiles> {
    let changes = changes_after(&*ports.store, from, point.through).await?;
    let folder = format!("outputs/at-turn-{}", point.turn);
    let (own, shared): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| starts_with(change, &COPIED_FOLDERS));
    let own: Vec<FileChange> = own.into_iter().map(with_copied_modes).collect();
    let shared = shared.iter().filter(|change| starts_with(change, &SHARED_FOLDERS));
    let shared: Vec<FileChange> = shared.filter_map(|change| earlier_copy(change, &folder)).collect();
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
                UndoOutcome::Conflict | UndoOutcome::Failed if earlier.left.len() < MAX_LISTED => {
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

/// Adapts the file modes in a change to copies, which are private to their owner.
fn with_copied_modes(mut change: FileChange) -> FileChange {
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

/// Returns the change whose undo writes the earlier content of a shared file to `folder`. `None` if there was no
/// regular file.
fn earlier_copy(change: &FileChange, folder: &str) -> Option<FileChange> {
    let before = change.before.clone().filter(|before| before.kind == FileKind::File)?;
    let path = format!("{folder}{}", change.path);
    Some(FileChange { before: Some(before), ..FileChange::new(path, FileChangeKind::Deleted) })
}

/// Combines all file changes after that event, including undos.
async fn changes_after(store: &dyn Store, id: SessionId, through: u64) -> Result<Vec<FileChange>> {
    let mut changes = Vec::new();
    let note = |event: Arc<Event>| {
        if event.is_damaged() {
            let message = "events after that turn are damaged on disk: files cannot be restored";
            return Err(EngineError::new(ErrorKind::Storage, message)
                .with_hint("fork without --files to copy them as they are now"));
        }
        changes.extend_from_slice(match &event.kind {
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => &result.files,
            EventKind::StateChanged { change: StateChange::Undone { files, .. } } => files,
            _ => &[],
        });
        Ok(())
    };
    reading::each_after(store, id, through, note).await?;
    Ok(folded(&changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(turns: &[(u64, Option<u64>)], head: u64, at_turn: Option<u64>, expected: Result<(u64, u64), &str>) {
        let turns: Vec<TurnSpan> =
            turns.iter().map(|(began, ended)| TurnSpan { began: *began, ended: *ended }).collect();
        match (fork_point(&turns, head, at_turn), expected) {
            (Ok(fork_point), Ok(expected)) => assert_eq!((fork_point.through, fork_point.turn), expected),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
            }
            (fork_point, expected) => panic!("{fork_point:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn fork_point_lies_between_turns() {
        let two = [(1, Some(9)), (11, Some(20))];
        check(&two, 22, None, Ok((22, 2)));
        check(&two, 22, Some(1), Ok((9, 1)));
        check(&two, 22, Some(2), Ok((20, 2)));
        check(&two, 22, Some(0), Err("no turn 0; it has 2"));
        check(&two, 22, Some(3), Err("no turn 3; it has 2"));
        let open = [(1, Some(9)), (11, None)];
        check(&open, 22, None, Ok((10, 1)));
        check(&open, 22, Some(2), Err("turn 2 of this session has not ended"));
        check(&open[1..], 22, None, Err("no turn of this session has ended"));
        check(&[], 3, None, Err("no turn of this session has ended"));
        // A turn that never ran is recorded inside another turn.
        let inside = [(1, Some(30)), (11, Some(14)), (31, None), (33, Some(35))];
        check(&inside, 40, Some(2), Ok((30, 2)));
        check(&inside, 40, Some(4), Err("turn 3 of this session has not ended"));
        check(&inside, 40, None, Ok((30, 2)));
    }
}
