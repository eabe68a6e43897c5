//! Estimates the tokens of a text that no server has counted yet.
//!
//! Results of tokenizers differ by about a fifth, and by a factor of four between scripts. The estimate therefore only
//! considers the script, and each model's deviation is learned from its server's counts ([`TokenCalibration`]).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Estimates the tokens of a text: one per four ASCII characters, one per two characters of two UTF-8 bytes (é, я, ש),
/// and one per wider character (汉, か, 😀).
pub fn estimate(text: &str) -> u64 {
    let mut ascii = 0u64;
    let mut two = 0u64;
    let mut wide = 0u64;
    for byte in text.as_bytes() {
        ascii += u64::from(*byte < 0x80);
        two += u64::from((0xC0..0xE0).contains(byte));
        wide += u64::from(*byte >= 0xE0);
    }
    ascii.div_ceil(4) + two.div_ceil(2) + wide
}

/// Estimates the tokens of a picture. Providers count one token per square of 27 or 28 pixels.
pub(crate) fn of_picture(width: u32, height: u32) -> u64 {
    (u64::from(width) * u64::from(height)).div_ceil(750)
}

/// Plausible range for the ratio of count to estimate. Other ratios are clamped, because they are probably server
/// errors.
const LIMITS: (f64, f64) = (0.2, 5.0);

/// Correction factors for estimates, by model.
#[derive(Debug, Default)]
pub struct TokenCalibration(Mutex<HashMap<String, f64>>);

impl TokenCalibration {
    /// Corrects an estimate for a model.
    pub fn apply(&self, model: &str, guess: u64) -> u64 {
        scaled(guess, self.map().get(model).copied().unwrap_or(1.0))
    }

    /// Updates a model's factor after a request with a known estimate and count. The previous factor has half the
    /// weight, so that a single outlier has a limited effect.
    pub fn learn(&self, model: &str, guess: u64, counted: u64) {
        if guess == 0 || counted == 0 {
            return;
        }
        let ratio = ratio(counted, guess).clamp(LIMITS.0, LIMITS.1);
        let mut calibration = self.map();
        match calibration.get_mut(model) {
            Some(scale) => *scale = f64::midpoint(*scale, ratio),
            None => drop(calibration.insert(model.to_owned(), ratio)),
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn ratio(counted: u64, guess: u64) -> f64 {
    counted as f64 / guess as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "token counts are far below 2^52, and scales are positive"
)]
fn scaled(guess: u64, scale: f64) -> u64 {
    (guess as f64 * scale).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_depends_on_the_script() {
        let check = |text: &str, tokens| assert_eq!(estimate(text), tokens, "{text}");
        check("", 0);
        check("word", 1);
        check("two words", 3);
        check("привет", 3);
        check("你好世界", 4);
        check("ok 你好", 3);
        check("😀", 1);
    }

    #[test]
    fn calibration_learns_from_server_counts() {
        let calibration = TokenCalibration::default();
        assert_eq!(calibration.apply("m", 100), 100);
        calibration.learn("m", 100, 150);
        assert_eq!(calibration.apply("m", 100), 150);
        assert_eq!(calibration.apply("other", 100), 100);
        calibration.learn("m", 100, 100);
        assert_eq!(calibration.apply("m", 100), 125);
        calibration.learn("n", 100, 0);
        calibration.learn("n", 0, 100);
        assert_eq!(calibration.apply("n", 100), 100, "zero counts are ignored");
        calibration.learn("n", 1, 1_000_000);
        assert_eq!(calibration.apply("n", 100), 500, "an implausible ratio is clamped to 5");
    }
}
