//! Tables drawn with ruling lines, as Markdown. No side effects.

use super::{
    drawing::Content,
    line::{Letter, Piece, pieces, rows},
    text,
    turn::View,
};

/// Maximum number of lines. Pages with more lines are drawings.
const MAX_LINES: usize = 2000;
/// Maximum distance in points at which lines count as touching.
const TOUCH_DISTANCE: f32 = 3.0;
/// Maximum number of cells in a table.
const MAX_CELLS: usize = 4000;

/// Horizontal or vertical line, given by its corners. The y axis points up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RulingLine {
    left: f32,
    right: f32,
    bottom: f32,
    top: f32,
}

impl RulingLine {
    /// Returns the line between two points if it is horizontal or vertical.
    fn between(one: (f32, f32), other: (f32, f32)) -> Option<Self> {
        let point = |(x, y)| Self { left: x, right: x, bottom: y, top: y };
        let stroke = point(one).union(&point(other));
        let is_horizontal = stroke.top - stroke.bottom < TOUCH_DISTANCE && stroke.right - stroke.left >= TOUCH_DISTANCE;
        (is_horizontal || stroke.is_vertical()).then_some(stroke)
    }

    fn is_vertical(&self) -> bool {
        self.right - self.left < TOUCH_DISTANCE && self.top - self.bottom >= TOUCH_DISTANCE
    }

    fn touches(&self, other: &Self) -> bool {
        self.left <= other.right + TOUCH_DISTANCE
            && other.left <= self.right + TOUCH_DISTANCE
            && self.bottom <= other.top + TOUCH_DISTANCE
            && other.bottom <= self.top + TOUCH_DISTANCE
    }

    fn union(self, other: &Self) -> Self {
        Self {
            left: self.left.min(other.left),
            right: self.right.max(other.right),
            bottom: self.bottom.min(other.bottom),
            top: self.top.max(other.top),
        }
    }

    fn contains(&self, letter: &Letter) -> bool {
        let (x, y) = middle(letter);
        (self.left..=self.right).contains(&x) && (self.bottom..=self.top).contains(&y)
    }
}

fn middle(letter: &Letter) -> (f32, f32) {
    ((letter.left + letter.right) / 2.0, letter.base + letter.size * 0.3)
}

/// Returns the horizontal and vertical lines of a page in the coordinates of a view. A box counts as four lines.
pub(super) fn ruling_lines(content: &Content, view: &View) -> Vec<RulingLine> {
    let candidates =
        content.lines.iter().filter_map(|(from, to)| RulingLine::between(view.point(*from), view.point(*to)));
    let ruling_lines: Vec<RulingLine> = candidates.take(MAX_LINES + 1).collect();
    if ruling_lines.len() > MAX_LINES { Vec::new() } else { ruling_lines }
}

/// Removes the characters inside tables, and returns each table as one piece.
pub(super) fn tables(letters: &mut Vec<Letter>, ruling_lines: &[RulingLine]) -> Vec<Piece> {
    let mut tables = Vec::new();
    for grid in grids(ruling_lines) {
        let (inside, outside): (Vec<Letter>, Vec<Letter>) =
            letters.iter().copied().partition(|letter| grid.edge.contains(letter));
        if let Some(table) = grid.table(inside) {
            tables.push(table);
            *letters = outside;
        }
    }
    tables
}

/// Borders of a table's columns and rows.
#[derive(Debug)]
struct Grid {
    edge: RulingLine,
    /// Borders from left to right.
    columns: Vec<f32>,
    /// Borders from bottom to top.
    rows: Vec<f32>,
}

/// Groups touching lines and returns the groups that form at least two columns and two rows.
fn grids(ruling_lines: &[RulingLine]) -> Vec<Grid> {
    let mut groups: Vec<(RulingLine, Vec<RulingLine>)> = Vec::new();
    for stroke in ruling_lines {
        let (touching, mut separate): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|(edge, members)| edge.touches(stroke) && members.iter().any(|member| member.touches(stroke)));
        let mut joined = (*stroke, vec![*stroke]);
        for (edge, members) in touching {
            joined.0 = joined.0.union(&edge);
            joined.1.extend(members);
        }
        separate.push(joined);
        groups = separate;
    }
    let grid = |(edge, members): (RulingLine, Vec<RulingLine>)| {
        let (verticals, horizontals): (Vec<&RulingLine>, Vec<&RulingLine>) =
            members.iter().partition(|stroke| stroke.is_vertical());
        let (width, height) = (edge.right - edge.left, edge.top - edge.bottom);
        let columns = border_positions(&verticals, height, |stroke| (stroke.left, stroke.top - stroke.bottom));
        let rows = border_positions(&horizontals, width, |stroke| (stroke.bottom, stroke.right - stroke.left));
        let has_borders = columns.len() > 1 && rows.len() > 1;
        // Many tables have no lines at the sides.
        let columns = merge_positions(columns.into_iter().chain([edge.left, edge.right]).collect());
        let rows = merge_positions(rows.into_iter().chain([edge.bottom, edge.top]).collect());
        let is_table = has_borders && columns.len() > 2 && rows.len() > 2 && columns.len() * rows.len() <= MAX_CELLS;
        is_table.then_some(Grid { edge, columns, rows })
    };
    let mut grids: Vec<Grid> = groups.into_iter().filter_map(grid).collect();
    grids.sort_by(|one, other| other.edge.top.total_cmp(&one.edge.top));
    grids
}

/// Returns the positions of lines that extend over a sufficient part of the table. `extent` returns the position and
/// the length of a line.
fn border_positions(ruling_lines: &[&RulingLine], whole: f32, extent: fn(&RulingLine) -> (f32, f32)) -> Vec<f32> {
    const MIN_COVERAGE: f32 = 0.15;
    let mut lines: Vec<(f32, f32)> = ruling_lines.iter().map(|stroke| extent(stroke)).collect();
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let near = lines.chunk_by(|before, next| next.0 - before.0 < TOUCH_DISTANCE);
    let long = near.filter(|lines| lines.iter().map(|line| line.1).sum::<f32>() >= MIN_COVERAGE * whole);
    long.filter_map(|lines| lines.first()).map(|line| line.0).collect()
}

/// Sorts the positions and merges neighbours.
fn merge_positions(mut places: Vec<f32>) -> Vec<f32> {
    places.sort_by(f32::total_cmp);
    places.dedup_by(|next, before| *next - *before < TOUCH_DISTANCE);
    places
}

/// Returns true if a character continues the word of the previous one.
fn continues_word(before: &Letter, letter: &Letter) -> bool {
    const MAX_WORD_GAP: f32 = 0.1;
    (before.base - letter.base).abs() < MAX_WORD_GAP * letter.size
        && (letter.left - before.right).abs() < MAX_WORD_GAP * letter.size
        && letter.letter.is_ascii_alphanumeric()
        && before.letter.is_ascii_alphanumeric()
}

/// Returns the index of the interval that contains a position.
fn interval_at(places: &[f32], at: f32) -> usize {
    places.partition_point(|place| *place <= at).saturating_sub(1).min(places.len().saturating_sub(2))
}

impl Grid {
    /// Fills the table with the characters inside it. Returns `None` if the table has too few filled cells, since boxes
    /// and drawings also have lines.
    fn table(&self, mut letters: Vec<Letter>) -> Option<Piece> {
        let (width, height) = (self.columns.len() - 1, self.rows.len() - 1);
        let size = letters.first()?.size;
        let mut cells: Vec<Vec<Letter>> = vec![Vec::new(); width * height];
        letters.sort_by(|one, other| other.base.total_cmp(&one.base).then(one.left.total_cmp(&other.left)));
        let mut last: Option<(Letter, usize)> = None;
        for letter in letters {
            let (x, y) = middle(&letter);
            let own = (height - 1 - interval_at(&self.rows, y)) * width + interval_at(&self.columns, x);
            // A word that is too long for its cell stays whole.
            let place = last.filter(|(before, _)| continues_word(before, &letter)).map_or(own, |(_, place)| place);
            if let Some(cell) = cells.get_mut(place) {
                cell.push(letter);
            }
            last = Some((letter, place));
        }
        let cells: Vec<String> = cells.into_iter().map(|letters| text::joined(&rows(pieces(letters)))).collect();
        // Empty rows, such as the rows of merged cells, do not count as missing text.
        let is_filled = |row: &[String]| row.iter().any(|cell| !cell.is_empty());
        let rows = cells.chunks(width).filter(|row| is_filled(row)).map(<[String]>::to_vec);
        let rows: Vec<Vec<String>> = rows.collect();
        let filled = rows.iter().flatten().filter(|cell| !cell.is_empty()).count();
        if rows.len() < 2 || filled * 3 < rows.len() * width || filled < 4 {
            return None;
        }
        let text = super::super::table(rows)?;
        let RulingLine { left, right, top, .. } = self.edge;
        // Positioned at the first line of the table in reading order.
        let base = top - size;
        Some(Piece { text, left, right, base, size, is_table: true, ..Piece::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::line::tests::set, *};

    fn horizontal(y: f32) -> RulingLine {
        RulingLine { left: 0.0, right: 200.0, bottom: y, top: y }
    }

    fn vertical(x: f32) -> RulingLine {
        RulingLine { left: x, right: x, bottom: 0.0, top: 60.0 }
    }

    #[test]
    fn box_around_text_is_not_a_table() {
        let ruling_lines = [horizontal(0.0), horizontal(60.0), vertical(0.0), vertical(200.0)];
        let mut letters = set("just a box", 5.0, 30.0, 10.0);
        assert_eq!((tables(&mut letters, &ruling_lines).len(), letters.len()), (0, 10));
    }
}
