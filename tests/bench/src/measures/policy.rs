//! Policy evaluation of a call with 200 rules in force.

use std::hint::black_box;

use agentd_core::tool::{Effect, ToolSpec};
use agentd_policy::{
    CallContext, Policy, RuleFile, Rules, SHELL_TOOL,
    file::{ByLevel, GlobalRules, PatternList, RiskPatterns, ToolRules},
};

use super::*;

const RULES: usize = 200;
const WARM_UP: usize = 200;
const CALLS: usize = 5_000;

/// Commands, from the most frequent one to the one with the most parts.
const COMMANDS: [&str; 4] = [
    "git status",
    "cd src && cargo test --all 2>&1 | tail -20",
    "for f in a b c; do grep -n \"main\" \"src/$f.rs\" || echo \"none in $(basename $f)\"; done",
    "timeout 60 env RUST_BACKTRACE=1 bash -c 'make all && ./run --check \"x y\" > out.txt'",
];

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let policy = Policy::new(Rules::compile(&rules())?);
    let mut samples = Samples::default();
    tokio::task::block_in_place(|| judge(&policy, &mut samples));
    let figures =
        vec![Figure::millis("median", samples.median()).at_most(0.05), Figure::millis("p99", samples.percentile(99))];
    Ok(vec![
        Row::new("judging a command, 200 rules", figures)
            .with_note(format!("{CALLS} calls of {} kinds", COMMANDS.len())),
    ])
}

fn judge(policy: &Policy, samples: &mut Samples) {
    let tool = ToolSpec {
        name: SHELL_TOOL.to_owned(),
        description: String::new(),
        parameters: json!({}),
        effect: Effect::Execute,
    };
    let settings = SessionSettings::default();
    let roots = [Path::new("/data/workspace/s")];
    for number in 0..WARM_UP + CALLS {
        // All commands differ, so that no result can be cached.
        let arguments = json!({ "command": format!("{} {number}", COMMANDS[number % COMMANDS.len()]) }).to_string();
        let facts = CallContext {
            foreign: None,
            tool: &tool,
            arguments: &arguments,
            followed: None,
            start: None,
            settings: &settings,
            roots: &roots,
            memories: None,
            kept: &[],
            held: true,
            contained: true,
        };
        let started = Instant::now();
        let verdict = policy.judge(black_box(&facts));
        let took = started.elapsed();
        black_box(verdict);
        if number >= WARM_UP {
            samples.add(took);
        }
    }
}

/// Returns rules of the kinds that users write.
fn rules() -> RuleFile {
    let patterns = |kind: &str, count: usize| {
        let pattern = |number: usize| match number % 4 {
            0 => format!(r"\b{kind}{number}\s+--?(force|all|now)\b"),
            1 => format!(r"(?i){kind}[_-]?key{number}\s*[=:]\s*['\x22]?\w+"),
            2 => format!(r"/opt/{kind}/{number}/\w+"),
            _ => format!(r"{kind}{number}\.internal\.example\.(com|org)"),
        };
        Some((0..count).map(pattern).collect::<Vec<_>>())
    };
    let list = |kind: &str| Some(PatternList { patterns: patterns(kind, RULES / 4), ..PatternList::default() });
    let global = GlobalRules {
        risk_patterns: Some(RiskPatterns { critical: list("vault"), high: list("ledger"), ..RiskPatterns::default() }),
        ..GlobalRules::default()
    };
    let shell = ToolRules {
        patterns: Some(ByLevel {
            high_risk: patterns("deploy", RULES / 4),
            medium_risk: patterns("fetch", RULES / 4),
            ..ByLevel::default()
        }),
        deny: Some(["shutdown", "reboot", "mkfs*", "git push"].map(str::to_owned).to_vec()),
        ..ToolRules::default()
    };
    RuleFile { global: Some(global), tools: Some([(SHELL_TOOL.to_owned(), shell)].into()) }
}
