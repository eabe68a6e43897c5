//! `agentctl usage` shows tokens and cost by model, session, day or slot. `agentctl stats` shows counters of events by
//! day.

use std::collections::BTreeMap;

use agentd_core::{
    Date, Timestamp,
    counters::{Counter, CounterKind, DayCounters},
    spending::{UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    usage::Usage,
};
use clap::Args;
use serde_json::json;

use crate::{
    daemon::Daemon,
    exit::Exit,
    flags::{Choice, one_of},
    report::{self, Table},
    terminal::{clean_line, money, note, number, paint},
};

/// The arguments of `usage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl usage                               the last 30 days, by model
  agentctl usage --since 7d --by day           each day of the last week
  agentctl usage --by session                  the most expensive sessions first
  agentctl usage --since 2026-11-01 --until 2026-11-30
  agentctl usage --since all --json | jq .total.cost_microusd

Every model call is counted when it is made, at the prices of that time, including those of subagents, summaries and \
`models test`. Days are local days of the daemon. Deleted sessions still count, without their names. Prices come from \
models.yaml, else from the catalogue, else from the server's list; calls of unknown price are reported, but not \
summed. `agentctl models show` shows the prices.")]
pub(crate) struct UsageArgs {
    /// First day: the last days (7d) or weeks (2w) up to today, `today`, `all`, or a date such as 2026-11-25
    /// [default: 30d; all with --until]
    #[arg(long, value_name = "WHEN", value_parser = first_day)]
    since: Option<UsageQuery>,
    /// Last day, inclusive: a date such as 2026-11-25 [default: today]
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Date>,
    /// Grouping of the lines
    #[arg(long, value_name = "GROUP", default_value = "model", value_parser = one_of(&GROUPINGS))]
    by: UsageGrouping,
}

const GROUPINGS: [Choice<UsageGrouping>; 4] = [
    ("model", "by the id of the model", UsageGrouping::Model),
    ("session", "by session, including its subagents", UsageGrouping::Session),
    ("day", "by day, in the daemon's time zone", UsageGrouping::Day),
    ("slot", "by the slot of the model", UsageGrouping::Slot),
];

/// Default number of days.
const DEFAULT_DAYS: u32 = 30;

/// Returns a query for the last `days` days, including today.
fn last(days: u32) -> UsageQuery {
    UsageQuery { last_days: Some(days), ..UsageQuery::default() }
}

/// Parses the first day of a query.
fn first_day(text: &str) -> Result<UsageQuery, String> {
    let problem = || format!("invalid first day {text:?}; write 7d, 2w, today, all or a date such as 2026-11-25");
    let (count, days) = match (text, text.parse(), text.strip_suffix('d'), text.strip_suffix('w')) {
        ("all", ..) => return Ok(UsageQuery::default()),
        ("today", ..) => return Ok(last(1)),
        (_, Ok(day), ..) => return Ok(UsageQuery { since: Some(day), ..UsageQuery::default() }),
        (.., Some(count), _) => (count, 1),
        (.., Some(count)) => (count, 7),
        _ => return Err(problem()),
    };
    let days = count.parse::<u32>().ok().and_then(|count| count.checked_mul(days)).filter(|days| *days > 0);
    days.map(last).ok_or_else(problem)
}

pub(crate) fn date(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("invalid date {text:?}; write one such as 2026-11-25"))
}

/// Runs the command `agentctl usage`.
pub(crate) async fn handle(daemon: Daemon, json: bool, args: UsageArgs) -> anyhow::Result<Exit> {
    let default_query = if args.until.is_some() { UsageQuery::default() } else { last(DEFAULT_DAYS) };
    let query = UsageQuery { until: args.until, by: args.by, ..args.since.unwrap_or(default_query) };
    let report = daemon.client.usage(&query).await?;
    report::show(json, &report, || print(&report))
}

fn print(report: &UsageReport) -> anyhow::Result<()> {
    let name = match report.by {
        UsageGrouping::Model => "MODEL",
        UsageGrouping::Session => "SESSION",
        UsageGrouping::Day => "DAY",
        UsageGrouping::Slot => "SLOT",
    };
    let rows = report.groups.iter().map(|group| row(label(group, report.by), &group.usage));
    let is_summed = report.groups.len() > 1 || report.left_out > 0;
    let rows = rows.chain(is_summed.then(|| row("total".to_owned(), &report.total)));
    let head = [name, "CALLS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST"];
    Table::of(head, rows).print("no model calls in these days")?;
    if report.groups.is_empty() {
        return Ok(());
    }
    let days = match report.since {
        Some(since) if since != report.until => format!("{since} to {}", report.until),
        _ => report.until.to_string(),
    };
    note(&format!("{days}, days in {}", report.time_zone));
    if report.left_out > 0 {
        note(&format!("{} more are included only in the total", number(report.left_out)));
    }
    if report.total.unpriced_calls > 0 {
        let calls = report::count(report.total.unpriced_calls, "call");
        note(&format!(
            "the price of {calls} is unknown and not in the total; set prices of the model in models.yaml for future calls"
        ));
    }
    Ok(())
}

fn label(group: &UsageGroup, by: UsageGrouping) -> String {
    match (by, group.session()) {
        (UsageGrouping::Session, Some(id)) => format!("{} {}", report::short_id(id), group.title).trim_end().to_owned(),
        (UsageGrouping::Session, None) => "(deleted, or no session)".to_owned(),
        _ => group.name.clone(),
    }
}

/// Returns the cells of a row. Prompt tokens are split into computed, cached, and cache-written tokens.
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

/// The arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl stats                       the last 30 days
  agentctl stats --since 7d --by-day   each day of the last week
  agentctl stats --since all --json | jq '.total[] | select(.kind == \"tool\")'
  agentctl stats --prometheus          everything since the first day, for a scraper

A cron job can write it for node_exporter: agentctl stats --prometheus > /var/lib/node_exporter/agentd.prom

Everything is counted as it is stored, and stays counted when sessions are deleted. Nothing is sent anywhere.")]
pub(crate) struct StatsArgs {
    /// First day: the last days (7d) or weeks (2w) up to today, `today`, `all`, or a date such as 2026-11-25
    #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = first_day)]
    since: UsageQuery,
    /// Last day, inclusive: a date such as 2026-11-25 [default: today]
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Date>,
    /// Show one line for each day
    #[arg(long)]
    by_day: bool,
    /// Print all counters in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["until", "by_day"])]
    prometheus: bool,
}

/// Runs the command `agentctl stats`.
pub(crate) async fn handle_stats(daemon: Daemon, json: bool, args: StatsArgs) -> anyhow::Result<Exit> {
    if args.prometheus {
        return prometheus(&daemon).await;
    }
    let query = UsageQuery { until: args.until, ..args.since };
    let usage = daemon.client.usage(&query).await?;
    // The daemon's current day may differ from the client's.
    let first =
        query.last_days.and_then(|days| (1..days).try_fold(usage.until, |day, _| day.yesterday().ok())).or(query.since);
    let days = daemon.client.counters(first, Some(usage.until)).await?;
    let total = total(&days);
    let by_day = daemon.client.usage(&UsageQuery { by: UsageGrouping::Day, ..query }).await?;
    let output = json!({ "total": total, "days": days, "usage": usage, "usage_by_day": by_day });
    report::show(
        json,
        &output,
        || {
            if args.by_day { print_days(&days, &by_day) } else { print_counters(&total, &usage) }
        },
    )
}

/// Sums the counters over all days.
fn total(days: &[DayCounters]) -> Vec<Counter> {
    let mut sums: BTreeMap<(CounterKind, &str, &str), (u64, u64)> = BTreeMap::new();
    for counter in days.iter().flat_map(|day| &day.counters) {
        let sum = sums.entry((counter.kind, &counter.name, &counter.outcome)).or_default();
        *sum = (sum.0.saturating_add(counter.count), sum.1.saturating_add(counter.milliseconds));
    }
    let counter = |((kind, name, outcome), (count, milliseconds)): ((CounterKind, &str, &str), (u64, u64))| Counter {
        kind,
        name: name.to_owned(),
        outcome: outcome.to_owned(),
        count,
        milliseconds,
    };
    sums.into_iter().map(counter).collect()
}

fn print_counters(total: &[Counter], usage: &UsageReport) -> anyhow::Result<()> {
    // Most calls take less than a second, but waits for a user may take days.
    let shown = |average: u64| if average < 60_000 { paint::duration(average) } else { report::span(average) };
    let rows = total.iter().map(|counter| {
        let average = counter.milliseconds.checked_div(counter.count).filter(|_| counter.milliseconds > 0);
        [
            counter.kind.as_str().to_owned(),
            clean_line(&counter.name),
            clean_line(&counter.outcome),
            number(counter.count),
            average.map(shown).unwrap_or_default(),
        ]
    });
    Table::of(["WHAT", "NAME", "OUTCOME", "COUNT", "AVERAGE"], rows).print("no events in these days")?;
    let took = &usage.total;
    let share = (took.cached_tokens.saturating_mul(100)).checked_div(took.prompt_tokens).unwrap_or_default();
    let cost = money(took).map(|cost| format!(", {cost}")).unwrap_or_default();
    report::lines([format!(
        "\n{} model calls: {} tokens in ({share} % from caches), {} out{cost}",
        number(took.calls),
        number(took.prompt_tokens),
        number(took.completion_tokens),
    )])
}

fn print_days(days: &[DayCounters], usage: &UsageReport) -> anyhow::Result<()> {
    let rows = days.iter().map(|day| {
        let sum = |kind: CounterKind, but_for: Option<&str>| -> u64 {
            let fits = |counter: &&Counter| counter.kind == kind && Some(counter.outcome.as_str()) != but_for;
            day.counters.iter().filter(fits).map(|counter| counter.count).sum()
        };
        let took: Option<&UsageGroup> = usage.groups.iter().find(|group| group.name == day.day.to_string());
        [
            day.day.to_string(),
            number(sum(CounterKind::Turn, None)),
            number(sum(CounterKind::Turn, Some("completed"))),
            number(sum(CounterKind::Tool, None)),
            number(sum(CounterKind::Tool, Some("ok"))),
            number(sum(CounterKind::Wait, None)),
            number(sum(CounterKind::Start, None)),
            number(took.map_or(0, |took| took.usage.tokens())),
            took.and_then(|took| money(&took.usage)).unwrap_or_default(),
        ]
    });
    Table::of(["DAY", "TURNS", "FAILED", "TOOLS", "FAILED", "QUESTIONS", "STARTS", "TOKENS", "COST"], rows)
        .print("no events in these days")
}

async fn prometheus(daemon: &Daemon) -> anyhow::Result<Exit> {
    let days = daemon.client.counters(None, None).await?;
    let usage = daemon.client.usage(&UsageQuery::default()).await?;
    let (status, storage) = (daemon.client.status().await?, daemon.client.storage().await?);
    let mut text = Exposition::default();
    let total = total(&days);
    for (kind, name, help) in [
        (CounterKind::Turn, "turns", "Turns that ended, by stop reason"),
        (CounterKind::Tool, "tool_calls", "Tool calls that ended, by tool and outcome"),
        (CounterKind::Wait, "questions", "Answered questions to the user"),
        (CounterKind::Warning, "warnings", "Warnings, by code"),
        (CounterKind::Start, "starts", "Starts of the daemon"),
    ] {
        let counters = || total.iter().filter(move |counter| counter.kind == kind);
        let counts = counters().map(|counter| (labels(counter), counter.count));
        text.family(&format!("agentd_{name}_total"), "counter", help, counts);
        if matches!(kind, CounterKind::Turn | CounterKind::Tool | CounterKind::Wait) {
            let seconds = |millis: u64| format!("{}.{:03}", millis / 1000, millis % 1000);
            let times = counters().map(|counter| (labels(counter), seconds(counter.milliseconds)));
            let name = format!("agentd_{name}_seconds_total");
            text.family(&name, "counter", "Total time of these events, in seconds", times);
        }
    }
    text.usage(&usage);
    text.gauge("agentd_start_time_seconds", "Start of the daemon, in seconds since 1970", {
        Timestamp::now().as_second() - i64::try_from(status.uptime.as_secs()).unwrap_or_default()
    });
    text.gauge("agentd_resident_bytes", "Resident memory of the daemon", status.resident_bytes.unwrap_or_default());
    text.gauge("agentd_running_turns", "Running turns", status.running_turns);
    text.gauge("agentd_waiting_turns", "Turns waiting for an answer", status.waiting_turns);
    let parts = storage.parts.iter().map(|part| (vec![("part", part.part.as_str())], part.bytes));
    text.family("agentd_data_bytes", "gauge", "Size of the parts of the data folder", parts);
    report::lines([text.0.trim_end()])?;
    Ok(Exit::Done)
}

fn labels(counter: &Counter) -> Vec<(&str, &str)> {
    let (name, outcome) = match counter.kind {
        CounterKind::Turn | CounterKind::Start => (None, Some("end")),
        CounterKind::Tool => (Some("tool"), Some("outcome")),
        CounterKind::Wait => (Some("question"), Some("answer")),
        CounterKind::Warning => (Some("code"), None),
    };
    let name = name.map(|label| (label, counter.name.as_str()));
    name.into_iter().chain(outcome.map(|label| (label, counter.outcome.as_str()))).collect()
}

/// Text in the Prometheus exposition format, version 0.0.4.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family<'a, V: std::fmt::Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, V)>,
    ) {
        self.0.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n"));
        rows.into_iter().for_each(|(labels, value)| self.line(name, &labels, value));
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped = |text: &str| clean_line(text).replace('\\', "\\\\").replace('"', "\\\"");
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.push_str(&format!("{name}{labels} {value}\n"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", help, [(Vec::new(), value)]);
    }

    fn usage(&mut self, usage: &UsageReport) {
        let groups = &usage.groups;
        let calls = groups.iter().map(|group| (vec![("model", &*group.name)], group.usage.calls));
        self.family("agentd_model_calls_total", "counter", "Model calls, by model", calls);
        let tokens = groups.iter().flat_map(|group| {
            let Usage { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, .. } = group.usage;
            let counts = [prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens];
            let kinds = ["input", "cached", "output", "reasoning"].into_iter();
            kinds.zip(counts).map(move |(kind, tokens)| (vec![("model", &*group.name), ("kind", kind)], tokens))
        });
        let help = "Tokens, by model and kind; cached and reasoning ones are included in input and output";
        self.family("agentd_model_tokens_total", "counter", help, tokens);
        let costs = groups.iter().filter_map(|group| {
            let cost = group.usage.cost_microusd?;
            Some((vec![("model", &*group.name)], format!("{}.{:06}", cost / 1_000_000, cost % 1_000_000)))
        });
        let help = "Money in US dollars, by model, if prices are known";
        self.family("agentd_model_cost_usd_total", "counter", help, costs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_day_accepts_ages_dates_and_words() {
        let check = |text: &str, day: UsageQuery| assert_eq!(first_day(text), Ok(day));
        check("7d", last(7));
        check("2w", last(14));
        check("today", last(1));
        check("all", UsageQuery::default());
        check("2026-11-25", UsageQuery { since: Some("2026-11-25".parse().unwrap()), ..UsageQuery::default() });
        for wrong in ["", "d", "0d", "-1d", "7", "7h", "99999999999d", "4000000000w", "2026-13-01", "é"] {
            assert!(first_day(wrong).unwrap_err().contains("7d, 2w"), "{wrong}");
        }
    }

    #[test]
    fn metric_labels_escape_tool_names() {
        let counter = Counter {
            kind: CounterKind::Tool,
            name: "a\"} 1\nx{b=\"\\".to_owned(),
            outcome: "ok".to_owned(),
            count: 2,
            milliseconds: 0,
        };
        let mut text = Exposition::default();
        text.line("t", &labels(&counter), counter.count);
        assert_eq!(text.0.lines().count(), 1, "{}", text.0);
        assert!(text.0.starts_with("t{tool=\"a\\\"} 1") && text.0.ends_with(",outcome=\"ok\"} 2\n"), "{}", text.0);
    }
}
