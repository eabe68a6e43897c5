//! Word and PowerPoint documents, which one library reads into a common form. Word documents are one text with their
//! headers and footers, because pages only exist in print layout. PowerPoint documents are read slide by slide with
//! speaker notes.
//!
//! Equations are linearised, so that fractions, powers, roots, sums and matrices keep their meaning. Word's list
//! numbers are written out: a paragraph stores only its list and level, and the visible number depends on the
//! paragraphs before it.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    io::Cursor,
    iter,
};

use office_oxide::{
    Document as Office, DocumentFormat, DocumentIR, OfficeError,
    docx::{
        NumberFormat, NumberingDefinitions, StyleSheet,
        formatting::{NumberingRef, ParagraphProperties},
    },
    ir::{Element, HeaderFooter, Section},
    limits,
    options::ParseOptions,
};
use quick_xml::{Reader, events::Event};

use super::{
    Emitter, broken,
    package::{self, Node, Package},
};
use crate::{
    document::DocumentPlace,
    failure::{Failure, Limits},
    kind::Kind,
};

/// Reads the whole document with the library's limits, tightened to our own. Also returns a failure if parts are
/// missing because they are damaged or too large.
fn read(bytes: Vec<u8>, kind: Kind, ours: &Limits) -> Result<(DocumentIR, Result<(), Failure>), Failure> {
    let format = match kind {
        Kind::Pptx => DocumentFormat::Pptx,
        Kind::Ppt => DocumentFormat::Ppt,
        Kind::Doc => DocumentFormat::Doc,
        _ => DocumentFormat::Docx,
    };
    let bytes =
        if matches!(kind, Kind::Docx | Kind::Pptx) { rewrite_numbers_and_equations(bytes, kind, ours) } else { bytes };
    let mut options = ParseOptions::default();
    options.limits = limits::Limits::strict();
    options.limits.text_chars = usize::try_from(ours.bytes_out).unwrap_or(usize::MAX);
    let office =
        Office::from_reader_with(Cursor::new(bytes), format, &options).map_err(|error| failure(&error, kind))?;
    let losses = office.damage().into_iter().find(office_oxide::options::Damage::is_loss);
    let outcome = losses.map_or(Ok(()), |loss| Err(failure_from_message(kind, &loss.to_string())));
    Ok((office.to_ir(), outcome))
}

/// Rewrites the document with linearised equations and written-out list numbers. A damaged document is returned
/// unchanged, because the library can read more of the original.
fn rewrite_numbers_and_equations(bytes: Vec<u8>, kind: Kind, limits: &Limits) -> Vec<u8> {
    let Ok(mut package) = Package::open(bytes.clone(), kind, limits) else { return bytes };
    let mut numbering = if kind == Kind::Docx { Numbering::of(&mut package) } else { None };
    let mut changed = Vec::new();
    for name in package.names() {
        let is_text = name.starts_with("word/document") || name.starts_with("ppt/slides/slide");
        if is_text
            && name.ends_with(".xml")
            && let Ok(Some(text)) = package.text(&name)
        {
            let equations = linearise_equations(&text);
            let before = equations.as_deref().unwrap_or(&text);
            let numbers = numbering.as_mut().and_then(|numbering| numbering.write_labels(before));
            changed.extend(numbers.or(equations).map(|text| (name, text.into_bytes())));
        }
    }
    if changed.is_empty() { bytes } else { package.rewrite(&changed).unwrap_or(bytes) }
}

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
    failure_from_message(kind, &error.to_string())
}

/// Converts an error message from the library, which also reports exceeded limits as damage.
fn failure_from_message(kind: Kind, reason: &str) -> Failure {
    const LIMITS: [(&str, &str, &str); 2] = [
        ("decompression limit exceeded", "the unpacked size of a part", "64 MiB"),
        ("package limit exceeded", "the number of its parts", "12,500"),
    ];
    let limit = LIMITS.iter().find(|(words, ..)| reason.contains(words));
    limit.map_or_else(|| broken(kind, reason), |(_, what, most)| Failure::too_many(what, most))
}

pub(super) fn text(bytes: Vec<u8>, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let (document, outcome) = read(bytes, kind, emitter.limits)?;
    emitter.head(document.metadata.title.as_deref(), None)?;
    let (mut blocks, mut around) = (Vec::new(), Vec::new());
    for mut section in document.sections {
        around.extend(margins(&mut section));
        blocks.push(markdown(section.elements));
    }
    super::add_margins(&mut blocks, around);
    emitter.unpaged_text(blocks.join("\n\n"))?;
    outcome
}

/// Returns header and footer lines of a section.
fn margins(section: &mut Section) -> Vec<String> {
    let mut lines = Vec::new();
    let above = [&mut section.header, &mut section.first_page_header, &mut section.even_page_header];
    let below = [&mut section.footer, &mut section.first_page_footer, &mut section.even_page_footer];
    for (name, margins) in [("Header", above), ("Footer", below)] {
        for HeaderFooter { content } in margins.into_iter().filter_map(Option::take) {
            let text = markdown(content);
            let content = text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
            lines.extend(content.map(|line| format!("{name}: {line}")));
        }
    }
    lines
}

pub(super) fn slides(bytes: Vec<u8>, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let (document, outcome) = read(bytes, kind, emitter.limits)?;
    emitter.head(document.metadata.title.as_deref(), Some(document.sections.len()))?;
    for (number, slide) in (1..).zip(document.sections) {
        let notes = slide.speaker_notes.map(markdown);
        emitter.text(DocumentPlace::Slide(number), markdown(slide.elements), notes, None)?;
    }
    outcome
}

/// Replaces each equation with linear text. Returns `None` if there are no equations.
fn linearise_equations(part: &str) -> Option<String> {
    const END_TAG: &str = "</m:oMath>";
    find_equation(part)?;
    let mut text = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(start) = find_equation(rest) {
        let (before, equation) = rest.split_at(start);
        text.push_str(before);
        let Some(end) = equation.find(END_TAG).map(|at| at + END_TAG.len()) else {
            rest = equation;
            break;
        };
        let (equation, after) = equation.split_at(end);
        match package::parse(equation) {
            Ok(tree) => {
                let line = tree.nodes().map(children).collect::<String>();
                let line = line.trim().replace('&', "&amp;").replace('<', "&lt;");
                text.push_str(&format!("<m:oMath><m:r><m:t>{line}</m:t></m:r></m:oMath>"));
            }
            Err(_) => text.push_str(equation),
        }
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// Returns the offset of the next equation. The name of an equation paragraph has the same prefix and is skipped.
fn find_equation(part: &str) -> Option<usize> {
    const START_TAG: &str = "<m:oMath";
    let is_whole = |at: &usize| part[at + START_TAG.len()..].starts_with(['>', ' ', '\n', '\r', '\t']);
    part.match_indices(START_TAG).map(|(at, _)| at).find(is_whole)
}

fn children(node: &Node) -> String {
    node.nodes().map(linearise).collect()
}

/// Returns the content of the child element with this name.
fn of(node: &Node, name: &str) -> String {
    node.node(name).map(|part| children(part).trim().to_owned()).unwrap_or_default()
}

/// Returns a property of the element, such as the sign of a sum.
fn property<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let properties = node.nodes().find(|node| node.name.ends_with("Pr"))?;
    properties.node(name).map(|property| property.attribute("val").unwrap_or_default())
}

fn linearise(node: &Node) -> String {
    let part = |name: &str| of(node, name);
    // Formats subscripts and superscripts.
    let scripts = |below: &str, above: &str| {
        let script = |mark: char, text: String| if text.is_empty() { text } else { format!("{mark}{}", group(text)) };
        script('_', part(below)) + &script('^', part(above))
    };
    let parts = || node.nodes().filter(|node| node.name == "e").map(children);
    match node.name.as_str() {
        "r" => run(node),
        "f" if property(node, "type") == Some("noBar") => format!("({}¦{})", part("num"), part("den")),
        "f" => format!("{}/{}", group(part("num")), group(part("den"))),
        "sSup" | "sSub" | "sSubSup" => group(part("e")) + &scripts("sub", "sup"),
        "sPre" => scripts("sub", "sup") + &part("e"),
        "limLow" | "limUpp" => {
            let (below, above) = if node.name == "limLow" { ("lim", "") } else { ("", "lim") };
            part("e") + &scripts(below, above)
        }
        "rad" => match part("deg") {
            degree if degree.is_empty() => format!("√({})", part("e")),
            degree => format!("({})^(1/{})", part("e"), group(degree)),
        },
        // An integral is the default.
        "nary" => format!("{}{} {}", property(node, "chr").unwrap_or("∫"), scripts("sub", "sup"), part("e")),
        "d" => {
            let mark = |name: &str, usual| property(node, name).unwrap_or(usual);
            let inner: Vec<String> = parts().collect();
            format!("{}{}{}", mark("begChr", "("), inner.join(mark("sepChr", "|")), mark("endChr", ")"))
        }
        "mr" => parts().collect::<Vec<_>>().join(", "),
        "m" => node.nodes().filter(|node| node.name == "mr").map(linearise).collect::<Vec<_>>().join("; "),
        "eqArr" => parts().collect::<Vec<_>>().join("; "),
        "func" => format!("{} {}", part("fName"), part("e")),
        "acc" => group(part("e")) + property(node, "chr").unwrap_or("\u{302}"),
        "bar" => group(part("e")) + if property(node, "pos") == Some("top") { "\u{305}" } else { "\u{332}" },
        name if name.ends_with("Pr") => String::new(),
        // Boxes, groups and unknown elements.
        _ => children(node),
    }
}

/// Encloses the text in brackets unless it is a single number or name.
fn group(text: String) -> String {
    if text.chars().all(char::is_alphanumeric) { text } else { format!("({text})") }
}

/// Returns the text of a run. Mathematical alphabets are replaced with ordinary letters, which users search for.
fn run(node: &Node) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    let plain = |letter: char| match letter {
        '\u{1d400}'..='\u{1d7ff}' | '\u{210e}' => std::iter::once(letter).nfkc().next().unwrap_or(letter),
        letter => letter,
    };
    let text: String = node.nodes().filter(|node| node.name == "t").map(Node::text).collect();
    text.chars().map(plain).collect()
}

/// Number of levels in a list.
const LEVELS: usize = 9;
/// Maximum length of a level's label in characters.
const MAX_LABEL: usize = 60;

/// Numbering definitions of a document, with the state of each list.
pub(super) struct Numbering {
    lists: NumberingDefinitions,
    styles: StyleSheet,
    /// Levels, by definition and level number, whose labels use decimal digits throughout.
    decimal: HashSet<(u32, u8)>,
    /// Last number of each level. Lists with the same definition share their counters.
    counts: HashMap<u32, [Option<u32>; LEVELS]>,
    /// Lists and levels whose start override has been applied.
    started: HashSet<(u32, u8)>,
}

impl Numbering {
    /// Reads the numbering definitions. Returns `None` if there are none or they are damaged.
    pub(super) fn of(package: &mut Package) -> Option<Self> {
        let numbering = package.text("word/numbering.xml").ok()??;
        let styles = package.text("word/styles.xml").ok().flatten().unwrap_or_default();
        let mut decimal = HashSet::new();
        for definition in package::parse(&numbering).ok()?.all("abstractNum") {
            let id = definition.attribute("abstractNumId").and_then(|id| id.parse().ok());
            let levels = definition.nodes().filter(|level| level.node("isLgl").is_some());
            decimal.extend(levels.filter_map(|level| Some((id?, level.attribute("ilvl")?.parse().ok()?))));
        }
        let lists = NumberingDefinitions::parse(numbering.as_bytes()).ok()?;
        let styles = StyleSheet::parse(styles.as_bytes()).unwrap_or_default();
        Some(Self { lists, styles, decimal, counts: HashMap::new(), started: HashSet::new() })
    }

    /// Replaces list references with the numbers as text. Returns `None` if nothing changes or the part is damaged.
    pub(super) fn write_labels(&mut self, part: &str) -> Option<String> {
        let mut reader = Reader::from_str(part);
        reader.config_mut().check_end_names = false;
        let (mut text, mut copied) = (String::new(), 0);
        loop {
            let tag = match reader.read_event().ok()? {
                Event::Start(tag) if tag.local_name().as_ref() == "pPr" => tag,
                Event::Eof => break,
                _ => continue,
            };
            let inner = reader.read_to_end(tag.name()).ok()?;
            let (start, end) = (usize::try_from(inner.start).ok()?, usize::try_from(inner.end).ok()?);
            let Some(label) = self.next(&package::parse(part.get(start..end)?).ok()?) else { continue };
            let after = usize::try_from(reader.buffer_position()).ok()?;
            let name = tag.name();
            let (prefix, label) = (name.as_ref().strip_suffix("pPr")?, quick_xml::escape::escape(&*label));
            let (before, close) = (part.get(copied..end)?, part.get(end..after)?);
            // The last `numPr` applies, and `numId` 0 means no list. Writing to a string cannot fail.
            let _ = write!(
                text,
                "{before}<{prefix}numPr><{prefix}numId {prefix}val=\"0\"/></{prefix}numPr>{close}<{prefix}r><{prefix}t \
                 xml:space=\"preserve\">{label}</{prefix}t></{prefix}r>"
            );
            copied = after;
        }
        (copied > 0).then(|| text + part.get(copied..).unwrap_or_default())
    }

    /// Returns the label of the next paragraph followed by a space, or `None` for bullets and paragraphs outside lists.
    fn next(&mut self, properties: &Node) -> Option<String> {
        let value = |node: &Node, name: &str| node.node(name)?.attribute("val").map(str::to_owned);
        let number = |node: &Node, name: &str| value(node, name)?.parse::<u32>().ok();
        let list = |list: &Node| {
            let ilvl = u8::try_from(number(list, "ilvl").unwrap_or(0)).ok()?;
            Some(NumberingRef { num_id: number(list, "numId")?, ilvl })
        };
        let (style_id, numbering_ref) = (value(properties, "pStyle"), properties.node("numPr").and_then(list));
        let own = ParagraphProperties { style_id, numbering_ref, ..ParagraphProperties::default() };
        let NumberingRef { num_id, ilvl } = self.styles.effective_paragraph_properties(Some(&own)).numbering_ref?;
        let (list, at) = (self.lists.instances.get(&num_id)?, usize::from(ilvl));
        let level = self.lists.resolve_level(num_id, ilvl).filter(|level| level.format != NumberFormat::Bullet)?;
        let counts = self.counts.entry(list.abstract_num_id).or_default();
        let start_override = list.start_overrides.get(&ilvl).filter(|_| self.started.insert((num_id, ilvl))).copied();
        let next = start_override.unwrap_or(counts.get(at)?.map_or(level.start, |last| last.saturating_add(1)));
        for (place, count) in counts.iter_mut().enumerate().skip(at) {
            *count = Some(next).filter(|_| place == at);
        }
        let is_decimal = self.decimal.contains(&(list.abstract_num_id, ilvl));
        let shown = |upper: u8| {
            let upper_level = self.lists.resolve_level(num_id, upper)?;
            let number = counts.get(usize::from(upper))?.unwrap_or(upper_level.start);
            Some(if is_decimal { number.to_string() } else { numeral(&upper_level.format, number) })
        };
        let text: String = level.level_text.chars().take(MAX_LABEL).collect();
        let label = (1..=9).fold(text, |text, level: u8| {
            let mark = format!("%{level}");
            if text.contains(&mark) { text.replace(&mark, &shown(level - 1).unwrap_or_default()) } else { text }
        });
        let label = label.trim();
        Some(if label.is_empty() { String::new() } else { format!("{label} ") })
    }
}

/// Formats a number in one of Word's number formats. Falls back to digits if the format is unknown or cannot express
/// the number.
fn numeral(format: &NumberFormat, number: u32) -> String {
    let written = match format {
        NumberFormat::None => Some(String::new()),
        NumberFormat::LowerLetter => letters('a', number),
        NumberFormat::UpperLetter => letters('A', number),
        NumberFormat::LowerRoman => roman(number).map(|text| text.to_ascii_lowercase()),
        NumberFormat::UpperRoman => roman(number),
        NumberFormat::Other(name) if name == "decimalZero" => Some(format!("{number:02}")),
        // Chinese and Japanese numerals.
        NumberFormat::Other(name) if name.contains("Counting") => chinese_numeral(number),
        _ => None,
    };
    written.unwrap_or_else(|| number.to_string())
}

/// Counts as Word does: `z` is followed by `aa` and `bb`.
fn letters(first: char, number: u32) -> Option<String> {
    let before = number.checked_sub(1).filter(|before| *before < 260)?;
    Some(iter::repeat_n(char::from_u32(first as u32 + before % 26)?, before as usize / 26 + 1).collect())
}

fn roman(number: u32) -> Option<String> {
    const DIGITS: [&str; 10] = ["", "a", "aa", "aaa", "ab", "b", "ba", "baa", "baaa", "ac"];
    const PLACES: [[&str; 3]; 4] = [["M", "", ""], ["C", "D", "M"], ["X", "L", "C"], ["I", "V", "X"]];
    let digits = format!("{:04}", Some(number).filter(|number| (1..4000).contains(number))?);
    let place = |(digit, [one, five, ten]): (char, [&str; 3])| {
        let digit = DIGITS.get(digit.to_digit(10)? as usize)?;
        Some(digit.replace('a', one).replace('b', five).replace('c', ten))
    };
    digits.chars().zip(PLACES).map(place).collect()
}

fn chinese_numeral(number: u32) -> Option<String> {
    const UNITS: [&str; 4] = ["", "十", "百", "千"];
    let digits = number.to_string();
    let (mut text, mut has_gap) = (String::new(), false);
    for (place, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        let (unit, digit) = (UNITS.get(place)?, "零一二三四五六七八九".chars().nth(digit.to_digit(10)? as usize)?);
        if digit == '零' {
            has_gap = true;
            continue;
        }
        text.extend(Some('零').filter(|_| std::mem::take(&mut has_gap)));
        // Ten to nineteen have no leading one.
        text.extend(Some(digit).filter(|digit| *digit != '一' || place != 1 || digits.len() != 2));
        text += unit;
    }
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_limits_are_not_reported_as_damage() {
        let strict = limits::Limits::strict();
        assert_eq!((strict.part_bytes, strict.package_entries), (64 * 1024 * 1024, 12_500));
        let is_too_large = |reason: &str| matches!(failure_from_message(Kind::Docx, reason), Failure::TooLarge { .. });
        assert!(is_too_large("decompression limit exceeded: part 'word/document.xml' expands to more"));
        assert!(is_too_large("package limit exceeded: the package declares 60001"));
        assert!(matches!(failure_from_message(Kind::Docx, "bad XML"), Failure::Broken { .. }));
    }

    #[test]
    fn equations_keep_their_operators() {
        let row = "<m:mr><m:e>[1]</m:e><m:e>[0]</m:e></m:mr>";
        // Brackets denote runs of text.
        for (equation, expected) in [
            ("<m:f><m:num>[2]</m:num><m:den>[a+b]</m:den></m:f>", "2/(a+b)"),
            ("<m:sSup><m:e>[𝑎]</m:e><m:sup>[2]</m:sup></m:sSup>[=b]", "a^2=b"),
            (
                "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>[k=0]</m:sub><m:sup>[n]</m:sup><m:e>[k]</m:e></m:nary>",
                "∑_(k=0)^n k",
            ),
            ("<m:rad><m:radPr><m:degHide/></m:radPr><m:deg/><m:e>[x &lt; 1]</m:e></m:rad>", "√(x &lt; 1)"),
            ("<m:d><m:e>[x]</m:e><m:e>[y]</m:e></m:d>", "(x|y)"),
            ("<m:acc><m:e>[x]</m:e></m:acc>", "x\u{302}"),
            (&format!("<m:d><m:e><m:m>{row}{row}</m:m></m:e></m:d>"), "(1, 0; 1, 0)"),
        ] {
            let part = |math: &str| {
                let math = math.replace('[', "<m:r><m:t>").replace(']', "</m:t></m:r>");
                format!("<w:p><m:oMath>{math}</m:oMath> and</w:p>")
            };
            assert_eq!(linearise_equations(&part(equation)), Some(part(&format!("[{expected}]"))));
        }
        assert_eq!(linearise_equations("<w:p/>"), None);
    }
}
