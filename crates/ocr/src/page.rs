//! Lines on a page: selects boxes that likely contain text, reads them, and corrects the skew.

use std::{borrow::Cow, time::Instant};

use crate::{
    OcrError, Picture, Recogniser,
    detection::{self, Point, SlantedBox, TextBox, TextBoxes},
    recognition::{self, Sign},
};

/// Minimum height of a line in pixels. Smaller characters are unreadable.
const MIN_HEIGHT: f32 = 6.0;
/// Minimum mean probability of a line's characters.
const MIN_CONFIDENCE: f32 = 0.7;
/// Minimum mean probability of a line with fewer than [`SHORT_LINE`] characters.
const MIN_SHORT_CONFIDENCE: f32 = 0.88;
const SHORT_LINE: usize = 3;
/// Maximum number of characters per square with the height of the line.
const MAX_DENSITY: f32 = 6.0;
/// Maximum total width of all lines, in line heights. Only noise exceeds this width.
const MAX_TEXT: f32 = 12_000.0;
/// Minimum ratio of length to height for lines that determine the skew.
const MIN_SKEW_RATIO: f32 = 5.0;
/// Font size relative to the height of the box.
const FONT_SIZE_RATIO: f32 = 0.74;
/// Distance of the baseline from the bottom of the box, relative to the height of the box.
const BASELINE_RATIO: f32 = 0.24;

/// Text in an image.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageText {
    /// Lines from top to bottom, with the skew corrected.
    pub lines: Vec<Line>,
    /// True if lines may be missing, because there are more than [`MAX_LINES`](crate::MAX_LINES) or more text than
    /// fits on a page.
    pub is_cut: bool,
}

/// Line of text. Coordinates are pixels in the deskewed image, x to the right, y down.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Characters from left to right, including spaces.
    pub letters: Vec<Letter>,
    /// Y coordinate of the baseline.
    pub base: f32,
    /// Font size in pixels.
    pub size: f32,
    /// Mean probability of the characters.
    pub confidence: f32,
}

impl Line {
    /// Returns the text of the line.
    pub fn text(&self) -> String {
        self.letters.iter().map(|letter| letter.letter).collect()
    }
}

/// Character in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Letter {
    /// Character that was recognised.
    pub letter: char,
    /// Approximate position of the left edge.
    pub left: f32,
    /// Approximate position of the right edge.
    pub right: f32,
}

/// Box with its recognised characters.
struct ReadBox {
    text_box: SlantedBox,
    signs: Vec<Sign>,
}

impl ReadBox {
    fn confidence(&self) -> f32 {
        let scores: Vec<f32> = self.visible_signs().map(|sign| sign.score).collect();
        scores.iter().sum::<f32>() / scores.len().max(1) as f32
    }

    fn visible_signs(&self) -> impl Iterator<Item = &Sign> {
        self.signs.iter().filter(|sign| !sign.letter.is_whitespace())
    }

    /// Returns true if the box likely contains the recognised text.
    fn is_likely(&self) -> bool {
        let count = self.visible_signs().count();
        let has_alphanumeric = self.visible_signs().any(|sign| sign.letter.is_alphanumeric());
        let fits = (count as f32) < MAX_DENSITY * (self.text_box.length / self.text_box.height.max(1.0)).max(1.0);
        has_alphanumeric
            && fits
            && self.confidence() >= if count < SHORT_LINE { MIN_SHORT_CONFIDENCE } else { MIN_CONFIDENCE }
    }
}

pub(crate) fn text(recogniser: &Recogniser, picture: &Picture, deadline: Instant) -> Result<PageText, OcrError> {
    let mut upright_picture = Cow::Borrowed(picture);
    let mut found = detection::boxes(recogniser, picture)?;
    if is_mostly_vertical(&found.boxes) {
        upright_picture = Cow::Owned(picture.rotated());
        found = detection::boxes(recogniser, &upright_picture)?;
    }
    let (text_boxes, is_cut) = plausible_boxes(&found);
    let mut read = read(recogniser, &upright_picture, text_boxes.clone(), deadline)?;
    if text_boxes.len() >= 3 && count_likely(&read) * 2 < text_boxes.len() {
        let upside_down_picture = upright_picture.rotated().rotated();
        let (width, height) = (upside_down_picture.width() as f32, upside_down_picture.height() as f32);
        let upside_down = |(x, y): Point| (width - x, height - y);
        let text_boxes = text_boxes
            .into_iter()
            .map(|text_box| SlantedBox { centre: upside_down(text_box.centre), ..text_box })
            .collect();
        let other = self::read(recogniser, &upside_down_picture, text_boxes, deadline)?;
        if count_likely(&other) > count_likely(&read) {
            (read, upright_picture) = (other, Cow::Owned(upside_down_picture));
        }
    }
    read.retain(ReadBox::is_likely);
    // Without any likely line, the remaining boxes were only noise.
    let is_cut = is_cut && !read.is_empty();
    Ok(PageText { lines: deskew(&read, &upright_picture), is_cut })
}

fn read(
    recogniser: &Recogniser,
    picture: &Picture,
    text_boxes: Vec<SlantedBox>,
    deadline: Instant,
) -> Result<Vec<ReadBox>, OcrError> {
    let signs = recognition::read(recogniser, picture, &text_boxes, deadline)?;
    Ok(text_boxes.into_iter().zip(signs).map(|(text_box, signs)| ReadBox { text_box, signs }).collect())
}

fn count_likely(read: &[ReadBox]) -> usize {
    read.iter().filter(|read| read.is_likely()).count()
}

/// Returns true if most of the text is vertical.
fn is_mostly_vertical(boxes: &[TextBox]) -> bool {
    let long = |is_tall: bool| {
        let sides = boxes.iter().map(|found| (found.text_box.length, found.text_box.height));
        let sides = sides.map(|(length, height)| if is_tall { (height, length) } else { (length, height) });
        sides.filter(|(long, short)| *long > 2.0 * short).map(|(long, _)| long).sum::<f32>()
    };
    boxes.len() >= 3 && long(true) > 2.0 * long(false)
}

/// Returns boxes shaped like lines, most certain first, up to the maximum text on a page. Also returns true if there
/// are more boxes.
fn plausible_boxes(found: &TextBoxes) -> (Vec<SlantedBox>, bool) {
    let has_shape =
        |found: &&TextBox| found.text_box.height >= MIN_HEIGHT && found.text_box.length >= 0.4 * found.text_box.height;
    let mut boxes: Vec<&TextBox> = found.boxes.iter().filter(has_shape).collect();
    boxes.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut sum = 0.0;
    let fits = |found: &&TextBox| {
        sum += found.text_box.length / found.text_box.height;
        sum < MAX_TEXT
    };
    let count = boxes.len();
    let text_boxes: Vec<SlantedBox> = boxes.into_iter().take_while(fits).map(|found| found.text_box).collect();
    let is_cut = found.is_cut || text_boxes.len() < count;
    (text_boxes, is_cut)
}

/// Returns the deskewed lines from top to bottom.
fn deskew(read: &[ReadBox], picture: &Picture) -> Vec<Line> {
    let middle = (picture.width() as f32 / 2.0, picture.height() as f32 / 2.0);
    let angle_of_skew = skew(read);
    let mut lines: Vec<Line> =
        read.iter().map(|read| line(read, rotate_back(read.text_box.centre, middle, angle_of_skew))).collect();
    lines.sort_by(|one, other| one.base.total_cmp(&other.base));
    lines
}

/// Returns the skew in radians: the median angle of all long lines.
fn skew(read: &[ReadBox]) -> f32 {
    let text_boxes = read.iter().map(|read| read.text_box);
    let mut angles: Vec<f32> = text_boxes
        .filter(|text_box| text_box.length > MIN_SKEW_RATIO * text_box.height)
        .map(|text_box| text_box.angle)
        .collect();
    angles.sort_by(f32::total_cmp);
    angles.get(angles.len() / 2).copied().unwrap_or(0.0)
}

/// Rotates a point back around the centre of the image.
fn rotate_back((x, y): Point, middle: Point, angle_of_skew: f32) -> Point {
    let (sin, cos) = angle_of_skew.sin_cos();
    let (x, y) = (x - middle.0, y - middle.1);
    (middle.0 + x * cos + y * sin, middle.1 + y * cos - x * sin)
}

fn line(read: &ReadBox, centre: Point) -> Line {
    let text_box = read.text_box;
    let (left, size) = (centre.0 - text_box.length / 2.0, FONT_SIZE_RATIO * text_box.height);
    let middles: Vec<f32> = read.signs.iter().map(|sign| left + sign.middle * text_box.length).collect();
    // Neighbouring characters touch unless they are far apart. Their centres are only known in steps of a fifth of the
    // character size.
    let half = |distance: f32| (distance / 2.0).min(0.7 * size);
    let letter = |(number, sign): (usize, &Sign)| {
        let middle = middles.get(number).copied().unwrap_or(left);
        let before = number.checked_sub(1).and_then(|before| middles.get(before));
        let next = middles.get(number + 1);
        Letter {
            letter: sign.letter,
            left: middle - half(before.map_or(0.5 * size, |before| middle - before)),
            right: middle + half(next.map_or(0.5 * size, |next| next - middle)),
        }
    };
    Line {
        letters: read.signs.iter().enumerate().map(letter).collect(),
        base: centre.1 + (0.5 - BASELINE_RATIO) * text_box.height,
        size,
        confidence: read.confidence(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_box(text: &str, text_box: SlantedBox, score: f32) -> ReadBox {
        let count = text.chars().count() as f32;
        let sign = |(number, letter)| Sign { letter, middle: (number as f32 + 0.5) / count, score };
        ReadBox { text_box, signs: text.chars().enumerate().map(sign).collect() }
    }

    fn text_box(x: f32, y: f32, length: f32, height: f32, angle: f32) -> SlantedBox {
        SlantedBox { centre: (x, y), length, height, angle }
    }

    #[test]
    fn noise_is_rejected_as_unlikely_text() {
        let wide = text_box(0.0, 0.0, 200.0, 20.0, 0.0);
        for (text, text_box, score, expected) in [
            ("a line", wide, 0.9, true),
            ("a line", wide, 0.5, false),
            ("- -- -", wide, 0.9, false),
            ("a", wide, 0.8, false),
            ("12", wide, 0.95, true),
            ("", wide, 1.0, false),
            ("so many letters here", text_box(0.0, 0.0, 20.0, 20.0, 0.0), 0.9, false),
        ] {
            assert_eq!(read_box(text, text_box, score).is_likely(), expected, "{text} {score}");
        }
    }

    #[test]
    fn lines_of_a_slanted_picture_are_levelled() {
        let picture = Picture::new(1000, 1000, vec![255; 1_000_000]).unwrap();
        let angle = 0.05_f32;
        // Both boxes are on one line that slopes down to the right.
        let read = [
            read_box("left hand", text_box(300.0, 490.0, 300.0, 20.0, angle), 0.9),
            read_box("right", text_box(700.0, 490.0 + 400.0 * angle.tan(), 250.0, 20.0, angle), 0.9),
            read_box("x", text_box(100.0, 100.0, 20.0, 20.0, -0.4), 0.9),
        ];
        let lines = deskew(&read, &picture);
        assert_eq!(lines.iter().map(Line::text).collect::<Vec<_>>(), ["x", "left hand", "right"]);
        assert!((lines[1].base - lines[2].base).abs() < 0.5, "{lines:?}");
        let letters = &lines[1].letters;
        assert!(letters.windows(2).all(|pair| (pair[0].right - pair[1].left).abs() < 20.0));
    }
}
