//! Layout of recognised text with columns, paragraphs and headings, as on any other page.

use agentd_ocr::Line;

use super::{
    line::{self, Letter},
    text,
};

/// Range of relative sizes that count as the usual size, because text boxes are imprecise.
const USUAL_SIZES: std::ops::Range<f32> = 0.7..1.3;
/// Step to which other sizes are rounded, relative to the usual size.
const SIZE_STEP: f32 = 0.25;

/// Formats recognised lines as Markdown.
pub(in crate::extract) fn recognised(lines: &[Line]) -> String {
    let usual = usual_size(lines);
    // Split each line separately: the gap between columns may be as small as between words.
    let pieces = lines.iter().flat_map(|line| line::pieces(letters(line, size(line.size, usual)).collect()));
    text::markdown(&text::regions(pieces.collect()))
}

/// Returns the median size, weighted by the number of characters.
fn usual_size(lines: &[Line]) -> f32 {
    let mut sizes: Vec<(f32, usize)> = lines.iter().map(|line| (line.size, line.letters.len())).collect();
    sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = sizes.iter().map(|(_, letters)| letters).sum::<usize>() / 2;
    let mut before = 0;
    let middle = sizes.iter().find(|(_, letters)| {
        before += letters;
        before > half
    });
    middle.map_or(1.0, |(size, _)| *size)
}

fn size(size: f32, usual: f32) -> f32 {
    let times = size / usual.max(1.0);
    if USUAL_SIZES.contains(&times) { usual } else { usual * (times / SIZE_STEP).round().max(1.0) * SIZE_STEP }
}

/// Converts the characters of a line. The y axis of a PDF page points up.
fn letters(line: &Line, size: f32) -> impl Iterator<Item = Letter> {
    line.letters.iter().map(move |letter| Letter {
        letter: letter.letter,
        left: letter.left,
        right: letter.right,
        base: -line.base,
        size,
        ..Letter::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, left: f32, base: f32, size: f32) -> Line {
        let letter = |(number, letter)| {
            let left = left + number as f32 * size * 0.5;
            agentd_ocr::Letter { letter, left, right: left + size * 0.5 }
        };
        Line { letters: text.chars().enumerate().map(letter).collect(), base, size, confidence: 0.9 }
    }

    #[test]
    fn close_columns_are_read_in_order() {
        let of = |side: &'static str, left: f32| {
            (0..6).map(move |number| {
                line(&format!("{side} words of the column {number}"), left, 26.0 * number as f32, 20.0)
            })
        };
        // 27 characters with a width of 10, and a gutter of one and a half spaces.
        let lines: Vec<Line> = of("left", 0.0).chain(of("next", 285.0)).collect();
        let text = recognised(&lines);
        let (left, next) = (text.find("left words of the column 5"), text.find("next words of the column 0"));
        assert!(left.is_some() && left < next, "{text}");
    }
}
