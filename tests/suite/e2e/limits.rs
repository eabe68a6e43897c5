//! Resource limits of commands, and the cleanup of their temporary files.

use std::cell::Cell;

use super::{
    sandbox::{children, process_count, project, world},
    *,
};

/// Limits that are small enough to be reached immediately.
const SMALL: &str = "sandbox: {cpu_time: 1s, memory_mib: 256, file_mib: 1, open_files: 64, processes: 310}\n";

/// Returns the isolation features that this host lacks, as shown by `agentctl status`.
async fn weaknesses(world: &World) -> String {
    let status = world.json(["status"]).await;
    status["sandbox"]["weaknesses"].to_string()
}

#[tokio::test]
async fn configured_limits_apply_to_each_process() {
    let world = world(SMALL).await;
    // Kilobytes and counts, in the units of bash's `ulimit`. None of the limits can be raised.
    has_all(
        &world.allowed("echo $(ulimit -Hf) $(ulimit -Hn) $(ulimit -Hd) $(ulimit -Ht) $(ulimit -Hc)").await,
        &["\n1024 64 262144 1 0"],
    );
    for limit in ["-f 2048", "-n 128", "-d unlimited", "-t 60", "-c 1"] {
        world.assert_fails(&format!("ulimit {limit}")).await;
    }
    // Files above the limit are truncated.
    world.assert_fails("head -c 3000000 /dev/zero > \"$PROJECT/large\"").await;
    assert_eq!(fs::metadata(project(&world).join("large")).unwrap().len(), 1 << 20);
    // A descriptor below the limit can be opened, and a descriptor above it cannot.
    world.allowed("for n in {10..60}; do eval \"exec $n</dev/null\" || exit 1; done").await;
    world.assert_fails("for n in {10..90}; do eval \"exec $n</dev/null\" || exit 1; done").await;
    // The input has no line ends, so `tail` buffers all of it.
    let script = |bytes: u32| format!("set -o pipefail; head -c {bytes} /dev/zero | tail -n 1 | wc -c");
    world.allowed(&script(40_000_000)).await;
    has_all(&world.assert_fails(&script(400_000_000)).await, &["the sandbox limits memory"]);
    let result = world.sh("while :; do :; done").await;
    assert!(result.starts_with("ended by signal"), "{result}");
    world.still_serves().await;
}

#[tokio::test]
async fn fork_bomb_is_stopped_and_the_daemon_keeps_serving() {
    let world = world(SMALL).await;
    world.allowed("true").await;
    if weaknesses(&world).await.contains("processes is not limited") {
        // On this host, the bomb only stops at its time limit, as `doctor` reports.
        return;
    }
    let before = children(world.daemon.pid());
    // Each process that ends is followed by two new ones until the command's time limit. The mark is an argument of
    // every process.
    let bomb = format!("b() {{ b | b & }}; b; while :; do :; done # {}", world.daemon.pid());
    world.script_call(json!({"command": bomb, "timeout_s": 2}));
    let peak = Cell::new(0);
    let look = async {
        until_true("the processes have multiplied", || process_count(&bomb) > 30).await;
        // The daemon still serves other clients.
        world.ok(["status"]).await;
        world.ok(["sessions", "list"]).await;
        until("all processes have exited", || async {
            let now = process_count(&bomb);
            peak.set(peak.get().max(now));
            (now == 0).then_some(())
        })
        .await;
    };
    tokio::join!(world.turn(), look);
    assert!((1..=310).contains(&peak.get()), "{} concurrent processes", peak.get());
    let result = world.last_result();
    assert!(result.contains("fork: retry"), "{result}");
    assert_eq!((process_count(&bomb), children(world.daemon.pid())), (0, before), "processes are left: {result}");
    // The limits apply to each command separately.
    world.allowed("for n in {1..50}; do true & done; wait").await;
    world.still_serves().await;
}

#[tokio::test]
async fn temporary_files_are_private_to_each_command() {
    let world = world("").await;
    let mark = format!("agentd-own-{}", world.daemon.pid());
    // Temporary files of other programs, such as the daemons in other tests.
    let theirs = Path::new("/tmp").join(format!("{mark}-theirs"));
    fs::write(&theirs, "theirs").unwrap();
    let script = |command: &str| ("run_bash_command", json!({ "command": command.replace("MARK", &mark) }));
    // The commands run sequentially in one session.
    let results = world
        .call_all_in_project(vec![
            script("for f in /tmp /dev/shm; do echo left > $f/MARK; cat $f/MARK; done; mktemp -p /tmp"),
            script("ls -a /tmp /dev/shm; cat /tmp/MARK /dev/shm/MARK"),
            script("cat /tmp/MARK-theirs; echo mine > /tmp/MARK-theirs; rm -f /tmp/MARK-theirs"),
            script("f=$(mktemp) && echo \"kept for the session\" > \"$f\" && cat \"$f\""),
            script("cat \"$TMPDIR\"/tmp.*"),
        ])
        .await;
    let status = world.json(["status"]).await;
    if status["sandbox"]["namespaces"] == true {
        assert!(
            results[0].starts_with("exit code 0") && results[0].contains("left\nleft\n/tmp/tmp."),
            "{}",
            results[0]
        );
    }
    assert!(
        results[1].contains("No such file") && !results[1].contains("left") && !results[1].contains("tmp."),
        "{}",
        results[1]
    );
    assert!(!results[2].lines().any(|line| line == "theirs"), "{}", results[2]);
    for folder in ["/tmp", "/dev/shm", "/var/tmp"] {
        assert!(!Path::new(folder).join(&mark).exists(), "the file exists in {folder}");
    }
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    fs::remove_file(theirs).unwrap();
    // `mktemp` creates files in a folder of the session, which later commands can read. The project is visible although
    // it is below the real /tmp.
    assert!(results[3].contains("kept for the session") && results[4].contains("kept for the session"), "{results:?}");
    assert!(world.mount().starts_with("/tmp/"));
    world.allowed("echo kept > \"$PROJECT/kept\"").await;
    assert_eq!(fs::read_to_string(project(&world).join("kept")).unwrap(), "kept\n");
}

#[tokio::test]
async fn commands_gain_no_privileges_and_no_dangerous_syscalls() {
    let world = world("").await;
    has_all(
        &world.allowed("grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status").await,
        &["NoNewPrivs:\t1", "Seccomp:\t2"],
    );
    // The syscalls are called by number, because no library wraps all of them: ptrace, keyctl, bpf, userfaultfd,
    // unshare, mount, io_uring_setup.
    let numbers = match std::env::consts::ARCH {
        "x86_64" => [101, 250, 321, 323, 272, 165, 425],
        "aarch64" => [117, 219, 280, 282, 97, 40, 425],
        _ => return,
    };
    for number in numbers {
        let body = format!(
            "import ctypes; l = ctypes.CDLL(None, use_errno=True); r = l.syscall({number}, 16, 0, 0, 0, 0); \
             print(\"answered\", r, ctypes.get_errno())"
        );
        if !Path::new("/usr/bin/python3").exists() {
            return;
        }
        let result = world.sh(&format!("/usr/bin/python3 -c '{body}'")).await;
        // Error codes 1 (`EPERM`) and 38 (`ENOSYS`).
        let result = result.trim_end();
        assert!(result.ends_with("answered -1 1") || result.ends_with("answered -1 38"), "{number}: {result}");
    }
    world.still_serves().await;
}
