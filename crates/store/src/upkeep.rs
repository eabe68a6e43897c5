//! What the writer does for the file while nothing waits to be written, a small piece at a time: it overwrites what was
//! removed, gives the room back to the disk, and moves the log into the database.

use std::time::Duration;

use rusqlite::{Connection, Row};

use crate::{
    error::Fault,
    mark::{self, Mark},
    removal::Remains,
};

/// Empty pages that stay in the file for what is written next, 1 MB.
const SPARE_PAGES: i64 = 256;
/// Pages that are given back at once.
const PAGES: i64 = 64;
/// Bytes of a file of an earlier version that is rewritten when it is opened, so that it can shrink from then on. A larger
/// one is rewritten when somebody asks for it.
pub(crate) const SMALL: i64 = 16 << 20;

/// SQLite's mode of a file that can give pages back.
const INCREMENTAL: i64 = 2;

/// Upkeep that is due.
#[derive(Debug)]
pub(crate) struct Upkeep {
    step: Step,
    /// Set if anything was removed or done, which is now in the log.
    log_is_due: bool,
    /// Number of tries to move the log.
    folds: u32,
}

/// Tries to move the log while readers are in the way, and the wait for them in each but the first.
const MAX_FOLDS: u32 = 250;
const FOLD_WAIT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
enum Step {
    Overwrite,
    GiveBack,
    /// To move the log into the database.
    Fold,
}

impl Upkeep {
    /// Upkeep at a start or after a removal. The log is due after a removal: a small session was overwritten with it, and the log
    /// still has its words. So is one that a crash has left.
    pub(crate) const fn new(log_is_due: bool) -> Self {
        Self { step: Step::Overwrite, log_is_due, folds: 0 }
    }

    /// Goes on to the log after a piece that failed, and says whether there is more to do.
    pub(crate) fn pass_over(&mut self) -> bool {
        let goes_on = !matches!(self.step, Step::Fold);
        self.step = Step::Fold;
        goes_on
    }

    /// Does the next piece, and says whether there may be another.
    pub(crate) fn piece(
        &mut self,
        connection: &mut Connection,
        mark: &mut Mark,
        remains: &mut Remains,
        busy_timeout: Duration,
    ) -> Result<bool, Fault> {
        match self.step {
            Step::Overwrite if remains.piece(connection)? => self.log_is_due = true,
            Step::Overwrite => self.step = Step::GiveBack,
            Step::GiveBack => {
                let excess = pages(connection)?.spare - SPARE_PAGES;
                if excess > 0 && can_shrink(connection)? {
                    give_back(connection, excess.min(PAGES))?;
                    self.log_is_due = true;
                } else if self.log_is_due {
                    self.step = Step::Fold;
                } else {
                    return Ok(false);
                }
            }
            Step::Fold => {
                let wait = if self.folds == 0 { Duration::ZERO } else { FOLD_WAIT };
                self.folds += 1;
                let is_folded = fold(connection, mark, wait, busy_timeout)?;
                let is_given_up = !is_folded && self.folds >= MAX_FOLDS;
                if is_given_up {
                    tracing::debug!(
                        "readers keep the log from being emptied; the next deletion, stop or start does it"
                    );
                }
                return Ok(!is_folded && !is_given_up);
            }
        }
        Ok(true)
    }
}

/// Readers need not wait for it, nor it for them, but for a moment: where one stays at work, the next move does it.
fn fold(connection: &Connection, mark: &mut Mark, wait: Duration, busy_timeout: Duration) -> Result<bool, Fault> {
    connection.busy_timeout(wait)?;
    let folded = empty_log(connection, mark);
    connection.busy_timeout(busy_timeout)?;
    folded
}

/// Moves the log into the database and empties it. Says whether all of it was moved: a reader may be in the way.
pub(crate) fn empty_log(connection: &Connection, mark: &mut Mark) -> Result<bool, Fault> {
    let moves = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, logged, moved) = connection.query_row("PRAGMA wal_checkpoint(FULL)", [], moves)?;
    if busy != 0 || logged != moved {
        return Ok(false);
    }
    mark.clear(mark::newest(connection))?;
    let (busy, ..) = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], moves)?;
    Ok(busy == 0)
}

/// Pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Their number.
    pub(crate) count: i64,
    /// Those that hold nothing.
    pub(crate) spare: i64,
    /// The bytes of each.
    pub(crate) size: i64,
}

pub(crate) fn pages(connection: &Connection) -> Result<Pages, Fault> {
    Ok(Pages {
        count: pragma(connection, "page_count")?,
        spare: pragma(connection, "freelist_count")?,
        size: pragma(connection, "page_size")?,
    })
}

/// Returns whether the file can give pages back without being rewritten.
pub(crate) fn can_shrink(connection: &Connection) -> Result<bool, Fault> {
    Ok(pragma(connection, "auto_vacuum")? == INCREMENTAL)
}

/// Has a file that is still empty give pages back from the start.
pub(crate) fn allow_shrinking(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?)
}

/// Writes the whole file anew, without what is empty, and so that it can shrink from then on. Needs as much room beside it,
/// and nobody writes meanwhile.
pub(crate) fn rewrite(connection: &Connection) -> Result<(), Fault> {
    allow_shrinking(connection)?;
    Ok(connection.execute_batch("VACUUM")?)
}

fn give_back(connection: &Connection, pages: i64) -> Result<(), Fault> {
    // Each step frees a page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut steps = statement.query([])?;
    while steps.next()?.is_some() {}
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreConfig, open};

    #[test]
    fn a_piece_that_failed_does_not_keep_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let mut open = open::open(&StoreConfig::at(path.clone())).unwrap();
        assert!(mark::log_length(&path) > Some(0));
        let (mut upkeep, mut remains) = (Upkeep::new(true), Remains::default());
        assert!(upkeep.pass_over(), "the log is left to do");
        assert!(!upkeep.piece(&mut open.writer, &mut open.mark, &mut remains, Duration::ZERO).unwrap());
        assert_eq!(mark::log_length(&path), Some(0));
        assert!(!upkeep.pass_over(), "nothing follows on the log");
    }
}
