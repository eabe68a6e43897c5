//! The last turn that a collector has acknowledged, on disk.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use agentd_core::{Timestamp, ids::TurnId, session::EndedTurn};
use serde::{Deserialize, Serialize};

/// Bytes of the file at the most.
const LARGEST: u64 = 4096;

/// The last turn that was acknowledged, or the place where the export began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Its place in the journal.
    pub place: u64,
    /// The turn; none where the export began there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Its end.
    pub at: Timestamp,
}

impl Position {
    /// Place of an ended turn.
    pub fn of(turn: &EndedTurn) -> Self {
        Self { place: turn.place, turn_id: Some(turn.turn_id), at: turn.at }
    }
}

/// The file of a position.
#[derive(Debug, Clone)]
pub struct PositionFile(PathBuf);

impl PositionFile {
    /// The file with that path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The position; none where there is no file yet.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of ours.
    pub fn load(&self) -> io::Result<Option<Position>> {
        let text = match fs::metadata(&self.0) {
            Ok(meta) if meta.len() > LARGEST => return Err(io::Error::other("it is no file of a position")),
            Ok(_) => fs::read_to_string(&self.0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map(Some).map_err(io::Error::other)
    }

    /// Puts the position in the place of the one before, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, position: Position) -> io::Result<()> {
        let mut draft = self.0.as_os_str().to_owned();
        draft.push(".part");
        let draft = Path::new(&draft);
        let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
        file.write_all(serde_json::to_string(&position).map_err(io::Error::other)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(draft, &self.0)
    }

    /// Forgets the position: the next export begins with what comes after it.
    ///
    /// # Errors
    /// When the file cannot be removed.
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
    fn a_position_comes_back_as_it_was_and_damage_is_told() {
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
