//! A terminal that obeys nothing: all words are there, and no escape is sent.

use super::*;

/// The bytes of `› `, which are not taken for UTF-8 here.
const PROMPT: &str = "\u{e2}\u{80}\u{ba} ";

/// Waits for words, and keeps all that was sent until then.
#[track_caller]
fn sees(terminal: &mut Terminal, sent: &mut String, words: &str) {
    sent.push_str(&terminal.sees(words));
    sent.push_str(words);
}

#[track_caller]
fn says(terminal: &mut Terminal, sent: &mut String, line: &str) {
    terminal.presses(&format!("{line}\r"));
    // The terminal shows it by itself.
    sees(terminal, sent, line);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_without_a_single_escape() {
    let world = World::start().await;
    let ways: [(&str, &[&str]); 2] =
        [("unset NO_COLOR; TERM=dumb exec \"$@\"", &["chat"]), ("unset NO_COLOR; exec \"$@\"", &["chat", "--plain"])];
    for (line, args) in ways {
        let mut terminal = Terminal::around(&world.daemon, line, args);
        let mut sent = String::new();
        sees(&mut terminal, &mut sent, PROMPT);
        let write = |path: &str| {
            Reply::deltas(["I will **write** it.\n\n", "Now."])
                .and_call("write_file", json!({"path": path, "content": "brand new\n"}))
        };
        world.model.reply(write("outputs/a.txt")).reply(Reply::deltas(["# Done\n\n", "It is written."]));
        says(&mut terminal, &mut sent, "Write it");
        sees(&mut terminal, &mut sent, "I will **write** it.");
        sees(&mut terminal, &mut sent, "Now.");
        sees(&mut terminal, &mut sent, "brand new");
        sees(&mut terminal, &mut sent, "y yes, once");
        // A line of words is no answer, whatever it begins with.
        says(&mut terminal, &mut sent, "no, wait");
        sees(&mut terminal, &mut sent, "no answer: it is said to the turn");
        sees(&mut terminal, &mut sent, "y yes, once");
        says(&mut terminal, &mut sent, "y");
        sees(&mut terminal, &mut sent, "approved");
        sees(&mut terminal, &mut sent, "write_file outputs/a.txt");
        sees(&mut terminal, &mut sent, "# Done");
        sees(&mut terminal, &mut sent, "It is written.");
        sees(&mut terminal, &mut sent, PROMPT);
        assert!(world.model.requests().last().unwrap().body.to_string().contains("no, wait"));

        // A refusal with its reason, which is a line, too.
        world.model.reply(write("outputs/b.txt")).reply(Reply::deltas(["As you like."]));
        says(&mut terminal, &mut sent, "Another");
        sees(&mut terminal, &mut sent, "y yes, once");
        says(&mut terminal, &mut sent, "no");
        sees(&mut terminal, &mut sent, "reason");
        says(&mut terminal, &mut sent, "not that file");
        sees(&mut terminal, &mut sent, "rejected");
        // What the model is told to do instead is not for people.
        sees(&mut terminal, &mut sent, "refused: not that file \u{c2}\u{b7}");
        sees(&mut terminal, &mut sent, "As you like.");
        sees(&mut terminal, &mut sent, PROMPT);
        says(&mut terminal, &mut sent, "/resume");
        sees(&mut terminal, &mut sent, "  1  ");
        sees(&mut terminal, &mut sent, "number, or words to search");
        terminal.presses("\r");
        sees(&mut terminal, &mut sent, PROMPT);
        sent.push_str(&terminal.leaves());
        assert!(!sent.contains('\u{1b}'), "{args:?}: {sent:?}");
        assert!(!sent.contains("Do not try the same again"), "{sent:?}");
    }
}
