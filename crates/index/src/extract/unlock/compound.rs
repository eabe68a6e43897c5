//! A compound file, whose streams are read and written where they lie.

use std::{io::Cursor, iter, ops::Range};

use office_oxide::cfb::{CfbReader, MAX_REG_SECT};

use super::u32_at;

/// Bytes below which a stream lies in the small sectors.
const SMALL: usize = 4096;
const SMALL_SECTOR: usize = 64;
/// Streams that anybody asks for.
const NAMES: [&str; 10] = [
    "EncryptionInfo",
    "EncryptedPackage",
    "Workbook",
    "Book",
    "WordDocument",
    "0Table",
    "1Table",
    "Data",
    "PowerPoint Document",
    "Current User",
];

/// The file, and where its sectors are.
pub(super) struct Compound {
    bytes: Vec<u8>,
    sector: usize,
    next: Vec<u32>,
    next_small: Vec<u32>,
    /// Sectors that hold the small ones.
    holders: Vec<u32>,
    streams: Vec<Stream>,
}

struct Stream {
    name: &'static str,
    first: u32,
    size: usize,
}

impl Compound {
    /// The bytes are given back where they are no such file.
    pub(super) fn open(bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let Ok(reader) = CfbReader::new(Cursor::new(bytes.as_slice())) else { return Err(bytes) };
        let (header, entries) = (reader.header().clone(), reader.entries());
        let stream = |name| {
            let entry = entries.get(reader.find_entry(name)?)?;
            Some(Stream { name, first: entry.start_sector, size: usize::try_from(entry.stream_size).ok()? })
        };
        let streams = NAMES.into_iter().filter_map(stream).collect();
        let root = entries.first().map_or(u32::MAX, |root| root.start_sector);
        let sector = header.sector_size;
        let mut file = Self { bytes, sector, next: Vec::new(), next_small: Vec::new(), holders: Vec::new(), streams };
        file.next = file.table(&header.header_difat, header.first_difat_sector);
        let of_small = file.chain(&file.next, header.first_mini_fat_sector);
        file.next_small = of_small.flat_map(|number| file.numbers(number)).collect();
        file.holders = file.chain(&file.next, root).collect();
        Ok(file)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.streams.iter().any(|stream| stream.name == name)
    }

    /// So many bytes of a stream, from its beginning.
    pub(super) fn beginning(&self, name: &str, most: usize) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        for place in self.places(self.streams.iter().find(|stream| stream.name == name)?) {
            content.extend(self.bytes.get(place)?);
            if content.len() >= most {
                break;
            }
        }
        content.truncate(most);
        Some(content)
    }

    /// A stream, as far as it is there.
    pub(super) fn stream(&self, name: &str) -> Option<Vec<u8>> {
        self.beginning(name, usize::MAX)
    }

    /// Writes other bytes over those of a stream.
    pub(super) fn overwrite(&mut self, name: &str, content: &[u8]) {
        let Some(stream) = self.streams.iter().find(|stream| stream.name == name) else { return };
        let places: Vec<_> = self.places(stream).collect();
        let mut rest = content;
        for place in places {
            let Some(old) = self.bytes.get_mut(place) else { return };
            let (new, after) = rest.split_at(old.len().min(rest.len()));
            old.iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
            rest = after;
        }
    }

    /// Places of a stream's bytes in the file, piece by piece.
    fn places(&self, stream: &Stream) -> impl Iterator<Item = Range<usize>> {
        let is_small = stream.size < SMALL && !self.holders.is_empty();
        let (next, unit) = if is_small { (&self.next_small, SMALL_SECTOR) } else { (&self.next, self.sector) };
        let mut left = stream.size;
        self.chain(next, stream.first).map_while(move |number| {
            let start = if is_small { self.small_place(number) } else { self.place(number) }?;
            let end = start.checked_add(unit.min(left))?.min(self.bytes.len());
            left = left.saturating_sub(unit);
            (start < end).then_some(start..end)
        })
    }

    fn place(&self, number: u32) -> Option<usize> {
        usize::try_from(number).ok()?.checked_add(1)?.checked_mul(self.sector).filter(|at| *at < self.bytes.len())
    }

    fn small_place(&self, number: u32) -> Option<usize> {
        let at = usize::try_from(number).ok()?.checked_mul(SMALL_SECTOR)?;
        Some(self.place(*self.holders.get(at / self.sector)?)? + at % self.sector)
    }

    /// A sector and those behind it. It ends where a chain that goes in circles would have passed all of them.
    fn chain<'a>(&self, next: &'a [u32], first: u32) -> impl Iterator<Item = u32> + use<'a> {
        let is_sector = |number: &u32| *number <= MAX_REG_SECT;
        iter::successors(Some(first).filter(is_sector), move |number| {
            next.get(usize::try_from(*number).ok()?).copied().filter(is_sector)
        })
        .take(next.len())
    }

    /// For each sector the one behind it, from the sectors that the header and a list behind it name.
    fn table(&self, named: &[u32], first_list: u32) -> Vec<u32> {
        let most = self.bytes.len() / self.sector;
        let mut tables: Vec<u32> = named.iter().copied().filter(|number| *number <= MAX_REG_SECT).collect();
        let mut list = first_list;
        for _ in 0..most {
            let mut numbers = self.numbers(list);
            let Some(next) = numbers.pop().filter(|_| list <= MAX_REG_SECT) else { break };
            tables.extend(numbers.into_iter().filter(|number| *number <= MAX_REG_SECT));
            list = next;
        }
        tables.into_iter().take(most).flat_map(|number| self.numbers(number)).take(most).collect()
    }

    /// The numbers in a sector.
    fn numbers(&self, number: u32) -> Vec<u32> {
        let content = self.place(number).and_then(|at| self.bytes.get(at..at.checked_add(self.sector)?));
        let content = content.unwrap_or_default();
        (0..content.len() / 4).filter_map(|place| u32_at(content, place * 4)).collect()
    }
}
