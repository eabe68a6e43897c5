//! Parsing of YAML files into typed layers. Errors name the line and the nearest valid key.
//!
//! This module also parses scalar values with their own notation: durations, optional limits, URLs, log filters.

use std::{collections::HashMap, fmt, marker::PhantomData, path::PathBuf, time::Duration};

use agentd_core::model::Slot;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, Visitor},
};
use serde_saphyr::{Error, Location, Options, Spanned, options};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use url::Url;

use crate::config::{ConfigError, ErrorLocation, Sources, layers::SourceFile, nearest};

/// Parses a file. An empty file is a layer without settings.
pub(super) fn parse<T: DeserializeOwned>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
) -> Result<T, ConfigError> {
    read(file, variables, |text, options| serde_saphyr::from_str_with_options(text, options))
}

fn read<T>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
    deserialize: impl Fn(&str, Options) -> Result<T, Error>,
) -> Result<T, ConfigError> {
    // Snippets are disabled, because the line may contain a key.
    let options = options! { with_snippet: false }.with_properties(variables.clone());
    let source = if is_blank(&file.text) { "{}" } else { file.text.as_str() };
    deserialize(source, options).map_err(|error| describe(file, &error))
}

/// Parses a file as untyped values. Only `true` and `false` are booleans. Returns `None` if the file is empty or
/// invalid.
pub(super) fn tree(file: &SourceFile, variables: &HashMap<String, String>) -> Option<serde_json::Value> {
    if is_blank(&file.text) {
        return None;
    }
    let options = options! { with_snippet: false, strict_booleans: true }.with_properties(variables.clone());
    serde_saphyr::from_str_with_options(&file.text, options).ok()
}

/// Parses the part of a file that the seed deserializes.
pub(super) fn parse_seed<S: for<'de> DeserializeSeed<'de, Value = T> + Copy, T>(
    file: &SourceFile,
    variables: &HashMap<String, String>,
    seed: S,
) -> Result<T, ConfigError> {
    read(file, variables, |text, options| {
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            seed.deserialize(deserializer)
        })
    })
}

/// Reads values of one file: expands variables, resolves paths, and reports errors with their location.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) sources: &'a Sources,
    pub(super) variables: &'a HashMap<String, String>,
}

impl Reader<'_> {
    pub(super) fn text(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        text(self.file, value, self.variables)
    }

    pub(super) fn texts(&self, values: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
        values.iter().map(|value| self.text(value)).collect()
    }

    /// Resolves a path. A relative path is relative to the file's folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.sources.path_in(self.file, path)
    }

    pub(super) fn refuse<T>(&self, value: &Spanned<T>, message: impl Into<String>) -> ConfigError {
        ConfigError::new(locate(self.file, value.defined), message)
    }
}

/// Returns the text of a value. The parser expands variables only in plain strings, so variables in quoted strings are
/// expanded here: users expect `"${KEY}"` to mean the same as `${KEY}`.
pub(super) fn text(
    file: &SourceFile,
    value: &Spanned<String>,
    variables: &HashMap<String, String>,
) -> Result<String, ConfigError> {
    if !is_quoted(file, value.defined) || !value.value.contains('$') {
        return Ok(value.value.clone());
    }
    expand(&value.value, variables).map_err(|message| ConfigError::new(locate(file, value.defined), message))
}

pub(super) fn locate(file: &SourceFile, location: Location) -> ErrorLocation {
    let has_position = location.line() > 0;
    ErrorLocation::File(file.origin.path(), has_position.then(|| (location.line(), location.column())))
}

/// Returns true if the file contains only comments. The parser would reject such a document, because it has no content.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn is_quoted(file: &SourceFile, location: Location) -> bool {
    let start = location.span().byte_offset().and_then(|offset| usize::try_from(offset).ok());
    start.and_then(|start| file.text.as_bytes().get(start)).is_some_and(|byte| matches!(byte, b'"' | b'\''))
}

/// Expands `${NAME}` and `${NAME:-default}`. `$${NAME}` is the escape for a literal `${NAME}`.
pub(super) fn expand(text: &str, variables: &HashMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}').map(|end| at + end) else {
            return Err("missing `}` after `${`".to_owned());
        };
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str(&rest[at..=end]);
        } else {
            out.push_str(&rest[..at]);
            let (name, default) = agentd_mcp::variables::parts(&rest[at + 2..end]);
            let value = variables.get(name).filter(|value| default.is_none() || !value.is_empty());
            out.push_str(value.map(String::as_str).or(default).ok_or_else(|| unset(name))?);
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn unset(name: &str) -> String {
    format!("the environment variable {name} is not set; write ${{{name}:-}} if it is optional")
}

fn describe(file: &SourceFile, error: &Error) -> ConfigError {
    let error = error.without_snippet();
    let location =
        error.location().map_or_else(|| ErrorLocation::File(file.origin.path(), None), |at| locate(file, at));
    match error {
        Error::SerdeUnknownField { field, expected, .. } => unknown(location, "key", field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => unknown(location, "value", variant, expected),
        Error::UnresolvedProperty { name, .. } => ConfigError::new(location, unset(name)),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            ConfigError::new(location, format!("duplicate key `{key}`"))
        }
        other => ConfigError::new(location, without_location(&other.to_string())),
    }
}

fn unknown(location: ErrorLocation, kind: &str, name: &str, expected: &[&'static str]) -> ConfigError {
    let shown: String = name.chars().take(80).collect();
    let listed = format!("expected one of: {}", expected.join(", "));
    match nearest(name, expected.iter().copied()) {
        Some(nearest) => ConfigError::new(location, format!("unknown {kind} `{shown}`, did you mean `{nearest}`?")),
        None => ConfigError::new(location, format!("unknown {kind} `{shown}`")),
    }
    .with_hint(listed)
}

/// Removes the location that the parser appends to its messages, because agentd puts its own location first.
fn without_location(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).trim_end_matches([',', ' ']).to_owned()
}

/// Log target that is silenced, because it logs whole messages from MCP servers, of any size and content. `agentctl mcp
/// logs` shows the relevant parts.
const SILENCED_TARGET: &str = "rmcp";

/// Duration such as `250ms`, `30s`, `5m`, `2h` or `7d`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// Optional limit; `never` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

/// Optional value; `auto` selects the default behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auto<T>(pub Option<T>);

/// Number between two inclusive bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedInt<const LOW: u64, const HIGH: u64>(pub u64);

impl Span {
    /// Returns the duration in milliseconds. The maximum of one year fits.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<const LOW: u64, const HIGH: u64> BoundedInt<LOW, HIGH> {
    /// Returns the number as a `usize`. The bounds ensure that it fits.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Parser of one scalar. The types above share one visitor.
trait Scalar: Sized {
    const EXPECTED: &'static str;

    /// Bounds of a number, appended to `EXPECTED` in errors.
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
        // The limit of one year catches mistakes, and prevents overflow in later sums of durations.
        let seconds = number.parse::<f64>().ok()? * unit;
        (0.0..=31_536_000.0).contains(&seconds).then(|| Self(Duration::from_secs_f64(seconds)))
    }
}

/// Implements `Scalar` for positive numbers, and for types in which a keyword means `None`.
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

impl<const LOW: u64, const HIGH: u64> Scalar for BoundedInt<LOW, HIGH> {
    const EXPECTED: &'static str = "a number";

    fn bounds() -> String {
        format!(" from {LOW} to {HIGH}")
    }

    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number| (LOW..=HIGH).contains(number)).map(Self)
    }
}

impl<const LOW: u64, const HIGH: u64> Auto<BoundedInt<LOW, HIGH>> {
    /// Parses the text of an environment variable.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| format!("{text:?} is not a number from {LOW} to {HIGH}, or auto"))
    }
}

struct ScalarVisitor<T>(PhantomData<T>);

impl<T: Scalar> ScalarVisitor<T> {
    fn read<E: de::Error>(text: &str) -> Result<T, E> {
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

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Self::read(text)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Self::read(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Self::read(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
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

read_as_scalars!(() Span, (T: Scalar) Limit<T>, (T: Scalar) Auto<T>, (const LOW: u64, const HIGH: u64) BoundedInt<LOW, HIGH>);

/// Parses a server URL. Errors do not quote the URL, because it may contain a password. `instead` names the setting
/// where a password belongs.
pub(super) fn address(text: &str, example: &str, instead: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("must start with http:// or https://".to_owned()),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(format!("contains a user name or password; {instead}"))
        }
        Ok(url) => Ok(url),
        Err(_) => Err(format!("not a URL such as {example}")),
    }
}

/// Parses a log filter: a level for all modules, or a list such as `info,agentd_models=debug`. Returns `None` for a
/// single word that is not a level. Such a word would otherwise be treated as a module name and silence all other
/// modules.
pub fn log_filter(text: &str) -> Option<Targets> {
    let level = |word: &str| Some(word.trim()).filter(|word| !word.is_empty())?.parse::<LevelFilter>().ok();
    let are_levels = text.split(',').all(|part| level(part.rsplit('=').next().unwrap_or(part)).is_some());
    let filter: Targets = are_levels.then(|| text.parse().ok()).flatten()?;
    Some(if text.contains(SILENCED_TARGET) { filter } else { filter.with_target(SILENCED_TARGET, LevelFilter::OFF) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_variables_expand_like_plain_ones() {
        let variables = HashMap::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = expand(text, &variables);
            match expected {
                Ok(value) => assert_eq!(found.as_deref(), Ok(value), "{text}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{text}"),
            }
        };
        check("${A}", Ok("1"));
        check("x${A}y${A}", Ok("x1y1"));
        check("${B:-two}", Ok("two"));
        check("${EMPTY:-two}", Ok("two"));
        check("${EMPTY}", Ok(""));
        check("$A and $", Ok("$A and $"));
        check("$${A}", Ok("${A}"));
        check("${B}", Err("variable B is not set"));
        check("${A", Err("missing `}`"));
    }

    #[test]
    fn durations_parse_with_units() {
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
    fn limit_can_be_never_but_not_zero() {
        assert_eq!(Limit::<u32>::read("never"), Some(Limit(None)));
        assert_eq!(Limit::<u32>::read("7"), Some(Limit(Some(7))));
        assert_eq!(Limit::<u32>::read("0"), None);
        assert_eq!(Auto::<u32>::read("auto"), Some(Auto(None)));
        assert_eq!(Auto::<u32>::read("never"), None);
        assert_eq!(Auto::<BoundedInt<10, 100>>::parse("auto"), Ok(Auto(None)));
        assert_eq!(Auto::<BoundedInt<10, 100>>::parse("40"), Ok(Auto(Some(BoundedInt(40)))));
        let refusal = Auto::<BoundedInt<10, 100>>::parse("9").unwrap_err();
        assert_eq!(refusal, "\"9\" is not a number from 10 to 100, or auto");
    }
    #[test]
    fn log_filter_accepts_levels_only() {
        let check = |text, is_valid| assert_eq!(log_filter(text).is_some(), is_valid, "{text}");
        check("info", true);
        check("off", true);
        check("warn,agentd_models=debug", true);
        check("inof", false);
        check("warn,agentd_models", false);
        check("agentd_models=loud", false);
        check("", false);
    }
}
