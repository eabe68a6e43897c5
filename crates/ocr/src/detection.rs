//! The first network: which pixels belong to lines of text.

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
/// Lines of a picture at the most.
const MOST: usize = 1000;
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

/// Boxes in which there may be lines.
#[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
pub(crate) fn boxes(recogniser: &Recogniser, picture: &Picture) -> Result<Vec<TextBox>, OcrError> {
    let seen = seen(picture);
    let (width, height) = (seen.width(), seen.height());
    let options = RunOptions::default().with_thread_pool(Some(recogniser.wide.clone()));
    let answer = recogniser.detection.run_one(input(&seen).view().into(), Some(options))?;
    let map: NdTensor<f32, 4> = answer.try_into().map_err(|_| OcrError::Form("a map of numbers"))?;
    if map.shape() != [1, 1, height, width] {
        return Err(OcrError::Form("a map of another size"));
    }
    let map = map.to_vec();
    let is_set: Vec<bool> = map.iter().map(|probability| *probability > PIXEL).collect();
    let (x, y) = (picture.width() as f32 / width as f32, picture.height() as f32 / height as f32);
    let found = |group: Vec<usize>| {
        let sum: f32 = group.iter().filter_map(|at| map.get(*at)).sum();
        let score = sum / group.len() as f32;
        let place = region::smallest(&group, width).filter(|_| score >= LINE)?;
        Some(TextBox { place: grown(place).scaled(x, y), score })
    };
    Ok(region::groups(&is_set, width, MOST, LEAST).into_iter().filter_map(found).collect())
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
