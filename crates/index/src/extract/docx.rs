//! Word: one text, for its pages are made when it is printed. Headings, lists, tables and notes are kept, and what stands above and
//! below its pages.

use office_oxide::ir::{HeaderFooter, Section};

use super::{Teller, office};
use crate::{failure::Failure, kind::Kind};

pub(super) fn extract(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let (document, whole) = office::read(bytes, kind, teller.limits())?;
    teller.head(document.metadata.title.as_deref(), None)?;
    let (mut blocks, mut around) = (Vec::new(), Vec::new());
    for mut section in document.sections {
        around.extend(margins(&mut section));
        blocks.push(office::markdown(section.elements));
    }
    super::add_margins(&mut blocks, around);
    teller.unpaged(blocks.join("\n\n"))?;
    whole
}

/// Lines above and below the pages of a section.
fn margins(section: &mut Section) -> Vec<String> {
    let mut lines = Vec::new();
    let above = [&mut section.header, &mut section.first_page_header, &mut section.even_page_header];
    let below = [&mut section.footer, &mut section.first_page_footer, &mut section.even_page_footer];
    for (name, margins) in [("Header", above), ("Footer", below)] {
        for HeaderFooter { content } in margins.into_iter().filter_map(Option::take) {
            let text = office::markdown(content);
            let told = text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
            lines.extend(told.map(|line| format!("{name}: {line}")));
        }
    }
    lines
}
