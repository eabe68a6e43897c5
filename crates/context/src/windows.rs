//! Window sizes of models: as configured, or as reported by servers when a request did not fit.
//!
//! Also detects silent truncation: some servers accept any request but read and count only a part of it. Only these
//! counts reveal the truncation. Counts can also be low for other reasons: some servers exclude cached tokens, some
//! texts have few tokens, and some gateways return invented numbers. A count therefore only indicates truncation if it
//! is plausible as a window size and does not match the part added since the last request. If there is only one count,
//! it must be lower than the result of any tokenizer.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    model::{ModelInfo, WindowSource},
    usage::Usage,
};

/// Smallest window size in tokens that is accepted from a server. A smaller window is useless, and a server that
/// reports one may be malicious.
const MIN_WINDOW: u64 = 1024;

/// Window sizes by model, as learned since the daemon started.
#[derive(Debug, Default)]
pub struct ContextWindows(Mutex<HashMap<String, LearntWindow>>);

/// Observations about one window, in tokens.
#[derive(Debug, Default)]
struct LearntWindow {
    /// Size reported by the server.
    stated: Option<u64>,
    /// Largest request that was answered. Its size fits, regardless of the server's errors for larger requests.
    answered: u64,
    /// Truncation size that was already reported to the user.
    reported_cut: Option<u64>,
}

impl ContextWindows {
    /// Returns the maximum tokens of a request and its answer. Never exceeds the configured size, because the user may
    /// want a smaller window.
    pub fn of(&self, info: &ModelInfo) -> u64 {
        let windows = self.map();
        let known = windows.get(&key(info)).and_then(|known| known.stated.map(|stated| stated.max(known.answered)));
        known.map_or(info.context_window, |known| info.context_window.min(known))
    }

    /// Records that a request with `tokens` tokens was answered.
    pub fn answered(&self, info: &ModelInfo, tokens: u64) {
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        known.answered = known.answered.max(tokens);
    }

    /// Lowers the window to the size `stated` in the refusal of a request of `refused` tokens. Returns true if the size
    /// is plausible and was applied.
    pub fn learn(&self, info: &ModelInfo, refused: u64, stated: u64) -> bool {
        if stated >= self.of(info) {
            return false;
        }
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        // If a request that fit earlier is now refused, the server's window has changed.
        let window_shrank = refused <= known.answered;
        if stated < MIN_WINDOW || (stated < known.answered && !window_shrank) {
            let answered = known.answered;
            tracing::info!("ignored the reported window of {}: {stated} tokens, but {answered} were accepted", info.id);
            return false;
        }
        known.stated = Some(stated);
        known.answered = known.answered.min(stated);
        true
    }

    /// Returns the size of the largest request that was answered, in tokens.
    pub fn largest(&self, info: &ModelInfo) -> u64 {
        self.map().get(&key(info)).map_or(0, |known| known.answered)
    }

    /// Removes all observations about a model's window, so that it is measured again.
    pub fn forget(&self, info: &ModelInfo) {
        self.map().remove(&key(info));
    }

    /// Returns true if a truncation to this size has not been reported to the user yet, and marks it as reported.
    pub fn note_cut(&self, info: &ModelInfo, window: u64) -> bool {
        self.map().entry(key(info)).or_default().reported_cut.replace(window) != Some(window)
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, LearntWindow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of a model. The same model ID may denote different models on different servers.
fn key(info: &ModelInfo) -> String {
    format!("{} {}", info.id, info.base_url.as_deref().unwrap_or_default())
}

/// Minimum growth of a request in tokens above which its count is conclusive.
const MIN_GROWTH: u64 = 200;

/// Tolerated difference between the counts of two truncated requests, in tokens.
const COUNT_TOLERANCE: u64 = 2;

/// Typical granularity of window sizes, in tokens.
const WINDOW_STEP: u64 = 1024;

/// Request whose tokens were counted by the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedRequest {
    /// Estimated tokens, before calibration.
    pub guess: u64,
    /// Estimated tokens that were not part of the previous request.
    pub fresh: u64,
    /// Estimated tokens without instructions and tools, which other sessions also send.
    pub beyond_fixed: u64,
    /// Tokens as counted by the server.
    pub usage: Usage,
}

impl CountedRequest {
    /// Returns the window size that the counts of this request and the previous one to the same model reveal, or `None`
    /// if the request may have been read completely. `largest` is the largest count of any request to the model,
    /// `least` the minimum number of tokens of this request.
    pub fn cut(
        &self,
        before: Option<&Self>,
        model: &ModelInfo,
        largest: u64,
        least: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let counted = self.usage.prompt_tokens;
        if counted < MIN_WINDOW || model.embedded {
            return None;
        }
        let may_be_fresh = self.is_fresh_part(before);
        // The request was truncated like earlier ones.
        let window = model.context_window;
        let fills_known_window = model.window_source == WindowSource::Cut
            && counted <= window.saturating_add(window / 50)
            && self.guess / 11 * 10 > window;
        if !may_be_fresh && fills_known_window {
            return Some(window);
        }
        // A count far above any estimate is invented rather than truncated.
        let fills = self.guess / 4 * 5 >= counted;
        if let Some(before) = before.filter(|before| fills && self.guess >= before.guess.saturating_add(MIN_GROWTH)) {
            if self.is_constant(before, may_be_fresh) {
                return Some(counted.max(before.usage.prompt_tokens));
            }
            if self.max_read() < before.usage.prompt_tokens / 50 * 49 && !may_be_fresh {
                return Some(self.window(largest));
            }
        }
        let is_low = self.max_read() < self.guess / 2 && !may_be_fresh;
        (is_low && self.max_read() < least() / 5 * 4).then(|| self.window(largest))
    }

    /// Returns the maximum number of tokens that the server may have read, if it counts cached tokens separately.
    fn max_read(&self) -> u64 {
        self.usage.prompt_tokens.saturating_add(self.usage.cached_tokens)
    }

    /// Returns the window that all requests have filled so far, or this request's count if a larger request was read
    /// before.
    fn window(&self, largest: u64) -> u64 {
        if largest <= self.guess { largest.max(self.usage.prompt_tokens) } else { self.usage.prompt_tokens }
    }

    /// Returns true if the count equals that of the previous request although this request is longer. If a server
    /// counts only uncached tokens, counts may be equal by chance because equal amounts were added; then only a number
    /// that looks like a window size is conclusive.
    fn is_constant(&self, before: &Self, may_be_fresh: bool) -> bool {
        let counted = self.usage.prompt_tokens;
        if counted.abs_diff(before.usage.prompt_tokens) > COUNT_TOLERANCE {
            return false;
        }
        let grew_equally = is_near(self.fresh, before.fresh) || is_near(self.fresh, before.beyond_fixed);
        let remainder = counted % WINDOW_STEP;
        !(may_be_fresh && grew_equally) || remainder <= COUNT_TOLERANCE || remainder >= WINDOW_STEP - COUNT_TOLERANCE
    }

    /// Returns true if the count may only cover the uncached part. This is the part added since the last request or,
    /// for a first request, the part that other sessions do not send.
    fn is_fresh_part(&self, before: Option<&Self>) -> bool {
        let counted = self.usage.prompt_tokens;
        let is = |part: u64| counted >= part / 5 * 3 && counted <= part / 2 * 3 + 128;
        is(self.fresh) && self.fresh < self.guess || before.is_none() && is(self.beyond_fixed)
    }
}

/// Returns true if two numbers differ by at most 5 percent plus 16.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= other / 20 + 16
}

/// Returns the minimum tokens of a text under any tokenizer: tokens of common vocabularies never span two words.
pub fn min_tokens(text: &str) -> u64 {
    let (mut tokens, mut narrow, mut wide) = (0u64, 0u64, 0u64);
    let mut close = |narrow: &mut u64, wide: &mut u64| {
        tokens += narrow.div_ceil(32) + *wide / 4;
        (*narrow, *wide) = (0, 0);
    };
    for letter in text.chars() {
        match letter {
            _ if !letter.is_alphabetic() => close(&mut narrow, &mut wide),
            _ if letter.len_utf8() > 2 => wide += 1,
            _ => narrow += 1,
        }
    }
    close(&mut narrow, &mut wide);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a model with a configured window of 8,192 tokens at this URL.
    fn info(base_url: &str) -> ModelInfo {
        ModelInfo {
            id: "m".to_owned(),
            wire: "openai".to_owned(),
            base_url: Some(base_url.to_owned()),
            context_window: 8192,
            native_tools: true,
            ..ModelInfo::default()
        }
    }

    fn model() -> ModelInfo {
        ModelInfo { context_window: 131_072, window_source: WindowSource::Default, ..info("a") }
    }

    /// Number of tokens of the instructions and tools.
    const FIXED: u64 = 4400;

    /// Simulates a conversation. `added` is the growth of each request, and `count` returns the server's counts.
    fn windows(added: &[u64], count: impl Fn(u64, u64) -> (u64, u64)) -> Vec<Option<u64>> {
        let (mut guess, mut before, mut largest) = (FIXED, None, 0);
        let mut found = Vec::new();
        for (number, added) in added.iter().enumerate() {
            guess += added;
            let fresh = if number == 0 { guess } else { *added };
            let (prompt_tokens, cached_tokens) = count(guess, fresh);
            let usage = Usage { prompt_tokens, cached_tokens, ..Usage::default() };
            let now = CountedRequest { guess, fresh, beyond_fixed: guess - FIXED, usage };
            // Prose has about three tokens per two words.
            found.push(now.cut(before.as_ref(), &model(), largest, || guess * 2 / 3));
            largest = largest.max(prompt_tokens);
            before = Some(now);
        }
        found
    }

    const STEPS: [u64; 6] = [100, 2700, 2700, 900, 6000, 2700];

    #[test]
    fn constant_count_reveals_the_window() {
        let cut = windows(&STEPS, |guess, _| (guess.min(4096), 0));
        assert_eq!(cut, [None, Some(4096), Some(4096), Some(4096), Some(4096), Some(4096)]);
        let cut = windows(&STEPS, |guess, _| (guess.min(8192), 0));
        assert_eq!(cut, [None, None, None, Some(8192), Some(8192), Some(8192)]);
        // Each request grows by exactly the window size.
        let cut = windows(&[100, 4096, 4096, 4096], |guess, _| (guess.min(4096), 0));
        assert_eq!(cut[1..], [Some(4096); 3]);
    }

    #[test]
    fn dropped_old_messages_reveal_the_window() {
        // The remaining part is smaller than the window and varies.
        let cut = windows(&STEPS, |guess, fresh| (if guess <= 8192 { guess } else { 3000 + fresh }, 0));
        assert!(cut[..2].iter().all(Option::is_none), "{cut:?}");
        assert_eq!(cut[2], Some(7200), "the largest count is the window: {cut:?}");
    }

    #[test]
    fn one_long_request_reveals_the_window() {
        assert_eq!(windows(&[20_000], |_, _| (4096, 0)), [Some(4096)]);
        assert_eq!(windows(&[20_000], |guess, _| (guess * 6 / 10, 0)), [None]);
    }

    #[test]
    fn counts_without_cached_tokens_are_not_truncation() {
        for steps in [&STEPS[..], &[100; 8], &[2700; 8], &[100, 30_000, 50, 50, 9000, 9000]] {
            // The count excludes cached tokens, reports them separately, or includes them.
            let silent = windows(steps, |_, fresh| (fresh, 0));
            let scaled = windows(steps, |_, fresh| (fresh * 5 / 4, 0));
            let separate = windows(steps, |guess, fresh| (fresh, guess - fresh));
            let whole = windows(steps, |guess, fresh| (guess, guess - fresh));
            for found in [silent, scaled, separate, whole] {
                assert!(found.iter().all(Option::is_none), "{steps:?}: {found:?}");
            }
            // Instructions and tools are cached because another session sent them.
            let shared = windows(steps, |guess, fresh| (fresh.min(guess - FIXED), 0));
            assert!(shared.iter().all(Option::is_none), "{steps:?}: {shared:?}");
        }
    }

    #[test]
    fn implausible_counts_are_not_truncation() {
        for count in [0, 1, 10, 1000] {
            assert_eq!(windows(&STEPS, |_, _| (count, 0)), [None; 6]);
        }
        for (times, of) in [(3, 2), (3, 4), (11, 20)] {
            assert_eq!(windows(&STEPS, |guess, _| (guess * times / of, 0)), [None; 6], "{times}/{of}");
        }
        // The count is constant and far above the size of the request.
        assert_eq!(windows(&[100, 300, 300, 300], |_, _| (9500, 0)), [None; 4]);
        // Line drawings have few tokens, and no tokenizer would count as many tokens as estimated.
        let usage = Usage { prompt_tokens: 6000, ..Usage::default() };
        let lines = CountedRequest { guess: 30_000, fresh: 30_000, beyond_fixed: 25_600, usage };
        assert_eq!(lines.cut(None, &model(), 0, || 3500), None);
    }

    #[test]
    fn known_truncation_is_recognised_at_once() {
        let known = ModelInfo { context_window: 4096, window_source: WindowSource::Cut, ..model() };
        let usage = Usage { prompt_tokens: 4000, ..Usage::default() };
        let request = CountedRequest { guess: 9000, fresh: 300, beyond_fixed: 4600 + 4000, usage };
        assert_eq!(request.cut(None, &known, 4096, || 0), Some(4096));
        assert_eq!(CountedRequest { guess: 4300, ..request }.cut(None, &known, 4096, || 0), None);
        let larger = CountedRequest { usage: Usage { prompt_tokens: 8000, ..usage }, ..request };
        assert_eq!(larger.cut(None, &known, 4096, || 0), None);
        assert_eq!(request.cut(None, &ModelInfo { embedded: true, ..known }, 4096, || 0), None);
    }

    #[test]
    fn min_tokens_is_a_lower_bound() {
        let check = |text: &str, tokens: u64| assert_eq!(min_tokens(text), tokens, "{text}");
        check("", 0);
        check("two words", 2);
        check("read_file(\"a/b.rs\")", 5);
        check("-------- 12345", 0);
        check("привет как дела", 3);
        check("你好世界你好世界", 2);
        check(&"x".repeat(320), 10);
    }
}
