//! A turn to start, with what no journal can hold.

use agentd_core::turn::StartTurn;

use crate::{client_files::FileLine, client_tools::ClientLine};

/// A turn to start, with the lines to its client.
#[derive(Debug)]
pub struct TurnStart {
    /// The start itself.
    pub start: StartTurn,
    /// The lines.
    pub lines: ClientLines,
}

/// Lines to the client of a turn.
#[derive(Debug, Default)]
pub struct ClientLines {
    /// The line for calls of its tools. Without one its tools are left out.
    pub tools: Option<ClientLine>,
    /// The lines to those who hold files of the project, the one last that is asked first.
    pub files: Vec<FileLine>,
}

impl ClientLines {
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_none() && self.files.is_empty()
    }
}

impl From<StartTurn> for TurnStart {
    fn from(start: StartTurn) -> Self {
        Self { start, lines: ClientLines::default() }
    }
}
