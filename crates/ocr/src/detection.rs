//! The first network: which pixels belong to lines of text.

use std::ops::ControlFlow;

use rten::RunOptions;
use rten_tensor::{AsView as _, Layout as _, NdTensor};

use crate::{
    OcrError, Picture, Recogniser,
    region::{self, SlantedBox},
};

/// The longer side of what the network sees, in pixels.
const SIDE: usize = 1024;
/// The network halves its picture so often that both sides must be a multiple of this.
const STEP: usize = 32;
/// Mean and spread of the colours of the pictures that the network was made with.
const COLOURS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];
/// From this probability on a pixel belongs to a line.
const PIXEL: f32 = 0.3;
/// Mean probability of the pixels of a line, at least.
const LINE: f32 = 0.6;
/// Lines of a picture at the most; those of a page of a newspaper are in a thousand boxes or two.
pub const MOST_LINES: usize = 5000;
/// Pixels of a line at least.
const LEAST: usize = 12;
/// The network marks the middle of a line. The line is larger by this share of its area over its edges.
const GROWTH: f32 = 1.5;

/// A box with a line in it, maybe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextBox {
    pub(crate) place: SlantedBox,
    /// Mean probability of its pixels.
    pub(crate) score: f32,
}

/// Boxes of a picture, from top to bottom.
#[derive(Debug, Default)]
pub(crate) struct TextBoxes {
    pub(crate) boxes: Vec<TextBox>,
    /// Set if there are more.
    pub(crate) is_cut: bool,
}

/// Boxes in which there may be lines.
#[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
pub(crate) fn boxes(recogniser: &Recogniser, picture: &Picture) -> Result<TextBoxes, OcrError> {
    let seen = seen(picture);
    let (width, height) = (seen.width(), seen.height());
    let options = RunOptions::default().with_thread_pool(Some(recogniser.wide.clone()));
    let answer = recogniser.detection.run_one(input(&seen).view().into(), Some(options))?;
    let map: NdTensor<f32, 4> = answer.try_into().map_err(|_| OcrError::Form("a map of numbers"))?;
    if map.shape() != [1, 1, height, width] {
        return Err(OcrError::Form("a map of another size"));
    }
    let scale = (picture.width() as f32 / width as f32, picture.height() as f32 / height as f32);
    Ok(marked(&map.to_vec(), width, scale))
}

/// Boxes around what a map of probabilities marks, in a picture of another scale.
#[expect(clippy::cast_precision_loss, reason = "pixels of a map")]
fn marked(map: &[f32], width: usize, (x, y): (f32, f32)) -> TextBoxes {
    let is_set: Vec<bool> = map.iter().map(|probability| *probability > PIXEL).collect();
    let found = |group: &[usize]| {
        let sum: f32 = group.iter().filter_map(|at| map.get(*at)).sum();
        let score = sum / group.len() as f32;
        let place = region::smallest(group, width).filter(|_| score >= LINE)?;
        Some(TextBox { place: grown(place).scaled(x, y), score })
    };
    let mut found_boxes = TextBoxes::default();
    region::groups(&is_set, width, LEAST, |group| {
        // Noise is no line, and must not take the place of one.
        let Some(found) = found(group) else { return ControlFlow::Continue(()) };
        if found_boxes.boxes.len() == MOST_LINES {
            found_boxes.is_cut = true;
            return ControlFlow::Break(());
        }
        found_boxes.boxes.push(found);
        ControlFlow::Continue(())
    });
    found_boxes
}

/// The picture as the network sees it: not too large, and of sides that it can halve.
fn seen(picture: &Picture) -> Picture {
    let longer = picture.width().max(picture.height());
    let side = |side: usize| {
        let wanted = if longer > SIDE { side * SIDE / longer } else { side };
        (wanted.div_ceil(STEP) * STEP).max(STEP)
    };
    picture.resized(side(picture.width()), side(picture.height()))
}

fn input(seen: &Picture) -> NdTensor<f32, 4> {
    let mut numbers = Vec::with_capacity(3 * seen.pixels().len());
    for (mean, spread) in COLOURS {
        numbers.extend(seen.pixels().iter().map(|pixel| (f32::from(*pixel) / 255.0 - mean) / spread));
    }
    NdTensor::from_data([1, 3, seen.height(), seen.width()], numbers)
}

fn grown(place: SlantedBox) -> SlantedBox {
    let by = GROWTH * place.length * place.height / (2.0 * (place.length + place.height)).max(1.0);
    SlantedBox { length: place.length + 2.0 * by, height: place.height + 2.0 * by, ..place }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with so many blobs of this probability, each of sixteen pixels, in rows from the top.
    fn blobs(map: &mut [f32], width: usize, count: usize, probability: f32) {
        let across = width / 8;
        for number in 0..count {
            let (row, column) = (number / across * 8, number % across * 8);
            for pixel in 0..16 {
                map[(row + pixel / 4) * width + column + pixel % 4] = probability;
            }
        }
    }

    #[test]
    fn noise_above_a_line_does_not_hide_it() {
        const WIDTH: usize = 640;
        let mut map = vec![0.0; WIDTH * 640];
        blobs(&mut map, WIDTH, MOST_LINES + 1000, 0.4);
        for pixel in 0..400 {
            map[(630 + pixel / 100) * WIDTH + 20 + pixel % 100] = 0.9;
        }
        let found = marked(&map, WIDTH, (1.0, 1.0));
        assert_eq!((found.boxes.len(), found.is_cut), (1, false));
        assert!((found.boxes[0].place.centre.1 - 632.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn more_lines_than_are_read_are_said() {
        const WIDTH: usize = 800;
        for (count, is_cut) in [(MOST_LINES, false), (MOST_LINES + 1, true)] {
            let mut map = vec![0.0; WIDTH * 800];
            blobs(&mut map, WIDTH, count, 0.9);
            let found = marked(&map, WIDTH, (1.0, 1.0));
            assert_eq!((found.boxes.len(), found.is_cut), (MOST_LINES, is_cut));
        }
    }
}
