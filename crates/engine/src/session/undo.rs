//! Undoes a turn's file changes at the user's request.
//!
//! The changes of a turn are stored in the journal, in the results of its calls. No other record is necessary, so an
//! old turn can be undone like a recent turn, as long as the file contents are stored and the files have not changed
//! since. An undo is itself recorded as a fact with its changes, and can be redone.

use std::{collections::BTreeSet, sync::Arc};

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{ItemId, SessionId, TurnId},
    item::{Item, ItemBody},
    tool::{FileChange, FileChangeKind, ToolErrorCode, ToolResult},
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile, folded},
};

use crate::{
    error::{EngineError, Result, refuse_if},
    links::UNDO_PATCH,
    recovery::reading,
    session::actor::{Actor, Fault},
    state_changes::{self, RevertPlan},
    turn::recorder::whole,
};

/// Maximum number of files listed in a notice.
const MAX_NAMED: usize = 20;

impl Actor {
    /// Undoes or redoes a turn's file changes, or previews the result.
    pub(crate) async fn undo(&mut self, request: UndoRequest) -> Result<UndoReport, Fault> {
        if let Some(open) = &self.open {
            let message = format!("nothing can be undone while turn {} of this session is open", open.turn_id);
            return Err(EngineError::busy(message, "wait for it to end, answer its question, or cancel it").into());
        }
        let ledger = self.ledger().await?;
        let (past, changes) = match request.turn {
            Some(TurnChoice::All) => ledger.all(&request)?,
            Some(TurnChoice::Since(turn)) => ledger.since(turn, request.redo)?,
            _ => ledger.choose(&request)?,
        };
        let was_undone = ledger.undone.contains(&past.turn_id);
        let others = match request.turn {
            Some(TurnChoice::Since(turn)) => ledger.changed_after(turn, request.redo),
            // Turns that were undone together are redone together.
            _ if request.redo => ledger.undone_with(past.number),
            _ => Vec::new(),
        };
        let (turn_id, turn) = (past.turn_id, past.number);
        let ports = &self.shared.ports;
        let settings = &self.state.settings;
        // A fork in which nothing ran yet has no folder of its own.
        let workspace = ports.workspaces.open(settings.files_of(self.id), settings.mounts()).await?;
        let (on_disk, of_state) = state_changes::split_state(changes);
        let plan = RevertPlan::find(&*ports.store, self.id, &of_state, &self.state.files, true).await?;
        let mut undone = ports.snapshots.undo(self.id, &workspace, on_disk, request.preview).await?;
        undone.files.extend(plan.undone.files);
        undone.changes.extend(plan.undone.changes);
        let report = UndoReport { turn_id, turn, redo: request.redo, preview: request.preview, files: undone.files };
        // The turn is also settled if every file already had its target content, and the next undo applies to another
        // turn.
        let is_settled = was_undone == request.redo && report.files.iter().all(is_settled);
        if !request.preview && (is_settled || !undone.changes.is_empty()) {
            let files = undone.changes;
            let has_changed = !files.is_empty();
            if has_changed {
                // The files are already changed, so the audit log cannot prevent the change and is only notified.
                let (of_turn, by) = (Some(turn_id), request.client);
                let fact = AuditFact::Undone { of_turn, files: files.iter().map(Into::into).collect(), by };
                let entry = AuditEntry::of_session(self.shared.ports.clock.now(), self.id, fact);
                self.shared.ports.audit.note(entry).await;
            }
            let of_state = plan.facts.into_iter().map(StateChange::File);
            let redo = request.redo;
            let undone = StateChange::Undone { turn_id, redo, files };
            // All changes are recorded with the first turn; the other turns are recorded without files, so that they
            // share the first turn's state.
            let others = others.into_iter().map(|turn_id| StateChange::Undone { turn_id, redo, files: Vec::new() });
            let changes = of_state.chain([undone]).chain(others);
            let mut facts: Vec<EventKind> = changes.map(|change| EventKind::StateChanged { change }).collect();
            if has_changed {
                let since = match request.turn {
                    Some(TurnChoice::Since(turn)) => Some(turn),
                    _ => None,
                };
                facts.extend(notice(&report, since));
            }
            self.commit(None, facts).await?;
        }
        Ok(report)
    }

    /// Reads all file changes from the journal.
    async fn ledger(&self) -> Result<Ledger, Fault> {
        let mut ledger = Ledger::default();
        let note = |event: Arc<Event>| {
            match event.is_damaged() {
                true => ledger.note_damage(event.turn_id),
                false => ledger.note(event.turn_id, &event.kind),
            }
            Ok(())
        };
        reading::each_after(&*self.shared.ports.store, self.id, 0, note).await?;
        Ok(ledger)
    }

    /// Adds the file changes of calls with unknown outcome to their results, so that the changes can be undone. Their
    /// turn started with event `first_seq`.
    pub(crate) async fn add_file_changes(&mut self, first_seq: u64, facts: &mut [EventKind]) {
        for fact in facts {
            let EventKind::ItemCompleted { item, .. } = fact else { continue };
            let Item { id, turn_id, body: ItemBody::ToolResult(result), .. } = item else { continue };
            // For an interrupted `UNDO_PATCH`, the part on disk is unknown. If the call is repeated, its result states
            // that the edit is already undone.
            if result.error != Some(ToolErrorCode::UnknownOutcome) || result.name == UNDO_PATCH {
                continue;
            }
            // Finds the changes on disk and in the state, or neither: if only half of an edit were known, only that
            // half would be undone.
            let found = async {
                let of_state = self.changes_of_state(*turn_id, first_seq, *id).await?;
                self.find_changes(result, of_state).await
            };
            if let Err(error) = found.await {
                tracing::warn!(session = %self.id, call = %result.call_id, "changes of a call are unknown: {error}");
                result.text.push_str(&format!(". Its changes could not be checked: {error}"));
            }
        }
    }

    /// Returns the state file changes made by the call of this result. The journal has one fact per file. Calls that
    /// write run alone, so the turn's facts after the result's start belong to this call.
    async fn changes_of_state(&self, turn_id: TurnId, first_seq: u64, result: ItemId) -> Result<Vec<FileChange>> {
        let events = self.turn_events(turn_id, first_seq).await?;
        let is_start = |kind: &EventKind| matches!(kind, EventKind::ItemStarted { item } if item.id == result);
        let since = events.iter().skip_while(|event| !is_start(&event.kind));
        let changes = since.filter_map(|event| match &event.kind {
            EventKind::StateChanged { change: StateChange::File(change) } => Some((event.seq, change.clone())),
            _ => None,
        });
        let changes: Vec<_> = changes.collect();
        let store = &self.shared.ports.store;
        let reset_seq = store.session(self.id).await?.map_or(0, |stored| stored.reset_seq);
        Ok(state_changes::changes_without_result(&**store, self.id, reset_seq, &changes).await?)
    }

    async fn find_changes(&mut self, result: &mut ToolResult, of_state: Vec<FileChange>) -> Result<()> {
        let workspace = self.workspace().await?;
        let mut found = self.shared.ports.snapshots.unfinished(self.id, &workspace, &result.call_id).await?;
        found.files.extend(of_state);
        if !found.files.is_empty() {
            let shown = |files: &mut dyn Iterator<Item = &FileChange>| {
                name_files(files.map(|file| (file.path.as_str(), file.change)))
            };
            let all = shown(&mut found.files.iter());
            result.text.push_str(&format!(". These files have changed since it began: {all}"));
            if found.files.iter().any(|file| file.late) {
                let late = shown(&mut found.files.iter().filter(|file| file.late));
                let late_note = format!(". Something else may have changed these files after the daemon ended: {late}");
                result.text.push_str(&late_note);
            }
        }
        let reverted = &found.set_aside;
        // Set-aside files that the user decided to keep are among the changes.
        let is_there = |path: &&str| found.files.iter().any(|file| file.path == *path);
        let reverted =
            reverted.files.iter().map(|file| &*file.path).chain(reverted.changes.iter().map(|file| &*file.path));
        let reverted: BTreeSet<&str> = reverted.filter(|path| !is_there(path)).collect();
        if !reverted.is_empty() {
            let reverted = reverted.into_iter().collect::<Vec<_>>().join(", ");
            result.text.push_str(&format!(". It also wrote {reverted}, which others run or load; this was reverted"));
        }
        if !found.notes.is_empty() {
            result.text.push_str(&format!(". Not recorded and cannot be undone: {}", found.notes.join("; ")));
        }
        result.files = found.files;
        Ok(())
    }
}

/// Returns the notice about an undo, for the model and the user.
fn notice(report: &UndoReport, since: Option<u64>) -> [EventKind; 2] {
    let restored = report.files.iter().filter(|file| file.outcome == UndoOutcome::Done);
    let restored = name_files(restored.map(|file| (file.path.as_str(), file.change)));
    let verb = if report.redo { "restored" } else { "undid" };
    let turns = match since {
        Some(turn) => format!("turn {turn} and all after it"),
        None => format!("turn {}", report.turn),
    };
    let mut text = format!("The user {verb} the file changes of {turns}. {restored}.");
    let left = report.files.len() - report.files.iter().filter(|file| is_settled(file)).count();
    if left > 0 {
        text.push_str(&format!(" {left} more were left unchanged, because they have been modified since."));
    }
    text.push_str(" Read a file again before you change it.");
    whole(Item::new(report.turn_id, ItemBody::notice(text)))
}

fn is_settled(file: &UndoneFile) -> bool {
    matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already)
}

fn name_files<'a>(files: impl Iterator<Item = (&'a str, FileChangeKind)>) -> String {
    let named = |(path, change): (&'a str, FileChangeKind)| match change {
        FileChangeKind::Created => format!("{path} created"),
        FileChangeKind::Modified => format!("{path} modified"),
        FileChangeKind::Deleted => format!("{path} deleted"),
    };
    let files: Vec<String> = files.map(named).collect();
    let more = files.len().saturating_sub(MAX_NAMED);
    let shown = files[..files.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// File changes by the turns of a session, in order.
#[derive(Debug, Default)]
struct Ledger {
    turns: Vec<TurnChanges>,
    /// All changes in order, including undos, each with the number of the turn that made the change or was undone.
    changes: Vec<(u64, Vec<FileChange>)>,
    /// Undos that were not redone, in order, each with the number of the undone turn.
    undos: Vec<(u64, Vec<FileChange>)>,
    /// Turns that are currently undone, most recent undo last.
    undone: Vec<TurnId>,
    /// Source of a forked session and the number of copied turns. Their file changes can only be undone in the source
    /// session.
    copied: Option<(SessionId, usize)>,
}

/// File changes of one turn.
#[derive(Debug)]
struct TurnChanges {
    turn_id: TurnId,
    /// Number of the turn, starting at 1.
    number: u64,
    changes: Vec<FileChange>,
    /// True if some of the turn's events are unreadable.
    is_damaged: bool,
}

impl TurnChanges {
    fn of(turn_id: TurnId, number: u64) -> Self {
        Self { turn_id, number, changes: Vec::new(), is_damaged: false }
    }

    fn damaged(&self) -> EngineError {
        let number = self.number;
        let message = format!("a part of turn {number} is damaged on disk: its changes cannot be undone or redone");
        EngineError::new(ErrorKind::Storage, message).with_hint("choose another turn with --turn")
    }
}

impl Ledger {
    fn note(&mut self, turn: Option<TurnId>, kind: &EventKind) {
        match kind {
            EventKind::TurnStarted { .. } => {
                if let Some(turn_id) = turn {
                    let number = self.turns.len() as u64 + 1;
                    self.turns.push(TurnChanges::of(turn_id, number));
                }
            }
            EventKind::ItemCompleted { item: Item { turn_id, body: ItemBody::ToolResult(result), .. }, .. } => {
                if let Some(past) = self.past(*turn_id) {
                    let number = past.number;
                    past.changes.extend(result.files.iter().cloned());
                    self.changes.push((number, result.files.clone()));
                }
            }
            EventKind::StateChanged { change: StateChange::Undone { turn_id, redo, files } } => {
                self.undone.retain(|undone| undone != turn_id);
                if !redo {
                    self.undone.push(*turn_id);
                }
                let number = self.past(*turn_id).map_or(0, |past| past.number);
                self.changes.push((number, files.clone()));
                if *redo {
                    self.undos.retain(|(of, _)| *of != number);
                } else {
                    self.undos.push((number, files.clone()));
                }
            }
            EventKind::StateChanged { change: StateChange::Forked { from, .. } } => {
                self.copied = Some((*from, self.turns.len()));
                self.undone.clear();
                self.changes.clear();
                self.undos.clear();
                self.turns.iter_mut().for_each(|past| *past = TurnChanges::of(past.turn_id, past.number));
            }
            _ => {}
        }
    }

    /// Records an unreadable event, in the given turn or otherwise in the last turn. The lost event may be a change in
    /// between, so that undoing only the remaining changes could produce a state that never existed.
    fn note_damage(&mut self, turn: Option<TurnId>) {
        if let Some(turn_id) = turn
            && self.past(turn_id).is_none()
        {
            self.turns.push(TurnChanges::of(turn_id, self.turns.len() as u64 + 1));
        }
        let past = match turn {
            Some(turn_id) => self.past(turn_id),
            None => self.turns.last_mut(),
        };
        if let Some(past) = past {
            past.is_damaged = true;
        }
    }

    fn past(&mut self, turn_id: TurnId) -> Option<&mut TurnChanges> {
        self.turns.iter_mut().rev().find(|past| past.turn_id == turn_id)
    }

    /// Returns the source session of a copied turn.
    fn source_of(&self, past: &TurnChanges) -> Option<SessionId> {
        self.copied.filter(|(_, turns)| past.number <= *turns as u64).map(|(from, _)| from)
    }

    /// Returns the last turn, with the combined changes of all turns.
    fn all(&self, request: &UndoRequest) -> Result<(&TurnChanges, Vec<FileChange>)> {
        let only_shown = || "undoing all turns at once can only be previewed";
        refuse_if(request.redo || !request.preview, only_shown, "undo the turns one by one, the last one first")?;
        if let Some(damaged) = self.turns.iter().find(|past| past.is_damaged) {
            return Err(damaged.damaged());
        }
        let changes = folded(&since(&self.changes, 0));
        match self.turns.last().filter(|_| !changes.is_empty()) {
            Some(last) => Ok((last, changes)),
            None => Err(EngineError::new(ErrorKind::NotFound, "the turns of this session changed no files")),
        }
    }

    /// Returns turn number `turn` with the combined changes of this turn and all later turns, or with the changes of
    /// their undos for a redo.
    fn since(&self, turn: u64, redo: bool) -> Result<(&TurnChanges, Vec<FileChange>)> {
        let none = || {
            let message = format!("this session has no turn {turn}; it has {}", self.turns.len());
            EngineError::not_found(message, "list its turns with `agentctl sessions show`")
        };
        let first = self.turns.iter().find(|past| past.number == turn).ok_or_else(none)?;
        // Changes of copied turns belong to the source session and are unknown here.
        let selected = self.turns.iter().filter(|past| past.number >= turn);
        if let Some(damaged) = selected.clone().find(|past| past.is_damaged) {
            return Err(damaged.damaged());
        }
        // The undos are among the changes, and are redone in the order in which they were made.
        let changes = since(if redo { &self.undos } else { &self.changes }, turn);
        Ok((first, folded(&changes)))
    }

    /// Returns the later turns with changes that are undone or redone together with turn `turn`.
    fn changed_after(&self, turn: u64, redo: bool) -> Vec<TurnId> {
        let later = self.turns.iter().filter(|past| past.number > turn && !past.changes.is_empty());
        later.filter(|past| self.undone.contains(&past.turn_id) == redo).map(|past| past.turn_id).collect()
    }

    /// Returns the later turns that were undone together with turn `turn`.
    fn undone_with(&self, turn: u64) -> Vec<TurnId> {
        let mut later = self.changed_after(turn, true);
        later.retain(|id| self.turns.iter().any(|past| past.turn_id == *id && self.undo_changes(past).is_empty()));
        later
    }

    /// Returns the changes made by undos of a turn since its last redo.
    fn undo_changes(&self, past: &TurnChanges) -> Vec<FileChange> {
        let undos_of_turn = self.undos.iter().filter(|(number, _)| *number == past.number);
        undos_of_turn.flat_map(|(_, files)| files.iter().cloned()).collect()
    }

    /// Selects the turn, and the changes to revert: the turn's own, or those of its undo.
    fn choose(&self, request: &UndoRequest) -> Result<(&TurnChanges, Vec<FileChange>)> {
        let nothing = |message: String| {
            EngineError::not_found(message, "see its turns with agentctl sessions show; choose another with --turn")
        };
        let mut turns = self.turns.iter();
        let (named, unknown) = match request.turn {
            None | Some(TurnChoice::All | TurnChoice::Since(_)) => (None, None),
            Some(TurnChoice::Number(number)) => {
                let unknown = format!("{number}; it has {}", self.turns.len());
                (turns.find(|past| past.number == number), Some(unknown))
            }
            Some(TurnChoice::Id(id)) => (turns.find(|past| past.turn_id == id), Some(id.to_string())),
        };
        if let (None, Some(unknown)) = (named, unknown) {
            return Err(nothing(format!("this session has no turn {unknown}")));
        }
        let is_undone = |past: &TurnChanges| self.undone.contains(&past.turn_id);
        let past = match (named, request.redo) {
            (Some(past), _) if self.source_of(past).is_some() => {
                let from = self.source_of(past).map(|from| from.to_string()).unwrap_or_default();
                Err(EngineError::not_found(
                    format!("turn {} is a copy: another session ran it", past.number),
                    format!("agentctl undo {from} --turn {} undoes it there", past.number),
                ))
            }
            (Some(past), _) if past.is_damaged => Err(past.damaged()),
            (Some(past), true) if !is_undone(past) => Err(nothing(format!("turn {} was not undone", past.number))),
            (Some(past), true) if self.undo_changes(past).is_empty() => {
                Err(nothing(format!("undoing turn {} changed no files: there is nothing to restore", past.number)))
            }
            (Some(past), false) if folded(&past.changes).is_empty() => {
                Err(nothing(format!("turn {} changed no files", past.number)))
            }
            (Some(past), _) => Ok(past),
            (None, true) => {
                let of = |id: &TurnId| self.turns.iter().find(|past| past.turn_id == *id);
                let last = self.undone.iter().rev().filter_map(of).find(|past| !self.undo_changes(past).is_empty());
                last.ok_or_else(|| nothing("nothing in this session is undone".to_owned()))
            }
            (None, false) => {
                let changed =
                    |past: &&TurnChanges| !is_undone(past) && (past.is_damaged || !folded(&past.changes).is_empty());
                match self.turns.iter().rev().find(changed) {
                    Some(past) if past.is_damaged => Err(past.damaged()),
                    last => last.ok_or_else(|| {
                        nothing("no turn of this session changed files that are not undone yet".to_owned())
                    }),
                }
            }
        }?;
        let changes = if request.redo { folded(&self.undo_changes(past)) } else { folded(&past.changes) };
        Ok((past, changes))
    }
}

/// Returns the changes of turn `turn` and all later turns, in order.
fn since(changes: &[(u64, Vec<FileChange>)], turn: u64) -> Vec<FileChange> {
    changes.iter().filter(|(number, _)| *number >= turn).flat_map(|(_, files)| files.iter().cloned()).collect()
}
