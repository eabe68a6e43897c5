//! Grey pictures, and what they show between their pixels.

/// A grey picture: a byte a pixel, rows from top to bottom. Zero is black.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// The picture that these pixels make; none if their number is not that of the width and the height.
    #[must_use]
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Option<Self> {
        let fits = width > 0 && height > 0 && width.checked_mul(height) == Some(pixels.len());
        fits.then_some(Self { width, height, pixels })
    }

    /// Width in pixels.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Its pixels.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The pixel there, or the nearest one.
    fn at(&self, x: isize, y: isize) -> f32 {
        let x = x.clamp(0, self.width as isize - 1).cast_unsigned();
        let y = y.clamp(0, self.height as isize - 1).cast_unsigned();
        self.pixels.get(y * self.width + x).map_or(255.0, |pixel| f32::from(*pixel))
    }

    /// Brightness at a point between pixels, from 0 to 255.
    #[must_use]
    pub fn sample(&self, x: f32, y: f32) -> f32 {
        let (left, top) = (x.floor(), y.floor());
        let (right, below) = (x - left, y - top);
        #[expect(clippy::cast_possible_truncation, reason = "clamped to the picture")]
        let (column, row) = (left as isize, top as isize);
        let above = self.at(column, row) * (1.0 - right) + self.at(column + 1, row) * right;
        let under = self.at(column, row + 1) * (1.0 - right) + self.at(column + 1, row + 1) * right;
        above * (1.0 - below) + under * below
    }

    /// The picture in another size; each pixel is the mean of those that it covers.
    #[must_use]
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

    /// The picture after a quarter turn clockwise.
    #[must_use]
    pub fn turned(&self) -> Self {
        let (width, height) = (self.height, self.width);
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for row in 0..height {
            let column = (0..width).map(|at| self.pixels.get((self.height - 1 - at) * self.width + row));
            pixels.extend(column.map(|pixel| pixel.copied().unwrap_or(u8::MAX)));
        }
        Self { width, height, pixels }
    }
}

/// Pixels that each of so many new ones covers, at least one.
fn spans(from: usize, to: usize) -> Vec<(usize, usize)> {
    let span = |at: usize| {
        let first = at * from / to;
        (first, ((at + 1) * from / to).max(first + 1).min(from))
    };
    (0..to).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_turned_and_made_smaller() {
        let picture = Picture::new(2, 3, vec![1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(picture.turned(), Picture::new(3, 2, vec![5, 3, 1, 6, 4, 2]).unwrap());
        let turned = (0..4).fold(picture.clone(), |picture, _| picture.turned());
        assert_eq!(turned, picture);
        assert_eq!(picture.resized(1, 3), Picture::new(1, 3, vec![1, 3, 5]).unwrap());
        assert_eq!(picture.resized(4, 3).width(), 4);
        assert_eq!(picture.sample(0.5, 0.0), 1.5);
        assert_eq!(picture.sample(-9.0, 99.0), 5.0);
        assert_eq!(Picture::new(2, 2, vec![0; 5]), None);
    }
}
