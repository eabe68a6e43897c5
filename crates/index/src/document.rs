//! Format-independent model of a document: parts in reading order, each with a location that can be cited.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::failure::UnreadReason;

/// Page, sheet, slide or section, or a whole text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Location in the document.
    pub place: DocumentPlace,
    /// Text or cells of the part.
    pub body: Body,
    /// Speaker notes of a slide, as Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Reason why a page that consists mostly of an image was not recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<UnreadReason>,
}

impl Part {
    /// Creates a part with text.
    pub fn text(place: DocumentPlace, text: impl Into<String>) -> Self {
        Self { place, body: Body::Text(text.into()), notes: None, unread: None }
    }

    /// Returns the whole part as Markdown, with notes under a separate heading.
    pub fn markdown(&self) -> String {
        let mut text = match &self.body {
            Body::Text(text) => text.clone(),
            Body::Table(table) => table.markdown(),
        };
        if let Some(notes) = &self.notes {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{gap}Notes:\n\n{notes}");
        }
        text
    }

    /// Returns true if the part has neither content nor notes.
    pub fn is_empty(&self) -> bool {
        let no_body = match &self.body {
            Body::Text(text) => text.trim().is_empty(),
            Body::Table(table) => table.rows.is_empty() && table.header.is_none(),
        };
        no_body && self.notes.as_ref().is_none_or(|notes| notes.trim().is_empty())
    }

    /// Returns the size of the text in bytes.
    pub fn size(&self) -> u64 {
        let body = match &self.body {
            Body::Text(text) => text.len(),
            Body::Table(table) => table.header.iter().chain(&table.rows).map(Row::size).sum(),
        };
        (body + self.notes.as_ref().map_or(0, String::len)) as u64
    }

    /// Appends the next part if it continues this part. Otherwise returns it unchanged.
    pub fn join(&mut self, next: Part) -> Option<Part> {
        if self.notes.is_some() || !self.place.is_same(&next.place) {
            return Some(next);
        }
        match (&mut self.body, next.body) {
            (Body::Text(text), Body::Text(more)) => text.push_str(&more),
            (Body::Table(table), Body::Table(more))
                if table.first_column == more.first_column && table.header == more.header =>
            {
                table.rows.extend(more.rows);
            }
            (_, body) => return Some(Part { body, ..next }),
        }
        self.place.extend(next.place);
        self.notes = next.notes;
        self.unread = self.unread.or(next.unread);
        None
    }
}

/// Content of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Text formatted as Markdown.
    Text(String),
    /// Cells of a sheet.
    Table(Table),
}

/// Maximum number of consecutive empty rows that are printed. A longer gap is replaced by one line with the row
/// numbers.
const EMPTY_ROWS: u32 = 2;

/// Non-empty cells of a sheet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Zero-based column of the first cell of every row.
    pub first_column: u32,
    /// Column names, which are repeated above each excerpt of the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Row>,
    /// Rows in order, without the empty ones.
    pub rows: Vec<Row>,
}

impl Table {
    /// Formats the table as Markdown.
    pub fn markdown(&self) -> String {
        self.markdown_of(&self.rows)
    }

    /// Formats the header and `rows` as a Markdown table.
    pub fn markdown_of(&self, rows: &[Row]) -> String {
        let mut text = String::new();
        let width = self.header.iter().chain(rows).map(|row| row.cells.len()).max().unwrap_or_default();
        let empty = Row { number: 0, cells: Vec::new() };
        self.header.as_ref().unwrap_or(&empty).write(&mut text, width);
        text.push('|');
        (0..width).for_each(|_| text.push_str(" --- |"));
        text.push('\n');
        let mut before: Option<u32> = None;
        for row in rows {
            // Empty rows are shown, so that a reader can determine row numbers by counting.
            let gap = before.map_or(0, |before| row.number.saturating_sub(before).saturating_sub(1));
            if gap > EMPTY_ROWS {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "| (rows {} to {} are empty) |", row.number - gap, row.number - 1);
            } else {
                (0..gap).for_each(|_| empty.write(&mut text, width));
            }
            row.write(&mut text, 0);
            before = Some(row.number);
        }
        text
    }

    /// Returns the cells that `rows` span, or `None` if there are no cells.
    pub fn range_of(&self, rows: &[Row]) -> Option<CellRange> {
        let width = rows.iter().map(|row| row.cells.len()).max().filter(|width| *width > 0)?;
        let last_column = self.first_column.saturating_add(u32::try_from(width - 1).unwrap_or(u32::MAX));
        Some(CellRange { first: (self.first_column, rows.first()?.number), last: (last_column, rows.last()?.number) })
    }
}

/// Row of a sheet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Row number as shown by spreadsheet programs, starting at 1.
    pub number: u32,
    /// Displayed text of the cells, up to the last non-empty one.
    pub cells: Vec<String>,
}

impl Row {
    /// Returns the size of the text in bytes, with two bytes per cell for its borders.
    pub fn size(&self) -> usize {
        self.cells.iter().map(|cell| cell.len() + 2).sum()
    }

    fn write(&self, text: &mut String, width: usize) {
        text.push('|');
        for cell in &self.cells {
            text.push(' ');
            // Escape characters that would end the cell or the row.
            for letter in cell.trim().chars() {
                match letter {
                    '|' => text.push_str("\\|"),
                    '\n' => text.push_str("<br>"),
                    letter => text.push(letter),
                }
            }
            text.push_str(" |");
        }
        (self.cells.len()..width).for_each(|_| text.push_str("  |"));
        text.push('\n');
    }
}

/// Location of a part in its document, for citations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentPlace {
    /// Page number, starting at 1.
    Page(u32),
    /// Number of a page that is an image and was recognised, starting at 1.
    ScannedPage(u32),
    /// Sheet of a workbook.
    Sheet {
        /// Sheet number, starting at 1.
        number: u32,
        /// Sheet name. Empty if the whole file is one unnamed sheet.
        name: String,
        /// Cells that are cited. `None` if the sheet is empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<CellRange>,
    },
    /// Slide number, starting at 1.
    Slide(u32),
    /// Lines of a text, starting at 1, both ends included.
    Lines {
        /// Number of the first line.
        first: u32,
        /// Number of the last line.
        last: u32,
    },
    /// Section of a document without pages.
    Section {
        /// Section number in reading order, starting at 1.
        number: u32,
        /// Path of headings above the section. Only set in search results.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heading: Option<String>,
    },
    /// Whole document, which has no pages and is short.
    Whole,
    /// Location in a document inside an archive.
    Inner {
        /// Path of the document in the archive.
        path: String,
        /// Location in the inner document.
        place: Box<DocumentPlace>,
    },
}

impl DocumentPlace {
    /// Returns true if both locations are in the same page, sheet, slide, section or text.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sheet { number, .. }, Self::Sheet { number: other, .. }) => number == other,
            (Self::Section { number, .. }, Self::Section { number: other, .. }) => number == other,
            (Self::Lines { .. }, Self::Lines { .. }) => true,
            (Self::Inner { path, place }, Self::Inner { path: other_path, place: other }) => {
                path == other_path && place.is_same(other)
            }
            _ => self == other,
        }
    }

    /// Formats the location as a suffix of the document's name: `report.pdf p. 12`, `notes.md:120-134`.
    pub fn citation(&self, name: &str) -> String {
        match self {
            Self::Inner { path, place } => place.citation(&format!("{name}!/{path}")),
            Self::Lines { .. } => format!("{name}{self}"),
            Self::Whole => name.to_owned(),
            _ => format!("{name} {self}"),
        }
    }

    /// Extends the location by the location of a part that continues this part.
    fn extend(&mut self, next: Self) {
        match (self, next) {
            (Self::Sheet { range, .. }, Self::Sheet { range: more, .. }) => {
                *range = match (*range, more) {
                    (Some(first), Some(second)) => Some(first.around(second)),
                    (range, more) => range.or(more),
                };
            }
            (Self::Lines { last, .. }, Self::Lines { last: more, .. }) => *last = more.max(*last),
            (Self::Inner { place, .. }, Self::Inner { place: more, .. }) => place.extend(*more),
            _ => {}
        }
    }
}

/// Formats as `p. 12`, `p. 12 (recognised)`, `Sales!A2:F20`, `slide 7`, `section 4, Fees > Late payment`, `:120-134` or
/// `!/a.pdf p. 3`. Empty for a whole document.
impl fmt::Display for DocumentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(number) => write!(f, "p. {number}"),
            Self::ScannedPage(number) => write!(f, "p. {number} (recognised)"),
            Self::Slide(number) => write!(f, "slide {number}"),
            Self::Section { number, heading: None } => write!(f, "section {number}"),
            Self::Section { number, heading: Some(heading) } => write!(f, "section {number}, {heading}"),
            Self::Whole => Ok(()),
            Self::Lines { first, last } if first == last => write!(f, ":{first}"),
            Self::Lines { first, last } => write!(f, ":{first}-{last}"),
            Self::Inner { .. } => f.write_str(&self.citation("")),
            Self::Sheet { name, range, .. } => {
                let range = range.map(|range| range.to_string()).unwrap_or_default();
                let edge = if name.is_empty() || range.is_empty() { "" } else { "!" };
                if edge.is_empty() || name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
                    write!(f, "{name}{edge}{range}")
                } else {
                    // Quoted as in spreadsheet formulas.
                    write!(f, "'{}'{edge}{range}", name.replace('\'', "''"))
                }
            }
        }
    }
}

/// Rectangle of cells, both corners included. Columns start at 0, rows at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellRange {
    /// Column and row of the upper left cell.
    pub first: (u32, u32),
    /// Column and row of the lower right cell.
    pub last: (u32, u32),
}

impl CellRange {
    /// Returns the smallest range that contains both ranges.
    pub fn around(self, other: Self) -> Self {
        Self {
            first: (self.first.0.min(other.first.0), self.first.1.min(other.first.1)),
            last: (self.last.0.max(other.last.0), self.last.1.max(other.last.1)),
        }
    }
}

/// Formats as `A2:F20`, or `B3` for one cell.
impl fmt::Display for CellRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", column_name(self.first.0), self.first.1)?;
        if self.first != self.last {
            write!(f, ":{}{}", column_name(self.last.0), self.last.1)?;
        }
        Ok(())
    }
}

/// Returns the letters for a zero-based column: `A` to `Z`, then `AA`.
pub fn column_name(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        rest -= 1;
        // The remainder is below 26, so the result is a letter.
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// Appends a part to a document's parts.
#[cfg(test)]
pub(crate) fn push(parts: &mut Vec<Part>, part: Part) {
    let rest = match parts.last_mut() {
        Some(last) => last.join(part),
        None => Some(part),
    };
    parts.extend(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(name: &str, range: Option<((u32, u32), (u32, u32))>) -> DocumentPlace {
        let range = range.map(|(first, last)| CellRange { first, last });
        DocumentPlace::Sheet { number: 1, name: name.to_owned(), range }
    }

    #[test]
    fn places_are_formatted_as_citations() {
        let cases = [
            (sheet("销售", Some(((0, 2), (5, 20)))), "销售!A2:F20"),
            (sheet("Q1 '24", Some(((26, 3), (26, 3)))), "'Q1 ''24'!AA3"),
            (sheet("Empty", None), "Empty"),
        ];
        for (place, expected) in cases {
            assert_eq!(place.to_string(), expected);
        }
        assert_eq!([0, 25, 26, 701, 702, 16_383].map(column_name), ["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
    }

    fn row(number: u32, cells: &[&str]) -> Row {
        Row { number, cells: cells.iter().map(|cell| (*cell).to_owned()).collect() }
    }

    #[test]
    fn table_markdown_escapes_cell_separators() {
        let table = Table {
            first_column: 0,
            header: Some(row(1, &["name", "count"])),
            rows: vec![row(2, &["a|b", "1"]), row(3, &["two\nlines"])],
        };
        assert_eq!(table.markdown(), "| name | count |\n| --- | --- |\n| a\\|b | 1 |\n| two<br>lines |\n");
    }
}
