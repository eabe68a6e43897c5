//! Limits of providers on how much is asked in a minute, out of their words. Such a refusal is no sign of a full window, though
//! it speaks of tokens: only time helps. Pure.

use std::time::Duration;

/// Words of a limit of tokens or requests in a minute.
const LIMITS: [&str; 7] = [
    "tokens per minute",
    "tokens per min",
    "(tpm)",
    "requests per minute",
    "requests per min",
    "(rpm)",
    "rate_limit_exceeded",
];

/// Words before the time that a provider asks to wait.
const WAITS: [&str; 4] = ["try again in ", "retry in ", "try again after ", "retry after "];

/// The longest wait that is read, in seconds: a day.
const MAX_WAIT: f64 = 86_400.0;

/// Returns whether a refusal is one for a limit in a minute.
pub(crate) fn is_limit(words: &str) -> bool {
    let words = words.to_lowercase();
    LIMITS.iter().any(|limit| words.contains(limit))
}

/// The wait that is asked for in words, such as `7.66s`, `820ms`, `1m2.5s` or `30 seconds`.
pub(crate) fn wait_in(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    let at = WAITS.iter().find_map(|wait| words.find(wait).map(|at| at + wait.len()))?;
    let mut rest = words.get(at..)?;
    let mut seconds = None;
    loop {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number = rest.get(..end).map(|number| number.trim_end_matches('.')).filter(|number| !number.is_empty());
        let Some(number) = number.and_then(|number| number.parse::<f64>().ok()) else { break };
        let unit: String = rest.get(end..)?.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
        let factor = match unit.as_str() {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * factor);
        let behind = rest.get(end..)?;
        rest = behind.trim_start().get(unit.len()..)?.trim_start();
    }
    seconds.filter(|seconds| *seconds <= MAX_WAIT).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Returns whether one request alone is more than the limit of a minute, as the provider says: `Limit 6000, Requested 7000`.
pub(crate) fn is_hopeless(words: &str) -> bool {
    let words = words.to_lowercase();
    let number = |name: &str| {
        let rest = words.get(words.find(name)? + name.len()..)?.trim_start_matches([':', ' ']);
        let digits: String = rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == ',').collect();
        digits.replace(',', "").parse::<u64>().ok()
    };
    matches!((number("limit "), number("requested ")), (Some(limit), Some(requested)) if requested > limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROQ: &str = "Request too large for model `llama-3.1-8b-instant` in organization `org_1` service tier \
        `on_demand` on tokens per minute (TPM): Limit 6000, Requested 7311, please reduce your message size and try again.";
    const USED: &str = "Rate limit reached for model `llama` on tokens per minute (TPM): Limit 6000, Used 5000, \
        Requested 2000. Please try again in 9.98s.";

    #[test]
    fn limits_of_a_minute_are_no_windows() {
        assert!(is_limit(GROQ) && is_limit(USED) && is_limit("Limit of Requests Per Minute"));
        assert!(!is_limit("This model's maximum context length is 6000 tokens") && !is_limit("too many tokens"));
        assert!(is_hopeless(GROQ) && !is_hopeless(USED) && !is_hopeless("Limit 6000") && !is_hopeless(""));
    }

    #[test]
    fn waits_are_read_in_words() {
        let check = |words: &str, milliseconds: Option<u64>| {
            assert_eq!(wait_in(words), milliseconds.map(Duration::from_millis), "{words}");
        };
        check(USED, Some(9980));
        check(GROQ, None);
        check("Please try again in 820ms. Visit", Some(820));
        check("try again in 1m2.5s.", Some(62_500));
        check("Please retry in 34.5 seconds, or", Some(34_500));
        check("retry after 2 minutes 5 seconds", Some(125_000));
        check("try again in a while", None);
        check("try again in 7", None);
        check("try again in 99999h", None);
        check("7s", None);
    }

    proptest! {
        #[test]
        fn whatever_is_said_nothing_breaks(words in "(try again in )?[0-9a-z. é]{0,40}", more in ".{0,20}") {
            let said = format!("{words}{more}");
            let _ = (is_limit(&said), is_hopeless(&said));
            prop_assert!(wait_in(&said).is_none_or(|wait| wait <= Duration::from_secs(86_400)));
        }
    }
}
