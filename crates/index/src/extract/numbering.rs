//! Numbers of the lists of a Word document, written out: a paragraph says only its list and level, and the number that a reader sees
//! comes from the paragraphs before it.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    iter,
};

use office_oxide::docx::{
    NumberFormat, NumberingDefinitions, StyleSheet,
    formatting::{NumberingRef, ParagraphProperties},
};
use quick_xml::{Reader, events::Event};

use super::{
    package::Package,
    xml::{self, Node},
};

/// Levels of a list.
const LEVELS: usize = 9;
/// Characters of the text of a level.
const MAX_LABEL: usize = 60;

/// The lists of a document and how far they have come.
pub(super) struct Numbering {
    lists: NumberingDefinitions,
    styles: StyleSheet,
    /// Levels, by definition and number, whose numbers are all in digits.
    decimal: HashSet<(u32, u8)>,
    /// Last numbers of the levels. Lists of one definition count together.
    counts: HashMap<u32, [Option<u32>; LEVELS]>,
    /// Lists and levels that have begun once more.
    begun: HashSet<(u32, u8)>,
}

impl Numbering {
    /// The lists of a document; none where it has none.
    pub(super) fn of(package: &mut Package) -> Option<Self> {
        let numbering = package.text("word/numbering.xml").ok()??;
        let styles = package.text("word/styles.xml").ok().flatten().unwrap_or_default();
        let mut decimal = HashSet::new();
        for definition in xml::parse(&numbering).ok()?.all("abstractNum") {
            let id = definition.attribute("abstractNumId").and_then(|id| id.parse().ok());
            let levels = definition.nodes().filter(|level| level.node("isLgl").is_some());
            decimal.extend(levels.filter_map(|level| Some((id?, level.attribute("ilvl")?.parse().ok()?))));
        }
        let lists = NumberingDefinitions::parse(numbering.as_bytes()).ok()?;
        let styles = StyleSheet::parse(styles.as_bytes()).unwrap_or_default();
        Some(Self { lists, styles, decimal, counts: HashMap::new(), begun: HashSet::new() })
    }

    /// The text of a document with its numbers as text in place of its lists; none where it has no numbers, or is damaged.
    pub(super) fn written_out(&mut self, part: &str) -> Option<String> {
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
            let Some(label) = self.next(&xml::parse(part.get(start..end)?).ok()?) else { continue };
            let after = usize::try_from(reader.buffer_position()).ok()?;
            let name = tag.name();
            let (prefix, label) = (name.as_ref().strip_suffix("pPr")?, quick_xml::escape::escape(&*label));
            let (before, close) = (part.get(copied..end)?, part.get(end..after)?);
            // The last list counts, and 0 is none. Writing to a string cannot fail.
            let _ = write!(
                text,
                "{before}<{prefix}numPr><{prefix}numId {prefix}val=\"0\"/></{prefix}numPr>{close}<{prefix}r><{prefix}t \
                 xml:space=\"preserve\">{label}</{prefix}t></{prefix}r>"
            );
            copied = after;
        }
        (copied > 0).then(|| text + part.get(copied..).unwrap_or_default())
    }

    /// The label of the next paragraph, with the gap behind it; none where it has none, or a bullet.
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
        let again = list.start_overrides.get(&ilvl).filter(|_| self.begun.insert((num_id, ilvl))).copied();
        let next = again.unwrap_or(counts.get(at)?.map_or(level.start, |last| last.saturating_add(1)));
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

/// A number in a format of Word; in digits where the format is unknown or has no such number.
fn numeral(format: &NumberFormat, number: u32) -> String {
    let written = match format {
        NumberFormat::None => Some(String::new()),
        NumberFormat::LowerLetter => letters('a', number),
        NumberFormat::UpperLetter => letters('A', number),
        NumberFormat::LowerRoman => roman(number).map(|text| text.to_ascii_lowercase()),
        NumberFormat::UpperRoman => roman(number),
        NumberFormat::Other(name) if name == "decimalZero" => Some(format!("{number:02}")),
        // Chinese and Japanese.
        NumberFormat::Other(name) if name.contains("Counting") => counting(number),
        _ => None,
    };
    written.unwrap_or_else(|| number.to_string())
}

/// `z` is followed by `aa` and `bb`.
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

fn counting(number: u32) -> Option<String> {
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
        // Ten is said without a one.
        text.extend(Some(digit).filter(|digit| *digit != '一' || place != 1 || digits.len() != 2));
        text += unit;
    }
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_word_writes_them() {
        let other = |name: &str| NumberFormat::Other(name.to_owned());
        for (format, number, expected) in [
            (NumberFormat::LowerLetter, 26, "z"),
            (NumberFormat::UpperLetter, 28, "BB"),
            (NumberFormat::UpperRoman, 1994, "MCMXCIV"),
            (NumberFormat::LowerRoman, 0, "0"),
            (NumberFormat::None, 7, ""),
            (other("chineseCounting"), 10, "十"),
            (other("chineseCounting"), 20, "二十"),
            (other("japaneseCounting"), 101, "一百零一"),
            (other("chineseCountingThousand"), 2110, "二千一百一十"),
            (other("chineseCountingThousand"), 10_000, "10000"),
            (other("decimalZero"), 7, "07"),
            (other("of some later version"), 7, "7"),
        ] {
            assert_eq!(numeral(&format, number), expected, "{format:?} {number}");
        }
    }
}
