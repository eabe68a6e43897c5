//! Slow servers, sessions that do not wait for each other, and files that change while a server works.

use std::time::Instant;

use super::{
    fakes::{ask, count, edit_with_error, long_timeouts, with},
    *,
};

impl World {
    /// Runs one turn in the project, in a new session or in the last one.
    async fn says(&self, prompt: &str, and: &[&str]) {
        let args = ["run", prompt, "-C", &self.mount(), "--on-interrupt", "approve"];
        self.ok(args.iter().chain(and)).await;
    }
}

#[tokio::test]
async fn answers_of_a_loading_server_are_ignored_until_it_is_ready() {
    for mode in ["loads", "progresses"] {
        // The server takes longer to load than the request timeout.
        let mut global = long_timeouts();
        global["request_timeout"] = json!("3s");
        let world = with(mode, global).await;
        world.write("project/a.fk", "one\ntwo\nBROKEN before\n");
        let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
        let result = words(&requests[1]);
        assert!(result.contains("BROKEN two (fake") && !result.contains("BROKEN before (fake"), "{mode}: {result}");
        assert!(!world.log().contains("a language server failed"), "{mode}: {}", world.log());

        let world = with(mode, long_timeouts()).await;
        world.write("project/a.fk", "foo\n");
        let call = ("references", json!({"path": "/project/a.fk", "line": 1, "symbol": "foo"}));
        let results = ask(&world, vec![call]).await;
        assert!(results[0].contains("/project/a.fk:1:1"), "{mode}: {results:?}");
    }
}

#[tokio::test]
async fn concurrent_sessions_get_their_own_errors() {
    let world = with("slow", long_timeouts()).await;
    world.write("project/b.fk", "one\ntwo\n");
    let turn = |file: &'static str| vec![edit(file, "two", "BROKEN two"), Reply::text("Done.")].into_iter();
    let turns = std::sync::Mutex::new([("FIRST", turn("a.fk")), ("SECOND", turn("b.fk"))]);
    world.model.respond_with(move |request| {
        let (text, mut turns) = (words(request), turns.lock().unwrap());
        let own = turns.iter_mut().find(|(prompt, _)| text.contains(prompt));
        own.and_then(|(_, replies)| replies.next()).unwrap_or_else(|| Reply::text("over"))
    });
    tokio::join!(world.says("FIRST", &[]), world.says("SECOND", &[]));
    for prompt in ["FIRST", "SECOND"] {
        let requests = world.model.requests();
        let last = requests.iter().rfind(|request| words(request).contains(prompt)).unwrap();
        assert_eq!(count(last), 1, "{prompt}: {}", words(last));
    }
}

#[tokio::test]
async fn late_diagnostics_are_rechecked_in_the_next_turn() {
    let world = with("slow", json!({"wait": "100ms", "cold_wait": "100ms"})).await;
    world.write("project/b.fk", "one\ntwo\n");
    let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    assert_eq!(count(requests.last().unwrap()), 0, "the turn does not wait for the slow server");
    // The server's diagnostics for that text arrive after the turn has ended.
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.write("project/a.fk", "one\ntwo\nthree\n");
    world.write("project/c.txt", "one\n");
    let replies = vec![edit("c.txt", "one", "two"), Reply::text("Done.")];
    let replies = std::sync::Mutex::new(replies.into_iter());
    world.model.respond_with(move |_| replies.lock().unwrap().next().unwrap_or_else(|| Reply::text("over")));
    world.says("Go on.", &["--continue"]).await;
    let last = world.model.requests().pop().unwrap();
    assert!(words(&last).contains("Edited /project/c.txt") && words(&last).contains("BROKEN two"), "{}", words(&last));
    assert_eq!(count(&last), 0, "the error that the user fixed is reported: {}", words(&last));
}

#[tokio::test]
async fn many_files_changed_at_once_are_all_checked() {
    let world = with("works", long_timeouts()).await;
    let command = "for i in $(seq 40); do echo BROKEN $i > /project/f$i.fk; done";
    let command = Reply::tool_call("run_bash_command", json!({"command": command}));
    let requests = world.works(vec![command, Reply::text("Done.")]).await;
    assert!(words(&requests[1]).contains("(and 23 more)"), "{}", words(&requests[1]));
}

#[tokio::test]
async fn only_the_step_after_an_edit_and_the_last_step_wait() {
    let world = with("hangs", json!({"wait": "4s", "cold_wait": "4s", "request_timeout": "59s"})).await;
    let read = || Reply::tool_call("read_file", json!({"path": "/project/a.fk"}));
    let begun = Instant::now();
    let requests = world.works(vec![edit_with_error(), read(), read(), read(), read(), Reply::text("Done.")]).await;
    assert_eq!(requests.len(), 6);
    assert!(!requests.iter().any(|request| words(request).contains(DIAGNOSTICS_HEADING)));
    // Six waits would take 24 s; two waits take 8 s.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn server_is_notified_of_external_file_changes() {
    let world = with("works", long_timeouts()).await;
    world.write("project/a.fk", "foo\n");
    world.write("project/known.fk", "");
    let references = || ("references", json!({"path": "/project/a.fk", "line": 1, "symbol": "foo"}));
    let results = ask(&world, vec![references()]).await;
    assert!(!results[0].contains("/changed/"), "{results:?}");
    world.write("project/known.fk", "changed by hand");
    world.write("project/sub/new.fk", "");
    let write = ("write_file", json!({"path": "/project/settings.toml", "content": "a = 1\n"}));
    let results: Vec<String> = ask(&world, vec![write, references()]).await;
    for (name, change) in [("settings.toml", 1), ("known.fk", 2), ("new.fk", 1)] {
        assert!(results[1].contains(&format!("/changed/{name}-{change}")), "{name}: {results:?}");
    }
}
