//! What the writer asks of a disk, so that tests can have one that fills up in the middle of a line.

use std::{
    fs::File,
    io::{self, Write as _},
};

/// A file that grows at its end.
pub(crate) trait Medium: Send {
    /// Adds bytes. After an error some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Takes away what was added beyond this size.
    fn cut_to(&mut self, size: u64) -> io::Result<()>;

    /// Returns when everything is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut_to(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
