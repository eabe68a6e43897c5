//! Values with a notation of their own: times, limits that may be absent, addresses, filters of the log.

use std::{fmt, marker::PhantomData, time::Duration};

use agentd_core::model::Slot;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use url::Url;

/// Target that logs whole messages of MCP servers, of any size and with any words in them. What matters of them stands
/// in `agentctl mcp logs`.
const QUIET: &str = "rmcp";

/// A length of time: `250ms`, `30s`, `5m`, `2h`, `7d`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A limit, or `never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

/// A number, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auto<T>(pub Option<T>);

/// A number between two bounds, both allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within<const LOW: u64, const HIGH: u64>(pub u64);

impl Span {
    /// In milliseconds. A year, the longest there is, fits.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<const LOW: u64, const HIGH: u64> Within<LOW, HIGH> {
    /// As a size in memory, which it was checked to fit.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Parser of one scalar, so that the types above share one visitor.
trait Scalar: Sized {
    const EXPECTED: &'static str;

    /// The bounds of a number, behind what is expected.
    fn bounds() -> String {
        String::new()
    }

    fn read(text: &str) -> Option<Self>;
}

impl Scalar for Span {
    const EXPECTED: &'static str = "a time such as 250ms, 30s, 5m, 2h or 7d";

    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = match unit.trim() {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        // A year bounds what can be meant, and keeps every later sum of times in range.
        let seconds = number.parse::<f64>().ok()? * unit;
        (0.0..=31_536_000.0).contains(&seconds).then(|| Self(Duration::from_secs_f64(seconds)))
    }
}

/// Numbers above 0, and types in which a word stands for none.
macro_rules! scalars {
    ($($number:ty),*; $($absent:ident: $word:literal),*) => {
        $(impl Scalar for $number {
            const EXPECTED: &'static str = "a number above 0";

            fn read(text: &str) -> Option<Self> {
                text.trim().parse().ok().filter(|number| *number > 0)
            }
        })*
        $(impl<T: Scalar> Scalar for $absent<T> {
            const EXPECTED: &'static str = T::EXPECTED;

            fn bounds() -> String {
                format!("{}, or {}", T::bounds(), $word)
            }

            fn read(text: &str) -> Option<Self> {
                if text.trim() == $word { Some(Self(None)) } else { T::read(text).map(|value| Self(Some(value))) }
            }
        })*
    };
}

scalars!(u32, u64; Limit: "never", Auto: "auto");

impl Scalar for Slot {
    const EXPECTED: &'static str = "a model slot (base, reasoning, vision, code or chat)";

    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl<const LOW: u64, const HIGH: u64> Scalar for Within<LOW, HIGH> {
    const EXPECTED: &'static str = "a number";

    fn bounds() -> String {
        format!(" from {LOW} to {HIGH}")
    }

    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number| (LOW..=HIGH).contains(number)).map(Self)
    }
}

impl<const LOW: u64, const HIGH: u64> Auto<Within<LOW, HIGH>> {
    /// Reads a variable's text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| format!("{text:?} is not a number from {LOW} to {HIGH}, or auto"))
    }
}

struct ScalarVisitor<T>(PhantomData<T>);

impl<T: Scalar> ScalarVisitor<T> {
    fn read<E: Error>(text: &str) -> Result<T, E> {
        T::read(text).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            E::custom(format_args!("`{shown}` is not {}{}", T::EXPECTED, T::bounds()))
        })
    }
}

impl<T: Scalar> Visitor<'_> for ScalarVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", T::EXPECTED, T::bounds())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Self::read(text)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Self::read(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Self::read(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Self::read(&number.to_string())
    }
}

macro_rules! read_as_scalars {
    ($(($($generics:tt)*) $kind:ty),*) => {$(
        impl<'de, $($generics)*> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ScalarVisitor(PhantomData))
            }
        }
    )*};
}

read_as_scalars!(() Span, (T: Scalar) Limit<T>, (T: Scalar) Auto<T>, (const LOW: u64, const HIGH: u64) Within<LOW, HIGH>);

/// An address of a server. The error does not repeat it: it may hold a password, which `instead` says where to put.
pub(super) fn address(text: &str, example: &str, instead: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("it begins with http:// or https://".to_owned()),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(format!("it holds a name or a password before the @; {instead}"))
        }
        Ok(url) => Ok(url),
        Err(_) => Err(format!("it is not an address such as {example}")),
    }
}

/// A filter of the log: a level for everything, or a list such as `info,agentd_models=debug`. A bare word that is no level would
/// otherwise be taken for the name of a module, and silence all others.
pub fn log_filter(text: &str) -> Option<Targets> {
    let level = |word: &str| Some(word.trim()).filter(|word| !word.is_empty())?.parse::<LevelFilter>().ok();
    let known = text.split(',').all(|part| level(part.rsplit('=').next().unwrap_or(part)).is_some());
    let filter: Targets = known.then(|| text.parse().ok()).flatten()?;
    Some(if text.contains(QUIET) { filter } else { filter.with_target(QUIET, LevelFilter::OFF) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let check = |text, millis: Option<u64>| {
            assert_eq!(Span::read(text).map(|span| span.0), millis.map(Duration::from_millis), "{text}");
        };
        check("250ms", Some(250));
        check("30s", Some(30_000));
        check("30", Some(30_000));
        check("1.5m", Some(90_000));
        check("2 h", Some(7_200_000));
        check("7d", Some(604_800_000));
        check("0s", Some(0));
        check("-1s", None);
        check("1e400", None);
        check("9999d", None);
        check("soon", None);
        check("", None);
        check("5 fortnights", None);
    }

    #[test]
    fn a_limit_can_be_absent_but_not_zero() {
        assert_eq!(Limit::<u32>::read("never"), Some(Limit(None)));
        assert_eq!(Limit::<u32>::read("7"), Some(Limit(Some(7))));
        assert_eq!(Limit::<u32>::read("0"), None);
        assert_eq!(Auto::<u32>::read("auto"), Some(Auto(None)));
        assert_eq!(Auto::<u32>::read("never"), None);
        assert_eq!(Auto::<Within<10, 100>>::parse("auto"), Ok(Auto(None)));
        assert_eq!(Auto::<Within<10, 100>>::parse("40"), Ok(Auto(Some(Within(40)))));
        let refusal = Auto::<Within<10, 100>>::parse("9").unwrap_err();
        assert_eq!(refusal, "\"9\" is not a number from 10 to 100, or auto");
    }
    #[test]
    fn a_filter_is_levels_and_nothing_else() {
        let check = |text, known| assert_eq!(log_filter(text).is_some(), known, "{text}");
        check("info", true);
        check("off", true);
        check("warn,agentd_models=debug", true);
        check("inof", false);
        check("warn,agentd_models", false);
        check("agentd_models=loud", false);
        check("", false);
    }
}
