//! The check of guarded files after an unreviewed command: its limits, its failure, and the question about what it
//! reverted.

use super::{
    guarded::{answer, asked, content, prepare, project_argument, run_unattended, script},
    *,
};

/// The files are in folders below the deepest level that is scanned.
#[tokio::test(flavor = "multi_thread")]
async fn failed_check_is_reported() {
    let world = World::start().await;
    prepare(&world, "true");
    let deep = "d=$(printf 'd/%.0s' $(seq 110)); mkdir -p \"$d.zed\"; echo x > \"$d.zed/tasks.json\"";
    let args = ["-C", &project_argument(&world), "--mode", "auto", "--on-interrupt", "deny", "--output", "stream-json"];
    let (results, output) = world.call_all(vec![("run_bash_command", script(&world, deep))], &args).await;
    let output = output.exits(5);
    let denials = output.json_lines().pop().unwrap()["denials"].to_string();
    let warned = warnings(&output, "guarded_files").concat();
    for report in [&results[0], &denials, &warned] {
        has_all(report, &["may have left files", "its changes could not be checked: ", "too many files to check"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_withdraws_the_question_and_files_stay_reverted() {
    let mut world = World::start().await;
    prepare(&world, "true");
    let hook = "app/.git/hooks/pre-commit";
    let (running, question) =
        asked(&world, &format!("mkdir -p app/.git/hooks; echo x > {hook}; echo over > done.txt")).await;
    assert_eq!(question["tool"], "keep_files");
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    until("the question is withdrawn", || async { world.questions().await.is_empty().then_some(()) }).await;
    answer(&world, &question, &["approve"]).await.fails();
    let session = question["session_id"].as_str().unwrap();
    assert_eq!(world.json(["sessions", "show", session]).await["status"], "interrupted");
    world.model.reply(Reply::text("I know.").when("And now?"));
    world.daemon.agentctl(["run", "--session", session, "And now?"]).await.exits(0);
    has_all(&tool_texts(world.model.requests().last().unwrap()), &[&format!("/project/{hook}"), "this was reverted"]);
    assert!(content(&world, &format!("project/{hook}")).is_none());
    assert_eq!(content(&world, "project/done.txt").as_deref(), Some("over\n"), "other changes remain");
}

#[tokio::test(flavor = "multi_thread")]
async fn topmost_2000_guarded_paths_are_read_only_and_deeper_ones_are_reverted() {
    let world = World::start().await;
    prepare(
        &world,
        "mkdir -p many/deep; echo x > .rc; echo x > many/deep/.rc; for i in $(seq -w 2000); do echo x > many/.f$i; done",
    );
    // With `.rc`, the file `.f1999` is number 2,000.
    let (closed, open) = ([".rc", "many/.f1999"], ["many/.f2000", "many/deep/.rc"]);
    let all = [closed, open].concat();
    let text = format!("for f in {}; do (echo y > $f) && echo \"wrote $f;\"; done", all.join(" "));
    let (result, output) = run_unattended(&world, &text, &[]).await;
    let denials = output.exits(5).json()["denials"].to_string();
    for name in closed {
        has_none(&result, &[&format!("wrote {name};")]);
    }
    for name in open {
        has_all(&result, &[&format!("wrote {name};")]);
        has_all(&denials, &[&format!("/project/{name}")]);
    }
    for name in all {
        assert_eq!(content(&world, &format!("project/{name}")).as_deref(), Some("x\n"), "{name}: {result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_folder_lacks_its_guarded_files_and_undo_moves_all_of_it_back() {
    for keeps in [false, true] {
        let world = World::start().await;
        prepare(&world, "mkdir -p a/.zed; echo {} > a/.zed/tasks.json; echo text > a/t.txt");
        let found = |folder: &str| {
            [".zed/tasks.json", "t.txt"].map(|name| content(&world, &format!("project/{folder}/{name}")))
        };
        let whole = [Some("{}\n".to_owned()), Some("text\n".to_owned())];
        let (running, question) = asked(&world, "mv a b").await;
        assert_eq!((found("a"), found("b")), ([None, None], [None, whole[1].clone()]), "before the answer");
        answer(&world, &question, &[if keeps { "approve" } else { "reject" }]).await.exits(0);
        running.output(Vec::new()).await;
        assert_eq!(found("b")[0].is_some(), keeps);
        world.ok(["undo"]).await;
        assert_eq!(found("a"), whole, "kept: {keeps}");
        assert!(!world.path().join("project/b").exists(), "kept: {keeps}");
    }
}
