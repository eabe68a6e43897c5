//! Filtered lists of sessions, and the removal of many sessions.

use super::*;

impl World {
    async fn titles(&self, args: &[&str]) -> Vec<String> {
        let all = ["sessions", "list", "--json"];
        let listed = self.ok(all.iter().chain(args)).await.json();
        listed.as_array().unwrap().iter().map(|session| session["title"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn sessions_are_filtered_and_removed_together() {
    let mut world = World::start().await;
    let project = world.path().join("app");
    fs::create_dir_all(project.join("web")).unwrap();
    world.model.default_reply(Reply::text("Certainly."));
    for (prompt, folder) in [
        ("Paint the barn", "none".to_owned()),
        ("Paint the roof", format!("{}:ro", project.display())),
        ("Mend the roof", format!("{}:ro", project.join("web").display())),
    ] {
        world.ok(["run", prompt, "-C", &folder]).await;
    }
    let app = project.to_str().unwrap();
    assert_eq!(world.titles(&[]).await, ["Mend the roof", "Paint the roof", "Paint the barn"]);
    assert_eq!(world.titles(&["paint"]).await, ["Paint the roof", "Paint the barn"]);
    assert_eq!(world.titles(&["ROOF", "paint"]).await, ["Paint the roof"]);
    assert_eq!(world.titles(&["--project", app]).await, ["Mend the roof", "Paint the roof"]);
    assert_eq!(world.titles(&["--project", &format!("{app}/web")]).await, ["Mend the roof"]);
    assert_eq!(world.titles(&["--since", "1h", "--limit", "1", "paint"]).await, ["Paint the roof"]);
    assert_eq!(world.titles(&["--since", "2099-01-01"]).await, [""; 0]);
    assert_eq!(world.titles(&["--status", "idle"]).await.len(), 3);
    assert_eq!(world.titles(&["--status", "open"]).await, [""; 0]);
    world.ok(["sessions", "list", "zebra"]).await.says(&["no session matches"]);
    world.agentctl(["sessions", "list", "--status", "asleep"]).await.exits(2);
    world.agentctl(["sessions", "list", "--since", "soon"]).await.exits(2);

    // Waiting and pinned sessions are never removed.
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a\n"})));
    let waiting = world.spawn_agentctl(["run", "Write it", "--on-interrupt", "wait"]);
    until("the session is waiting", async || {
        (world.titles(&["--status", "waiting"]).await == ["Write it"]).then_some(())
    })
    .await;
    assert_eq!(world.titles(&["--status", "open"]).await, ["Write it"]);
    world.ok(["sessions", "pin", "Mend the roof"]).await;
    world.daemon.crash().await;
    drop(waiting);

    let prune = async |args: &[&str]| {
        let all = ["sessions", "prune", "--older-than", "0d"];
        world.agentctl(all.iter().chain(args)).await
    };
    prune(&[]).await.exits(2).says(&["no terminal", "hint:", "--yes"]);
    let foreseen = prune(&["--dry-run", "--json"]).await.exits(0).json();
    holds(&foreseen, json!({"count": 2, "kept": 2}));
    assert!(foreseen["bytes"].as_u64().unwrap() > 100, "{foreseen:#}");
    prune(&["--dry-run", "barn"]).await.exits(0).shows(&["Paint the barn", "1 session would be deleted"]);
    assert_eq!(world.titles(&[]).await.len(), 4, "a dry run removes nothing");
    world.ok(["sessions", "prune", "--yes"]).await.shows(&["no session is old enough"]);
    let report = prune(&["--yes", "--project", app, "--json"]).await.exits(0).json();
    assert_eq!((&report["count"], &report["dry_run"]), (&json!(1), &Value::Bool(false)), "{report:#}");
    assert_eq!(world.titles(&[]).await.len(), 3);
    prune(&["--yes"]).await.exits(0).shows(&["1 session deleted"]);
    let mut left = world.titles(&[]).await;
    left.sort();
    assert_eq!(left, ["Mend the roof", "Write it"]);
}

#[tokio::test]
async fn filtered_session_lists_are_paged() {
    let world = World::start().await;
    for number in 0..7 {
        let prompt = format!("{} {number}", if number % 3 == 0 { "Even" } else { "Odd" });
        world.ok(["run", &prompt]).await;
    }
    let client = world.client().await;
    let filter = agentd_core::session::SessionFilter { words: "even".to_owned(), ..Default::default() };
    let (mut titles, mut after) = (Vec::new(), String::new());
    loop {
        let (page, next) = client.filtered_sessions(&after, 2, false, &filter).await.unwrap();
        assert!(page.len() <= 2);
        titles.extend(page.into_iter().map(|session| session.title));
        match next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(titles, ["Even 6", "Even 3", "Even 0"]);
}
