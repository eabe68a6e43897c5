//! Tests of `run_bash_command`: its output, the processes that it ends, and the environment variables that it hides.

use super::*;

/// Reads the process ID that a command wrote to a file.
fn process(bench: &Bench, path: &str) -> Option<u32> {
    fs::read_to_string(bench.real(path)).ok()?.trim().parse().ok()
}

/// Waits until the processes whose IDs are in these files have ended.
async fn all_end(bench: &Bench, files: &[&str]) {
    for file in files {
        let process = process(bench, file).unwrap();
        eventually(file, || !runs(process)).await;
    }
}

fn after_seconds(text: &str) -> String {
    let (start, rest) = text.split_once(" after ").unwrap();
    format!("{start}{}", rest.split_once(" s").unwrap().1)
}

#[tokio::test]
async fn exit_code_and_both_streams_are_returned() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/here.txt", "x");
    for (command, expected) in [
        ("echo out; echo err >&2; exit 3", "exit code 3\nstdout:\nout\nstderr:\nerr"),
        ("true", "exit code 0\n[no output]"),
        ("cat", "exit code 0\n[no output]"),
        ("kill -9 $$", "ended by signal 9\n[no output]"),
        ("[ -t 0 ] || (: </dev/tty) 2>/dev/null || echo no terminal", "exit code 0\nstdout:\nno terminal"),
        ("printf 'a\\xffb'", "exit code 0\nstdout:\na\u{fffd}b"),
        ("yes | head -n 1", "exit code 0\nstdout:\ny"),
        ("ls", "exit code 0\nstdout:\nhere.txt"),
        ("ls $PROJECT", "exit code 0\nstdout:\nhere.txt"),
        (
            "ls $WORKSPACE",
            "exit code 0\nstdout:\nconversation_history\nlarge_tool_results\noutputs\nskills\ntemp\nuploads",
        ),
        ("echo ${BASH_VERSION:+bash} $0", "exit code 0\nstdout:\nbash bash"),
        ("printf '\\0'", "exit code 0\nstdout:\n\u{fffd}"),
    ] {
        let text = bench.ok("run_bash_command", json!({ "command": command })).await;
        assert_eq!(after_seconds(&text), expected, "{command}");
    }
    let text = bench.ok("run_bash_command", json!({"command": "pwd; ls", "directory": "/project"})).await;
    let expected = format!("exit code 0\nstdout:\n{}\nhere.txt", bench.real("/project").display());
    assert_eq!(after_seconds(&text), expected);
}

#[tokio::test]
async fn command_environment_is_clean() {
    // The test process also has environment variables, none of which may be visible.
    let own: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    assert!(own.iter().any(|name| name.starts_with("CARGO")), "the test process has variables to hide");
    let bench = Bench::with(Project::None, |config| {
        config.environment = [("SSL_CERT_DIR".to_owned(), "/certs".to_owned())].into();
    })
    .await;
    let text = bench.ok("run_bash_command", json!({"command": "env"})).await;
    let names: Vec<&str> = text.lines().skip(2).filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let allowed = "AGENTD_COMMAND EDITOR GIT_CONFIG_COUNT GIT_OPTIONAL_LOCKS GIT_PAGER GIT_TERMINAL_PROMPT HOME LANG \
                   MEMORIES PAGER PATH PWD SHELL SHLVL SSL_CERT_DIR TERM TMPDIR WORKSPACE _";
    let numbered = |name: &str| name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_");
    assert!(names.iter().all(|name| allowed.split(' ').any(|one| one == *name) || numbered(name)), "{names:?}");
    assert!(text.contains(&format!("HOME={}/temp\n", bench.workspace().root.display())), "{text}");
    assert!(text.contains("SSL_CERT_DIR=/certs") && text.contains("TERM=dumb"));
}

#[tokio::test]
async fn time_limit_kills_all_descendants() {
    let bench = Bench::new().await;
    let command = "trap '' TERM
        (trap '' TERM; echo $BASHPID > temp/child; while :; do sleep 1; done) &
        setsid bash -c 'echo $$ > temp/stray; while :; do sleep 1; done' &
        echo started; echo $$ > temp/leader
        while :; do sleep 1; done";
    let output = bench.call("run_bash_command", json!({"command": command, "timeout_s": 1})).await;
    assert_eq!(output.error, Some(ToolErrorCode::Timeout));
    assert!(output.text.starts_with("timed out after 1 s and was killed with its children"), "{}", output.text);
    assert!(output.text.contains("started"), "earlier output is preserved: {}", output.text);
    all_end(&bench, &["temp/leader", "temp/child", "temp/stray"]).await;
}

#[tokio::test]
async fn background_children_do_not_block_or_survive_the_call() {
    for command in [
        "sleep 1000 & echo $! > temp/child; echo done",
        "sleep 1000 > /dev/null 2>&1 & echo $! > temp/child; echo done",
        "setsid sleep 1000 & echo $! > temp/child; echo done",
        "(setsid nohup sleep 1000 > /dev/null 2>&1 & echo $! > temp/child); echo done",
    ] {
        let bench = Bench::new().await;
        let call = bench.ok("run_bash_command", json!({ "command": command, "timeout_s": 600 }));
        let text = tokio::time::timeout(Duration::from_secs(60), call).await.expect("the call must not hang");
        let expected = "exit code 0\n[1 background process ended with the command]\nstdout:\ndone";
        assert_eq!(after_seconds(&text), expected, "{command}");
        all_end(&bench, &["temp/child"]).await;
    }
}

#[tokio::test]
async fn unlimited_output_is_drained_and_truncated() {
    let bench = Bench::new().await;
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last; \
                   head -c 1000000 /dev/zero | tr '\\0' e >&2";
    let text = bench.ok("run_bash_command", json!({"command": command, "timeout_s": 300})).await;
    assert!(text.len() < 10_000_000, "{}", text.len());
    assert!(text.contains("stdout:\nfirst\n") && text.contains("\nlast\nstderr:\n"));
    assert!(text.contains("[… 87.4 MB left out …]"), "{}", &text[..200]);
}

#[tokio::test]
async fn cancelled_or_dropped_call_leaves_no_process() {
    let command = "echo $$ > temp/leader; sleep 1000 & echo $! > temp/child; wait";
    for is_cancelled in [true, false] {
        let bench = Bench::new().await;
        let call = bench.call("run_bash_command", json!({"command": command, "timeout_s": 600}));
        let started = eventually("the command runs", || process(&bench, "temp/child").is_some());
        if is_cancelled {
            let (output, ()) = tokio::join!(call, async {
                started.await;
                bench.context.cancel.cancel();
            });
            assert_eq!(output.error, Some(ToolErrorCode::Cancelled), "{}", output.text);
        } else {
            tokio::select! {
                _ = call => panic!("it must not end"),
                () = started => {}
            }
        }
        all_end(&bench, &["temp/leader", "temp/child"]).await;
    }
}

#[tokio::test]
async fn commands_run_concurrently() {
    let bench = Bench::new().await;
    // Each command waits for a file that the other command creates, so that neither would end if they ran one after the
    // other.
    let meet = |mine: &str, other: &str| json!({"command": format!("touch temp/{mine}; until [ -e temp/{other} ]; do sleep 0.02; done"), "timeout_s": 60});
    let (left, right) =
        tokio::join!(bench.call("run_bash_command", meet("a", "b")), bench.call("run_bash_command", meet("b", "a")));
    assert_eq!((left.error, right.error), (None, None), "{}\n{}", left.text, right.text);
}

#[tokio::test]
async fn invalid_command_is_rejected_before_approval() {
    let bench = Bench::new().await;
    bench.put("uploads/a.txt", "x");
    for (arguments, code) in [
        (json!({"command": "  "}), ToolErrorCode::InvalidArgs),
        (json!({"command": "echo \0"}), ToolErrorCode::InvalidArgs),
        (json!({"command": "x".repeat(200_000)}), ToolErrorCode::InvalidArgs),
        (json!({"command": "true", "timeout_s": 0}), ToolErrorCode::InvalidArgs),
        (json!({"command": "true", "directory": "uploads/a.txt"}), ToolErrorCode::Path),
        (json!({"command": "true", "directory": "nowhere"}), ToolErrorCode::Path),
    ] {
        let text = bench.fails("run_bash_command", arguments.clone(), code).await;
        assert_eq!(bench.preview("run_bash_command", arguments).await.unwrap_err().text, text);
    }
    for (arguments, shown) in [
        (json!({"command": "touch x", "directory": "outputs"}), "$ touch x\n(in outputs, at most 120 s)"),
        (json!({"command": "touch x", "timeout_s": 5}), "$ touch x\n(in the workspace, at most 5 s)"),
        (json!({"command": "touch x", "timeout_s": 100_000}), "$ touch x\n(in the workspace, at most 600 s)"),
    ] {
        assert_eq!(bench.preview("run_bash_command", arguments).await.unwrap().unwrap(), shown);
    }
    assert!(!bench.real("x").exists());
    let text = bench.ok("run_bash_command", json!({"command": "true", "timeout_s": 900})).await;
    assert!(text.ends_with("[timeout_s 900 exceeds the maximum; 600 s was used]"), "{text}");
}
