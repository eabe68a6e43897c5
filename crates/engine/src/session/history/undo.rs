//! Undoing what a turn did to files, on a person's word.
//!
//! What a turn changed stands in the journal, in the results of its calls. So nothing has to be remembered for it, and a
//! turn of last year can be undone like the last one, as long as its contents are kept and nobody changed the files
//! since. An undo is itself a fact with its changes, and can be taken back the same way.

use std::{collections::BTreeSet, sync::Arc};

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    event::{Event, EventKind, StateChange},
    ids::{ItemId, TurnId},
    item::{Item, ItemBody},
    tool::{FileChange, FileChangeKind, ToolErrorCode, ToolResult},
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile},
};

use crate::{
    error::EngineError,
    links::UNDO_PATCH,
    recovery::reading,
    session::{
        actor::{Actor, Fault},
        history::ledger::Ledger,
    },
    state_changes::{self, DiffChoice, RevertPlan},
    turn::recorder::whole,
};

/// Number of files that a notice names.
const NAMED: usize = 20;

impl Actor {
    /// Takes back what a turn did to files, or brings it back, or foresees that.
    pub(crate) async fn undo(&mut self, request: UndoRequest) -> Result<UndoReport, Fault> {
        if let Some(open) = &self.open {
            let message = format!("nothing can be undone while turn {} of this session is open", open.turn_id);
            return Err(EngineError::busy(message, "wait for its end, answer what it waits for, or cancel it").into());
        }
        let ledger = self.ledger().await?;
        let (past, changes) = match request.turn {
            Some(TurnChoice::All) => ledger.all(&request)?,
            Some(TurnChoice::Since(turn)) => ledger.since(turn, request.redo)?,
            _ => ledger.choose(&request).map(|past| (past, past.to_take_back(request.redo)))?,
        };
        let was_undone = ledger.undone.contains(&past.turn_id);
        let with_it = match request.turn {
            Some(TurnChoice::Since(turn)) => ledger.changed_behind(turn, request.redo),
            // What was taken back with it comes back with it.
            _ if request.redo => ledger.taken_back_with(past),
            _ => Vec::new(),
        };
        let (turn_id, turn) = (past.turn_id, past.number);
        let workspace = self.workspace().await?;
        let parts = &self.shared.ports;
        let (on_disk, of_state) = state_changes::apart(changes);
        let way = RevertPlan::find(&*parts.store, self.id, &of_state, &self.state.files, DiffChoice::All).await?;
        let mut undone = parts.snapshots.undo(self.id, &workspace, on_disk, request.preview).await?;
        undone.files.extend(way.undone.files);
        undone.changes.extend(way.undone.changes);
        let report = UndoReport { turn_id, turn, redo: request.redo, preview: request.preview, files: undone.files };
        // Also where every file was as it is wanted: the turn is settled, and the next undo is of another one.
        let is_settled = was_undone == request.redo && report.files.iter().all(is_settled);
        if !request.preview && (is_settled || !undone.changes.is_empty()) {
            let files = undone.changes;
            let has_changed = !files.is_empty();
            if has_changed {
                self.tell_audit(turn_id, &files, request.client).await;
            }
            let of_state = way.facts.into_iter().map(StateChange::File);
            let redo = request.redo;
            let undone = StateChange::Undone { turn_id, redo, files };
            // The changes of all stand with the first turn; the others are told to share its fate.
            let with_it = with_it.into_iter().map(|turn_id| StateChange::Undone { turn_id, redo, files: Vec::new() });
            let changes = of_state.chain([undone]).chain(with_it);
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

    /// Tells the audit log of what was done to files at a person's word. It is done: the log is told, and not asked.
    async fn tell_audit(&self, of_turn: TurnId, files: &[FileChange], by: String) {
        let fact = AuditFact::Undone { of_turn: Some(of_turn), files: files.iter().map(Into::into).collect(), by };
        let parts = &self.shared.ports;
        parts.audit.note(AuditEntry::of_session(parts.clock.now(), self.id, fact)).await;
    }

    /// Changes of files in the journal.
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

    /// Tells of calls whose end nobody saw what they changed until now, so that it can be undone. Their turn began with that
    /// event.
    pub(crate) async fn tell_what_was_changed(&mut self, first_seq: u64, facts: &mut [EventKind]) {
        for fact in facts {
            let EventKind::ItemCompleted { item, .. } = fact else { continue };
            let Item { id, turn_id, body: ItemBody::ToolResult(result), .. } = item else { continue };
            // Of a taking back that was cut off, its half on the disk is not known. Taken back once more, the edit that it was
            // about is told to be so.
            if result.error != Some(ToolErrorCode::UnknownOutcome) || result.name == UNDO_PATCH {
                continue;
            }
            // Both, or none: half of an edit that is known would be half of it that is taken back.
            let found = async {
                let of_state = self.changes_of_state(*turn_id, first_seq, *id).await?;
                self.find_changes(result, of_state).await
            };
            if let Err(error) = found.await {
                tracing::warn!(session = %self.id, call = %result.call_id, "what a call changed is not known: {error}");
            }
        }
    }

    /// Changes that the call of that result made to the session's own state. They are in the journal, a fact a file;
    /// calls that write run alone, so that such facts of its turn that follow its start are its own.
    async fn changes_of_state(
        &self,
        turn_id: TurnId,
        first_seq: u64,
        result: ItemId,
    ) -> Result<Vec<FileChange>, EngineError> {
        let events = self.turn_events(turn_id, first_seq).await?;
        let is_start = |kind: &EventKind| matches!(kind, EventKind::ItemStarted { item } if item.id == result);
        let since = events.iter().skip_while(|event| !is_start(&event.kind));
        let changes: Vec<_> = since
            .filter_map(|event| match &event.kind {
                EventKind::StateChanged { change: StateChange::File(change) } => Some((event.seq, change.clone())),
                _ => None,
            })
            .collect();
        let store = &self.shared.ports.store;
        let reset_seq = store.session(self.id).await?.map_or(0, |stored| stored.reset_seq);
        Ok(state_changes::changes_without_result(&**store, self.id, reset_seq, &changes).await?)
    }

    async fn find_changes(&mut self, result: &mut ToolResult, of_state: Vec<FileChange>) -> Result<(), EngineError> {
        let workspace = self.workspace().await?;
        let mut found = self.shared.ports.snapshots.unfinished(self.id, &workspace, &result.call_id).await?;
        found.files.extend(of_state);
        if !found.files.is_empty() {
            let shown = |files: &mut dyn Iterator<Item = &FileChange>| {
                named(files.map(|file| (file.path.as_str(), file.change)))
            };
            let all = shown(&mut found.files.iter());
            result.text.push_str(&format!(". Since it began these files have changed: {all}"));
            if found.files.iter().any(|file| file.late) {
                let late = shown(&mut found.files.iter().filter(|file| file.late));
                let told = format!(". Of these, something else may have changed after the daemon ended: {late}");
                result.text.push_str(&told);
            }
        }
        let back = &found.set_aside;
        // What a person had kept is among the changes.
        let is_there = |path: &&str| found.files.iter().any(|file| file.path == *path);
        let back = back.files.iter().map(|file| &*file.path).chain(back.changes.iter().map(|file| &*file.path));
        let back: BTreeSet<&str> = back.filter(|path| !is_there(path)).collect();
        if !back.is_empty() {
            let back = back.into_iter().collect::<Vec<_>>().join(", ");
            result.text.push_str(&format!(". It also wrote {back}, which others run or obey; it was taken back"));
        }
        if !found.notes.is_empty() {
            result.text.push_str(&format!(". Not recorded, and cannot be undone: {}", found.notes.join("; ")));
        }
        result.files = found.files;
        Ok(())
    }
}

/// Notice of an undo for the model and the person.
fn notice(report: &UndoReport, since: Option<u64>) -> [EventKind; 2] {
    let done: Vec<&UndoneFile> = report.files.iter().filter(|file| file.outcome == UndoOutcome::Done).collect();
    let what = if report.redo { "brought back" } else { "took back" };
    let turns = match since {
        Some(turn) => format!("turn {turn} and all after it"),
        None => format!("turn {}", report.turn),
    };
    let mut text = format!(
        "The person {what} what {} had done to files. {}.",
        turns,
        named(done.iter().map(|file| (file.path.as_str(), file.change)))
    );
    let left = report.files.len() - report.files.iter().filter(|file| is_settled(file)).count();
    if left > 0 {
        text.push_str(&format!(" {left} more were left unchanged, because something else has changed them since."));
    }
    text.push_str(" Read a file again before you change it.");
    let item = Item::new(report.turn_id, ItemBody::notice(text));
    whole(item)
}

fn is_settled(file: &UndoneFile) -> bool {
    matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already)
}

fn named<'a>(files: impl Iterator<Item = (&'a str, FileChangeKind)>) -> String {
    let files: Vec<String> = files
        .map(|(path, change)| {
            let change = match change {
                FileChangeKind::Created => "created",
                FileChangeKind::Modified => "modified",
                FileChangeKind::Deleted => "deleted",
            };
            format!("{path} {change}")
        })
        .collect();
    let more = files.len().saturating_sub(NAMED);
    let shown = files[..files.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
