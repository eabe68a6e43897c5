//! `now`: the date and time in the user's time zone.

use agentd_core::{Timestamp, tool::ToolOutput};
use agentd_workspace::{failure::Failure, text};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, Tool};

/// Returns the current date, weekday and time in the user's time zone. Use it whenever an answer depends on the date or
/// the time.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// IANA name of another time zone, such as Asia/Tokyo. Omit for the user's own.
    timezone: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "now";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        run(call.context.now, &(call.services.config.time_zone)(), &self)
    }
}

fn run(now: Timestamp, local: &TimeZone, args: &Args) -> Result<ToolOutput, Failure> {
    let zone = match args.timezone.as_deref().map(str::trim) {
        None | Some("") => local.clone(),
        Some(name) => TimeZone::get(name).map_err(|_| {
            Failure::arguments(format!(
                "{} is not a time zone; use an IANA name such as Europe/Berlin or UTC",
                text::quoted(name)
            ))
        })?,
    };
    let here = now.to_zoned(zone);
    let name = here.time_zone().iana_name().map(|name| format!(" ({name})")).unwrap_or_default();
    Ok(ToolOutput::ok(format!("{}{name}", here.strftime("%A, %Y-%m-%dT%H:%M:%S%:z"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(timezone: Option<&str>) -> Result<String, String> {
        let now = "2026-11-21T08:31:05.9Z".parse().unwrap();
        let args = Args { timezone: timezone.map(str::to_owned) };
        let local = TimeZone::get("Europe/Berlin").unwrap();
        run(now, &local, &args).map(|output| output.text).map_err(|failure| failure.text)
    }

    #[test]
    fn time_includes_weekday_and_zone() {
        assert_eq!(at(None).unwrap(), "Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)");
        assert_eq!(at(Some("Asia/Tokyo")).unwrap(), "Saturday, 2026-11-21T17:31:05+09:00 (Asia/Tokyo)");
        assert_eq!(at(Some(" ")).unwrap(), at(None).unwrap());
        assert!(at(Some("Mars/Base")).unwrap_err().starts_with("\"Mars/Base\" is not a time zone"));
    }
}
