//! Sessions that go on from a copy of another's history.
//!
//! What is copied are facts: the events up to the end of a turn, with their numbers. So the fork sees what the other session's
//! model saw there, compactions and all, and what was compacted is found in it. The two share nothing from there on, but for
//! a project folder that both have.
//!
//! Files of a fork can be brought to that turn: the journal tells what calls and undos did to files since, and the undo store
//! holds what was there before. The fork's own copies are taken back to it, file by file, where they are as those calls left them.
//! Nothing of the shared project is changed: what its files held then is written below a folder of the fork.

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
    error::EngineError,
    front::Engine,
    recovery::reading,
    session::{SessionHandle, plain_title, registry::shared::SessionNews},
    state_changes::FORK_NOTICE,
    turn::recorder::whole,
};

/// Characters of the other session's name that stand in that of a fork.
const MAX_KNOWN: usize = 150;

/// Wishes for a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForkWishes {
    /// Last turn to copy, from 1; all that was before an open turn where absent.
    pub at_turn: Option<u64>,
    /// Name of the fork; that of the other session with `(fork)` where absent.
    pub title: Option<String>,
    /// Bring its files to that turn. Else they are copies of what is there now.
    pub earlier_files: bool,
}

/// A session that was forked.
pub struct ForkedSession {
    /// The new session.
    pub session: SessionHandle,
    /// The number of the last turn that was copied.
    pub turn: u64,
    /// The files that came along.
    pub files: FilesCopied,
    /// Files that were brought to that turn, where that was wished.
    pub earlier: Option<EarlierFiles>,
}

/// Where a history is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForkPoint {
    /// The number of the last event that is copied.
    through: u64,
    /// The number of the last turn.
    turn: u64,
}

impl Engine {
    /// Makes a session that goes on from a copy of another's history: up to the end of that turn, or all that was before a
    /// turn that is open. Settings and todos come along, and the files of the session's own state as they were then; of the
    /// files on the disk copies as they are now, or as they were then. What was granted to the session does not, nor what waits for an
    /// answer.
    ///
    /// # Errors
    /// When there is no such session or turn, the turn has not ended, or the journal or the files cannot be written.
    pub async fn fork_session(&self, from: SessionId, wishes: ForkWishes) -> Result<ForkedSession, EngineError> {
        let parts = &self.shared.ports;
        // Its actor has settled what a stop left behind.
        let stored = self.session(from).await?.show().await?.session;
        let cut = cut(&parts.store.turns(from).await?, stored.summary.last_seq, wishes.at_turn)?;
        let history = history_file(&*parts.store, from, cut.through).await?;
        let (id, at) = (SessionId::generate(), parts.clock.now());
        let files_of = stored.settings.files_of(from);
        if wishes.earlier_files && files_of != from {
            let message = "this session works for another one, and its files are that one's: they cannot be brought to a turn of it";
            return Err(EngineError::new(ErrorKind::Conflict, message)
                .with_hint(format!("fork it without --files, or fork session {files_of} with them")));
        }
        // It works for nobody but the person, whoever the other worked for.
        // A mode that lets more run is a permission as a grant is one.
        let mode = if stored.settings.mode == SessionMode::Plan { SessionMode::Plan } else { SessionMode::Ask };
        let settings = SessionSettings { grants: Vec::new(), parent: None, pinned: false, mode, ..stored.settings };
        // What is cut off is not there, and what follows happens here.
        let kept = |origin: &ImportOrigin| ImportOrigin { events: origin.events.min(cut.through), context: None };
        let imported = settings.imported.as_deref().map(|origin| Box::new(kept(origin)));
        let settings = SessionSettings { imported, ..settings };
        let title = name(wishes.title.as_deref(), &stored.summary.title)?;
        let made = async {
            let files = parts.workspaces.copy(files_of, id, history).await?;
            let earlier = match wishes.earlier_files {
                true => Some(bring_back(parts, from, id, cut.through, cut.turn).await?),
                false => None,
            };
            let mut changes = vec![StateChange::Forked { from, turn: cut.turn }, StateChange::Settings { settings }];
            changes.extend(title.map(|title| StateChange::Title { title }));
            let mut facts: Vec<EventKind> =
                changes.into_iter().map(|change| EventKind::StateChanged { change }).collect();
            // A notice belongs to a turn: to the last that is copied.
            if let Some(turn_id) = reading::last(&*parts.store, from, 0, cut.through, |event| event.turn_id).await? {
                let text = format!(
                    "{FORK_NOTICE} all before this is a copy of another session's history, up to the end of its turn {}. {} \
                     temp/ is empty. Look before you rely on a file.",
                    cut.turn,
                    words_on_files(earlier.as_ref(), cut.turn)
                );
                facts.extend(whole(Item::new(turn_id, ItemBody::notice(text))));
            }
            let numbered = facts.into_iter().zip(cut.through + 1..);
            let first = numbered.map(|(kind, seq)| Arc::new(Event { session_id: id, turn_id: None, seq, at, kind }));
            let fork = NewFork { id, at, from, through: cut.through, first: first.collect() };
            parts.store.fork_session(fork).await?;
            Ok::<_, EngineError>((files, earlier))
        };
        let made = made.await;
        if made.is_err() {
            // Half a copy, or files of a session that is not there, would lie about for ever.
            let _ = parts.workspaces.remove(id).await;
        }
        let (files, earlier) = made?;
        self.shared.news.tell(SessionNews::Created(id));
        Ok(ForkedSession { session: self.session(id).await?, turn: cut.turn, files, earlier })
    }
}

/// Where the history ends that is copied: never inside of a turn.
fn cut(turns: &[TurnSpan], head: u64, at_turn: Option<u64>) -> Result<ForkPoint, EngineError> {
    let is_open = |turn: &TurnSpan, at: u64| turn.began <= at && turn.ended.is_none_or(|ended| ended > at);
    let mut through = match at_turn {
        None => turns.iter().find(|turn| turn.ended.is_none()).map_or(head, |open| open.began - 1),
        Some(number) => {
            let chosen = usize::try_from(number).ok().and_then(|number| turns.get(number.checked_sub(1)?));
            let unknown = || {
                let message = format!("this session has no turn {number}; it has {}", turns.len());
                let hint = "turns are counted from 1; without a number, all that has ended is copied";
                EngineError::not_found(message, hint)
            };
            let chosen = chosen.ok_or_else(unknown)?;
            chosen.ended.ok_or_else(|| not_ended(number))?
        }
    };
    // One that waited and never ran is told of inside of another.
    while let Some((index, around)) = turns.iter().enumerate().find(|(_, turn)| is_open(turn, through)) {
        through = around.ended.ok_or_else(|| not_ended(index as u64 + 1))?;
    }
    match turns.iter().filter(|turn| turn.began <= through).count() as u64 {
        0 => {
            let message = "no turn of this session has ended: there is nothing to fork from";
            let hint = "wait for the end of its first turn, or begin a new session";
            Err(EngineError::new(ErrorKind::Conflict, message).with_hint(hint))
        }
        turn => Ok(ForkPoint { through, turn }),
    }
}

fn not_ended(number: u64) -> EngineError {
    let hint = "wait for its end, answer what it waits for, or cancel it; without a number, all before it is copied";
    EngineError::busy(format!("turn {number} of this session has not ended"), hint)
}

/// The file of what was compacted, as a compaction left it that is seen at that event.
async fn history_file(store: &dyn Store, id: SessionId, through: u64) -> Result<Option<HistoryFile>, EngineError> {
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

/// Which part of the history a model sees from that event on.
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

/// Tells the model of the files that a fork has.
fn words_on_files(earlier: Option<&EarlierFiles>, turn: u64) -> String {
    let Some(EarlierFiles { folder, left, .. }) = earlier else {
        return "uploads/ and outputs/ hold copies of what that session had there when the fork was made, which may be more or less \
                than the history says;"
            .to_owned();
    };
    let mut words = format!("uploads/ and outputs/ were brought to what they held at the end of turn {turn};");
    if !left.is_empty() {
        words.push_str(&format!(" {} could not be, and are as they were later;", left.len()));
    }
    if !folder.is_empty() {
        words.push_str(&format!(
            " /project and /folders are as they are now, and {folder}/ holds what their files held then, where they were changed \
             since;"
        ));
    }
    words
}

/// The name of the fork: that which is given, or one that tells the two apart.
fn name(given: Option<&str>, known: &str) -> Result<Option<String>, EngineError> {
    let of_known = || format!("{} (fork)", known.chars().take(MAX_KNOWN).collect::<String>());
    let name = given.map(str::to_owned).or_else(|| (!known.is_empty()).then(of_known));
    name.map(|name| plain_title(&name)).transpose()
}

/// Folders of a session's own tree that a fork has copies of.
const COPIED: [&str; 2] = ["uploads/", "outputs/"];
/// Trees of the person that sessions share.
const SHARED: [&str; 2] = ["/project/", "/folders/"];
/// Files that are named at the most, of each kind.
const NAMED: usize = 100;

/// Brings the files of a fork to that event, the end of that turn.
async fn bring_back(
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
    let mut changes = Vec::new();
    let note = |event: Arc<Event>| {
        if event.is_damaged() {
            let message =
                "a part of what happened behind that turn is damaged on the disk: files cannot be brought back";
            return Err(EngineError::new(ErrorKind::Storage, message)
                .with_hint("fork without --files, which copies them as they are now"));
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
        match (cut(&turns, head, at_turn), expected) {
            (Ok(cut), Ok(expected)) => assert_eq!((cut.through, cut.turn), expected),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
            }
            (cut, expected) => panic!("{cut:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_history_is_cut_between_turns() {
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
        // One that never ran stands inside of another.
        let inside = [(1, Some(30)), (11, Some(14)), (31, None), (33, Some(35))];
        check(&inside, 40, Some(2), Ok((30, 2)));
        check(&inside, 40, Some(4), Err("turn 3 of this session has not ended"));
        check(&inside, 40, None, Ok((30, 2)));
    }
}
