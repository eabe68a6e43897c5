//! Event counters: by day, across restarts, and in Prometheus format.

use super::*;

fn count(report: &Value, kind: &str, name: &str, outcome: &str) -> u64 {
    let fits = |counter: &&Value| counter["kind"] == kind && counter["name"] == name && counter["outcome"] == outcome;
    let found = report["total"].as_array().unwrap().iter().find(fits);
    found.map_or(0, |counter| counter["count"].as_u64().unwrap())
}

#[tokio::test]
async fn counters_count_once_and_survive_crash_and_deletion() {
    let mut world = World::start().await;
    world.write("project/a.txt", "old\n");
    let edit = json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"});
    let steps = vec![
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["E_UNKNOWN_TOOL"][..], Reply::tool_call("no_such_tool_ever", json!({}))),
        (&["E_PATH", "no such file"][..], Reply::tool_call("read_file", json!({"path": "/project/none.txt"}))),
    ];
    script_steps(&world.model, steps, Reply::text("It is done."));
    world.ok(["run", "Change it", "-C", &world.mount(), "--on-interrupt", "approve"]).await;
    let session = world.json(["sessions", "list"]).await[0]["id"].clone();
    world.daemon.crash().await;
    world.ok(["sessions", "delete", session.as_str().unwrap(), "--yes"]).await;

    let report = world.json(["stats"]).await;
    assert_eq!(count(&report, "turn", "", "completed"), 1, "{report:#}");
    assert_eq!(count(&report, "tool", "edit_file", "ok"), 1, "{report:#}");
    assert_eq!(count(&report, "tool", "unknown", "E_UNKNOWN_TOOL"), 1, "{report:#}");
    let starts = count(&report, "start", "", "clean") + count(&report, "start", "", "unclean");
    assert_eq!(starts, 2, "{report:#}");
    assert_eq!(report["days"].as_array().unwrap().len(), 1);
    assert!(report["usage"]["total"]["calls"].as_u64().unwrap() >= 4);

    let text = world.ok(["stats", "--prometheus"]).await.stdout;
    for line in
        ["agentd_turns_total{end=\"completed\"} 1", "agentd_tool_calls_total{tool=\"edit_file\",outcome=\"ok\"} 1"]
    {
        assert!(text.lines().any(|printed| printed == line), "{line} is missing in:\n{text}");
    }
    for line in text.lines() {
        let is_comment = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
        assert!(is_comment || value.is_some(), "{line}");
    }
    let table = world.ok(["stats", "--since", "7d", "--by-day"]).await.stdout;
    assert!(table.contains("TURNS") && table.lines().count() == 2, "{table}");
    world.ok(["stats", "--since", "2020-01-01", "--until", "2020-01-02"]).await.says(&["no events"]);
}

#[tokio::test]
async fn log_is_json_if_configured() {
    let world = World::configured("service: {log_format: json}").await;
    world.ok(["run", "hello"]).await;
    let log = world.log();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    assert!(lines.iter().any(|line| line["level"] == "INFO" && line["fields"]["message"].is_string()), "{log}");
}
