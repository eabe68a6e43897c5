//! Checks the limit on the memory used for judging any command.

use std::process::Command;

use agentd_core::session::SessionSettings;

use super::{run, shipped};

/// Environment variable that is set in the process with limited memory.
const LIMITED: &str = "AGENTD_TEST_LIMITED";
/// Address space of the judging process in KiB, so that a command that uses all memory does not affect the machine.
/// Threads and code use most of it.
const SPACE: u32 = 512 * 1024;
/// Limit on the growth of the process's peak memory by judging, in KiB.
const LIMIT: u64 = 16 * 1024;
/// Unterminated constructs: documents, substitutions, arithmetic, quotes.
const UNFINISHED: [&str; 10] = ["<<", "<<-", "<< \\\n", "$(", "$((", "${x:-", "`", "'", "\"", "case x in "];

#[test]
fn judging_any_command_uses_bounded_memory() {
    if std::env::var_os(LIMITED).is_some() {
        return judge_all();
    }
    let test = "policy::memory::judging_any_command_uses_bounded_memory";
    let limited = format!("ulimit -v {SPACE}; exec \"$@\"");
    let judged = Command::new("sh")
        .args(["-c", &limited, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success() && output.contains("1 passed"), "{judged:?}");
}

fn judge_all() {
    let policy = shipped();
    // Some of these are plain commands, because their quotes happen to match. Their verdicts are tested elsewhere.
    let judge = |command: &str| drop(run(&policy, command, &SessionSettings::default()));
    judge("echo a");
    let before = peak_memory();
    for command in ["echo $(<< \n", "cat <<$( x", "<<-$((  )", "cat <<\"$(\n", "<<`", "<<${x"] {
        judge(command);
    }
    for first in UNFINISHED {
        for second in UNFINISHED {
            judge(&format!("echo {first}{second} x\n"));
            judge(&format!("{first} a\n{second}\nb").repeat(2000));
        }
        judge(&first.repeat(20_000));
    }
    let used = peak_memory() - before;
    assert!(used < LIMIT, "judging took {used} KiB");
}

/// Returns the peak memory of this process in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
