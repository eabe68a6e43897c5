//! What documents of Word and PowerPoint have in common: one library reads them into one form.

use std::io::Cursor;

use office_oxide::{
    Document as Office, DocumentFormat, DocumentIR, OfficeError,
    ir::{Element, Section},
    limits,
    options::ParseOptions,
};

use super::{broken, equation, numbering::Numbering, package::Package};
use crate::{failure::Failure, kind::Kind, limits::Limits};

/// Reads it whole; the library has its own limits, which are told to be no wider than ours. With it comes what is missing,
/// because it is damaged or too large.
pub(super) fn read(bytes: Vec<u8>, kind: Kind, ours: &Limits) -> Result<(DocumentIR, Result<(), Failure>), Failure> {
    let format = match kind {
        Kind::Pptx => DocumentFormat::Pptx,
        Kind::Ppt => DocumentFormat::Ppt,
        Kind::Doc => DocumentFormat::Doc,
        _ => DocumentFormat::Docx,
    };
    let bytes = if matches!(kind, Kind::Docx | Kind::Pptx) { spelled_out(bytes, kind, ours)? } else { bytes };
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
fn spelled_out(bytes: Vec<u8>, kind: Kind, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let Ok(mut package) = Package::open(bytes.clone(), kind, limits) else { return Ok(bytes) };
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
    if changed.is_empty() { Ok(bytes) } else { package.rewritten(&changed).or(Ok(bytes)) }
}

/// Some of a document as Markdown.
pub(super) fn markdown(elements: Vec<Element>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_library_is_no_damage() {
        let strict = limits::Limits::strict();
        assert_eq!((strict.part_bytes, strict.package_entries), (64 * 1024 * 1024, 12_500));
        let code = |why: &str| told(Kind::Docx, why).code();
        assert_eq!(code("decompression limit exceeded: part 'word/document.xml' expands to more"), "too_large");
        assert_eq!(
            (code("package limit exceeded: the package declares 60001"), code("bad XML")),
            ("too_large", "broken")
        );
    }
}
