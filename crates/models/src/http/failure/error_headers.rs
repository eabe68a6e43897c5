//! Headers beside an error's body: the request's name, and when to come again, which some say only in their message.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// Words before the time that a provider asks to wait.
const WAITS: [&str; 4] = ["try again in ", "retry in ", "try again after ", "retry after "];

/// The longest wait that is read: a day.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// The server's own name of a request, by which its people find it.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    let of = |name: &str| headers.get(name)?.to_str().ok().map(str::trim).filter(|id| !id.is_empty());
    of("request-id").or_else(|| of("x-request-id"))
}

/// The wait that a server asked for: seconds, milliseconds, or a date that is compared with the server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str| text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if let Some(wait) = text("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    let value = text(RETRY_AFTER.as_str())?;
    seconds(value).or_else(|| {
        let parser = rfc2822::DateTimeParser::new();
        let until = parser.parse_timestamp(value).ok()?;
        let now = text(DATE.as_str()).and_then(|now| parser.parse_timestamp(now).ok()).unwrap_or_else(Timestamp::now);
        Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
    })
}

/// The wait until a limit counts anew, as OpenRouter names it: in milliseconds since 1970.
pub(super) fn limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let until = headers.get("x-ratelimit-reset")?.to_str().ok()?.trim().parse().ok()?;
    let until = Timestamp::from_millisecond(until).ok().filter(|_| until > MILLISECONDS)?;
    Duration::try_from(until.duration_since(Timestamp::now())).ok()
}

/// The number from which one names a time in milliseconds since 1970; below it, in seconds.
const MILLISECONDS: i64 = 100_000_000_000;

/// The longest time until a quota is filled up again that is believed: a year, and a little more.
const MAX_RESET: i64 = 400 * 86_400;

/// The time at which an error says that there is more again: in seconds since 1970, as a date, or in seconds from now.
pub(super) fn reset(error: &Value, now: Timestamp) -> Option<Timestamp> {
    let number = |name: &str| {
        let value = error.get(name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let number: i64 = text.split('.').next()?.parse().ok()?;
        Some(if number > MILLISECONDS { number / 1000 } else { number })
    };
    let date = || error.get("resets_at")?.as_str()?.parse::<Timestamp>().ok();
    let from_now = || number("resets_in_seconds").map(|seconds| now.as_second().saturating_add(seconds));
    let at = number("resets_at").or_else(|| date().map(Timestamp::as_second)).or_else(from_now)?;
    let is_ahead = (1..=MAX_RESET).contains(&at.saturating_sub(now.as_second()));
    is_ahead.then(|| Timestamp::from_second(at).ok()).flatten()
}

/// The time at which a server that takes no more requests asks to try again. A wait of seconds is sent with every error.
pub(super) fn retry_at(headers: &HeaderMap) -> Option<Timestamp> {
    let wait = retry_after(headers).filter(|wait| wait.as_secs() >= 60)?;
    Timestamp::now().checked_add(SignedDuration::try_from(wait).ok()?).ok()
}

/// The wait that a message in lower case asks for, such as `7.66s`, `820ms`, `1m2.5s` or `30 seconds`.
pub(super) fn wait_in(message: &str) -> Option<Duration> {
    let (_, rest) = WAITS.iter().find_map(|wait| message.split_once(wait))?;
    let words: Vec<&str> = rest.split_whitespace().take(4).collect();
    let of = |count: usize| words[..count].join(" ").trim_end_matches(['.', ',', ';']).parse::<SignedDuration>().ok();
    let wait = (1..=words.len()).rev().find_map(of)?;
    Duration::try_from(wait).ok().filter(|wait| *wait <= MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_are_read_in_all_their_forms() {
        let check = |headers: &[(&'static str, &str)], wait: Option<u64>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(retry_after(&map), wait.map(Duration::from_millis), "{headers:?}");
        };
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "0.25")], Some(250));
        check(&[("retry-after-ms", "125"), ("retry-after", "7")], Some(125));
        check(&[("retry-after", "-3")], None);
        check(&[("retry-after", "soon")], None);
        let date = "Sun, 06 Nov 1994 08:49:30 GMT";
        check(&[("date", date), ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(7_000));
        check(&[("date", date), ("retry-after", "Sun, 06 Nov 1994 08:49:20 GMT")], Some(0));
        let (soon, late) =
            (Timestamp::now() + SignedDuration::from_mins(5), Timestamp::now() + SignedDuration::from_mins(4));
        let headers = [("x-ratelimit-reset", soon.as_millisecond().to_string())];
        let map = headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let wait = limit_reset(&map).unwrap();
        assert!(
            wait > Duration::try_from(late.duration_since(Timestamp::now())).unwrap() && wait <= Duration::from_mins(5)
        );
        let map = [("x-ratelimit-reset", "12")]
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        assert_eq!(limit_reset(&map.collect()), None);
        for at in [json!(1_900_000_000), json!("1900000000"), json!(1_900_000_000.7), json!(1_900_000_000_123_u64)] {
            let now = Timestamp::from_second(1_899_999_000).unwrap();
            assert_eq!(reset(&json!({ "resets_at": at }), now).map(Timestamp::as_second), Some(1_900_000_000), "{at}");
        }
    }

    #[test]
    fn waits_are_read_in_words() {
        let check = |words: &str, milliseconds: Option<u64>| {
            assert_eq!(wait_in(words), milliseconds.map(Duration::from_millis), "{words}");
        };
        check("(tpm): limit 6000, used 5000, requested 2000. please try again in 9.98s.", Some(9980));
        check("please try again in 820ms. visit", Some(820));
        check("try again in 1m2.5s.", Some(62_500));
        check("please retry in 34.5 seconds, or", Some(34_500));
        check("retry after 2 minutes 5 seconds", Some(125_000));
        check("please reduce your message size and try again.", None);
        check("try again in a while", None);
        check("try again in 7", None);
        check("try again in 99999h", None);
        check("try again in -7s", None);
        check("7s", None);
    }

    proptest! {
        #[test]
        fn whatever_is_said_nothing_breaks(words in "(try again in )?[0-9a-z. é-]{0,40}", more in ".{0,20}") {
            let said = words + &more;
            prop_assert!(wait_in(&said).is_none_or(|wait| wait <= MAX_WAIT));
        }
    }
}
