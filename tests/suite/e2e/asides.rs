//! Requests beside the turns: titles that a model makes for new chats, and side questions. Neither changes the history.

use super::*;

/// Part of the request for a title.
const TITLE_REQUEST: &str = "Write a title for this conversation";

fn is_title_request(request: &Recorded) -> bool {
    request.last_user().contains(TITLE_REQUEST)
}

fn words(request: &Recorded) -> String {
    request.body["messages"].to_string()
}

impl World {
    /// Starts with titles by the model, and a model that makes this title.
    async fn with_titles(title: &'static str) -> Self {
        let world = Self::configured("turns: {titles: true}").await;
        let reply =
            move |request: &Recorded| if is_title_request(request) { Reply::text(title) } else { says("Noted.") };
        world.model.respond_with(reply);
        world
    }

    fn title_requests(&self) -> usize {
        self.model.requests().iter().filter(|request| is_title_request(request)).count()
    }

    /// Returns the last used session as listed, once this many calls of its model are counted.
    async fn session_after_calls(&self, calls: u64) -> Value {
        until("the calls are counted", || async {
            let session = self.json(["sessions", "list"]).await[0].clone();
            (session["usage"]["calls"] == calls).then_some(session)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_makes_the_title_of_a_new_chat_once() {
    let world = World::with_titles("**\"Meeting  Ada\"**\nA short title.").await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("I am Ada", "Noted.");
    let session = world.session_after_calls(2).await;
    until("the title is set", || async {
        let shown = world.ok(["sessions", "list"]).await.stdout;
        shown.contains("Meeting Ada").then_some(())
    })
    .await;
    assert_eq!((&session["turns"], &session["status"]), (&json!(1), &json!("idle")));

    let requests = world.model.requests();
    let (turn, title) = (&requests[0], &requests[1]);
    let shared = turn.messages().len();
    assert_eq!(title.messages()[..shared], turn.messages()[..], "the prefix is that of the turn");
    assert_eq!((title.messages().len(), title.last_role()), (shared + 2, "user"), "{}", words(title));
    assert_eq!(title.body["tools"], turn.body["tools"]);
    assert_eq!(title.body["tool_choice"], "none");

    terminal.hears("And now?", "Noted.");
    assert_eq!(world.title_requests(), 1);
    assert!(!words(world.model.requests().last().unwrap()).contains("Meeting"), "the history has the title");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_and_chats_without_the_setting_get_no_title_of_the_model() {
    let world = World::with_titles("Not wanted").await;
    let session = world.ok(["run", "Say hi", "--output", "json"]).await.session();
    world.ok(["run", "Say it again", "--session", &session]).await;
    assert_eq!((world.model.requests().len(), world.title_requests()), (2, 0));
    assert_eq!(world.json(["sessions", "list"]).await[0]["title"], "Say hi");

    let world = World::start().await;
    world.model.default_reply(says("Noted."));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("I am Ada", "Noted.");
    terminal.hears("And now?", "Noted.");
    terminal.leaves();
    assert_eq!((world.model.requests().len(), world.title_requests()), (2, 0));
    assert_eq!(world.json(["sessions", "list"]).await[0]["title"], "I am Ada");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn title_of_the_user_stays() {
    let world = World::configured("turns: {titles: true}").await;
    world.model.reply(says("Noted.")).reply(Reply::deltas(["Too", " late"]).hold_after_text("Too"));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("I am Ada", "Noted.");
    world.model.wait_until(|counts| counts.requests == 2).await;
    world.ok(["sessions", "rename", "last", "My own"]).await;
    world.model.release_held_reply();
    assert_eq!(world.session_after_calls(2).await["title"], "My own");
    terminal.leaves();

    world.model.default_reply(says("Noted.")).reply(Reply::refusal(401, "no titles").when(TITLE_REQUEST).repeat());
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("I am Bea", "Noted.");
    until("the title was refused", || async { world.daemon.log().contains("made no title").then_some(()) }).await;
    assert_eq!(world.json(["sessions", "list"]).await[0]["title"], "I am Bea", "a failure changes nothing");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_questions_during_a_turn_leave_no_trace_in_the_history() {
    let world = World::start().await;
    world
        .model
        .reply(Reply::deltas(["One.\n\n", "Two."]).hold_after_text("One."))
        .reply(Reply::text("Paul is a walrus."))
        .reply(Reply::text("Ringo is a drummer."));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.says_for("Count to two", "One.");
    world.ok(["sessions", "ask", "last", "Who is Paul?"]).await.shows(&["Paul is a walrus."]);
    let aside = world.model.requests().last().unwrap().clone();
    assert!(aside.last_user().ends_with("Who is Paul?"), "{}", words(&aside));
    assert!(words(&aside).contains("Count to two") && !words(&aside).contains("One."), "{}", words(&aside));
    assert_eq!(aside.body["tools"], world.model.requests()[0].body["tools"]);

    // In the chat, the answer waits for the end of the text.
    terminal.presses("/BTW  Who is Ringo?\r");
    world.session_after_calls(2).await;
    world.model.release_held_reply();
    terminal.sees_all(&["Two.", "Who is Ringo?"]);
    terminal.sees_last("Ringo is a drummer.");
    world.session_after_calls(3).await;

    world.model.reply(says("Three."));
    terminal.hears("Go on", "Three.");
    let next = world.model.requests().last().unwrap().clone();
    has_all(&words(&next), &["Count to two", "Two.", "Go on"]);
    has_none(&words(&next), &["Paul", "walrus", "Ringo", "drummer"]);
    terminal.leaves();

    let records = world.json(["audit"]).await;
    let asked = records.as_array().unwrap().iter().filter(|record| record["kind"] == "side_question");
    let asked: Vec<&Value> = asked.map(|record| &record["question"]).collect();
    assert_eq!(asked, [&json!("Who is Paul?"), &json!("Who is Ringo?")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_question_works_while_a_call_waits_for_approval() {
    let world = World::start().await;
    let call = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(call).reply(Reply::text("To keep the letter."));
    let (running, question) = world.run_until_question(&["Write it"]).await;
    let asked = world.ok(["sessions", "ask", "last", "Why", "write", "it?", "--json"]).await.json();
    holds(&asked, json!({"answer": "To keep the letter.", "truncated": false}));
    assert_eq!(asked["usage"]["calls"], 1);
    world.model.reply(says("Written."));
    world.ok(["answer", question["id"].as_str().unwrap(), "approve"]).await;
    running.output(Vec::new()).await.exits(0);
    has_none(&words(world.model.requests().last().unwrap()), &["Why write it?", "keep the letter"]);
}

impl World {
    /// Opens a chat with a question of the model and a side question, which the next reply answers.
    async fn with_both_questions(&self) -> Screen {
        let mut screen = Screen::ready(&self.daemon, (80, 24), &[]);
        screen.types("Write it\r");
        screen.sees("y yes");
        screen.types("/btw Why?");
        screen.sees("/btw Why?");
        screen.types("\r");
        self.model.wait_until(|counts| counts.requests == 2).await;
        screen.wait("the keys of the question are back", |screen| {
            screen.count("y yes") == 1 && screen.count("/btw Why?") == 0
        });
        screen
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_answer_waits_until_nothing_is_typed_at_a_question() {
    let world = World::start().await;
    let call = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    let answer = Reply::deltas(["To keep", " the letter."]).hold_after_text("To keep").finish("length");
    world.model.reply(call).reply(answer).reply(says("Then not."));
    let mut screen = world.with_both_questions().await;
    screen.types("n");
    screen.sees("reason (Enter for none)");
    screen.types("not th");
    screen.sees("not th");
    world.model.release_held_reply();
    world.session_after_calls(2).await;
    screen.types("is one\r");
    screen.sees("Then not.");
    screen.sees("To keep the letter.");
    screen.sees("the answer was cut");
    screen.prompt();
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("not this one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_at_a_question_cancels_the_side_question_only() {
    let world = World::start().await;
    let call = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(call).reply(Reply::never());
    let mut screen = world.with_both_questions().await;
    screen.types("\u{3}");
    screen.sees("the side question was cancelled");
    world.model.default_reply(says("Written."));
    screen.wait("the question is asked again", |screen| screen.rows().iter().any(|row| row.contains("y yes")));
    screen.types("y");
    screen.sees("Written.");
    screen.prompt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_side_question_leaves_the_chat_usable() {
    let world = World::start().await;
    world.model.reply(says("Noted.")).reply(Reply::never()).reply(Reply::never());
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("/btw too early", "there is no session yet");
    terminal.hears("I am Ada", "Noted.");
    terminal.says_for("/btw Who am I?", "Esc cancels it");
    world.model.wait_until(|counts| counts.requests == 2).await;
    terminal.presses_for("half a line", "half a line");
    terminal.control('c');
    terminal.sees_last("the side question was cancelled");
    terminal.sees("half a line");
    terminal.control('u');
    // Ctrl-D cancels, too.
    terminal.says_for("/btw Who are you?", "Esc cancels it");
    world.model.wait_until(|counts| counts.requests == 3).await;
    terminal.control('d');
    terminal.sees_last("the side question was cancelled");
    world.model.reply(says("Still here."));
    terminal.hears("Are you there?", "Still here.");
    terminal.leaves();
}

#[tokio::test]
async fn unanswerable_side_questions_are_refused_with_a_hint() {
    let world = World::start().await;
    world.agentctl(["sessions", "ask", "0193a5b2", "Why?"]).await.exits(2).says(&["0193a5b2", "hint:"]);
    world.model.reply(Reply::text("Noted."));
    let session = world.ok(["run", "I am Ada", "--output", "json"]).await.session();
    let ask = async |question: &str| world.agentctl(["sessions", "ask", &session, question]).await;
    ask(" ").await.exits(2).says(&["the question is empty", "hint:"]);
    ask(&"x".repeat(70_000)).await.exits(2).says(&["at most 65536 are allowed", "hint:"]);
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a"})));
    ask("Why?").await.fails().says(&["no answer in text", "hint:"]);
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    ask("Why?").await.exits(2).says(&["hint:"]);

    let world = World::configured("turns: {token_budget: 100}").await;
    world.client().await.create_session(&NewSession::default()).await.unwrap();
    let refused = world.agentctl(["sessions", "ask", "last", "Why?"]).await.exits(2);
    refused.says(&["more than turns.token_budget allows", "hint:"]);

    let World { model, .. } = world;
    let world = World { daemon: TempDaemon::start_in(TempHome::new()).await, model };
    world.client().await.create_session(&NewSession::default()).await.unwrap();
    let refused = world.agentctl(["sessions", "ask", "last", "Why?"]).await.fails();
    refused.says(&["the built-in model answers no side questions", "agentctl models add"]);
    assert_eq!(world.model.requests().len(), 0);
}

#[tokio::test]
async fn session_answers_few_side_questions_at_a_time() {
    let world = World::start().await;
    world.client().await.create_session(&NewSession::default()).await.unwrap();
    world.model.default_reply(Reply::never());
    let ask = || world.spawn_agentctl(["sessions", "ask", "last", "Why?"]);
    let mut waiting: Vec<Running> = (0..4).map(|_| ask()).collect();
    world.model.wait_until(|counts| counts.requests == 4).await;
    world.agentctl(["sessions", "ask", "last", "Why?"]).await.fails().says(&["4 side questions", "hint:"]);
    // A client that is gone has cancelled its question.
    drop(waiting.pop());
    world.model.default_reply(Reply::text("Because."));
    until("there is room for another question", || async {
        let asked = world.agentctl(["sessions", "ask", "last", "Why?"]).await;
        asked.stdout.contains("Because.").then_some(())
    })
    .await;
}
