//! `agentctl stats`: what happened, counted by day.

use std::collections::BTreeMap;

use agentd_core::{
    Date, Timestamp,
    counters::{Counter, CounterKind, DayCounters},
    spending::{UsageGroup, UsageGrouping, UsageQuery, UsageReport},
};
use clap::Args;
use serde_json::json;

use crate::{
    cmd::usage::{FirstDay, date, first_day},
    daemon::{self, Daemon},
    exit::Exit,
    flags::Global,
    report::{self, Table},
    terminal::{
        paint::{self, money, number},
        sanitize::clean_line,
    },
};

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
    /// The first day: the last days (7d) or weeks (2w) up to today, `today`, `all`, or a date such as 2026-11-25
    #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = first_day)]
    since: FirstDay,
    /// The last day, which is included: a date such as 2026-11-25 [default: today]
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Date>,
    /// Show one line for each day
    #[arg(long)]
    by_day: bool,
    /// Print all counters in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["until", "by_day"])]
    prometheus: bool,
}

/// Shows the counters.
pub(crate) async fn handle(global: &Global, args: StatsArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    if args.prometheus {
        return prometheus(&daemon).await;
    }
    let (last_days, since) = match args.since {
        FirstDay::All => (None, None),
        FirstDay::Last(days) => (Some(days), None),
        FirstDay::Day(day) => (None, Some(day)),
    };
    let query = |by| UsageQuery { last_days, since, until: args.until, by };
    let usage = daemon.client.usage(&query(UsageGrouping::Model)).await?;
    // The daemon's days, which need not be ours.
    let first = last_days.and_then(|days| back(usage.until, days)).or(since);
    let days = daemon.client.counters(first, Some(usage.until)).await?;
    let total = total(&days);
    let by_day = daemon.client.usage(&query(UsageGrouping::Day)).await?;
    let told = json!({ "total": total, "days": days, "usage": usage, "usage_by_day": by_day });
    report::show(global.json, &told, || if args.by_day { print_days(&days, &by_day) } else { print(&total, &usage) })
}

fn back(today: Date, days: u32) -> Option<Date> {
    (1..days).try_fold(today, |day, _| day.yesterday().ok())
}

/// Sums over all days.
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

/// Most calls take less than a second, and a person may be waited for over days.
fn average_shown(milliseconds: u64) -> String {
    if milliseconds < 60_000 { paint::duration(milliseconds) } else { report::span(milliseconds) }
}

fn print(total: &[Counter], usage: &UsageReport) -> anyhow::Result<()> {
    let mut table = Table::new(["WHAT", "NAME", "OUTCOME", "COUNT", "AVERAGE"]);
    for counter in total {
        let average = counter.milliseconds.checked_div(counter.count).filter(|_| counter.milliseconds > 0);
        table.row([
            counter.kind.as_str().to_owned(),
            clean_line(&counter.name),
            clean_line(&counter.outcome),
            number(counter.count),
            average.map(average_shown).unwrap_or_default(),
        ]);
    }
    table.print("nothing happened in these days")?;
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
    let mut table = Table::new(["DAY", "TURNS", "FAILED", "TOOLS", "FAILED", "QUESTIONS", "STARTS", "TOKENS", "COST"]);
    for day in days {
        let sum = |fits: &dyn Fn(&Counter) -> bool| -> u64 {
            day.counters.iter().filter(|counter| fits(counter)).map(|counter| counter.count).sum()
        };
        let of = |kind: CounterKind| move |counter: &Counter| counter.kind == kind;
        let unlike = |kind: CounterKind, good: &'static str| {
            move |counter: &Counter| counter.kind == kind && counter.outcome != good
        };
        let took: Option<&UsageGroup> = usage.groups.iter().find(|group| group.name == day.day.to_string());
        table.row([
            day.day.to_string(),
            number(sum(&of(CounterKind::Turn))),
            number(sum(&unlike(CounterKind::Turn, "completed"))),
            number(sum(&of(CounterKind::Tool))),
            number(sum(&unlike(CounterKind::Tool, "ok"))),
            number(sum(&of(CounterKind::Wait))),
            number(sum(&of(CounterKind::Start))),
            number(took.map_or(0, |took| took.usage.tokens())),
            took.and_then(|took| money(&took.usage)).unwrap_or_default(),
        ]);
    }
    table.print("nothing happened in these days")
}

async fn prometheus(daemon: &Daemon) -> anyhow::Result<Exit> {
    let query = UsageQuery { last_days: None, since: None, until: None, by: UsageGrouping::Model };
    let (days, usage) = (daemon.client.counters(None, None).await?, daemon.client.usage(&query).await?);
    let (status, storage) = (daemon.client.status().await?, daemon.client.storage().await?);
    let mut text = Exposition::default();
    let total = total(&days);
    for (kind, name, help) in [
        (CounterKind::Turn, "turns", "Turns that ended, by stop reason"),
        (CounterKind::Tool, "tool_calls", "Tool calls that ended, by tool and outcome"),
        (CounterKind::Wait, "questions", "Questions to people that were answered"),
        (CounterKind::Warning, "warnings", "Warnings, by code"),
        (CounterKind::Start, "starts", "Starts of the daemon"),
    ] {
        let counters: Vec<&Counter> = total.iter().filter(|counter| counter.kind == kind).collect();
        text.family(&format!("agentd_{name}_total"), "counter", help);
        for counter in &counters {
            text.line(&format!("agentd_{name}_total"), &labels(counter), counter.count);
        }
        if matches!(kind, CounterKind::Turn | CounterKind::Tool | CounterKind::Wait) {
            let name = format!("agentd_{name}_seconds_total");
            text.family(&name, "counter", "Time of them together, in seconds");
            for counter in counters {
                let milliseconds = counter.milliseconds;
                text.line(&name, &labels(counter), format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000));
            }
        }
    }
    text.usage(&usage);
    text.gauge("agentd_start_time_seconds", "Start of the daemon, in seconds since 1970", {
        Timestamp::now().as_second() - i64::try_from(status.uptime.as_secs()).unwrap_or_default()
    });
    text.gauge("agentd_resident_bytes", "Memory that the daemon holds", status.resident_bytes.unwrap_or_default());
    text.gauge("agentd_running_turns", "Turns that run", status.running_turns);
    text.gauge("agentd_waiting_turns", "Turns that wait for an answer", status.waiting_turns);
    text.family("agentd_data_bytes", "gauge", "Size of the parts of the data folder");
    for part in &storage.parts {
        text.line("agentd_data_bytes", &[("part", part.part.as_str())], part.bytes);
    }
    report::lines([text.0.trim_end()])?;
    Ok(Exit::Done)
}

fn labels(counter: &Counter) -> Vec<(&'static str, &str)> {
    let (name, outcome) = match counter.kind {
        CounterKind::Turn | CounterKind::Start => (None, Some("end")),
        CounterKind::Tool => (Some("tool"), Some("outcome")),
        CounterKind::Wait => (Some("question"), Some("answer")),
        CounterKind::Warning => (Some("code"), None),
    };
    let name = name.map(|label| (label, counter.name.as_str()));
    name.into_iter().chain(outcome.map(|label| (label, counter.outcome.as_str()))).collect()
}

/// Text in the format of Prometheus, version 0.0.4.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped = |text: &str| clean_line(text).replace('\\', "\\\\").replace('"', "\\\"");
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.push_str(&format!("{name}{labels} {value}\n"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", help);
        self.line(name, &[], value);
    }

    fn usage(&mut self, usage: &UsageReport) {
        self.family("agentd_model_calls_total", "counter", "Model calls, by model");
        for group in &usage.groups {
            self.line("agentd_model_calls_total", &[("model", &group.name)], group.usage.calls);
        }
        self.family(
            "agentd_model_tokens_total",
            "counter",
            "Tokens, by model and kind; cached and reasoning ones are in input and output",
        );
        for group in &usage.groups {
            let took = &group.usage;
            for (kind, tokens) in [
                ("input", took.prompt_tokens),
                ("cached", took.cached_tokens),
                ("output", took.completion_tokens),
                ("reasoning", took.reasoning_tokens),
            ] {
                self.line("agentd_model_tokens_total", &[("model", &group.name), ("kind", kind)], tokens);
            }
        }
        self.family("agentd_model_cost_usd_total", "counter", "Money in US dollars, by model, where prices are known");
        for group in &usage.groups {
            if let Some(cost) = group.usage.cost_microusd {
                let dollars = format!("{}.{:06}", cost / 1_000_000, cost % 1_000_000);
                self.line("agentd_model_cost_usd_total", &[("model", &group.name)], dollars);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_cannot_leave_their_label() {
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
