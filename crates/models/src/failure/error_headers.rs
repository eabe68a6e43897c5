//! Headers beside an error's body: the request's name, and when to come again.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

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

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

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
    }
}
