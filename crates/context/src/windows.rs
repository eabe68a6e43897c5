//! How large the windows of models are: as configured, or as their servers said when a request did not fit.
//!
//! Silent cuts: a server that takes any request, reads a part of it, and counts only that. It shows in its counts alone. Counts are low
//! for other reasons, too: some servers leave out of them what they had in their cache, some texts have few tokens, some gateways invent
//! numbers. So a count must be plausible as a window, it must not be what has come since the last request, and a single one must be
//! below what any tokenizer would count.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    model::{ModelInfo, WindowSource},
    usage::Usage,
};

/// The least that is believed, in tokens: in less nothing can be done, and whoever says so may not mean well.
const LEAST: u64 = 1024;

/// Sizes of the windows of models, model by model, as learned since the daemon started.
#[derive(Debug, Default)]
pub struct ContextWindows(Mutex<HashMap<String, KnownWindow>>);

/// Size of one window, in tokens.
#[derive(Debug, Default)]
struct KnownWindow {
    /// Size that its server named.
    said: Option<u64>,
    /// The largest request that was answered: it did fit, whatever is said of larger ones.
    answered: u64,
    /// The window that was told as that of a server which cuts requests.
    told_cut: Option<u64>,
}

impl ContextWindows {
    /// The tokens that request and answer may have together. Never more than is configured: a person may want less.
    pub fn of(&self, info: &ModelInfo) -> u64 {
        let windows = self.map();
        let known = windows.get(&key(info)).and_then(|known| known.said.map(|said| said.max(known.answered)));
        known.map_or(info.context_window, |known| info.context_window.min(known))
    }

    /// Takes in that a request of so many tokens was answered.
    pub fn answered(&self, info: &ModelInfo, tokens: u64) {
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        known.answered = known.answered.max(tokens);
    }

    /// Takes in what a server said when it refused a request of about so many tokens, and says whether that is believed and
    /// less than was thought.
    pub fn learn(&self, info: &ModelInfo, refused: u64, said: u64) -> bool {
        if said >= self.of(info) {
            return false;
        }
        let mut windows = self.map();
        let known = windows.entry(key(info)).or_default();
        // What did fit and is refused now says itself that the server has another window since.
        let fits_no_longer = refused <= known.answered;
        if said < LEAST || (said < known.answered && !fits_no_longer) {
            let answered = known.answered;
            tracing::info!("not believed: the window of {} has {said} tokens, and {answered} did fit", info.id);
            return false;
        }
        known.said = Some(said);
        known.answered = known.answered.min(said);
        true
    }

    /// The largest request that was answered, in tokens.
    pub fn largest(&self, info: &ModelInfo) -> u64 {
        self.map().get(&key(info)).map_or(0, |known| known.answered)
    }

    /// Forgets what was learnt of a window: it is measured anew.
    pub fn forget(&self, info: &ModelInfo) {
        self.map().remove(&key(info));
    }

    /// Returns whether a person is to be told that the server cuts requests to this size: once, and again where it is another.
    pub fn tell_cut(&self, info: &ModelInfo, window: u64) -> bool {
        self.map().entry(key(info)).or_default().told_cut.replace(window) != Some(window)
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, KnownWindow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same name may stand for another model on another server.
fn key(info: &ModelInfo) -> String {
    format!("{} {}", info.id, info.base_url.as_deref().unwrap_or_default())
}

/// Tokens by which a request must have grown to say something.
const GROWTH: u64 = 200;

/// Tokens by which the counts of two cut requests may differ.
const SAME: u64 = 2;

/// Sizes of windows are multiples of this.
const WINDOW_STEP: u64 = 1024;

/// A request whose tokens were counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedRequest {
    /// About how many tokens it has, by the unscaled guess.
    pub guess: u64,
    /// About how many of them were not in the request before.
    pub fresh: u64,
    /// About how many of them are neither instructions nor tools, which other sessions send as well.
    pub beyond_fixed: u64,
    /// Tokens as the server counted.
    pub usage: Usage,
}

impl CountedRequest {
    /// The window that shows in the count of this request, behind the one before it to the same model: none where it may have
    /// been read whole. `largest` is the largest count of any request to the model, `least` the number of tokens that the
    /// request has at the least.
    pub fn cut(
        &self,
        before: Option<&Self>,
        model: &ModelInfo,
        largest: u64,
        least: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let counted = self.usage.prompt_tokens;
        if counted < LEAST || model.embedded {
            return None;
        }
        let may_be_fresh = self.is_fresh_part(before);
        // It is cut as others were before it.
        let window = model.context_window;
        let fills_known = model.window_source == WindowSource::Cut
            && counted <= window.saturating_add(window / 50)
            && self.guess / 11 * 10 > window;
        if !may_be_fresh && fills_known {
            return Some(window);
        }
        // What no guess is so far from was not cut, but invented.
        let fills = self.guess / 4 * 5 >= counted;
        if let Some(before) = before.filter(|before| fills && self.guess >= before.guess.saturating_add(GROWTH)) {
            if self.stays(before, may_be_fresh) {
                return Some(counted.max(before.usage.prompt_tokens));
            }
            if self.most() < before.usage.prompt_tokens / 50 * 49 && !may_be_fresh {
                return Some(self.window(largest));
            }
        }
        let is_low = self.most() < self.guess / 2 && !may_be_fresh;
        (is_low && self.most() < least() / 5 * 4).then(|| self.window(largest))
    }

    /// The most that the server may have read, where it counts cached tokens apart.
    fn most(&self) -> u64 {
        self.usage.prompt_tokens.saturating_add(self.usage.cached_tokens)
    }

    /// A window that all requests have filled until now, or what this one did where a larger one was read before.
    fn window(&self, largest: u64) -> u64 {
        if largest <= self.guess { largest.max(self.usage.prompt_tokens) } else { self.usage.prompt_tokens }
    }

    /// Returns whether the count is that of the request before, though this one has more in it. A server that counts only what
    /// is not in its cache may do so by chance where as much came as before; then only a number that looks like the size of a
    /// window says something.
    fn stays(&self, before: &Self, may_be_fresh: bool) -> bool {
        let counted = self.usage.prompt_tokens;
        if counted.abs_diff(before.usage.prompt_tokens) > SAME {
            return false;
        }
        let as_much_as_before = near(self.fresh, before.fresh) || near(self.fresh, before.beyond_fixed);
        let off = counted % WINDOW_STEP;
        !(may_be_fresh && as_much_as_before) || off <= SAME || off >= WINDOW_STEP - SAME
    }

    /// Returns whether the count may be that of the part that is in no cache: of what came since the last request, or in the
    /// first one of all but what other sessions send as well.
    fn is_fresh_part(&self, before: Option<&Self>) -> bool {
        let counted = self.usage.prompt_tokens;
        let is = |part: u64| counted >= part / 5 * 3 && counted <= part / 2 * 3 + 128;
        is(self.fresh) && self.fresh < self.guess || before.is_none() && is(self.beyond_fixed)
    }
}

/// Returns whether two numbers differ by a few percent, or by next to nothing.
fn near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= other / 20 + 16
}

/// The tokens that a text has at the least, whatever counts them: no token of a usual vocabulary spans two words.
pub fn least_tokens(text: &str) -> u64 {
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

    /// A model with a configured window of 8,192 tokens, behind this address.
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

    #[test]
    fn a_window_is_what_its_server_says_and_never_more_than_is_configured() {
        let windows = ContextWindows::default();
        assert_eq!(windows.of(&info("a")), 8192);
        assert!(!windows.learn(&info("a"), 9999, 9000) && !windows.learn(&info("a"), 9999, 8192));
        assert!(windows.learn(&info("a"), 9999, 4096) && !windows.learn(&info("a"), 9999, 4096));
        assert_eq!((windows.of(&info("a")), windows.of(&info("b"))), (4096, 8192));
        assert!(windows.learn(&info("a"), 9999, 2048));
        assert_eq!(windows.of(&ModelInfo { context_window: 1024, ..info("a") }), 1024);
    }

    #[test]
    fn no_window_is_believed_that_is_less_than_what_did_fit() {
        let info = info("a");
        let windows = ContextWindows::default();
        windows.answered(&info, 5000);
        windows.answered(&info, 3000);
        assert!(!windows.learn(&info, 9999, 4999));
        assert_eq!(windows.of(&info), 8192);
        assert!(windows.learn(&info, 9999, 6000));
        windows.answered(&info, 7000);
        assert_eq!(windows.of(&info), 7000, "what was said is refuted");
        let other = ModelInfo { id: "o".to_owned(), ..info };
        assert!(
            !windows.learn(&other, 9999, 0)
                && !windows.learn(&other, 9999, LEAST - 1)
                && windows.learn(&other, 9999, LEAST)
        );
    }

    #[test]
    fn a_server_that_takes_less_than_it_did_has_another_window_since() {
        let info = info("a");
        let windows = ContextWindows::default();
        windows.answered(&info, 7000);
        assert!(!windows.learn(&info, 7001, 4096), "that may be a word of somebody else");
        assert!(!windows.learn(&info, 5000, LEAST - 1));
        assert!(windows.learn(&info, 5000, 4096));
        assert_eq!(windows.of(&info), 4096);
        // What did fit before says nothing of the window that it has now.
        windows.answered(&info, 3000);
        assert!(windows.learn(&info, 3900, 3500) && !windows.learn(&info, 3900, 2500));
        windows.answered(&info, 6000);
        assert_eq!(windows.of(&info), 6000, "what was said is refuted");
    }

    fn model() -> ModelInfo {
        ModelInfo { context_window: 131_072, window_source: WindowSource::Default, ..info("a") }
    }

    /// Tokens of instructions and tools.
    const FIXED: u64 = 4400;

    /// A conversation: what is added to each request, and what the server counts of it.
    fn windows(added: &[u64], count: impl Fn(u64, u64) -> (u64, u64)) -> Vec<Option<u64>> {
        let (mut guess, mut before, mut largest) = (FIXED, None, 0);
        let mut found = Vec::new();
        for (number, added) in added.iter().enumerate() {
            guess += added;
            let fresh = if number == 0 { guess } else { *added };
            let (prompt_tokens, cached_tokens) = count(guess, fresh);
            let usage = Usage { prompt_tokens, cached_tokens, ..Usage::default() };
            let now = CountedRequest { guess, fresh, beyond_fixed: guess - FIXED, usage };
            // Prose has about two words in three tokens.
            found.push(now.cut(before.as_ref(), &model(), largest, || guess * 2 / 3));
            largest = largest.max(prompt_tokens);
            before = Some(now);
        }
        found
    }

    const STEPS: [u64; 6] = [100, 2700, 2700, 900, 6000, 2700];

    #[test]
    fn a_count_that_stays_is_a_window() {
        let cut = windows(&STEPS, |guess, _| (guess.min(4096), 0));
        assert_eq!(cut, [None, Some(4096), Some(4096), Some(4096), Some(4096), Some(4096)]);
        let cut = windows(&STEPS, |guess, _| (guess.min(8192), 0));
        assert_eq!(cut, [None, None, None, Some(8192), Some(8192), Some(8192)]);
        // As much as the window comes each time.
        let cut = windows(&[100, 4096, 4096, 4096], |guess, _| (guess.min(4096), 0));
        assert_eq!(cut[1..], [Some(4096); 3]);
    }

    #[test]
    fn a_server_that_drops_the_oldest_messages_counts_less_and_less_evenly() {
        // What is left of the request is below the window, and varies.
        let cut = windows(&STEPS, |guess, fresh| (if guess <= 8192 { guess } else { 3000 + fresh }, 0));
        assert!(cut[..2].iter().all(Option::is_none), "{cut:?}");
        assert_eq!(cut[2], Some(7200), "it is the most that it read: {cut:?}");
    }

    #[test]
    fn one_long_request_is_enough() {
        assert_eq!(windows(&[20_000], |_, _| (4096, 0)), [Some(4096)]);
        assert_eq!(windows(&[20_000], |guess, _| (guess * 6 / 10, 0)), [None]);
    }

    #[test]
    fn counts_without_what_is_cached_are_no_cuts() {
        for steps in [&STEPS[..], &[100; 8], &[2700; 8], &[100, 30_000, 50, 50, 9000, 9000]] {
            // Cached tokens are left out, are told beside, or are a part of the count.
            let silent = windows(steps, |_, fresh| (fresh, 0));
            let scaled = windows(steps, |_, fresh| (fresh * 5 / 4, 0));
            let apart = windows(steps, |guess, fresh| (fresh, guess - fresh));
            let whole = windows(steps, |guess, fresh| (guess, guess - fresh));
            for found in [silent, scaled, apart, whole] {
                assert!(found.iter().all(Option::is_none), "{steps:?}: {found:?}");
            }
            // Another session has had instructions and tools computed.
            let shared = windows(steps, |guess, fresh| (fresh.min(guess - FIXED), 0));
            assert!(shared.iter().all(Option::is_none), "{steps:?}: {shared:?}");
        }
    }

    #[test]
    fn odd_counts_are_no_cuts() {
        for count in [0, 1, 10, 1000] {
            assert_eq!(windows(&STEPS, |_, _| (count, 0)), [None; 6]);
        }
        for (times, of) in [(3, 2), (3, 4), (11, 20)] {
            assert_eq!(windows(&STEPS, |guess, _| (guess * times / of, 0)), [None; 6], "{times}/{of}");
        }
        // A number that is always the same, and far more than what was sent.
        assert_eq!(windows(&[100, 300, 300, 300], |_, _| (9500, 0)), [None; 4]);
        // Drawn lines have few tokens: no tokenizer would count as many as are guessed.
        let usage = Usage { prompt_tokens: 6000, ..Usage::default() };
        let lines = CountedRequest { guess: 30_000, fresh: 30_000, beyond_fixed: 25_600, usage };
        assert_eq!(lines.cut(None, &model(), 0, || 3500), None);
    }

    #[test]
    fn what_is_known_to_be_cut_is_known_at_once() {
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
    fn no_text_has_fewer_tokens_than_that() {
        let check = |text: &str, tokens: u64| assert_eq!(least_tokens(text), tokens, "{text}");
        check("", 0);
        check("two words", 2);
        check("read_file(\"a/b.rs\")", 5);
        check("-------- 12345", 0);
        check("привет как дела", 3);
        check("你好世界你好世界", 2);
        check(&"x".repeat(320), 10);
    }
}
