//! Lines as Markdown with paragraphs, headings, lists and listings, and reading order with columns one after the other.
//! No side effects.
//!
//! A gutter is a gap at the same position in many lines. Lines that cross a gutter, such as a title above two columns,
//! keep their position. Table cells also have aligned gaps, so a gap only counts as a gutter if both sides look like
//! running text.

use super::line::{Piece, Rows, is_wide, rows};

/// Line of several pieces.
#[derive(Debug)]
struct Line {
    text: String,
    left: f32,
    right: f32,
    base: f32,
    size: f32,
    is_bold: bool,
    is_mono: bool,
    is_table: bool,
    /// Start of the segments after wide gaps: table cells, or words in a justified narrow column.
    cells: Vec<f32>,
    /// True if these segments are cells.
    has_cells: bool,
}

impl Line {
    fn of(row: &[Piece]) -> Option<Self> {
        let (first, last) = (row.first()?, row.last()?);
        let mut text = String::new();
        let mut cells = Vec::new();
        for (number, piece) in row.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| row.get(before));
            let is_mark = number == 1 && bullet(&text).is_some_and(str::is_empty);
            let is_far = before.is_some_and(|before| before.is_far_from(piece)) && !is_mark;
            if is_far {
                cells.push(piece.left);
            }
            text.push_str(if before.is_none() {
                ""
            } else if is_far {
                "  "
            } else {
                " "
            });
            text.push_str(&piece.text);
        }
        let Piece { left, base, is_table, .. } = *first;
        let size = row.iter().map(|piece| piece.size).fold(0.0, f32::max);
        let all = |is_so: fn(&Piece) -> bool| row.iter().all(is_so);
        let (is_bold, is_mono) = (all(|piece| piece.is_bold), all(|piece| piece.is_mono));
        let right = last.right;
        Some(Self { text, left, right, base, size, is_bold, is_mono, is_table, cells, has_cells: false })
    }
}

/// Returns the text after the bullet of a list item, or `None` if there is no bullet.
fn bullet(text: &str) -> Option<&str> {
    const BULLETS: [char; 12] = ['•', '◦', '▪', '▫', '‣', '●', '○', '■', '□', '–', '\u{f0b7}', '\u{f0a7}'];
    let rest = text.trim_start().strip_prefix(BULLETS)?;
    (rest.is_empty() || rest.starts_with(' ')).then_some(rest.trim_start())
}

pub(super) fn joined(rows: &Rows) -> String {
    let mut text = String::new();
    for line in rows.iter().filter_map(|row| Line::of(row)) {
        join(&mut text, &line.text);
    }
    text
}

/// Formats the regions of a page as Markdown.
pub(super) fn markdown(regions: &[Rows]) -> String {
    let body = body_size(regions);
    let blocks: Vec<String> = regions.iter().flat_map(|rows| blocks(rows, body)).collect();
    blocks.join("\n\n")
}

fn body_size(regions: &[Rows]) -> f32 {
    let mut sizes: Vec<(f32, usize)> = Vec::new();
    for piece in regions.iter().flatten().flatten() {
        let count = piece.text.len();
        match sizes.iter_mut().find(|(size, _)| (*size - piece.size).abs() < 0.3) {
            Some((_, letters)) => *letters += count,
            None => sizes.push((piece.size, count)),
        }
    }
    sizes.into_iter().max_by_key(|(_, count)| *count).map_or(1.0, |(size, _)| size.max(0.1))
}

/// Splits a region into paragraphs in Markdown.
fn blocks(rows: &Rows, body: f32) -> Vec<String> {
    let mut lines: Vec<Line> = rows.iter().filter_map(|row| Line::of(row)).collect();
    mark_cells(&mut lines);
    let usual = usual_distance(&lines);
    let mut blocks = Vec::new();
    let mut start = 0;
    for at in 1..=lines.len() {
        let ends = match (lines.get(at - 1), lines.get(at)) {
            (Some(before), Some(line)) => starts_paragraph(before, line, usual, right_edge(&lines, at)),
            _ => true,
        };
        if ends && let Some(paragraph) = lines.get(start..at).filter(|lines| !lines.is_empty()) {
            blocks.push(block(paragraph, body));
            start = at;
        }
    }
    blocks
}

/// Marks lines with cells that are aligned with cells in a neighbouring line. Other gaps separate words.
fn mark_cells(lines: &mut [Line]) {
    let are_below = |one: &Line, other: &Line| {
        let near = 0.8 * one.size;
        one.cells.iter().any(|cell| other.cells.iter().any(|below| (cell - below).abs() < near))
    };
    for at in 1..lines.len() {
        if let Some([one, other]) = lines.get_mut(at - 1..=at)
            && are_below(one, other)
        {
            (one.has_cells, other.has_cells) = (true, true);
        }
    }
    for line in lines.iter_mut().filter(|line| !line.has_cells && !line.is_table) {
        line.text = line.text.replace("  ", " ");
    }
}

/// Returns the usual distance between lines in a paragraph.
fn usual_distance(lines: &[Line]) -> f32 {
    let distance = |pair: &[Line]| match pair {
        [one, other] if one.base - other.base < 2.2 * one.size.max(other.size) => Some(one.base - other.base),
        _ => None,
    };
    let mut distances: Vec<f32> = lines.windows(2).filter_map(distance).collect();
    distances.sort_by(f32::total_cmp);
    // The lower third excludes the gaps between paragraphs.
    distances.get(distances.len() / 3).copied().unwrap_or(f32::INFINITY)
}

/// Returns the right edge of the lines around the line at `at`.
fn right_edge(lines: &[Line], at: usize) -> f32 {
    const CONTEXT_LINES: usize = 4;
    let near = lines.get(at.saturating_sub(CONTEXT_LINES)..(at + CONTEXT_LINES).min(lines.len())).unwrap_or_default();
    let size = lines.get(at).map_or(0.0, |line| line.size);
    let like = near.iter().filter(|line| (line.size - size).abs() < 0.12 * size && !line.is_table);
    like.map(|line| line.right).fold(f32::NEG_INFINITY, f32::max)
}

/// Returns the width of a line's first word, or of its first letter in scripts without spaces.
fn first_word(line: &Line) -> f32 {
    let letters = line.text.chars().count().max(1) as f32;
    let first = line.text.chars().next().is_none_or(is_wide);
    let word = if first { 1 } else { line.text.split(' ').next().unwrap_or_default().chars().count() };
    (line.right - line.left) * word as f32 / letters
}

/// Returns true if a line starts a new paragraph.
fn starts_paragraph(before: &Line, line: &Line, usual: f32, right: f32) -> bool {
    let distance = before.base - line.base;
    let size = before.size.max(line.size);
    if before.is_table || line.is_table {
        return true;
    }
    let is_far = distance > 1.3 * usual.max(0.8 * size) || distance > 2.2 * size;
    let is_other = (before.size - line.size).abs() > 0.12 * size || before.is_bold != line.is_bold;
    let is_cut = before.text.ends_with(['-', '\u{2010}', '\u{ad}']);
    if is_far || is_other || bullet(&line.text).is_some() || before.has_cells != line.has_cells {
        return true;
    }
    // The first word would have fitted into the previous line, so the break is intentional.
    let first_word_fits = !is_cut && before.right + first_word(line) + 0.8 * size < right;
    let is_indented = line.left > before.left + 0.8 * size;
    let has_end_mark = before.text.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '；', '"', '”', '」']);
    (first_word_fits || (has_end_mark && is_indented)) && !line.is_mono && !line.has_cells
}

fn block(lines: &[Line], body: f32) -> String {
    let keeps_lines = lines.iter().all(|line| line.is_mono || line.has_cells || line.is_table);
    if keeps_lines {
        return lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    }
    let mut text = String::new();
    for line in lines {
        join(&mut text, &line.text);
    }
    if let Some(item) = bullet(&text) {
        return format!("- {item}");
    }
    match level(lines, &text, body) {
        Some(level) => format!("{} {text}", "#".repeat(level)),
        None => text,
    }
}

/// Returns the heading level if the lines are a heading.
fn level(lines: &[Line], text: &str, body: f32) -> Option<usize> {
    const MAX_HEADING_LETTERS: usize = 160;
    let size = lines.iter().map(|line| line.size).fold(f32::INFINITY, f32::min);
    let letters = text.chars().filter(|letter| letter.is_alphabetic()).count();
    if lines.len() > 3 || text.len() > MAX_HEADING_LETTERS || letters < 2 {
        return None;
    }
    let is_bold = lines.iter().all(|line| line.is_bold);
    match size / body {
        times if times >= 1.5 => Some(1),
        times if times >= 1.15 => Some(2),
        times if times > 0.95 && is_bold && lines.len() == 1 && !text.ends_with(['.', '。', ',', ';', ':']) => Some(3),
        _ => None,
    }
}

/// Appends the next line of a paragraph. Omits the space in scripts without spaces, and a hyphen at a line break.
fn join(text: &mut String, line: &str) {
    let mut ends = text.chars().rev();
    let (last, before) = (ends.next(), ends.next());
    let Some((last, first)) = last.zip(line.chars().next()) else {
        return text.push_str(line);
    };
    let is_hyphen = matches!(last, '-' | '\u{2010}' | '\u{ad}');
    let has_none = (is_wide(last) && is_wide(first)) || (is_hyphen && before.is_some_and(char::is_alphanumeric));
    if is_hyphen && before.is_some_and(char::is_lowercase) && first.is_lowercase() {
        text.pop();
    } else if !has_none {
        text.push(' ');
    }
    text.push_str(line);
}

/// Minimum number of lines in a column.
const MIN_COLUMN_LINES: usize = 4;
/// Minimum width of a gutter, relative to the font size.
const MIN_GUTTER: f32 = 0.4;
/// Maximum nesting depth of columns.
const MAX_NESTING: usize = 4;

/// Splits a page into regions in reading order.
pub(super) fn regions(pieces: Vec<Piece>) -> Vec<Rows> {
    let mut regions = Vec::new();
    read(pieces, MAX_NESTING, &mut regions);
    regions
}

fn read(pieces: Vec<Piece>, depth: usize, regions: &mut Vec<Rows>) {
    let rows = rows(pieces);
    let Some(gutter) = gutter(&rows).filter(|_| depth > 0) else {
        return regions.push(rows);
    };
    let mut between: Rows = Vec::new();
    let mut side_by_side: Rows = Vec::new();
    for row in rows {
        if row.iter().any(|piece| crosses(piece, gutter)) {
            columns(std::mem::take(&mut side_by_side), gutter, depth, &mut between, regions);
            between.push(row);
        } else {
            side_by_side.push(row);
        }
    }
    columns(side_by_side, gutter, depth, &mut between, regions);
    if !between.is_empty() {
        regions.push(between);
    }
}

/// Handles lines that do not cross the gutter: reads them as two columns if both sides are text, otherwise adds them to
/// the preceding lines.
fn columns(side_by_side: Rows, gutter: f32, depth: usize, between: &mut Rows, regions: &mut Vec<Rows>) {
    let is_left = |piece: &Piece| piece.right <= gutter;
    let all = || side_by_side.iter().flatten();
    let (left, right): (Vec<&Piece>, Vec<&Piece>) = all().partition(|piece| is_left(piece));
    if !(has_text(left) && has_text(right)) {
        return between.extend(side_by_side);
    }
    if !between.is_empty() {
        regions.push(std::mem::take(between));
    }
    let (left, right) = side_by_side.into_iter().flatten().partition(is_left);
    read(left, depth - 1, regions);
    read(right, depth - 1, regions);
}

fn crosses(piece: &Piece, gutter: f32) -> bool {
    piece.left < gutter && piece.right > gutter
}

/// Returns the position of the gap that most lines share. Lines in two columns need not be aligned, so each line is
/// combined with the next one. The combination also closes gaps between words.
fn gutter(rows: &Rows) -> Option<f32> {
    let joint_gaps = |pair: &[Vec<Piece>]| {
        let mut pieces: Vec<&Piece> = pair.iter().flatten().filter(|piece| !piece.is_table).collect();
        pieces.sort_by(|one, other| one.left.total_cmp(&other.left));
        let mut gaps = Vec::new();
        let mut max_right = f32::INFINITY;
        for piece in pieces {
            if piece.left - max_right > MIN_GUTTER * piece.size {
                gaps.push((max_right, piece.left));
            }
            max_right = if max_right.is_finite() { max_right.max(piece.right) } else { piece.right };
        }
        gaps
    };
    let gaps: Vec<Vec<(f32, f32)>> = rows.windows(2).map(joint_gaps).collect();
    let crossings = |at: f32| gaps.iter().filter(|row| row.iter().any(|(from, to)| *from < at && at < *to)).count();
    let middles = gaps.iter().flatten().map(|(from, to)| (from + to) / 2.0);
    let (place, count) = middles.map(|at| (at, crossings(at))).max_by_key(|(_, crossings)| *crossings)?;
    (count + 1 >= MIN_COLUMN_LINES).then_some(place)
}

/// Returns true if the pieces look like running text or columns of running text. A short column leaves most lines next
/// to it incomplete.
fn has_text(pieces: Vec<&Piece>) -> bool {
    let in_columns = |pieces: Vec<&Piece>| {
        let Some(gutter) = gutter(&rows(pieces.iter().copied().cloned().collect())) else { return false };
        let side_by_side = pieces.into_iter().filter(|piece| !crosses(piece, gutter));
        let (left, right) = side_by_side.partition(|piece| piece.right <= gutter);
        is_text(left) && is_text(right)
    };
    is_text(pieces.clone()) || in_columns(pieces)
}

/// Returns true if the pieces look like running text: most lines fill their column and are longer than a cell.
fn is_text(pieces: Vec<&Piece>) -> bool {
    const MIN_FILL_SHARE: f32 = 0.5;
    const MIN_LINE_LETTERS: usize = 12;
    let left = pieces.iter().map(|piece| piece.left).fold(f32::INFINITY, f32::min);
    let right = pieces.iter().map(|piece| piece.right).fold(f32::NEG_INFINITY, f32::max);
    let lines = rows(pieces.into_iter().cloned().collect());
    let fills = |line: &&Vec<Piece>| {
        let (Some(first), Some(last)) = (line.first(), line.last()) else { return false };
        last.right - first.left >= MIN_FILL_SHARE * (right - left)
            && line.iter().map(Piece::weight).sum::<usize>() >= MIN_LINE_LETTERS
    };
    lines.len() >= MIN_COLUMN_LINES && lines.iter().filter(fills).count() * 2 > lines.len()
}

#[cfg(test)]
mod tests {
    use super::{
        super::line::{Letter, pieces, rows, tests::set},
        *,
    };

    fn check(lines: &[(&str, f32, f32)], expected: &str) {
        let letters = lines.iter().flat_map(|(text, left, base)| set(text, *left, *base, 10.0)).collect();
        assert_eq!(markdown(&[rows(pieces(letters))]), expected);
    }

    #[test]
    fn list_items_and_rows_keep_their_lines() {
        check(
            &[
                ("Two things:", 0.0, 60.0),
                ("•", 0.0, 46.0),
                ("the first", 20.0, 46.0),
                ("•", 0.0, 32.0),
                ("the second", 20.0, 32.0),
            ],
            "Two things:\n\n- the first\n\n- the second",
        );
        check(
            &[("Item one", 0.0, 30.0), ("1.50", 100.0, 30.0), ("Item two", 0.0, 16.0), ("2.50", 100.0, 16.0)],
            "Item one  1.50\nItem two  2.50",
        );
    }

    fn region_texts(letters: Vec<Vec<Letter>>) -> Vec<String> {
        let text = |rows: Rows| {
            let row = |row: &Vec<Piece>| row.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>().join("|");
            rows.iter().map(row).collect::<Vec<_>>().join("/")
        };
        regions(pieces(letters.concat())).into_iter().map(text).collect()
    }

    #[test]
    fn short_first_column_is_read_first() {
        let mut page = Vec::new();
        for number in 0..20 {
            let base = 780.0 - 12.0 * number as f32;
            if number < 6 {
                page.push(set(&format!("first text of line {number}"), 0.0, base, 10.0));
            }
            page.push(set(&format!("second text of line {number}"), 150.0, base, 10.0));
            page.push(set(&format!("third text of line {number}"), 310.0, base, 10.0));
        }
        let region_texts = region_texts(page);
        assert_eq!(region_texts.len(), 3, "{region_texts:?}");
        for (region, word) in region_texts.iter().zip(["first", "second", "third"]) {
            assert!(region.split('/').all(|line| line.starts_with(word)), "{region_texts:?}");
        }
    }
}
