//! Tells a document to a listener, piece by piece, within the limits.

use super::{Scanner, clean, too_large};
use crate::{
    document::{Body, CellRange, DocumentPlace, Part, Row, Table},
    failure::{Failure, UnreadReason},
    frame::{Head, PIECE_BYTES, Piece, Summary, Window},
    kind::Kind,
    limits::Limits,
};

/// Characters of a section: a text without pages is cut into such pieces, so that it can be cited and read on.
const SECTION: usize = 3000;

type Listener<'a> = &'a mut dyn FnMut(Piece) -> Result<(), Failure>;

/// Tells a document to a listener: its head, its parts, its end.
pub struct Teller<'a> {
    /// Limits on the cost of reading.
    pub(crate) limits: &'a Limits,
    listener: Listener<'a>,
    kind: Kind,
    has_head: bool,
    /// The first page or sheet that is wanted, counted from 1.
    pub(crate) first: u32,
    /// The last page that is wanted, where not all are.
    pub(crate) last_page: Option<u32>,
    /// Rows that are wanted, where not all are.
    pub(crate) window: Option<Window>,
    /// Set if of an archive only the names of its files are wanted.
    pub(crate) lists_only: bool,
    /// Set if it is in an archive or attached to a mail: nothing within it is opened.
    pub(crate) is_inner: bool,
    /// The password that may open it.
    pub(crate) password: Option<String>,
    /// Recogniser of pages that are pictures.
    pub(crate) scanner: Scanner,
    /// Number of pages, sheets or slides so far.
    pub(crate) parts: u32,
    bytes: u64,
    cells: u64,
    last: Option<DocumentPlace>,
    /// Places of which something was left out, and their number.
    truncated: (Vec<String>, usize),
}

impl<'a> Teller<'a> {
    /// A teller that has told nothing yet of a document of this kind.
    pub fn new(kind: Kind, limits: &'a Limits, listener: Listener<'a>) -> Self {
        Self {
            limits,
            listener,
            kind,
            has_head: false,
            first: 1,
            last_page: None,
            window: None,
            lists_only: false,
            is_inner: false,
            password: None,
            scanner: Scanner::default(),
            parts: 0,
            bytes: 0,
            cells: 0,
            last: None,
            truncated: (Vec::new(), 0),
        }
    }

    /// Tells what it calls itself, and how many parts there will be. The first thing to be told.
    pub(super) fn head(&mut self, title: Option<&str>, parts: Option<usize>) -> Result<(), Failure> {
        self.has_head = true;
        let parts = parts.map(|parts| u32::try_from(parts).unwrap_or(u32::MAX));
        (self.listener)(Piece::Head(Head { kind: self.kind, title: title.and_then(clean::title), parts }))
    }

    /// Tells a text without pages: as one that is whole, or in sections.
    pub(super) fn unpaged(&mut self, text: String) -> Result<(), Failure> {
        if sections(&text).len() > 1 { self.chapter(text) } else { self.text(DocumentPlace::Whole, text, None) }
    }

    /// Tells more of a text without pages. Sections count on.
    pub(super) fn chapter(&mut self, text: String) -> Result<(), Failure> {
        let text = clean::owned(text);
        sections(&text).into_iter().try_for_each(|section| {
            let place = DocumentPlace::Section { number: self.parts.saturating_add(1), heading: None };
            self.text(place, section.to_owned(), None)
        })
    }

    /// Tells a text, in pieces where it is large.
    pub(super) fn text(&mut self, place: DocumentPlace, text: String, notes: Option<String>) -> Result<(), Failure> {
        self.text_pieces(place, text, notes, None)
    }

    /// Tells the text of a page, and why the letters of a picture on it were not recognised.
    pub(super) fn page(
        &mut self,
        place: DocumentPlace,
        text: String,
        unread: Option<UnreadReason>,
    ) -> Result<(), Failure> {
        self.text_pieces(place, text, None, unread)
    }

    fn text_pieces(
        &mut self,
        place: DocumentPlace,
        text: String,
        notes: Option<String>,
        unread: Option<UnreadReason>,
    ) -> Result<(), Failure> {
        let mut text = clean::owned(text);
        text.truncate(text.trim_end().len());
        // Told with the last piece, so what is there without bound is not.
        const NOTES_BYTES: usize = PIECE_BYTES / 2;
        let notes = notes.map(clean::owned);
        if notes.as_ref().is_some_and(|notes| notes.len() > NOTES_BYTES) {
            self.leave_out(format!("the notes of {place} have more than {} KiB", NOTES_BYTES / 1024));
        }
        let notes = notes.map(|notes| notes[..notes.floor_char_boundary(NOTES_BYTES)].trim().to_owned());
        let notes = notes.filter(|notes| !notes.is_empty());
        let mut rest = text.as_str();
        while rest.len() > PIECE_BYTES {
            let (piece, after) = rest.split_at(end_of_piece(rest));
            self.part(Part::text(place.clone(), piece))?;
            rest = after;
        }
        let rest = if rest.len() == text.len() { text } else { rest.to_owned() };
        self.part(Part { notes, unread, ..Part::text(place, rest) })
    }

    /// Tells a text of which the lines count, in pieces where it is large.
    pub(super) fn lines(&mut self, text: &str) -> Result<(), Failure> {
        // What ends a line for a printer ends none for an editor.
        let mut text = text.replace(['\u{b}', '\u{c}', '\u{85}'], " ");
        if text.contains('\r') {
            text = text.replace("\r\n", "\n");
            text = text.replace('\r', if text.contains('\n') { " " } else { "\n" });
        }
        let mut rest = text.trim_end();
        let mut first = 1_u32;
        loop {
            let (piece, after) = if rest.len() > PIECE_BYTES { rest.split_at(end_of_piece(rest)) } else { (rest, "") };
            let ends = piece.bytes().filter(|byte| *byte == b'\n').count();
            let next = first.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
            let last = if piece.ends_with('\n') { next.saturating_sub(1).max(first) } else { next };
            self.part(Part::text(DocumentPlace::Lines { first, last }, clean::text(piece)))?;
            if after.is_empty() {
                return Ok(());
            }
            (first, rest) = (next, after);
        }
    }

    /// Tells rows of a sheet; few enough for one piece.
    pub(super) fn table(&mut self, number: u32, name: &str, mut table: Table) -> Result<(), Failure> {
        let range = table.range_of(&table.rows);
        if let Some(window) = &mut self.window {
            let wanted = |row: &Row| number > self.first || number == self.first && row.number >= window.row;
            table.rows.retain(|row| {
                let is_told = window.letters > 0 && wanted(row);
                let letters: usize = row.cells.iter().map(|cell| cell.chars().count() + 3).sum();
                window.letters -= if is_told { letters.min(window.letters) } else { 0 };
                is_told
            });
        }
        let place = DocumentPlace::Sheet { number, name: name.to_owned(), range };
        self.part(Part { place, body: Body::Table(table), notes: None, unread: None })
    }

    /// Row of a sheet from which on rows are wanted, counted from 0, and the number of cells that can be told.
    pub(super) fn wanted_cells(&self, sheet: u32) -> (u32, usize) {
        let Some(Window { row, letters }) = self.window else { return (0, usize::MAX) };
        // Each costs more than one letter.
        (if sheet > self.first { 0 } else { row.saturating_sub(1) }, letters)
    }

    /// Returns whether all rows that are wanted were told.
    pub(super) const fn is_satisfied(&self) -> bool {
        matches!(self.window, Some(Window { letters: 0, .. }))
    }

    /// Tells that a sheet has these cells, too, which nobody wants: by a table of it without rows.
    pub(super) fn untold(&mut self, number: u32, name: &str, table: Table, range: CellRange) -> Result<(), Failure> {
        let place = DocumentPlace::Sheet { number, name: name.to_owned(), range: Some(range) };
        self.part(Part { place, body: Body::Table(table), notes: None, unread: None })
    }

    /// Tells of a sheet before the first that is wanted that it is there, so that it need not be read.
    pub(super) fn skips(&mut self, number: u32, name: &str) -> Result<bool, Failure> {
        if number >= self.first {
            return Ok(false);
        }
        self.table(number, name, Table::default())?;
        Ok(true)
    }

    /// Takes note of a place that has more than is told.
    pub(super) fn leave_out(&mut self, place: String) {
        const NAMED: usize = 3;
        let (places, count) = &mut self.truncated;
        *count += 1;
        if places.len() < NAMED {
            places.push(place);
        }
    }

    /// Places that have more than was told, with what they have too much of.
    pub(super) fn truncated(&self) -> Option<String> {
        let (places, count) = &self.truncated;
        let more = count - places.len();
        let more = if more > 0 { format!("; and so have {more} more places") } else { String::new() };
        (*count > 0).then(|| clean::line(&format!("{}{more}", places.join("; ")), 300))
    }

    /// Counts cells, before there is memory for them.
    pub(super) fn cells(&mut self, more: u64) -> Result<(), Failure> {
        self.cells = self.cells.saturating_add(more);
        if self.cells > self.limits.cells {
            let (what, most) = ("the number of its cells".to_owned(), self.limits.cells.to_string());
            return Err(Failure::TooLarge { what, most, parts: 0 });
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), Failure> {
        debug_assert!(self.has_head, "a document has a head");
        (self.listener)(Piece::End(Summary { parts: self.parts }))
    }

    pub(super) fn part(&mut self, part: Part) -> Result<(), Failure> {
        let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
        if is_new && self.parts == self.limits.parts {
            return Err(Failure::too_many_parts(self.limits.parts));
        }
        self.bytes += part.size();
        if self.bytes > self.limits.bytes_out {
            return Err(too_large("its text", self.limits.bytes_out));
        }
        self.parts += u32::from(is_new);
        self.last = Some(part.place.clone());
        (self.listener)(Piece::Part(part))
    }
}

/// A text without pages in pieces that end where a paragraph does, if one does.
pub(crate) fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let most = rest.char_indices().nth(SECTION).map_or(rest.len(), |(at, _)| at);
        let end = if most == rest.len() {
            most
        } else {
            let half = rest[..most].char_indices().nth(SECTION / 2).map_or(0, |(at, _)| at);
            let end_of = |mark: &str| rest[half..most].rfind(mark).map(|at| half + at + mark.len());
            end_of("\n\n").or_else(|| end_of("\n")).or_else(|| end_of(" ")).unwrap_or(most)
        };
        let (section, behind) = rest.split_at(end);
        sections.push(section.trim_end());
        rest = behind.trim_start();
    }
    sections
}

/// Where the first piece of a large text ends: after a line if there is one, or after a character.
fn end_of_piece(text: &str) -> usize {
    let most = text.floor_char_boundary(PIECE_BYTES);
    text[..most].rfind('\n').map_or(most, |line| line + 1)
}
