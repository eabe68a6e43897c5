//! The recognition network, which reads the characters of one line.

use std::{
    cmp::Reverse,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use rten::{RunOptions, ThreadPool};
use rten_tensor::{AsView as _, Layout as _, NdTensor};

use crate::{OcrError, Picture, Recogniser, detection::SlantedBox};

/// Height of a line in the network's input, in pixels.
const HEIGHT: usize = 48;
/// Maximum width of a line in the input. Longer lines are compressed.
const MAX_WIDTH: usize = 3200;
/// Divisor of all input widths, in pixels.
const STEP: usize = 16;

/// Recognised character in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sign {
    pub(crate) letter: char,
    /// Centre of the character, as a share of the line's length.
    pub(crate) middle: f32,
    /// Probability of the character.
    pub(crate) score: f32,
}

/// Reads the characters of lines, in the order of `text_boxes`. Each thread takes the longest remaining line, so that
/// the threads finish at about the same time.
pub(crate) fn read(
    recogniser: &Recogniser,
    picture: &Picture,
    text_boxes: &[SlantedBox],
    deadline: Instant,
) -> Result<Vec<Vec<Sign>>, OcrError> {
    let mut longest: Vec<(usize, &SlantedBox)> = text_boxes.iter().enumerate().collect();
    longest.sort_by_key(|(_, text_box)| Reverse(width(text_box)));
    let next = AtomicUsize::new(0);
    let work = |pool: &Arc<ThreadPool>| {
        let mut lines = Vec::new();
        while let Some((number, text_box)) = longest.get(next.fetch_add(1, Ordering::Relaxed)) {
            if Instant::now() > deadline {
                return Err(OcrError::TimedOut);
            }
            lines.push((*number, line(recogniser, picture, text_box, pool)?));
        }
        Ok(lines)
    };
    let done: Vec<Result<Vec<_>, OcrError>> = thread::scope(|scope| {
        let started: Vec<_> = recogniser.line_pools.iter().map(|pool| scope.spawn(|| work(pool))).collect();
        let failed = || Err(OcrError::UnexpectedOutput("a thread panicked"));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    });
    let mut lines: Vec<(usize, Vec<Sign>)> = Vec::with_capacity(text_boxes.len());
    for done in done {
        lines.extend(done?);
    }
    lines.sort_by_key(|(number, _)| *number);
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

fn line(
    recogniser: &Recogniser,
    picture: &Picture,
    text_box: &SlantedBox,
    pool: &Arc<ThreadPool>,
) -> Result<Vec<Sign>, OcrError> {
    let options = RunOptions::default().with_thread_pool(Some(Arc::clone(pool)));
    let answer = recogniser.recognition.run_one(cut_out(picture, text_box).view().into(), Some(options))?;
    let answer: NdTensor<f32, 3> =
        answer.try_into().map_err(|_| OcrError::UnexpectedOutput("expected a 3-dimensional f32 tensor"))?;
    let [1, steps, classes] = answer.shape() else {
        return Err(OcrError::UnexpectedOutput("expected a batch of one line"));
    };
    if classes != recogniser.alphabet.classes() {
        return Err(OcrError::UnexpectedOutput("the number of classes does not match the character set"));
    }
    Ok(decode(&answer.to_vec(), steps, classes, &recogniser.alphabet))
}

/// Cuts out a line, rotated upright and scaled to the input height.
fn cut_out(picture: &Picture, text_box: &SlantedBox) -> NdTensor<f32, 4> {
    let scale = text_box.height / HEIGHT as f32;
    let width = width(text_box);
    // Large lines are sampled several times per pixel.
    let fine = (1..4).find(|fine| scale <= 1.5 * *fine as f32).unwrap_or(4);
    let (across, down) = ((width * fine) as f32, (HEIGHT * fine) as f32);
    let point = text_box.points();
    let mut numbers = Vec::with_capacity(3 * HEIGHT * width);
    for row in 0..HEIGHT {
        for column in 0..width {
            let mut sum = 0.0;
            for part in 0..fine * fine {
                let (x, y) = (column * fine + part % fine, row * fine + part / fine);
                let along = ((x as f32 + 0.5) / across - 0.5) * text_box.length;
                let (x, y) = point(along, ((y as f32 + 0.5) / down - 0.5) * text_box.height);
                sum += picture.sample(x - 0.5, y - 0.5);
            }
            numbers.push(sum / (fine * fine) as f32 / 127.5 - 1.0);
        }
    }
    // The three colour channels are equal.
    numbers.extend_from_within(..);
    numbers.extend_from_within(..HEIGHT * width);
    NdTensor::from_data([1, 3, HEIGHT, width], numbers)
}

fn width(text_box: &SlantedBox) -> usize {
    let wanted = HEIGHT as f32 * text_box.length / text_box.height.max(1.0);
    let wanted = wanted.clamp(STEP as f32, MAX_WIDTH as f32) as usize;
    wanted.next_multiple_of(STEP)
}

/// Returns the most likely characters. Equal classes in consecutive steps are one character, unless a blank separates
/// them.
fn decode(answer: &[f32], steps: usize, classes: usize, alphabet: &Alphabet) -> Vec<Sign> {
    let mut signs: Vec<Sign> = Vec::new();
    let mut last = 0;
    for (step, probabilities) in answer.chunks_exact(classes.max(1)).enumerate() {
        let Some((class, score)) = most_likely_class(probabilities) else { continue };
        let middle = (step as f32 + 0.5) / steps as f32;
        match (alphabet.letter(class), signs.last_mut()) {
            (Some(_), Some(sign)) if class == last => {
                if score > sign.score {
                    (sign.score, sign.middle) = (score, middle);
                }
            }
            (Some(letter), _) => signs.push(Sign { letter, middle, score }),
            (None, _) => {}
        }
        last = class;
    }
    signs
}

/// Returns the most likely class and its probability. Thousands of classes are compared in lanes, so that the loop
/// vectorises.
fn most_likely_class(probabilities: &[f32]) -> Option<(usize, f32)> {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in probabilities.chunks(LANES) {
        for (lane, probability) in lanes.iter_mut().zip(chunk) {
            *lane = if *probability > *lane { *probability } else { *lane };
        }
    }
    let score = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    probabilities.iter().position(|probability| *probability >= score).map(|class| (class, score))
}

/// Characters by class. Class 0 is the blank, and the last class is the space.
#[derive(Debug)]
pub(crate) struct Alphabet {
    letters: Vec<char>,
}

impl Alphabet {
    /// Reads a list with one character per line.
    pub(crate) fn of(list: &str) -> Self {
        let list = list.strip_suffix('\n').unwrap_or(list);
        // An empty line still counts as a class.
        let letters = list.split('\n').map(|line| line.chars().next().filter(|letter| *letter != '\r').unwrap_or(' '));
        Self { letters: letters.chain([' ']).collect() }
    }

    pub(crate) const fn classes(&self) -> usize {
        self.letters.len() + 1
    }

    /// Returns the character for a class, or `None` for the blank.
    pub(crate) fn letter(&self, class: usize) -> Option<char> {
        self.letters.get(class.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_crop_follows_its_slope() {
        // Dark above and light below a line with a slope of one in ten.
        let pixels = (0..100).flat_map(|y| (0..200).map(move |x| if y < 40 + x / 10 { 0 } else { 255 })).collect();
        let picture = Picture::new(200, 100, pixels).unwrap();
        let text_box = SlantedBox { centre: (100.0, 50.0), length: 160.0, height: 20.0, angle: 0.1_f32.atan() };
        let cut = cut_out(&picture, &text_box);
        let [1, 3, HEIGHT, width] = cut.shape() else { panic!("{:?}", cut.shape()) };
        assert_eq!(width, 384);
        let numbers = cut.to_vec();
        let row = |row: usize| &numbers[row * width..(row + 1) * width];
        assert!(row(8).iter().all(|number| *number < -0.9) && row(40).iter().all(|number| *number > 0.9));
    }

    #[test]
    fn classes_map_to_list_lines_between_blank_and_space() {
        for list in ["\u{3000}\na\n\u{85}\n文", "\u{3000}\r\na\r\n\u{85}\r\n文\r\n"] {
            let alphabet = Alphabet::of(list);
            let letters: Vec<Option<char>> = (0..7).map(|class| alphabet.letter(class)).collect();
            let expected = [None, Some('\u{3000}'), Some('a'), Some('\u{85}'), Some('文'), Some(' '), None];
            assert_eq!((letters.as_slice(), alphabet.classes()), (expected.as_slice(), 6));
        }
    }
}
