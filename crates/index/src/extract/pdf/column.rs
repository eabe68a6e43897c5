//! In which order the pieces of a page are read: columns one after the other; pure.
//!
//! A gutter is a gap at the same place in many lines. Lines that cross it, such as a title above two columns, are read where they
//! stand. Cells of tables have gaps at the same place, too: a gutter counts only between what looks like running text.

use super::line::{Piece, Rows, rows};

/// Lines that a column has at least.
const LINES: usize = 4;
/// A gap between columns at least, as a part of the size of letters.
const LEAST: f32 = 0.4;
/// Columns in columns.
const DEPTH: usize = 4;

/// Regions in the order in which they are read, each as lines.
pub(super) fn regions(pieces: Vec<Piece>) -> Vec<Rows> {
    let mut regions = Vec::new();
    read(pieces, DEPTH, &mut regions);
    regions
}

fn read(pieces: Vec<Piece>, depth: usize, regions: &mut Vec<Rows>) {
    let rows = rows(pieces);
    let Some(gutter) = gutter(&rows).filter(|_| depth > 0) else {
        return regions.push(rows);
    };
    let mut between: Rows = Vec::new();
    let mut beside: Rows = Vec::new();
    for row in rows {
        if row.iter().any(|piece| crosses(piece, gutter)) {
            columns(std::mem::take(&mut beside), gutter, depth, &mut between, regions);
            between.push(row);
        } else {
            beside.push(row);
        }
    }
    columns(beside, gutter, depth, &mut between, regions);
    if !between.is_empty() {
        regions.push(between);
    }
}

/// Lines that do not cross the gutter: two columns, or lines as those before them.
fn columns(beside: Rows, gutter: f32, depth: usize, between: &mut Rows, regions: &mut Vec<Rows>) {
    let is_left = |piece: &Piece| piece.right <= gutter;
    let all = || beside.iter().flatten();
    let (left, right): (Vec<&Piece>, Vec<&Piece>) = all().partition(|piece| is_left(piece));
    if !(has_text(left) && has_text(right)) {
        return between.extend(beside);
    }
    if !between.is_empty() {
        regions.push(std::mem::take(between));
    }
    let (left, right) = beside.into_iter().flatten().partition(is_left);
    read(left, depth - 1, regions);
    read(right, depth - 1, regions);
}

fn crosses(piece: &Piece, gutter: f32) -> bool {
    piece.left < gutter && piece.right > gutter
}

/// The place of the gap that most lines have. Lines of two columns need not stand beside each other, so a line is looked at
/// together with the next one; that also closes the gaps between words.
fn gutter(rows: &Rows) -> Option<f32> {
    let together = |pair: &[Vec<Piece>]| {
        let mut pieces: Vec<&Piece> = pair.iter().flatten().filter(|piece| !piece.is_table).collect();
        pieces.sort_by(|one, other| one.left.total_cmp(&other.left));
        let mut gaps = Vec::new();
        let mut reach = f32::INFINITY;
        for piece in pieces {
            if piece.left - reach > LEAST * piece.size {
                gaps.push((reach, piece.left));
            }
            reach = if reach.is_finite() { reach.max(piece.right) } else { piece.right };
        }
        gaps
    };
    let gaps: Vec<Vec<(f32, f32)>> = rows.windows(2).map(together).collect();
    let votes = |at: f32| gaps.iter().filter(|row| row.iter().any(|(from, to)| *from < at && at < *to)).count();
    let middles = gaps.iter().flatten().map(|(from, to)| (from + to) / 2.0);
    let (place, count) = middles.map(|at| (at, votes(at))).max_by_key(|(_, votes)| *votes)?;
    (count + 1 >= LINES).then_some(place)
}

/// Returns whether these look like running text, or like columns of it: one that is short leaves most of the lines beside it alone.
fn has_text(pieces: Vec<&Piece>) -> bool {
    let in_columns = |pieces: Vec<&Piece>| {
        let Some(gutter) = gutter(&rows(pieces.iter().copied().cloned().collect())) else { return false };
        let beside = pieces.into_iter().filter(|piece| !crosses(piece, gutter));
        let (left, right) = beside.partition(|piece| piece.right <= gutter);
        is_text(left) && is_text(right)
    };
    is_text(pieces.clone()) || in_columns(pieces)
}

/// Returns whether these look like lines of running text: most of them fill their column, and say more than a cell
/// does.
fn is_text(pieces: Vec<&Piece>) -> bool {
    const FILLS: f32 = 0.5;
    const SAYS: usize = 12;
    let left = pieces.iter().map(|piece| piece.left).fold(f32::INFINITY, f32::min);
    let right = pieces.iter().map(|piece| piece.right).fold(f32::NEG_INFINITY, f32::max);
    let lines = rows(pieces.into_iter().cloned().collect());
    let fills = |line: &&Vec<Piece>| {
        let (Some(first), Some(last)) = (line.first(), line.last()) else { return false };
        last.right - first.left >= FILLS * (right - left) && line.iter().map(Piece::weight).sum::<usize>() >= SAYS
    };
    lines.len() >= LINES && lines.iter().filter(fills).count() * 2 > lines.len()
}

#[cfg(test)]
mod tests {
    use super::{
        super::line::{pieces, tests::set},
        *,
    };

    fn told(letters: Vec<Vec<super::super::letter::Letter>>) -> Vec<String> {
        let text = |rows: Rows| {
            let row = |row: &Vec<Piece>| row.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>().join("|");
            rows.iter().map(row).collect::<Vec<_>>().join("/")
        };
        regions(pieces(letters.concat())).into_iter().map(text).collect()
    }

    #[test]
    fn columns_are_read_one_after_the_other_and_what_stands_above_them_first() {
        let mut page = vec![set("A title above both of the columns of this page", 20.0, 800.0, 10.0)];
        for number in 0..5 {
            page.push(set(&format!("left text of line {number}"), 0.0, 780.0 - 12.0 * number as f32, 10.0));
            page.push(set(&format!("right text of line {number}"), 150.0, 778.0 - 12.0 * number as f32, 10.0));
        }
        page.push(set("And a line below both of them, which is as long", 0.0, 700.0, 10.0));
        let told = told(page);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("A title") && told[3].starts_with("And a line"), "{told:?}");
        assert!(
            told[1].starts_with("left text of line 0/left text of line 1") && !told[1].contains("right"),
            "{told:?}"
        );
        assert!(told[2].starts_with("right text of line 0/"), "{told:?}");
    }

    #[test]
    fn a_short_column_beside_longer_ones_is_read_first() {
        let mut page = Vec::new();
        for number in 0..20 {
            let base = 780.0 - 12.0 * number as f32;
            if number < 6 {
                page.push(set(&format!("first text of line {number}"), 0.0, base, 10.0));
            }
            page.push(set(&format!("second text of line {number}"), 150.0, base, 10.0));
            page.push(set(&format!("third text of line {number}"), 310.0, base, 10.0));
        }
        let told = told(page);
        assert_eq!(told.len(), 3, "{told:?}");
        for (region, word) in told.iter().zip(["first", "second", "third"]) {
            assert!(region.split('/').all(|line| line.starts_with(word)), "{told:?}");
        }
    }

    #[test]
    fn cells_are_read_row_by_row() {
        let rows = (0..6).flat_map(|number| {
            let base = 700.0 - 14.0 * number as f32;
            [set(&format!("Item {number}"), 0.0, base, 10.0), set(&format!("{number}.50"), 120.0, base, 10.0)]
        });
        let told = told(rows.collect());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("Item 0|0.50/Item 1|1.50/"), "{told:?}");
    }
}
