//! Packs rows of a sheet into chunks.

use super::{Chunk, ChunkConfig};
use crate::document::{DocumentPlace, Row, Table};

/// The chunks of the rows of a sheet, each under the names of its columns.
pub(super) fn chunks(place: &DocumentPlace, table: &Table, config: &ChunkConfig) -> Vec<Chunk> {
    let DocumentPlace::Sheet { number, name, .. } = place else { return Vec::new() };
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < table.rows.len() {
        let end = end_of_chunk(&table.rows, start, config);
        let rows = &table.rows[start..end];
        chunks.push(Chunk {
            place: DocumentPlace::Sheet { number: *number, name: name.clone(), range: table.range_of(rows) },
            text: table.markdown_of(rows),
            heading: None,
            bytes: 0..0,
        });
        if end == table.rows.len() {
            break;
        }
        // At least one row that was not there before.
        start = end.saturating_sub(config.row_overlap).max(start + 1);
    }
    chunks
}

fn end_of_chunk(rows: &[Row], start: usize, config: &ChunkConfig) -> usize {
    let mut letters = 0;
    let mut end = start;
    // One row more than is told again, so that there is always something new.
    let least = start + config.row_overlap + 1;
    for row in rows[start..].iter().take(config.rows.max(config.row_overlap + 1)) {
        letters += row.cells.iter().map(|cell| cell.chars().count() + 3).sum::<usize>();
        if end >= least && letters > config.table_letters {
            break;
        }
        end += 1;
    }
    end
}
