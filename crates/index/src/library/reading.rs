//! Which parts of a document are shown, and how much of them. Pure.

use std::ops::ControlFlow;

use agentd_core::knowledge::{PartKind, PartRange, Reading};

use super::fitting::{ShowablePart, fit};
use crate::{
    Body, DocumentPlace, Kind, Part, extract::sections, failure::UnreadPages, frame::Head, limits::ReadingLimits,
};

/// Takes the parts of a document in, and keeps those that are wanted.
#[derive(Debug)]
pub(super) struct Reader {
    range: PartRange,
    limits: ReadingLimits,
    head: Option<Head>,
    /// Parts that have begun.
    seen: u32,
    last: Option<DocumentPlace>,
    /// Characters of what is kept.
    letters: usize,
    /// Those that are wanted, or the whole text of a document without pages.
    kept: Vec<(u32, Part)>,
}

impl Reader {
    pub(super) fn new(range: PartRange, limits: ReadingLimits) -> Self {
        Self {
            range: PartRange { first: range.first.max(1), ..range },
            limits,
            head: None,
            seen: 0,
            last: None,
            letters: 0,
            kept: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, head: Head) {
        self.head = Some(head);
    }

    pub(super) fn has_read(&self) -> bool {
        self.kept.iter().any(|(_, part)| !part.is_empty())
    }

    /// Returns whether there is a part that is wanted, though it may say nothing.
    pub(super) const fn has_begun(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Takes the next part, and breaks where no later one is wanted.
    pub(super) fn take(&mut self, part: Part) -> ControlFlow<()> {
        let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
        self.last = Some(part.place.clone());
        self.seen = match part.place {
            // Pages before the first that is wanted may not have been told.
            // Sheets that are charts are not told.
            DocumentPlace::Page(number)
            | DocumentPlace::ScannedPage(number)
            | DocumentPlace::Section { number, .. }
            | DocumentPlace::Sheet { number, .. } => number,
            _ => self.seen + u32::from(is_new),
        };
        let whole = is_whole(&part.place);
        let is_full = is_new && self.seen > self.range.first && self.letters > self.limits.of(self.kind()).letters;
        let behind = is_full || self.seen >= self.range.first.saturating_add(self.wanted());
        if !whole && behind {
            // How many there are is known, or is worth counting on for.
            let counted = self.head.as_ref().is_some_and(|head| head.parts.is_some());
            return if counted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if whole || self.seen >= self.range.first {
            self.letters += letters(&part);
            let rest = match self.kept.last_mut().filter(|_| !is_new) {
                Some((_, last)) => last.join(part),
                None => Some(part),
            };
            self.kept.extend(rest.map(|part| (self.seen, part)));
        }
        ControlFlow::Continue(())
    }

    fn kind(&self) -> Kind {
        self.head.as_ref().map_or(Kind::Plain, |head| head.kind)
    }

    fn wanted(&self) -> u32 {
        self.range.count.unwrap_or_else(|| self.limits.of(self.kind()).parts).max(1)
    }

    pub(super) fn finish(self, broken: Option<String>) -> Reading {
        let (kind, wanted, first) = (self.kind(), self.wanted(), self.range.first);
        let letters = self.limits.of(kind).letters;
        let head = self.head.unwrap_or(Head { kind, title: None, parts: None });
        let picture = |(number, part): &(u32, Part)| Some((*number, UnreadPages::one(part.unread?, !part.is_empty())));
        let pictures: Vec<(u32, UnreadPages)> = self.kept.iter().filter_map(picture).collect();
        let is_whole = self.kept.iter().any(|(_, part)| is_whole(&part.place));
        let (parts_are, total, parts) = if is_whole {
            let text: Vec<String> = self.kept.iter().map(|(_, part)| part.markdown()).collect();
            let text = text.join("\n\n");
            let sections = sections(&text);
            let total = u32::try_from(sections.len()).unwrap_or(u32::MAX);
            let from = usize::try_from(first - 1).unwrap_or(usize::MAX);
            let numbered = (first..).zip(sections.into_iter().skip(from)).take(wanted as usize);
            let part = |(number, text): (u32, &str)| ShowablePart {
                number,
                label: format!("section {number}"),
                part: Part::text(DocumentPlace::Whole, text),
            };
            (PartKind::Section, total, numbered.map(part).collect())
        } else {
            let parts_are = match self.last {
                Some(DocumentPlace::Slide(_)) => PartKind::Slide,
                Some(DocumentPlace::Sheet { .. }) => PartKind::Sheet,
                Some(DocumentPlace::Section { .. }) => PartKind::Section,
                _ => PartKind::Page,
            };
            let total = head.parts.unwrap_or(self.seen).max(self.seen);
            let part = |(number, part): (u32, Part)| ShowablePart { number, label: label(&part, number), part };
            (parts_are, total, self.kept.into_iter().map(part).collect())
        };
        let parts: Vec<ShowablePart> = parts;
        let parts = fit(parts, self.range, letters);
        let is_shown = |(number, _): &&(u32, UnreadPages)| parts.iter().any(|part| part.number == *number);
        let shown = pictures.iter().filter(is_shown).map(|(_, page)| *page).reduce(UnreadPages::and);
        let broken = broken.or_else(|| shown.map(|shown| shown.of_shown()));
        Reading { format: kind.to_string(), title: head.title, parts_are, total, parts, broken, locked: false }
    }
}

/// Returns whether a part is all of a document, or a piece of that.
const fn is_whole(place: &DocumentPlace) -> bool {
    matches!(place, DocumentPlace::Whole | DocumentPlace::Lines { .. } | DocumentPlace::Inner { .. })
}

/// Characters of a part, about.
fn letters(part: &Part) -> usize {
    match &part.body {
        Body::Text(text) => text.chars().count(),
        Body::Table(table) => table.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.chars().count() + 3).sum(),
    }
}

fn label(part: &Part, number: u32) -> String {
    match &part.place {
        DocumentPlace::Page(page) => format!("page {page}"),
        DocumentPlace::ScannedPage(page) => format!("page {page} (recognised)"),
        DocumentPlace::Slide(slide) => format!("slide {slide}"),
        DocumentPlace::Sheet { name, range, .. } => {
            let header = match &part.body {
                Body::Table(table) => table.header.as_ref(),
                _ => None,
            };
            let header = header.map(|row| format!(", header in row {}", row.number)).unwrap_or_default();
            let range = range.map(|range| format!(" ({range}{header})")).unwrap_or_default();
            format!("sheet {name}{range}")
        }
        _ => format!("section {number}"),
    }
}
