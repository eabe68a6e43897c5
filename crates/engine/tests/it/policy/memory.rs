//! The memory that judging a command takes, whatever the command is.

use std::process::Command;

use agentd_core::session::SessionSettings;

use super::{run, shipped};

/// Set where this process is the one whose memory is limited.
const LIMITED: &str = "AGENTD_TEST_LIMITED";
/// The address space of the process that judges, in KiB. Its threads and the code take most of it.
const SPACE: u32 = 512 * 1024;
/// Beginnings that shells read on behind: documents, substitutions, arithmetic, quotes.
const UNFINISHED: [&str; 10] = ["<<", "<<-", "<< \\\n", "$(", "$((", "${x:-", "`", "'", "\"", "case x in "];

#[test]
fn no_command_takes_much_memory_to_judge() {
    if std::env::var_os(LIMITED).is_some() {
        return judge_all();
    }
    let test = "policy::memory::no_command_takes_much_memory_to_judge";
    let limited = format!("ulimit -v {SPACE}; exec \"$@\"");
    let judged = Command::new("sh")
        .args(["-c", &limited, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success() && said.contains("1 passed"), "{judged:?}");
}

fn judge_all() {
    let policy = shipped();
    let mut commands: Vec<String> =
        ["echo $(<< \n", "cat <<$( x", "<<-$((  )", "cat <<\"$(\n", "<<`", "<<${x"].map(str::to_owned).into();
    for first in UNFINISHED {
        for second in UNFINISHED {
            commands.extend([format!("echo {first}{second} x\n"), format!("{first} a\n{second}\nb").repeat(2000)]);
        }
        commands.push(first.repeat(20_000));
    }
    for command in commands {
        // Quotes that happen to close make some of them plain; what is said of them is held elsewhere.
        let _ = run(&policy, &command, &SessionSettings::default());
    }
}
