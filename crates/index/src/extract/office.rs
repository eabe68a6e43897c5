//! Documents of Word and PowerPoint, which one library reads into one form. Word: one text, for its pages are made when it is printed,
//! with what stands above and below its pages. PowerPoint: slide by slide, with the speaker's notes.

use std::io::Cursor;

use office_oxide::{
    Document as Office, DocumentFormat, DocumentIR, OfficeError,
    ir::{Element, HeaderFooter, Section},
    limits,
    options::ParseOptions,
};

use super::{Teller, broken, equation, numbering::Numbering, package::Package};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind, limits::Limits};

/// Reads it whole; the library has its own limits, which are told to be no wider than ours. With it comes what is missing,
/// because it is damaged or too large.
fn read(bytes: Vec<u8>, kind: Kind, ours: &Limits) -> Result<(DocumentIR, Result<(), Failure>), Failure> {
    let format = match kind {
        Kind::Pptx => DocumentFormat::Pptx,
        Kind::Ppt => DocumentFormat::Ppt,
        Kind::Doc => DocumentFormat::Doc,
        _ => DocumentFormat::Docx,
    };
    let bytes = if matches!(kind, Kind::Docx | Kind::Pptx) { spelled_out(bytes, kind, ours) } else { bytes };
    let mut options = ParseOptions::default();
    options.limits = limits::Limits::strict();
    options.limits.text_chars = usize::try_from(ours.bytes_out).unwrap_or(usize::MAX);
    let office =
        Office::from_reader_with(Cursor::new(bytes), format, &options).map_err(|error| failure(&error, kind))?;
    let losses = office.damage().into_iter().find(office_oxide::options::Damage::is_loss);
    let whole = losses.map_or(Ok(()), |loss| Err(told(kind, &loss.to_string())));
    Ok((office.to_ir(), whole))
}

/// The document with its equations and the numbers of its lists spelled out. One that is damaged is left as it is: the library reads more of it.
fn spelled_out(bytes: Vec<u8>, kind: Kind, limits: &Limits) -> Vec<u8> {
    let Ok(mut package) = Package::open(bytes.clone(), kind, limits) else { return bytes };
    let mut numbering = if kind == Kind::Docx { Numbering::of(&mut package) } else { None };
    let mut changed = Vec::new();
    for name in package.names() {
        let is_text = name.starts_with("word/document") || name.starts_with("ppt/slides/slide");
        if is_text
            && name.ends_with(".xml")
            && let Ok(Some(text)) = package.text(&name)
        {
            let equations = equation::spelled_out(&text);
            let before = equations.as_deref().unwrap_or(&text);
            let numbers = numbering.as_mut().and_then(|numbering| numbering.written_out(before));
            changed.extend(numbers.or(equations).map(|text| (name, text.into_bytes())));
        }
    }
    if changed.is_empty() { bytes } else { package.rewritten(&changed).unwrap_or(bytes) }
}

/// Some of a document as Markdown.
fn markdown(elements: Vec<Element>) -> String {
    let section = Section { elements, ..Section::default() };
    DocumentIR { sections: vec![section], ..DocumentIR::default() }.to_markdown()
}

fn failure(error: &OfficeError, kind: Kind) -> Failure {
    let is_locked = matches!(
        error,
        OfficeError::Ppt(office_oxide::ppt::PptError::Encrypted)
            | OfficeError::Doc(office_oxide::doc::DocError::Encrypted)
    );
    if is_locked {
        return Failure::Encrypted(kind);
    }
    told(kind, &error.to_string())
}

/// A failure in words of the library, which calls damaged what is too large, too.
fn told(kind: Kind, why: &str) -> Failure {
    const LIMITS: [(&str, &str, &str); 2] = [
        ("decompression limit exceeded", "the unpacked size of one of its parts", "64 MiB"),
        ("package limit exceeded", "the number of its parts", "12,500"),
    ];
    let limit = LIMITS.iter().find(|(words, ..)| why.contains(words));
    limit.map_or_else(
        || broken(kind, why),
        |(_, what, most)| Failure::TooLarge { what: (*what).to_owned(), most: (*most).to_owned(), parts: 0 },
    )
}

/// Tells of a document of Word.
pub(super) fn text(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let (document, whole) = read(bytes, kind, teller.limits)?;
    teller.head(document.metadata.title.as_deref(), None)?;
    let (mut blocks, mut around) = (Vec::new(), Vec::new());
    for mut section in document.sections {
        around.extend(margins(&mut section));
        blocks.push(markdown(section.elements));
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
            let text = markdown(content);
            let told = text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
            lines.extend(told.map(|line| format!("{name}: {line}")));
        }
    }
    lines
}

/// Tells of slides.
pub(super) fn slides(bytes: Vec<u8>, kind: Kind, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let (document, whole) = read(bytes, kind, teller.limits)?;
    teller.head(document.metadata.title.as_deref(), Some(document.sections.len()))?;
    for (number, slide) in (1..).zip(document.sections) {
        let notes = slide.speaker_notes.map(markdown);
        teller.text(DocumentPlace::Slide(number), markdown(slide.elements), notes)?;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_library_is_no_damage() {
        let strict = limits::Limits::strict();
        assert_eq!((strict.part_bytes, strict.package_entries), (64 * 1024 * 1024, 12_500));
        let code = |why: &str| match told(Kind::Docx, why) {
            Failure::TooLarge { .. } => "too_large",
            Failure::Broken { .. } => "broken",
            other => panic!("{other}"),
        };
        assert_eq!(code("decompression limit exceeded: part 'word/document.xml' expands to more"), "too_large");
        assert_eq!(
            (code("package limit exceeded: the package declares 60001"), code("bad XML")),
            ("too_large", "broken")
        );
    }
}
