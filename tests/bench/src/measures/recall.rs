//! Recall: the share of the facts in a long conversation that the model still sees at the end, or that one search
//! finds, and the cost. Compared with deepagents, using the same model in the same run.
//!
//! The conversations are run by `tests/bench/recall/recall.py`. If the script's packages cannot be installed, only
//! agentd is measured. `AGENTD_BENCH_TURNS=5,30,100,300` sets the numbers of turns; 300 turns take several additional
//! minutes.

use std::fmt::Write as _;

use super::{
    python::{Scripts, answer},
    *,
};

/// Folder of the scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recall");
const TURNS_VARIABLE: &str = "AGENTD_BENCH_TURNS";

/// Output of the script.
#[derive(Debug, Deserialize)]
struct Report {
    runs: Vec<Run>,
    /// Shares keyed by `ours`, `theirs` and `todos`.
    prefixes: BTreeMap<String, Prefix>,
}

/// One conversation with one product.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Run {
    product: String,
    window: u64,
    turns: u64,
    /// The error, if there are no results.
    error: Option<String>,
    facts: u64,
    in_view: u64,
    /// Share of earlier facts that were in view at the start of a turn, averaged over the second half of the turns.
    usually: f64,
    /// Number of facts that were not in view but were found with one search.
    found: u64,
    /// Number of facts that were neither in view nor found, by where they were mentioned.
    lost: BTreeMap<String, u64>,
    /// Facts that the user asked for by name, followed by facts that were mentioned with the question.
    named: u64,
    unasked: u64,
    failed_turns: u64,
    summaries: u64,
    tokens: u64,
    new_tokens: u64,
}

/// Share of a request that the next request repeats at its beginning.
#[derive(Debug, Deserialize)]
struct Prefix {
    step: Shares,
    border: Shares,
    /// Number of request pairs between which older messages were removed from the window. These pairs are excluded from
    /// the shares.
    reliefs: u64,
}

#[derive(Debug, Deserialize)]
struct Shares {
    pairs: u64,
    median: f64,
    least: f64,
}

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let scripts = Scripts::of(SCRIPTS, "bench-recall-python")?;
    let missing = scripts.install_packages().await.err();
    let folder = world::folder()?;
    world::program("agentctl")?;
    let daemon = world::program("agentd")?;
    let mut script = scripts.command("recall.py");
    script.arg(daemon.parent().context("agentd has no parent folder")?).arg(folder.path());
    if missing.is_some() {
        script.args(["--product", "ours"]);
    }
    let turns = std::env::var(TURNS_VARIABLE).unwrap_or_default();
    for number in turns.split(',').map(str::trim).filter(|number| !number.is_empty()) {
        script.args(["--turns", number]);
    }
    let report: Report = answer(&mut script).await?;
    let of = |product: &'static str| report.runs.iter().filter(move |run| run.product == product);
    let mut rows = Vec::new();
    for run in of("ours") {
        let other = of("theirs").find(|other| (other.turns, other.window) == (run.turns, run.window));
        rows.push(compared(run, other));
    }
    rows.extend(prefixes(&report.prefixes));
    if let (Some(reason), Some(first)) = (missing, rows.first_mut()) {
        let _ = write!(first.note, "; deepagents is not measured: {reason:#}");
    }
    Ok(rows)
}

/// Returns the row that compares both products in one conversation.
fn compared(run: &Run, other: Option<&Run>) -> Row {
    let label = format!("facts in view after {} turns in {}K", run.turns, run.window / 1024);
    if let Some(error) = &run.error {
        return Row::broken(label, error.clone());
    }
    let comparable = other.filter(|other| other.error.is_none());
    let usually = Figure::percent("usually", 100.0 * run.usually);
    let figures = vec![
        // Rounded as shown, so that equal shares meet the limit.
        comparable.map_or(usually.clone(), |other| usually.at_least((1000.0 * other.usually).floor() / 10.0)),
        Figure::percent("at the end", run.seen()),
        Figure::percent("with one search", run.found()).at_least(100.0),
        Figure::count("tokens", as_f64(run.tokens)),
        Figure::count("not repeated", as_f64(run.new_tokens)),
    ];
    let mut note = format!("{} facts, {}", run.facts, run.remarks());
    match (comparable, other.and_then(|other| other.error.as_ref())) {
        (Some(other), _) => {
            let _ = write!(
                note,
                "; deepagents: {:.1} % at the end, {:.1} % with one search, {} tokens, {} not repeated, {}",
                other.seen(),
                other.found(),
                other.tokens,
                other.new_tokens,
                other.remarks()
            );
        }
        (None, Some(error)) => {
            let _ = write!(note, "; deepagents failed: {error}");
        }
        (None, None) => {}
    }
    let row = Row::new(label, figures).with_note(note);
    match comparable {
        Some(other) => row.over(Figure::percent("deepagents", 100.0 * other.usually)),
        None => row,
    }
}

impl Run {
    /// Returns the percentage of facts that are in view at the end.
    fn seen(&self) -> f64 {
        100.0 * as_f64(self.in_view) / as_f64(self.facts)
    }

    /// Returns the percentage of facts that are in view or found with one search.
    fn found(&self) -> f64 {
        100.0 * as_f64(self.in_view + self.found) / as_f64(self.facts)
    }

    fn remarks(&self) -> String {
        let mut text = format!("summaries: {}", self.summaries);
        if self.named > 0 {
            let _ = write!(text, ", {} of {} named facts were sent with the question", self.unasked, self.named);
        }
        if !self.lost.is_empty() {
            let kinds: Vec<String> = self.lost.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
            let _ = write!(text, ", lost: {}", kinds.join(", "));
        }
        if self.failed_turns > 0 {
            let _ = write!(text, ", {} turns failed", self.failed_turns);
        }
        text
    }
}

fn prefixes(prefixes: &BTreeMap<String, Prefix>) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(ours) = prefixes.get("ours") {
        let other = prefixes.get("theirs");
        let note =
            format!("{} pairs, excluding {} between which older messages were removed", ours.step.pairs, ours.reliefs);
        rows.push(
            shares("prefix repeated from step to step", &ours.step, 99.0, other.map(|other| &other.step))
                .with_note(note),
        );
        let note = format!("{} pairs", ours.border.pairs);
        rows.push(
            shares("prefix repeated from turn to turn", &ours.border, 95.0, other.map(|other| &other.border))
                .with_note(note),
        );
    }
    if let Some(todos) = prefixes.get("todos") {
        rows.push(shares("from step to step, with a todo list", &todos.step, 99.0, None));
        rows.push(shares("from turn to turn, with a todo list", &todos.border, 95.0, None));
    }
    rows
}

fn shares(label: &str, ours: &Shares, least: f64, other: Option<&Shares>) -> Row {
    let figures = vec![
        Figure::percent("median", ours.median).at_least(least),
        Figure::percent("minimum", ours.least).at_least(least),
    ];
    let row = Row::new(label, figures);
    match other {
        Some(other) => row.over(Figure::percent("deepagents", other.median)),
        None => row,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_are_compared_side_by_side() {
        let run = |usually: f64| json!({"facts": 30, "usually": usually, "in_view": 20, "found": 1, "window": 8192, "turns": 30});
        let [ours, theirs] = [0.5, 0.25].map(|usually| serde_json::from_value::<Run>(run(usually)).unwrap());
        let row = compared(&ours, Some(&theirs));
        assert_eq!(row.what, "facts in view after 30 turns in 8K");
        assert_eq!(row.measured[0].met(), Some(true));
        assert_eq!(row.measured[2].met(), Some(false), "nine facts not found");
        assert_eq!(row.ratio.map(|ratio| ratio.round()), Some(2.0));
        assert_eq!(compared(&theirs, Some(&ours)).measured[0].met(), Some(false));
        let broken = Run { error: Some("it did not start".to_owned()), ..Run::default() };
        assert!(compared(&broken, None).note.contains("did not start"));
        assert!(compared(&ours, Some(&broken)).note.contains("deepagents failed"));
    }
}
