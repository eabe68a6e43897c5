//! Stored position of the last turn that a collector has acknowledged.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use agentd_core::{Timestamp, ids::TurnId, session::EndedTurn};
use serde::{Deserialize, Serialize};

/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Position of the last acknowledged turn, or of the start of the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Position in the journal.
    pub place: u64,
    /// ID of the turn, or `None` at the start of the export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Time of the turn's end.
    pub at: Timestamp,
}

impl Position {
    /// Returns the position of an ended turn.
    pub fn of(turn: &EndedTurn) -> Self {
        Self { place: turn.place, turn_id: Some(turn.turn_id), at: turn.at }
    }
}

/// File that stores a position.
#[derive(Debug, Clone)]
pub struct PositionFile(PathBuf);

impl PositionFile {
    /// Creates a handle to the file at this path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Loads the position, or `None` if there is no file yet.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn load(&self) -> io::Result<Option<Position>> {
        let text = match fs::metadata(&self.0) {
            Ok(meta) if meta.len() > MAX_FILE_BYTES => return Err(io::Error::other("not a position file")),
            Ok(_) => fs::read_to_string(&self.0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map(Some).map_err(io::Error::other)
    }

    /// Replaces the position atomically.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn save(&self, position: Position) -> io::Result<()> {
        let mut draft = self.0.as_os_str().to_owned();
        draft.push(".part");
        let draft = Path::new(&draft);
        let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
        file.write_all(serde_json::to_string(&position).map_err(io::Error::other)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(draft, &self.0)
    }

    /// Removes the stored position. The next export starts at the end of the journal at that time.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn forget(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_round_trips_and_damage_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("telemetry-traces.json");
        let file = PositionFile::at(path.clone());
        assert_eq!(file.load().unwrap(), None);
        let position = Position { place: 7, turn_id: Some(TurnId::generate()), at: Timestamp::UNIX_EPOCH };
        file.save(position).unwrap();
        assert_eq!(file.load().unwrap(), Some(position));
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
        fs::write(&path, "{").unwrap();
        assert!(file.load().is_err());
        file.forget().unwrap();
        file.forget().unwrap();
        assert_eq!(file.load().unwrap(), None);
    }
}
