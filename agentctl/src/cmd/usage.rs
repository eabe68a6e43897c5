//! `agentctl usage`: tokens and money, by model, session, day or slot.

use agentd_core::{
    Date,
    spending::{UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    usage::Usage,
};
use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    flags::{Choice, Global, one_of},
    report::{self, Table},
    terminal::{
        self,
        paint::{money, number},
    },
};

/// The arguments of `usage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl usage                               the last 30 days, by model
  agentctl usage --since 7d --by day           each day of the last week
  agentctl usage --by session                  the dearest sessions first
  agentctl usage --since 2026-11-01 --until 2026-11-30
  agentctl usage --since all --json | jq .total.cost_microusd

Every model call counts when it is made, at the prices of that time: those of subagents, summaries and `models test`, too. \
Days are local days of the daemon. Sessions that were deleted still count, without their names. Prices come from models.yaml, \
else from the catalogue, else from the server's list; what has no known price is said, and in no sum. `agentctl models show` tells the prices.")]
pub(crate) struct UsageArgs {
    /// The first day: the last days (7d) or weeks (2w) up to today, `today`, `all`, or a date such as 2026-11-25
    /// [default: 30d; all with --until]
    #[arg(long, value_name = "WHEN", value_parser = first_day)]
    since: Option<FirstDay>,
    /// The last day, which is included: a date such as 2026-11-25 [default: today]
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Date>,
    /// Grouping of the lines
    #[arg(long, value_name = "GROUP", default_value = "model", value_parser = one_of(&GROUPINGS))]
    by: UsageGrouping,
}

const GROUPINGS: [Choice<UsageGrouping>; 4] = [
    ("model", "by the id of the model", UsageGrouping::Model),
    ("session", "by session, those of subagents with the one that they worked for", UsageGrouping::Session),
    ("day", "by day, in the daemon's time zone", UsageGrouping::Day),
    ("slot", "by the role that the model had", UsageGrouping::Slot),
];

/// Days that are shown where nobody says.
const LAST_DAYS: u32 = 30;

/// The first day of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstDay {
    All,
    Last(u32),
    Day(Date),
}

pub(crate) fn first_day(text: &str) -> Result<FirstDay, String> {
    let problem = || format!("{text:?} is no beginning; write 7d, 2w, today, all or a date such as 2026-11-25");
    match text {
        "all" => return Ok(FirstDay::All),
        "today" => return Ok(FirstDay::Last(1)),
        _ => {}
    }
    if let Ok(day) = text.parse() {
        return Ok(FirstDay::Day(day));
    }
    let (count, days) = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(count), _) => (count, 1),
        (_, Some(count)) => (count, 7),
        _ => return Err(problem()),
    };
    let days = count.parse::<u32>().ok().and_then(|count| count.checked_mul(days)).filter(|days| *days > 0);
    days.map(FirstDay::Last).ok_or_else(problem)
}

pub(crate) fn date(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("{text:?} is no date; write one such as 2026-11-25"))
}

/// Shows tokens and money.
pub(crate) async fn handle(global: &Global, args: UsageArgs) -> anyhow::Result<Exit> {
    let usual = if args.until.is_some() { FirstDay::All } else { FirstDay::Last(LAST_DAYS) };
    let (last_days, since) = match args.since.unwrap_or(usual) {
        FirstDay::All => (None, None),
        FirstDay::Last(days) => (Some(days), None),
        FirstDay::Day(day) => (None, Some(day)),
    };
    let query = UsageQuery { last_days, since, until: args.until, by: args.by };
    let report = daemon::connect(global).await?.client.usage(&query).await?;
    report::show(global.json, &report, || print(&report))
}

fn print(report: &UsageReport) -> anyhow::Result<()> {
    let name = match report.by {
        UsageGrouping::Model => "MODEL",
        UsageGrouping::Session => "SESSION",
        UsageGrouping::Day => "DAY",
        UsageGrouping::Slot => "SLOT",
    };
    let mut table = Table::new([name, "CALLS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST"]);
    for group in &report.groups {
        table.row(row(label(group, report.by), &group.usage));
    }
    if report.groups.len() > 1 || report.left_out > 0 {
        table.row(row("total".to_owned(), &report.total));
    }
    table.print("no model was asked in these days")?;
    if report.groups.is_empty() {
        return Ok(());
    }
    let days = match report.since {
        Some(since) if since != report.until => format!("{since} to {}", report.until),
        _ => report.until.to_string(),
    };
    terminal::note(&format!("{days}, days in {}", report.time_zone));
    if report.left_out > 0 {
        terminal::note(&format!("{} more are only in the total", number(report.left_out)));
    }
    if report.total.unpriced_calls > 0 {
        let calls = report::count(report.total.unpriced_calls, "call");
        terminal::note(&format!(
            "the price of {calls} is not known and in no sum; set prices of the model in models.yaml for the next ones"
        ));
    }
    Ok(())
}

fn label(group: &UsageGroup, by: UsageGrouping) -> String {
    match (by, group.session()) {
        (UsageGrouping::Session, Some(id)) => format!("{} {}", report::short_id(id), group.title).trim_end().to_owned(),
        (UsageGrouping::Session, None) => "(deleted, or of none)".to_owned(),
        _ => group.name.clone(),
    }
}

/// Tokens of the requests are split into those that were computed, came from a cache and went into one.
fn row(label: String, usage: &Usage) -> [String; 7] {
    let (cached, written) = (usage.cached_tokens, usage.cache_write_tokens);
    [
        label,
        number(usage.calls),
        number(usage.prompt_tokens.saturating_sub(cached).saturating_sub(written)),
        number(cached),
        number(written),
        number(usage.completion_tokens),
        money(usage).unwrap_or_else(|| "-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_days_are_ages_dates_and_words() {
        let check = |text: &str, day: FirstDay| assert_eq!(first_day(text), Ok(day));
        check("7d", FirstDay::Last(7));
        check("2w", FirstDay::Last(14));
        check("today", FirstDay::Last(1));
        check("all", FirstDay::All);
        check("2026-11-25", FirstDay::Day("2026-11-25".parse().unwrap()));
        for wrong in ["", "d", "0d", "-1d", "7", "7h", "99999999999d", "4000000000w", "2026-13-01", "é"] {
            assert!(first_day(wrong).unwrap_err().contains("7d, 2w"), "{wrong}");
        }
    }

    #[test]
    fn rows_tell_cached_tokens_apart_and_unknown_prices() {
        let usage = Usage {
            prompt_tokens: 1000,
            cached_tokens: 600,
            cache_write_tokens: 100,
            completion_tokens: 50,
            cost_microusd: Some(2_500_000),
            calls: 3,
            unpriced_calls: 2,
            ..Usage::default()
        };
        let told = ["m", "3", "300", "600", "100", "50", "$2.50, and 2 calls of unknown price"];
        assert_eq!(row("m".to_owned(), &usage), told.map(str::to_owned));
        let unknown = Usage { cost_microusd: None, ..usage };
        assert_eq!(row(String::new(), &unknown)[6], "price unknown");
        let failed = Usage { calls: 1, ..Usage::default() };
        assert_eq!(row(String::new(), &failed)[6], "-");
    }
}
