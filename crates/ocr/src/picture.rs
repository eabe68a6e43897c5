//! Greyscale images with interpolation.

use std::ops::Range;

/// Greyscale image with one byte per pixel, rows from top to bottom. Zero is black.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// Creates an image from its pixels. Returns `None` if the number of pixels does not match the size, or is zero.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Option<Self> {
        let fits = width > 0 && height > 0 && width.checked_mul(height) == Some(pixels.len());
        fits.then_some(Self { width, height, pixels })
    }

    /// Returns the width in pixels.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns the height in pixels.
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Returns the pixels, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    fn at(&self, column: usize, row: usize) -> f32 {
        self.pixels.get(row * self.width + column).map_or(255.0, |pixel| f32::from(*pixel))
    }

    /// Returns the interpolated brightness at a point, from 0 to 255. Outside the image, returns the brightness of the
    /// edge.
    pub fn sample(&self, x: f32, y: f32) -> f32 {
        let (last_column, last_row) = (self.width - 1, self.height - 1);
        let (x, y) = (x.clamp(0.0, last_column as f32), y.clamp(0.0, last_row as f32));
        let (column, row) = (x as usize, y as usize);
        let (right, below) = (x - column as f32, y - row as f32);
        let (next, under) = ((column + 1).min(last_column), (row + 1).min(last_row));
        let mean = |row| self.at(column, row) * (1.0 - right) + self.at(next, row) * right;
        mean(row) * (1.0 - below) + mean(under) * below
    }

    /// Scales the image. Each target pixel is the mean of the source pixels that it covers.
    pub fn resized(&self, width: usize, height: usize) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        let columns = spans(self.width, width);
        let mut pixels = Vec::with_capacity(width * height);
        for rows in spans(self.height, height) {
            for (left, right) in &columns {
                let mut sum = 0_u64;
                for row in rows.0..rows.1 {
                    let start = row * self.width;
                    let pixels = self.pixels.get(start + left..start + right).unwrap_or_default();
                    sum += pixels.iter().map(|pixel| u64::from(*pixel)).sum::<u64>();
                }
                let count = ((rows.1 - rows.0) * (right - left)).max(1) as u64;
                pixels.push(u8::try_from(sum / count).unwrap_or(u8::MAX));
            }
        }
        Self { width, height, pixels }
    }

    /// Returns the part in these columns and rows, clamped to the image.
    pub fn part(&self, columns: Range<usize>, rows: Range<usize>) -> Self {
        let columns = columns.start.min(self.width - 1)..columns.end.min(self.width).max(1);
        let rows = rows.start.min(self.height - 1)..rows.end.min(self.height).max(1);
        let (width, height) = (columns.len().max(1), rows.len().max(1));
        let pixels = self.pixels.chunks_exact(self.width).skip(rows.start).take(height);
        let pixels = pixels.flat_map(|row| row.iter().skip(columns.start).take(width).copied()).collect();
        Self { width, height, pixels }
    }

    /// Rotates the image clockwise by 90 degrees.
    pub fn rotated(&self) -> Self {
        let (width, height) = (self.height, self.width);
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for row in 0..height {
            let column = (0..width).map(|at| self.pixels.get((self.height - 1 - at) * self.width + row));
            pixels.extend(column.map(|pixel| pixel.copied().unwrap_or(u8::MAX)));
        }
        Self { width, height, pixels }
    }
}

/// Returns the source pixels for each of `to` target pixels, at least one.
fn spans(from: usize, to: usize) -> Vec<(usize, usize)> {
    let span = |at: usize| {
        let first = at * from / to;
        (first, ((at + 1) * from / to).max(first + 1).min(from))
    };
    (0..to).map(span).collect()
}
