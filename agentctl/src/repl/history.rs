//! Commands of the chat that change the history: compactions, pinned rules and undos.

use agentd_core::{
    context::CompactionStrategy,
    interrupt::Answer,
    undo::{TurnChoice, UndoOutcome, UndoRequest},
    visible,
};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon,
    exit::Exit,
    ops::{self, compact, undo},
    report,
};

impl Chat {
    /// Compacts the history.
    pub(super) async fn compact(&mut self, strategy: CompactionStrategy) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let done = compact::compact(&self.daemon, id, strategy, true, &mut self.signals, &self.keyboard).await;
        self.learn_status().await;
        let done = done?;
        self.handed.forget();
        done.print()?;
        Ok(done.exit())
    }

    /// Undoes the last compaction.
    pub(super) async fn undo_compaction(&mut self) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let (window, undone) = self.daemon.client.undo_compaction(&id.to_string()).await?;
        self.learn_status().await;
        compact::report_undone(id, window, &undone, false)
    }

    /// Lists the pinned rules, or pins another one.
    pub(super) async fn pin(&mut self, rule: Option<String>) -> anyhow::Result<Exit> {
        let id = self.session()?.to_string();
        let pins = match &rule {
            Some(rule) => ops::add_pin(&self.daemon, &id, rule).await?,
            None => ops::pins(&self.daemon, &id).await?,
        };
        let mut lines: Vec<String> =
            pins.iter().enumerate().map(|(number, pin)| format!("{}. {}", number + 1, visible::line(pin))).collect();
        if lines.is_empty() {
            lines.push("no rule is pinned: /pin RULE pins one, which survives every summary".to_owned());
        }
        report::lines(&lines)?;
        Ok(Exit::Done)
    }

    /// Removes a pinned rule.
    pub(super) async fn unpin(&mut self, number: usize) -> anyhow::Result<Exit> {
        let id = self.session()?.to_string();
        let removed = ops::remove_pin(&self.daemon, &id, number).await?;
        report::lines([format!("no longer pinned: {}", visible::line(&removed))])?;
        Ok(Exit::Done)
    }

    /// Shows a preview of an undo, asks for confirmation, and undoes the changes.
    pub(super) async fn undo(&mut self, turn: Option<TurnChoice>) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let request = UndoRequest { turn, redo: false, preview: true, client: daemon::CLIENT.to_owned() };
        let preview = self.daemon.client.undo(&id.to_string(), &request).await?;
        undo::print_above_question(&preview)?;
        if !preview.files.iter().any(|file| file.outcome == UndoOutcome::Done) {
            return Ok(undo::exit(&preview));
        }
        let question = undo::question(id, &preview);
        self.signals.forget();
        let answer = tokio::select! {
            biased;
            signal = self.signals.next() => {
                self.left(signal)?;
                None
            }
            answer = self.asker.ask(&question) => answer,
        };
        if !matches!(answer, Some(Answer::Text { text }) if matches!(text.trim(), "y" | "Y" | "yes")) {
            self.note("nothing was undone");
            return Ok(Exit::Done);
        }
        let request = UndoRequest { turn: Some(TurnChoice::Id(preview.turn_id)), preview: false, ..request };
        let report = self.daemon.client.undo(&id.to_string(), &request).await?;
        self.note(&undo::summary(&report));
        Ok(undo::exit(&report))
    }
}
