//! Emits a document to a listener, piece by piece, and enforces the limits.

use super::{Scanner, clean};
use crate::{
    document::{Body, DocumentPlace, Part, Row, Table},
    failure::{Failure, Limits, UnreadPages, UnreadReason, fail_if},
    frame::{Head, PIECE_BYTES, Piece, Tally, WantedParts, Window},
    kind::Kind,
};

/// Number of characters in a section. Texts without pages are split into sections, so that sections can be cited and
/// reading can continue at a section.
const SECTION_LETTERS: usize = 3000;

type Listener<'a> = &'a mut dyn FnMut(Piece) -> Result<(), Failure>;

/// Emits a document to a listener: head, parts, end.
pub struct Emitter<'a> {
    /// Limits on the cost of reading.
    pub(crate) limits: &'a Limits,
    listener: Listener<'a>,
    kind: Kind,
    has_head: bool,
    /// Requested parts. Documents inside an archive or a mail never open further documents.
    pub(crate) wanted: WantedParts,
    /// Recogniser for pages that are images.
    pub(crate) scanner: Scanner,
    pub(crate) tally: Tally,
    /// Pages that are images and were not recognised.
    unread: Option<UnreadPages>,
    /// True if pages after the last requested one were skipped.
    pub(super) is_partial: bool,
    cells: u64,
    /// Locations of truncated content, and their number.
    truncated: (Vec<String>, usize),
}

impl<'a> Emitter<'a> {
    /// Creates an emitter for a document of this kind.
    pub fn new(kind: Kind, limits: &'a Limits, listener: Listener<'a>) -> Self {
        Self {
            limits,
            listener,
            kind,
            has_head: false,
            wanted: WantedParts { first: 1, ..WantedParts::default() },
            scanner: Scanner::default(),
            tally: Tally::default(),
            unread: None,
            is_partial: false,
            cells: 0,
            truncated: (Vec::new(), 0),
        }
    }

    /// Emits the head with the title and the number of parts, if known. Must be called first.
    pub(super) fn head(&mut self, title: Option<&str>, parts: Option<usize>) -> Result<(), Failure> {
        self.has_head = true;
        let parts = parts.map(|parts| u32::try_from(parts).unwrap_or(u32::MAX));
        (self.listener)(Piece::Head(Head { kind: self.kind, title: title.and_then(clean::title), parts }))
    }

    /// Emits a text without pages, whole or in sections.
    pub(super) fn unpaged_text(&mut self, text: String) -> Result<(), Failure> {
        if sections(&text).len() > 1 { self.chapter(text) } else { self.text(DocumentPlace::Whole, text, None, None) }
    }

    /// Emits more text of a document without pages. Section numbers continue.
    pub(super) fn chapter(&mut self, text: String) -> Result<(), Failure> {
        let text = clean::clean_owned(text);
        sections(&text).into_iter().try_for_each(|section| {
            let place = DocumentPlace::Section { number: self.tally.parts.saturating_add(1), heading: None };
            self.text(place, section.to_owned(), None, None)
        })
    }

    /// Emits a text, split if it is large. `notes` are speaker notes. `unread` is the reason why an image on the page
    /// was not recognised.
    pub(super) fn text(
        &mut self,
        place: DocumentPlace,
        text: String,
        notes: Option<String>,
        unread: Option<UnreadReason>,
    ) -> Result<(), Failure> {
        let mut text = clean::clean_owned(text);
        text.truncate(text.trim_end().len());
        if let Some(reason) = unread {
            let page = UnreadPages::one(reason, !text.is_empty());
            self.unread = Some(self.unread.map_or(page, |before| before.and(page)));
        }
        // Notes are attached to the last piece, so they need a limit.
        const NOTES_BYTES: usize = PIECE_BYTES / 2;
        let notes = notes.map(clean::clean_owned);
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

    /// Emits a text with line numbers, split if it is large.
    pub(super) fn lines(&mut self, text: &str) -> Result<(), Failure> {
        // Form feeds and the like are not line ends for an editor.
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

    /// Emits rows of a sheet that fit into one frame.
    pub(super) fn table(&mut self, number: u32, name: &str, mut table: Table) -> Result<(), Failure> {
        let range = table.range_of(&table.rows);
        if let WantedParts { window: Some(window), first, .. } = &mut self.wanted {
            let wanted = |row: &Row| number > *first || number == *first && row.number >= window.row;
            table.rows.retain(|row| {
                let is_emitted = window.letters > 0 && wanted(row);
                let letters: usize = row.cells.iter().map(|cell| cell.chars().count() + 3).sum();
                window.letters -= if is_emitted { letters.min(window.letters) } else { 0 };
                is_emitted
            });
        }
        let place = DocumentPlace::Sheet { number, name: name.to_owned(), range };
        self.part(Part { place, body: Body::Table(table), notes: None, unread: None })
    }

    /// Returns the first requested row of a sheet, starting at 0, and the maximum number of cells that can be emitted.
    pub(super) fn wanted_cells(&self, sheet: u32) -> (u32, usize) {
        let Some(Window { row, letters }) = self.wanted.window else { return (0, usize::MAX) };
        // Each cell costs more than one character, so the character limit is an upper bound.
        (if sheet > self.wanted.first { 0 } else { row.saturating_sub(1) }, letters)
    }

    /// Returns true once all requested rows have been emitted.
    pub(super) const fn has_all_rows(&self) -> bool {
        matches!(self.wanted.window, Some(Window { letters: 0, .. }))
    }

    /// Emits an empty table for a sheet before the first requested one. Returns true if the sheet need not be read.
    pub(super) fn skip_sheet(&mut self, number: u32, name: &str) -> Result<bool, Failure> {
        if number >= self.wanted.first {
            return Ok(false);
        }
        self.table(number, name, Table::default())?;
        Ok(true)
    }

    /// Returns the number of pages before the first requested one.
    pub(super) fn before(&self) -> usize {
        usize::try_from(self.wanted.first - 1).unwrap_or(usize::MAX)
    }

    /// Returns true if a page comes after the last requested one, and records that the document continues.
    pub(super) fn is_past_last_page(&mut self, page: u32) -> bool {
        self.is_partial |= self.wanted.last.is_some_and(|last| page > last);
        self.is_partial
    }

    /// Returns the unrecognised pages, if all pages were read. Each emitted page also has its own marker.
    pub(super) fn unread(&self) -> Option<UnreadPages> {
        self.unread.filter(|_| self.wanted.first == 1 && !self.is_partial)
    }

    /// Records a location whose content was truncated.
    pub(super) fn leave_out(&mut self, place: String) {
        const MAX_NAMED_PLACES: usize = 3;
        let (places, count) = &mut self.truncated;
        *count += 1;
        if places.len() < MAX_NAMED_PLACES {
            places.push(place);
        }
    }

    pub(super) fn truncated(&self) -> Option<String> {
        let (places, count) = &self.truncated;
        let more = count - places.len();
        let more = if more > 0 { format!("; and {more} more locations") } else { String::new() };
        (*count > 0).then(|| clean::line(&format!("{}{more}", places.join("; ")), 300))
    }

    /// Counts cells before memory is allocated for them.
    pub(super) fn cells(&mut self, more: u64) -> Result<(), Failure> {
        self.cells = self.cells.saturating_add(more);
        fail_if(self.cells > self.limits.cells, || Failure::too_many("the number of its cells", self.limits.cells))?;
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), Failure> {
        debug_assert!(self.has_head, "the head must be emitted first");
        (self.listener)(Piece::End { parts: self.tally.parts })
    }

    pub(super) fn part(&mut self, part: Part) -> Result<(), Failure> {
        self.tally.take(&part, self.limits)?;
        (self.listener)(Piece::Part(part))
    }
}

/// Splits a text without pages into sections, at paragraph ends if possible.
pub(crate) fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let most = rest.char_indices().nth(SECTION_LETTERS).map_or(rest.len(), |(at, _)| at);
        let end = if most == rest.len() {
            most
        } else {
            let half = rest[..most].char_indices().nth(SECTION_LETTERS / 2).map_or(0, |(at, _)| at);
            let end_of = |mark: &str| rest[half..most].rfind(mark).map(|at| half + at + mark.len());
            end_of("\n\n").or_else(|| end_of("\n")).or_else(|| end_of(" ")).unwrap_or(most)
        };
        let (section, remaining) = rest.split_at(end);
        sections.push(section.trim_end());
        rest = remaining.trim_start();
    }
    sections
}

/// Returns the end of the first piece of a large text: after a line if possible, otherwise after a character.
fn end_of_piece(text: &str) -> usize {
    let most = text.floor_char_boundary(PIECE_BYTES);
    text[..most].rfind('\n').map_or(most, |line| line + 1)
}
