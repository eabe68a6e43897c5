//! A terminal without support for escapes: all text is shown, and no escape is sent.

use super::*;

/// The bytes of `› `. The terminal library does not decode non-ASCII characters.
const PROMPT: &str = "\u{e2}\u{80}\u{ba} ";

/// A terminal with all of its output so far.
struct Plain(Terminal, String);

impl Plain {
    #[track_caller]
    fn sees(&mut self, all: &[&str]) {
        for text in all {
            self.1.push_str(&self.0.sees(text));
            self.1.push_str(text);
        }
    }

    /// Enters a line, which the terminal echoes, and waits for the output.
    #[track_caller]
    fn says(&mut self, line: &str, all: &[&str]) {
        self.0.presses(&format!("{line}\r"));
        self.sees(&[&[line], all].concat());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_chat_sends_no_escapes() {
    let world = World::start().await;
    let environments: [(&str, &[&str]); 2] =
        [("unset NO_COLOR; TERM=dumb exec \"$@\"", &["chat"]), ("unset NO_COLOR; exec \"$@\"", &["chat", "--plain"])];
    for (line, args) in environments {
        let mut plain = Plain(Terminal::around(&world.daemon, line, args), String::new());
        plain.sees(&[PROMPT]);
        let write = |path: &str| {
            Reply::deltas(["I will **write** it.\n\n", "Now."])
                .and_call("write_file", json!({"path": path, "content": "brand new\n"}))
        };
        world.model.reply(write("outputs/a.txt")).reply(Reply::deltas(["# Done\n\n", "It is written."]));
        plain.says("Write it", &["I will **write** it.", "Now.", "brand new", "y yes, once"]);
        // A line of text is not an answer, whatever its first letter is.
        plain.says("no, wait", &["no answer: it is said to the turn", "y yes, once"]);
        plain.says("y", &["approved", "write_file outputs/a.txt", "# Done", "It is written.", PROMPT]);
        assert!(world.model.requests().last().unwrap().body.to_string().contains("no, wait"));

        // A rejection with its reason fits on a single line.
        world.model.reply(write("outputs/b.txt")).reply(Reply::deltas(["As you like."]));
        plain.says("Another", &["y yes, once"]);
        plain.says("no", &["reason"]);
        // The instruction for the model is not displayed.
        plain.says("not that file", &["rejected", "refused: not that file \u{c2}\u{b7}", "As you like.", PROMPT]);
        plain.says("/resume", &["  1  ", "number, or words to search"]);
        plain.0.presses("\r");
        plain.sees(&[PROMPT]);
        let Plain(terminal, mut sent) = plain;
        sent.push_str(&terminal.leaves());
        assert!(!sent.contains('\u{1b}'), "{args:?}: {sent:?}");
        assert!(!sent.contains("Do not try the same again"), "{sent:?}");
    }
}
