//! The check of guarded files after an unreviewed command: its limits, its failure, and the question about what it
//! reverted.

use super::{
    guarded::{mounted, prepare, script},
    *,
};

/// Folders below the deepest level that is scanned.
#[tokio::test(flavor = "multi_thread")]
async fn failed_check_is_reported() {
    let world = World::start().await;
    prepare(&world, "true");
    let deep = "d=$(printf 'd/%.0s' $(seq 110)); mkdir -p \"$d.zed\"; echo x > \"$d.zed/tasks.json\"";
    let args = ["-C", &mounted(&world), "--mode", "auto", "--on-interrupt", "deny", "--output", "stream-json"];
    let (results, output) = world.call_all(vec![("run_bash_command", script(&world, deep))], &args).await;
    let output = output.exits(5);
    let denials = output.json_lines().pop().unwrap()["denials"].to_string();
    let warned = warnings(&output, "guarded_files").concat();
    for report in [&results[0], &denials, &warned] {
        has_all(report, &["may have left files", "its changes could not be checked: ", "too many files to check"]);
    }
}
