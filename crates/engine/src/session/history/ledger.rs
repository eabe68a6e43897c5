//! Changes of files by the turns of a session, as its journal tells: which of them stand, what took them back, and which turn a
//! request means.

use agentd_core::{
    error::ErrorKind,
    event::{EventKind, StateChange},
    ids::{SessionId, TurnId},
    item::{Item, ItemBody},
    tool::FileChange,
    undo::{TurnChoice, UndoRequest, folded},
};

use crate::error::EngineError;

/// Changes of files by the turns of a session, in order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    turns: Vec<Past>,
    /// All changes in their order, those that took others back among them.
    changes: Vec<FileChange>,
    /// The same, each with the number of the turn that made it, or that was taken back with it.
    by_turn: Vec<(u64, Vec<FileChange>)>,
    /// Changes that took others back and were not taken back themselves, in their order, each with the number of its turn.
    taken_back: Vec<(u64, Vec<FileChange>)>,
    /// The turns that were taken back and not brought back since, the last one last.
    pub(crate) undone: Vec<TurnId>,
    /// The session whose turns the first ones are, and how many: what they did to files is that session's to undo.
    copied: Option<(SessionId, usize)>,
}

/// Changes of files by one turn.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) turn_id: TurnId,
    /// From 1.
    pub(crate) number: u64,
    changes: Vec<FileChange>,
    /// Changes that reverted it, since it was last brought back.
    undone: Vec<FileChange>,
    /// Set if some of what it did cannot be read any more.
    is_damaged: bool,
}

impl Past {
    fn of(turn_id: TurnId, number: u64) -> Self {
        Self { turn_id, number, changes: Vec::new(), undone: Vec::new(), is_damaged: false }
    }
}

impl Ledger {
    pub(crate) fn note(&mut self, turn: Option<TurnId>, kind: &EventKind) {
        match kind {
            EventKind::TurnStarted { .. } => {
                if let Some(turn_id) = turn {
                    let number = self.turns.len() as u64 + 1;
                    self.turns.push(Past::of(turn_id, number));
                }
            }
            EventKind::ItemCompleted { item: Item { turn_id, body: ItemBody::ToolResult(result), .. }, .. } => {
                if let Some(past) = self.past(*turn_id) {
                    let number = past.number;
                    past.changes.extend(result.files.iter().cloned());
                    self.changes.extend(result.files.iter().cloned());
                    self.by_turn.push((number, result.files.clone()));
                }
            }
            EventKind::StateChanged { change: StateChange::Undone { turn_id, redo, files } } => {
                self.undone.retain(|undone| undone != turn_id);
                if !redo {
                    self.undone.push(*turn_id);
                }
                self.changes.extend(files.iter().cloned());
                let number = self.past(*turn_id).map_or(0, |past| past.number);
                self.by_turn.push((number, files.clone()));
                if *redo {
                    self.taken_back.retain(|(of, _)| *of != number);
                } else {
                    self.taken_back.push((number, files.clone()));
                }
                if let Some(past) = self.past(*turn_id) {
                    if *redo { past.undone.clear() } else { past.undone.extend(files.iter().cloned()) }
                }
            }
            EventKind::StateChanged { change: StateChange::Forked { from, .. } } => {
                self.copied = Some((*from, self.turns.len()));
                self.undone.clear();
                self.changes.clear();
                self.by_turn.clear();
                self.taken_back.clear();
                self.turns.iter_mut().for_each(|past| *past = Past::of(past.turn_id, past.number));
            }
            _ => {}
        }
    }

    /// Something that cannot be read: of that turn, or of the last one for all that is known. What may be missing of it could
    /// be what was done in between, so that taking back the rest would lead to what never was.
    pub(crate) fn note_damage(&mut self, turn: Option<TurnId>) {
        if let Some(turn_id) = turn
            && self.past(turn_id).is_none()
        {
            self.turns.push(Past::of(turn_id, self.turns.len() as u64 + 1));
        }
        let past = match turn {
            Some(turn_id) => self.past(turn_id),
            None => self.turns.last_mut(),
        };
        if let Some(past) = past {
            past.is_damaged = true;
        }
    }

    fn past(&mut self, turn_id: TurnId) -> Option<&mut Past> {
        self.turns.iter_mut().rev().find(|past| past.turn_id == turn_id)
    }

    /// The session that ran a turn, where that is another one.
    fn came_from(&self, past: &Past) -> Option<SessionId> {
        self.copied.filter(|(_, turns)| past.number <= *turns as u64).map(|(from, _)| from)
    }

    /// The last turn, with what all of them together did.
    pub(crate) fn all(&self, request: &UndoRequest) -> Result<(&Past, Vec<FileChange>), EngineError> {
        if request.redo || !request.preview {
            let hint = "undo one turn after the other, the last one first";
            return Err(EngineError::invalid("all turns together can be foreseen only", hint));
        }
        if let Some(damaged) = self.turns.iter().find(|past| past.is_damaged) {
            return Err(damaged.damaged());
        }
        let changes = folded(&self.changes);
        match self.turns.last().filter(|_| !changes.is_empty()) {
            Some(last) => Ok((last, changes)),
            None => Err(EngineError::new(ErrorKind::NotFound, "the turns of this session changed no files")),
        }
    }

    /// That turn and all after it: the turn, and what they did to files together, or what took that back.
    pub(crate) fn since(&self, turn: u64, redo: bool) -> Result<(&Past, Vec<FileChange>), EngineError> {
        let none = || {
            let message = format!("this session has no turn {turn}; it has {}", self.turns.len());
            EngineError::not_found(message, "`agentctl sessions show` lists its turns")
        };
        let first = self.turns.iter().find(|past| past.number == turn).ok_or_else(none)?;
        // What copied turns changed is the other session's to take back: of those nothing is known here.
        let meant = self.turns.iter().filter(|past| past.number >= turn);
        if let Some(damaged) = meant.clone().find(|past| past.is_damaged) {
            return Err(damaged.damaged());
        }
        let changes: Vec<FileChange> = match redo {
            // In the order in which they were taken back.
            true => {
                let of_them = self.taken_back.iter().filter(|(number, _)| *number >= turn);
                of_them.flat_map(|(_, files)| files.iter().cloned()).collect()
            }
            false => self.changes_since(turn),
        };
        Ok((first, folded(&changes)))
    }

    /// Changes of files by that turn and all after it, in their order. What was taken back of them is among them.
    fn changes_since(&self, turn: u64) -> Vec<FileChange> {
        self.by_turn.iter().filter(|(number, _)| *number >= turn).flat_map(|(_, files)| files.iter().cloned()).collect()
    }

    /// Turns behind that one that are taken back with it, or come back with it.
    pub(crate) fn changed_behind(&self, turn: u64, redo: bool) -> Vec<TurnId> {
        let behind = self.turns.iter().filter(|past| past.number > turn && !past.changes.is_empty());
        behind.filter(|past| self.undone.contains(&past.turn_id) == redo).map(|past| past.turn_id).collect()
    }

    /// Turns behind that one whose changes were taken back with its own.
    pub(crate) fn taken_back_with(&self, first: &Past) -> Vec<TurnId> {
        let behind = self.turns.iter().filter(|past| past.number > first.number && !past.changes.is_empty());
        behind
            .filter(|past| past.undone.is_empty() && self.undone.contains(&past.turn_id))
            .map(|past| past.turn_id)
            .collect()
    }

    /// The turn that is meant.
    pub(crate) fn choose(&self, request: &UndoRequest) -> Result<&Past, EngineError> {
        let nothing = |message: String| {
            EngineError::not_found(message, "agentctl sessions show lists what its turns did; name another with --turn")
        };
        let named = match request.turn {
            None | Some(TurnChoice::All | TurnChoice::Since(_)) => None,
            Some(TurnChoice::Number(number)) => {
                Some(self.turns.iter().find(|past| past.number == number).ok_or_else(|| {
                    nothing(format!("this session has no turn {number}; it has {}", self.turns.len()))
                })?)
            }
            Some(TurnChoice::Id(id)) => Some(
                self.turns
                    .iter()
                    .find(|past| past.turn_id == id)
                    .ok_or_else(|| nothing(format!("this session has no turn {id}")))?,
            ),
        };
        let is_undone = |past: &Past| self.undone.contains(&past.turn_id);
        match (named, request.redo) {
            (Some(past), _) if self.came_from(past).is_some() => {
                let from = self.came_from(past).map(|from| from.to_string()).unwrap_or_default();
                Err(EngineError::not_found(
                    format!("turn {} is a copy: another session ran it", past.number),
                    format!("agentctl undo {from} --turn {} undoes it there", past.number),
                ))
            }
            (Some(past), _) if past.is_damaged => Err(past.damaged()),
            (Some(past), true) if !is_undone(past) => Err(nothing(format!("turn {} was not undone", past.number))),
            (Some(past), true) if past.undone.is_empty() => {
                Err(nothing(format!("undoing turn {} changed no files: there is nothing to bring back", past.number)))
            }
            (Some(past), false) if folded(&past.changes).is_empty() => {
                Err(nothing(format!("turn {} changed no files", past.number)))
            }
            (Some(past), _) => Ok(past),
            (None, true) => {
                let of = |id: &TurnId| self.turns.iter().find(|past| past.turn_id == *id && !past.undone.is_empty());
                let last = self.undone.iter().rev().find_map(of);
                last.ok_or_else(|| nothing("nothing of this session is undone".to_owned()))
            }
            (None, false) => {
                let changed = |past: &&Past| !is_undone(past) && (past.is_damaged || !folded(&past.changes).is_empty());
                match self.turns.iter().rev().find(changed) {
                    Some(past) if past.is_damaged => Err(past.damaged()),
                    last => last.ok_or_else(|| {
                        nothing("no turn of this session changed files that are not undone yet".to_owned())
                    }),
                }
            }
        }
    }
}

impl Past {
    fn damaged(&self) -> EngineError {
        let number = self.number;
        let message =
            format!("a part of what turn {number} did is damaged on the disk: its changes cannot be undone or redone");
        EngineError::new(ErrorKind::Storage, message).with_hint("other turns can be; name one with --turn")
    }

    /// The changes to take back: those of the turn, or those that took them back.
    pub(crate) fn to_take_back(&self, redo: bool) -> Vec<FileChange> {
        folded(if redo { &self.undone } else { &self.changes })
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::{CallId, TraceId},
        item::ItemStatus,
        model::Slot,
        tool::{FileChangeKind, FileKind, FileState, ToolResult},
    };

    use super::*;

    fn change(before: &str, after: &str) -> FileChange {
        let state = |hash: &str| {
            (!hash.is_empty()).then(|| FileState { kind: FileKind::File, hash: hash.to_owned(), size: 1, mode: 0o644 })
        };
        FileChange { before: state(before), after: state(after), ..FileChange::new("a", FileChangeKind::Modified) }
    }

    /// A ledger of turns that each changed this, or nothing.
    fn ledger(turns: &[Option<(&str, &str)>]) -> (Ledger, Vec<TurnId>) {
        let mut ledger = Ledger::default();
        let mut ids = Vec::new();
        for turn in turns {
            let turn_id = TurnId::generate();
            ids.push(turn_id);
            let started = EventKind::TurnStarted {
                trace_id: TraceId::generate(),
                slot: Slot::Base,
                model: String::new(),
                reason: String::new(),
                rule: Default::default(),
                max_steps: 1,
                compacts: false,
                environment: Default::default(),
                handed_over: Vec::new(),
                answer_schema: None,
                options: None,
            };
            ledger.note(Some(turn_id), &started);
            if let Some((before, after)) = turn {
                let result =
                    ToolResult { files: vec![change(before, after)], ..ToolResult::empty(CallId::generate(), "x") };
                let item = Item::new(turn_id, ItemBody::ToolResult(result));
                ledger.note(Some(turn_id), &EventKind::ItemCompleted { item, status: ItemStatus::Done });
            }
        }
        (ledger, ids)
    }

    fn undo(ledger: &mut Ledger, turn_id: TurnId, redo: bool, change: FileChange) {
        let change = StateChange::Undone { turn_id, redo, files: vec![change] };
        ledger.note(None, &EventKind::StateChanged { change });
    }

    #[track_caller]
    fn check(ledger: &Ledger, turn: Option<u64>, redo: bool, expected: Result<u64, &str>) {
        let request = UndoRequest { turn: turn.map(TurnChoice::Number), redo, ..UndoRequest::default() };
        match (ledger.choose(&request), expected) {
            (Ok(past), Ok(number)) => assert_eq!(past.number, number),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (chosen, expected) => panic!("{chosen:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn the_last_turn_with_changes_that_stand_is_meant() {
        let (mut ledger, ids) = ledger(&[Some(("a", "b")), None, Some(("b", "c")), Some(("c", "c")), None]);
        check(&ledger, None, false, Ok(3));
        check(&ledger, Some(1), false, Ok(1));
        check(&ledger, Some(2), false, Err("turn 2 changed no files"));
        check(&ledger, Some(4), false, Err("turn 4 changed no files"));
        check(&ledger, Some(6), false, Err("this session has no turn 6; it has 5"));
        check(&ledger, None, true, Err("nothing of this session is undone"));
        check(&ledger, Some(3), true, Err("turn 3 was not undone"));
        undo(&mut ledger, ids[2], false, change("c", "b"));
        check(&ledger, None, false, Ok(1));
        check(&ledger, Some(3), false, Ok(3));
        check(&ledger, None, true, Ok(3));
        undo(&mut ledger, ids[0], false, change("b", "a"));
        check(&ledger, None, false, Err("no turn of this session changed files that are not undone yet"));
        check(&ledger, None, true, Ok(1));
        let past = ledger.choose(&UndoRequest { redo: true, ..UndoRequest::default() }).unwrap();
        assert_eq!(past.to_take_back(true), [change("b", "a")]);
        undo(&mut ledger, ids[0], true, change("a", "b"));
        check(&ledger, None, true, Ok(3));
        check(&ledger, None, false, Ok(1));

        // All of it together is what is left of it.
        let all = UndoRequest { turn: Some(TurnChoice::All), preview: true, ..UndoRequest::default() };
        assert_eq!(ledger.all(&all).unwrap().1, [change("a", "b")]);
        for refused in [UndoRequest { redo: true, ..all.clone() }, UndoRequest { preview: false, ..all.clone() }] {
            assert!(ledger.all(&refused).unwrap_err().to_string().contains("foreseen only"));
        }

        // From here on all of that is another session's.
        let change = StateChange::Forked { from: SessionId::generate(), turn: 5 };
        ledger.note(None, &EventKind::StateChanged { change });
        check(&ledger, None, true, Err("nothing of this session is undone"));
        check(&ledger, None, false, Err("no turn of this session changed files that are not undone yet"));
        check(&ledger, Some(1), false, Err("turn 1 is a copy"));
        check(&ledger, Some(3), true, Err("turn 3 is a copy"));
        assert!(ledger.all(&all).unwrap_err().to_string().contains("changed no files"));
    }
}
