//! Input typed while the client is busy does not answer a question, and none of it is lost.

use super::*;

/// Ctrl-U, as a terminal sends it.
const ERASE: &str = "\u{15}";

fn write() -> Reply {
    Reply::deltas(["Let me see.\n\n", "Now."])
        .and_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}))
        .delay_ms(500)
}

async fn stored_rules(world: &World) -> Value {
    world.json(["grants", "list"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_messages_are_sent_in_order_and_the_rest_is_kept() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let slow = Reply::deltas(["One.\n\n", "Two.\n\n", "Three."]).delay_ms(500);
    world.model.reply(slow).reply(says("Second heard.")).reply(says("Third heard."));
    terminal.says_for("slow", "One.");
    terminal.presses("second\tthird\tfour");
    terminal.sees_all(&["2 messages wait", "Second heard."]);
    terminal.sees_last("Third heard.");
    terminal.sees("four");
    let inputs: Vec<String> = world.model.requests().iter().map(|request| request.last_user().to_owned()).collect();
    assert_eq!(inputs, ["slow", "second", "third"]);

    // When a turn is cancelled, the messages queued after it are not sent, but preserved.
    world.model.reply(says("It hangs now").hang_after_text("hangs"));
    terminal.presses("th\r");
    world.model.wait_until(|counts| counts.requests == 4).await;
    terminal.presses_for("fifth\t", "1 message waits");
    // Waits for the echo, so that the client receives the line before Ctrl-C, which overtakes pending input.
    terminal.presses_for("six", "six");
    terminal.control('c');
    terminal.sees_last("cancelling");
    terminal.sees_all(&["fifth", "six"]);
    world.model.reply(says("Both heard."));
    terminal.presses_last("th\r", "Both heard.");
    // The message is preceded by a note to the model about the interruption.
    assert!(world.model.requests().last().unwrap().last_user().ends_with("</system_reminder>\n\nfifth\nsixth"));
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_sends_a_message_to_the_running_turn() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let slow = Reply::deltas(["One.\n\n", "Two.\n\n", "Three."]).delay_ms(500);
    world.model.reply(slow).reply(says("In French: un.")).reply(says("Afterwards."));
    terminal.says("Count");
    terminal.sees_all(&["Enter speaks to the turn", "One."]);
    terminal.presses("and then stop\tin Frensh\r");
    terminal.sees_all(&["2 messages wait", "Three.", "in Frensh\r", "In French: un."]);
    terminal.sees_last("Afterwards.");
    let inputs: Vec<String> = world.model.requests().iter().map(|request| request.last_user().to_owned()).collect();
    assert_eq!(inputs, ["Count", "in Frensh", "and then stop"]);
    assert_eq!(world.json(["sessions", "list"]).await[0]["turns"], 2, "steering input starts no turn");

    // Queued messages can be withdrawn and edited. Commands are queued until the end of the turn.
    let slow = Reply::deltas(["Uno.\n\n", "Due.\n\n", "Tre."]).delay_ms(500);
    world.model.reply(slow).reply(says("As changed."));
    terminal.says_for("Again", "Uno.");
    terminal.presses_for("as it was\t", "(Up takes back)");
    terminal.presses("\u{1b}[A\u{17}changed\t/context\r");
    terminal.sees_all(&["2 messages wait", "As changed."]);
    terminal.sees_last("window of");
    assert_eq!(world.model.requests().last().unwrap().last_user(), "as it changed");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_typed_ahead_approves_nothing() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(write()).reply(says("I heard."));
    terminal.says_for("Write it", "Let me see.");
    terminal.presses_for("say a year as", "write_file");
    terminal.presses_for(" you may go", "no answer: Enter sends it");
    assert_eq!((world.questions().await.len(), stored_rules(&world).await), (1, json!([])));
    // The question gets the keyboard focus once the message has been sent.
    terminal.presses_for("\r", "y yes");
    terminal.presses_for("n", "reason");
    terminal.presses_for("\r", "say a year as you may go\r");
    terminal.sees_last("I heard.");
    assert_eq!(world.model.requests().last().unwrap().last_user(), "say a year as you may go");

    // Text typed after the question got the focus is not an answer either, and neither is pasted text.
    world.model.reply(write()).reply(says("Written."));
    terminal.says_for("Write it after all", "y yes");
    for typed in ["maybe", "as", "go", "\u{1b}[200~y\r\u{1b}[201~"] {
        terminal.presses_for(typed, "no answer: Enter sends it");
        assert_eq!((world.questions().await.len(), stored_rules(&world).await), (1, json!([])), "{typed:?}");
        // Ctrl-U erases one line, so it is needed once per pasted line.
        terminal.presses(&ERASE.repeat(2));
        terminal.sees("y yes");
    }
    terminal.presses_for("y", "approved");
    terminal.sees_last("Written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_output_is_live_and_its_end_is_shown() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    // When the command ends, only the last four of these lines are shown.
    let ticks = "for i in 1 2 3 4 5 6; do echo tick-$i; sleep 0.4; done; exit 3";
    world.model.reply(Reply::tool_call("run_bash_command", json!({ "command": ticks }))).reply(says("It failed."));
    terminal.says_for("Run it", "y yes");
    terminal.presses("y");
    terminal.sees_all(&["tick-1", "tick-2", "exit 3", "tick-6"]);
    terminal.sees_last("It failed.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn risky_or_lasting_answers_need_a_second_key() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let run = |command: &str| Reply::tool_call("run_bash_command", json!({ "command": command }));
    world.model.reply(run("echo DROP TABLE x")).reply(says("Dropped."));
    terminal.says("Drop it");
    terminal.sees_all(&["high risk", "y yes"]);
    terminal.presses_for("y", "high risk: approve it? Enter yes");
    terminal.presses_for("e", "no answer: Enter sends it");
    assert_eq!(world.questions().await.len(), 1);
    terminal.presses_for(ERASE, "y yes");
    terminal.presses_for("y", "Enter yes");
    terminal.presses_for("\r", "approved");
    terminal.sees_last("Dropped.");

    // An invalid edit remains in its field. Text pasted afterwards is not an answer.
    world.model.reply(run("touch a")).reply(says("Touched."));
    terminal.says_for("Touch it", "y yes");
    terminal.presses_for("e", "command:");
    terminal.presses_for(&format!("{ERASE} \rtouch b"), "the command is empty");
    assert_eq!((world.questions().await.len(), stored_rules(&world).await), (1, json!([])));
    terminal.presses("\r");
    terminal.sees_all(&["answered with other arguments", "you edited the call", "y yes"]);
    terminal.presses_last("y", "Touched.");
    // A rule for this session is only stored after Enter.
    world.model.reply(run("touch c")).reply(says("Kept."));
    terminal.says_for("And another", "y yes");
    terminal.presses_for("a", "for this session? Enter yes");
    assert_eq!(stored_rules(&world).await, json!([]));
    terminal.presses_for("\r", "kept for this session: run_bash_command: touch c");
    terminal.sees_last("Kept.");
    // A prefix rule is offered under a digit key. It allows the next command with that prefix to run.
    world.model.reply(run("mkdir -p one")).reply(run("mkdir two three")).reply(says("Made."));
    terminal.says("Folders");
    terminal.sees_all(&["2  run_bash_command: mkdir *", "y yes"]);
    terminal.presses("2");
    terminal.sees_all(&["run_bash_command: mkdir *", "a always here"]);
    terminal.presses_for("a", "Enter yes");
    terminal.presses_for("\r", "kept for this session: run_bash_command: mkdir *");
    terminal.sees_last("Made.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_typed_ahead_does_not_answer_a_model_question() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let ask = Reply::deltas(["Let me ask.\n\n", "Now."]).and_call("ask_human", json!({"question": "Which colour?"}));
    world.model.reply(ask.delay_ms(500)).reply(says("Red it is."));
    terminal.says_for("Paint it", "Let me ask.");
    terminal.presses("and then the door");
    terminal.sees_all(&["Which colour?", "no answer: Enter sends it"]);
    assert_eq!(world.questions().await.len(), 1);
    terminal.presses_for(ERASE, "  > ");
    terminal.presses_last("red\r", "Red it is.");
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("red"));
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_input_of_run_and_attach_is_shown_at_the_end() {
    let line = "stty -g >\"$HOME/before\"; \"$@\"; echo \"code $?\"; stty -g >\"$HOME/after\"";
    for is_attached in [false, true] {
        let world = World::start().await;
        // The model's response arrives after the terminal is ready.
        world.model.reply(write().delay_ms(1500)).reply(says("Not written."));
        let mut terminal = if is_attached {
            world.ok(["run", "Write it", "--detach"]).await;
            let session = world.last_session().await;
            Terminal::around(&world.daemon, line, &["attach", &session, "--after", "0"])
        } else {
            Terminal::around(&world.daemon, line, &["run", "Write it"])
        };
        terminal.answers("Let me see.", "yes a");
        terminal.sees("no answer: Enter sends it");
        assert_eq!((world.questions().await.len(), stored_rules(&world).await), (1, json!([])));
        terminal.presses_for("\t", "y yes");
        terminal.presses_for("n", "reason");
        terminal.presses("\r");
        terminal.sees_all(&["Not written.", "typed meanwhile and not sent:", "yes a", "code 0"]);
        terminal.ends();
        assert_eq!(world.read("before"), world.read("after"), "the terminal settings are restored");
        assert_ne!(world.read("before"), "");
        assert_eq!(world.model.requests().len(), 2, "a local command was sent to the model");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_message_returns_to_the_prompt() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(says("Good morning."));
    terminal.hears("I am Ada", "Good morning.");
    world.daemon.kill9().await;
    terminal.hears("Who am I?", "the daemon is back");
    terminal.sees("Who am I?");
    world.model.reply(says("You are Ada."));
    terminal.presses_last("\r", "You are Ada.");

    // While a question is pending, no other message can be sent, and the key that leads back to the question is shown.
    world.model.reply(write()).reply(says("Not written."));
    terminal.says_for("Write it", "y yes");
    terminal.presses("s");
    terminal.prompt();
    terminal.hears("And then?", "/interrupts asks it again");
    terminal.sees("And then?");
    terminal.control('c');
    terminal.prompt();
    terminal.says_for("/interrupts", "y yes");
    terminal.presses_for("n", "reason");
    terminal.presses_last("\r", "Not written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_turn_has_a_status_line_and_the_editor_of_the_prompt() {
    let world = World::start().await;
    world.write("desk/my notes.txt", "the cat is out\n");
    let desk = world.path().join("desk").display().to_string();
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let slow = Reply::deltas(["One.\n\n", "Two.\n\n", "Three.\n\n", "Four."]).delay_ms(700);
    world.model.reply(slow).reply(says("Noted."));
    terminal.says_for("Count", "One.");
    // The status shows the time of the turn while text streams.
    terminal.sees(" \u{c2}\u{b7} 0:0");
    // Alt-Enter breaks the line, Ctrl-W cuts a word, and Tab completes a name instead of queueing the message.
    terminal.presses_for("wrong first\u{17}\u{1b}\rsecond ", "second");
    terminal.presses_for(&format!("#{desk}/m\t"), "my notes.txt");
    terminal.presses("\r");
    terminal.sees_last("Noted.");
    let inputs = |world: &World| world.model.requests().last().unwrap().last_user().to_owned();
    assert!(inputs(&world).contains("wrong \nsecond #"), "{}", inputs(&world));

    // Inputs to a running turn are in the history, also as pasted text.
    let pasted: String = (0..30).map(|at| format!("line {at}\r")).collect();
    world.model.reply(says("Pasted.")).reply(says("Again."));
    terminal.presses_for(&format!("\u{1b}[200~{pasted}\u{1b}[201~"), "[30 lines pasted]");
    terminal.presses_last("\r", "Pasted.");
    terminal.presses_for("\u{1b}[A", "[30 lines pasted]");
    terminal.presses_last("\r", "Again.");
    assert!(inputs(&world).contains("line 29"), "{}", inputs(&world));
    terminal.presses_for("\u{12}wrong", "search wrong");
    terminal.presses_for("\t", "wrong");
    terminal.control('c');
    terminal.prompt();
    terminal.leaves();
}
