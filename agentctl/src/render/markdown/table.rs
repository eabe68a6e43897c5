//! Renders tables with aligned columns. Cells are wrapped if the table is too wide. If cells became too narrow, each
//! row is shown as a record.

use anstyle::Style;

use super::{
    inline::{self, Span},
    wrap::wrap,
};
use crate::terminal::paint::{QUIET, paint, width};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    Center,
}

/// Returns true if a line can be part of a table.
pub(crate) fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Columns of the rule between two records.
const RULE: usize = 12;
/// Minimum width of a column whose cells are wrapped.
const MIN_WRAPPED: usize = 12;

/// Returns the rows of a table in at most `columns`, or `None` for text that is not a table.
pub(crate) fn render(source: &str, columns: usize) -> Option<Vec<String>> {
    let mut lines = source.lines();
    let head = cells(lines.next()?);
    let aligns: Vec<Align> = cells(lines.next()?).iter().map(|cell| align(cell)).collect::<Option<_>>()?;
    let body: Vec<Vec<String>> = lines.map(cells).collect();
    if head.len() != aligns.len() || body.iter().any(|row| row.len() > head.len()) {
        return None;
    }
    let head: Vec<Vec<Span>> = head.iter().map(|cell| inline::parse(cell, Style::new().bold())).collect();
    let body: Vec<Vec<Vec<Span>>> =
        body.iter().map(|row| row.iter().map(|cell| inline::parse(cell, Style::new())).collect()).collect();
    let widths: Vec<usize> = (0..aligns.len())
        .map(|column| {
            let cells = std::iter::once(&head).chain(&body).filter_map(|row| row.get(column));
            cells.map(|cell| cell_width(cell)).max().unwrap_or(0)
        })
        .collect();
    let Some(widths) = fitted(&widths, columns.saturating_sub(3 * widths.len().saturating_sub(1))) else {
        return Some(records(&head, &body, columns));
    };
    let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("─┼─");
    let mut rows = row(&head, &widths, &aligns);
    rows.push(paint(true, QUIET, &rule));
    rows.extend(body.iter().flat_map(|cells| row(cells, &widths, &aligns)));
    Some(rows)
}

/// Limits the wide columns so that all fit in `room`. Returns `None` if wrapped columns would be too narrow.
fn fitted(widths: &[usize], room: usize) -> Option<Vec<usize>> {
    let limited = |limit: usize| widths.iter().map(move |width| (*width).min(limit));
    let mut limits = std::iter::once(usize::MAX).chain((MIN_WRAPPED..=room).rev());
    limits.find(|limit| limited(*limit).sum::<usize>() <= room).map(|limit| limited(limit).collect())
}

/// Renders each row as a record: each cell follows the name of its column.
fn records(head: &[Vec<Span>], body: &[Vec<Vec<Span>>], columns: usize) -> Vec<String> {
    let rule = paint(true, QUIET, &"─".repeat(RULE.min(columns)));
    let mut rows = Vec::new();
    for cells in body {
        if !rows.is_empty() {
            rows.push(rule.clone());
        }
        for (name, cell) in head.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let mut spans = name.clone();
            if !spans.is_empty() {
                spans.push(Span { text: ": ".to_owned(), style: Style::new().bold() });
            }
            spans.extend(cell.iter().cloned());
            rows.extend(wrap(&spans, columns, "", "  "));
        }
    }
    if rows.is_empty() {
        let names = head.iter().filter(|name| !name.is_empty());
        rows.extend(names.flat_map(|name| wrap(name, columns, "", "  ")));
    }
    rows
}

/// Splits a line into trimmed cells. A bar after a backslash belongs to its cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in line.chars() {
        match cells.last_mut() {
            Some(cell) if c != '|' => cell.push(c),
            Some(cell) if escaped => {
                cell.pop();
                cell.push(c);
            }
            _ => cells.push(String::new()),
        }
        escaped = c == '\\' && !escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn align(cell: &str) -> Option<Align> {
    let dashes = cell.trim_start_matches(':').trim_end_matches(':');
    if dashes.is_empty() || dashes.chars().any(|c| c != '-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Align::Center,
        (false, true) => Align::Right,
        _ => Align::Left,
    })
}

fn cell_width(cell: &[Span]) -> usize {
    cell.iter().map(|span| width(&span.text)).sum()
}

/// Returns the rows on the screen of a row of the table: as many as its highest cell has.
fn row(cells: &[Vec<Span>], widths: &[usize], aligns: &[Align]) -> Vec<String> {
    let cells: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, columns)| match cell_width(cell) > *columns {
            true => wrap(cell, *columns, "", ""),
            false => vec![inline::painted(cell)],
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..height).map(|at| screen_row(&cells, at, widths, aligns)).collect()
}

fn screen_row(cells: &[Vec<String>], at: usize, widths: &[usize], aligns: &[Align]) -> String {
    let mut row = String::new();
    for (column, (target, align)) in widths.iter().zip(aligns).enumerate() {
        let cell = cells.get(column).and_then(|rows| rows.get(at)).map_or("", String::as_str);
        let missing = target.saturating_sub(width(&anstream::adapter::strip_str(cell).to_string()));
        let left = match align {
            Align::Left => 0,
            Align::Right => missing,
            Align::Center => missing / 2,
        };
        if column > 0 {
            row.push_str(&paint(true, QUIET, " │ "));
        }
        row.extend(std::iter::repeat_n(' ', left));
        row.push_str(cell);
        if column + 1 < widths.len() {
            row.extend(std::iter::repeat_n(' ', missing - left));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(source: &str, columns: usize) -> Option<Vec<String>> {
        render(source, columns).map(|rows| rows.iter().map(|row| crate::terminal::sanitize::clean(row)).collect())
    }

    #[test]
    fn table_columns_align_in_any_script() {
        let source = "| name | size |\n|:--|--:|\n| 漢字 | 12 |\n| a\\|b | `3` |\n";
        assert_eq!(plain(source, 80).unwrap(), ["name │ size", "─────┼─────", "漢字 │   12", "a|b  │    3"]);
    }

    #[test]
    fn wide_cells_are_wrapped_before_the_table_becomes_records() {
        let source = "| name | what it is for | n |\n|--|--|--:|\n| `long` | all that **there is** to say of it | 1 |\n\
                      | 漢字 | | 20 |\n";
        let wrapped = [
            "name │ what it is for   │  n",
            "─────┼──────────────────┼───",
            "long │ all that there   │  1",
            "     │ is to say of it  │   ",
            "漢字 │                  │ 20",
        ];
        let shown = plain(source, 28).unwrap();
        assert_eq!(shown.iter().map(|row| row.trim_end()).collect::<Vec<_>>(), wrapped.map(str::trim_end));
        assert_eq!(fitted(&[4, 40, 2], 24), Some(vec![4, 18, 2]));
        assert_eq!(fitted(&[40, 40], 24), Some(vec![12, 12]));
        assert_eq!(fitted(&[40, 40], 23), None);
        assert_eq!(fitted(&[3, 4], 7), Some(vec![3, 4]));
    }

    #[test]
    fn overwide_table_becomes_records() {
        let source = "| name | what it is for | |\n|--|--|--|\n| `long` enough | all that **there** is to say of it | x |\n\
                      | 漢字 | | y |\n";
        let records = [
            "name: long enough",
            "what it is for: all",
            "  that there is to",
            "  say of it",
            "x",
            "────────────",
            "name: 漢字",
            "y",
        ];
        assert_eq!(plain(source, 20).unwrap(), records);
        let fits = plain(source, 80).unwrap();
        assert!(fits[0].starts_with("name        │ what it is for"), "{fits:?}");
        assert_eq!(plain("| name | size |\n|--|--|\n", 8).unwrap(), ["name", "size"]);
        for columns in 0..60 {
            let rows = plain(source, columns).unwrap();
            assert!(rows.iter().all(|row| width(row) <= columns.max(4)), "{columns}: {rows:?}");
        }
    }

    #[test]
    fn non_tables_are_left_unchanged() {
        assert_eq!(plain("| a | b |\n| 1 | 2 |\n", 80), None);
        assert_eq!(plain("| a |\n", 80), None);
        assert_eq!(plain("| a | b |\n|--|--|\n| 1 | 2 | 3 |\n", 80), None);
    }
}
