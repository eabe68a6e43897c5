//! What to do next. Pure.

use agentd_core::model::ModelRequest;
use serde_json::{Value, json};

use super::{
    arguments::{self, Arguments},
    candidates::Tool,
    conversation::{Conversation, Outcome, PROMPT_TOKENS},
    direct, document, extract,
    hints::hints_at,
    limits::{self, Limit},
    naming, parts,
    reading::{self, Reading},
    report, smalltalk,
    words::estimate_tokens,
};
use crate::chat::Turn;

/// Sentences that are weighed against a question at the most; each takes the model a fifth of a second.
const SENTENCES: usize = 8;

/// The same of those that a search found, which fit already.
const FOUND_SENTENCES: usize = 3;

const WHICH_FILE: &str = "Which file? Name it, as in \"Summarise README.md\"; \"List the files\" shows what is there.";

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// Compare what these tools and chatting make of the request; call one, or chat.
    Choose {
        /// The person's request.
        request: String,
        /// The tools that could be called, and how.
        offers: Vec<(Tool, Arguments)>,
        /// The conversation, for chatting.
        turns: Vec<Turn>,
    },
    /// Call this tool; there is no doubt.
    Call {
        /// The tool.
        tool: Tool,
        /// Its arguments.
        arguments: Value,
    },
    /// Answer the conversation.
    Chat {
        /// The conversation.
        turns: Vec<Turn>,
    },
    /// Say this; no model is needed.
    Say(String),
    /// Sum a text up.
    Summarize {
        /// The text, cut to what a prompt may have.
        text: String,
        /// Note to be added: that it was cut.
        note: Option<String>,
    },
    /// Quote the sentence that answers best.
    Quote {
        /// The person's question.
        question: String,
        /// Where the sentences are from.
        path: String,
        /// The sentences that may answer, each behind the place where it stands, which may be empty; at least one.
        sentences: Vec<(String, String)>,
    },
}

/// Decides what to do about a request.
pub(crate) fn plan(request: &ModelRequest) -> Plan {
    let conversation = Conversation::read(&request.messages);
    if let Some(outcome) = &conversation.outcome {
        // One hop: whatever came of it, now comes the answer.
        return answer(&conversation.request, outcome);
    }
    if let Some(said) = smalltalk::said(&conversation.request) {
        return Plan::Say(said);
    }
    let wanted = conversation.request.clone();
    let tools = if request.may_call { &request.tools[..] } else { &[] };
    let tools: Vec<Tool> = tools.iter().filter_map(|spec| Tool::from_name(&spec.name)).collect();
    if let Some(limit) = limits::met(&wanted) {
        return refuse(limit, &wanted, &tools, &request.known_paths);
    }
    if smalltalk::is_small_talk(&wanted) {
        return Plan::Chat { turns: conversation.into_turns() };
    }
    let asked = document::call(&wanted, &request.known_paths, conversation.is_handed, &tools);
    if let Some((tool, arguments)) = asked.or_else(|| direct::call(&wanted, &request.known_paths, &tools)) {
        return Plan::Call { tool, arguments };
    }
    let hinted = tools.into_iter().filter(|tool| hints_at(*tool, &wanted));
    let offers: Vec<(Tool, Arguments)> =
        hinted.filter_map(|tool| Some((tool, arguments::for_tool(tool, &wanted, &request.known_paths)?))).collect();
    let turns = conversation.into_turns();
    match offers.is_empty() {
        true if direct::lacks_file(&wanted) => Plan::Say(WHICH_FILE.to_owned()),
        true => Plan::Chat { turns },
        false => Plan::Choose { request: wanted, offers, turns },
    }
}

/// Says what cannot be done, or shows first the file that it should be done to.
fn refuse(limit: Limit, wanted: &str, tools: &[Tool], known_paths: &[String]) -> Plan {
    let named = naming::named_files(wanted, known_paths);
    match named.first().filter(|_| limit.shows_file() && tools.contains(&Tool::ReadFile)) {
        Some(path) => Plan::Call { tool: Tool::ReadFile, arguments: json!({ "path": path }) },
        None => Plan::Say(format!("{} {}\n\n{}", limit.told(), smalltalk::ABOUT, smalltalk::MORE)),
    }
}

fn answer(wanted: &str, outcome: &Outcome) -> Plan {
    let failure = report::failure(&outcome.text);
    if let Some(limit) = limits::met(wanted) {
        let path = argument(&outcome.arguments, "path").unwrap_or_else(|| "the file".to_owned());
        let shown = failure.unwrap_or_else(|| report::verbatim(&format!("This is {path}:"), &outcome.text));
        return Plan::Say(format!("{} {shown}\n\n{}", limit.told(), smalltalk::MORE));
    }
    if let Some(failure) = failure {
        return Plan::Say(failure);
    }
    match Tool::from_name(&outcome.tool) {
        Some(Tool::Now) => Plan::Say(report::time(&outcome.text)),
        Some(Tool::FindFiles) if direct::counts_files(wanted) => {
            let of = |name| argument(&outcome.arguments, name).unwrap_or_default();
            Plan::Say(report::count(&outcome.text, &of("pattern"), &of("path")))
        }
        Some(Tool::ListFiles) if argument(&outcome.arguments, "path").is_none() => {
            Plan::Say(report::all_files(&outcome.text))
        }
        Some(Tool::ListFiles | Tool::FindFiles) => Plan::Say(report::list(&outcome.text)),
        Some(Tool::Grep) if outcome.text.starts_with("No line matches ") => Plan::Say(outcome.text.trim().to_owned()),
        Some(Tool::ReadFile) => answer_from_file(wanted, outcome),
        Some(Tool::SearchFile) => answer_from_finds(wanted, outcome),
        Some(Tool::Grep) => Plan::Say(report::verbatim("Here is what I found:", &outcome.text)),
        None => Plan::Say(report::verbatim(&format!("This is what {} returned:", outcome.tool), &outcome.text)),
    }
}

fn answer_from_file(wanted: &str, outcome: &Outcome) -> Plan {
    let path = argument(&outcome.arguments, "path").unwrap_or_else(|| "The file".to_owned());
    let show = || Plan::Say(report::verbatim(&format!("{path}:"), &outcome.text));
    if outcome.text.trim().is_empty() || outcome.text.trim_end().ends_with("is empty]") {
        return Plan::Say(format!("{path} is empty."));
    }
    if let Some((place, row)) = asked_row(outcome) {
        return Plan::Say(report::verbatim(&format!("{path}, {place}:"), &row));
    }
    match reading::wanted(wanted, &path) {
        Reading::Show => show(),
        Reading::Summarize => {
            let whole = extract::without_front_matter(&outcome.text);
            let text = fitting(whole);
            let cut = text.len() < whole.trim().len();
            let note =
                cut.then(|| format!("(This is about the beginning of {path} only; it is too long to read whole.)"));
            Plan::Summarize { text: text.to_owned(), note }
        }
        Reading::Open => match extract::opening(&outcome.text) {
            Some(said) => Plan::Say(report::quote(&path, "", &said)),
            None => show(),
        },
        // What the tool says of a long file stands in brackets at its end.
        Reading::Count if outcome.text.trim_end().ends_with(']') => show(),
        Reading::Count => {
            let lines = outcome.text.lines().count();
            Plan::Say(format!("{path} has {lines} {}.", if lines == 1 { "line" } else { "lines" }))
        }
        Reading::Ask => {
            let sentences = extract::sentences(&outcome.text);
            let sentences: Vec<(String, String)> = extract::promising(&sentences, wanted, SENTENCES)
                .into_iter()
                .map(|sentence| (sentence.place.to_owned(), sentence.text.to_owned()))
                .collect();
            if sentences.is_empty() { show() } else { Plan::Quote { question: wanted.to_owned(), path, sentences } }
        }
    }
}

/// Quotes what answers best of the finds in a document.
fn answer_from_finds(wanted: &str, outcome: &Outcome) -> Plan {
    let path = argument(&outcome.arguments, "path").unwrap_or_default();
    // The words that fit are marked in what a tool tells.
    let told = outcome.text.replace("**", "");
    let finds = document::finds(&path, &told);
    let mut sentences = Vec::new();
    for (place, text) in &finds {
        sentences.extend(extract::sentences(text).into_iter().map(|sentence| extract::Sentence { place, ..sentence }));
    }
    let sentences: Vec<(String, String)> = extract::promising(&sentences, wanted, FOUND_SENTENCES)
        .into_iter()
        .map(|sentence| (sentence.place.to_owned(), sentence.text.to_owned()))
        .collect();
    match sentences.is_empty() {
        true => Plan::Say(format!("I found nothing about that in {path}.")),
        false => Plan::Quote { question: wanted.to_owned(), path, sentences },
    }
}

/// The one row that was asked for, behind its place. What was read goes on behind it.
fn asked_row(outcome: &Outcome) -> Option<(String, String)> {
    let arguments: Value = serde_json::from_str(&outcome.arguments).ok()?;
    let number = arguments.get("row")?.as_u64()?;
    let (sheet, row) = parts::only_row(&outcome.text, number)?;
    Some((format!("{sheet}, row {number}"), row))
}

fn argument(arguments: &str, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    Some(arguments.get(name)?.as_str()?.to_owned())
}

/// The beginning of a text that a prompt may have, up to the end of a line or word.
fn fitting(text: &str) -> &str {
    let text = text.trim();
    if estimate_tokens(text) <= PROMPT_TOKENS {
        return text;
    }
    // Latin letters weigh a quarter of a token, others two; both are counted in quarters.
    let mut quarters = 0;
    let over = text.char_indices().find(|(_, letter)| {
        quarters += if letter.is_ascii() { 1 } else { 8 };
        quarters > PROMPT_TOKENS * 4
    });
    let cut = &text[..over.map_or(text.len(), |(at, _)| at)];
    let end = cut.rfind('\n').filter(|end| *end > cut.len() / 2).or_else(|| cut.rfind(' ')).unwrap_or(cut.len());
    cut[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentd_core::{
        ids::{CallId, SessionId},
        model::Message,
        tool::{Effect, ToolCall, ToolSpec},
    };

    use super::*;

    fn tools(names: &[&str]) -> Arc<[ToolSpec]> {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
            effect: Effect::Read,
        };
        names.iter().map(spec).collect()
    }

    fn request(messages: Vec<Message>, names: &[&str]) -> ModelRequest {
        ModelRequest {
            session_id: SessionId::generate(),
            messages,
            tools: tools(names),
            may_call: true,
            answer_schema: None,
            max_tokens: None,
            has_fallback: false,
            known_paths: vec!["uploads/notes.txt".to_owned()],
            tap: Default::default(),
        }
    }

    fn user(text: &str) -> Message {
        Message::User { text: text.to_owned() }
    }

    fn offered(text: &str, names: &[&str]) -> Vec<Tool> {
        match plan(&request(vec![user(text)], names)) {
            Plan::Choose { offers, .. } => offers.into_iter().map(|(tool, _)| tool).collect(),
            Plan::Chat { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// The plan after a call of `tool` for the request returned `result`.
    fn after(text: &str, tool: &str, arguments: &str, result: &str) -> Plan {
        let call_id = CallId::from("c1".to_owned());
        let call = ToolCall { call_id: call_id.clone(), name: tool.to_owned(), arguments: arguments.to_owned() };
        let called = Message::answer(String::new(), vec![call]);
        let result = Message::Tool { call_id, name: tool.to_owned(), text: result.to_owned() };
        plan(&request(vec![user(text), called, result], &["now", "read_file"]))
    }

    #[test]
    fn only_tools_that_are_offered_known_and_callable_are_weighed() {
        let all = ["find_files", "grep", "list_workspace_files", "now", "read_file", "run_bash_command", "write_file"];
        assert_eq!(offered("Hello!", &all), []);
        assert_eq!(offered("", &all), []);
        assert_eq!(offered("What is love?", &all), []);
        assert_eq!(offered("What time is it?", &all), [Tool::Now]);
        assert_eq!(offered("What time is it?", &[]), []);
        assert_eq!(offered("What time is it?", &["run_bash_command"]), []);
        assert_eq!(offered("the notes.txt", &all), [Tool::FindFiles, Tool::ReadFile]);
        assert_eq!(
            offered("find the file about notes", &["find_files", "read_file"]),
            [Tool::FindFiles, Tool::ReadFile]
        );
    }

    #[test]
    fn results_are_answered_in_one_hop() {
        let check = |text: &str, tool: &str, result: &str, expected: &str| {
            let plan = after(text, tool, r#"{"path":"uploads/notes.txt"}"#, result);
            assert_eq!(plan, Plan::Say(expected.to_owned()), "{text}");
        };
        check(
            "What time is it?",
            "now",
            "Saturday, 2026-11-21T09:31:05+01:00",
            "It is 09:31 on Saturday, 21 November 2026.",
        );
        check("list", "list_workspace_files", "a.txt (1 B)", "Here is what I found:\n\n- a.txt (1 B)");
        check("read notes.txt", "read_file", "E_PATH: not there", "That did not work: not there");
        check("read notes.txt", "read_file", "Buy milk.\n", "uploads/notes.txt:\n\n```\nBuy milk.\n```");
        check("read notes.txt", "read_file", "[uploads/notes.txt is empty]", "uploads/notes.txt is empty.");
        check("look", "run_bash_command", "done", "This is what run_bash_command returned:\n\n```\ndone\n```");
    }

    #[test]
    fn a_page_that_is_asked_for_is_shown_and_a_question_of_it_answered() {
        let arguments = r#"{"path":"uploads/a.pdf","offset":2,"limit":1}"#;
        let page = "[a.pdf: PDF; page 2 of 3]\n\n--- page 2 ---\n# Fees\n\nA berth costs 12 euros. It rained.\n";
        assert!(matches!(after("What does page 2 say?", "read_file", arguments, page), Plan::Say(_)));
        let Plan::Quote { sentences, .. } = after("What does a berth cost on page 2?", "read_file", arguments, page)
        else {
            panic!()
        };
        assert!(sentences.contains(&("page 2".to_owned(), "A berth costs 12 euros.".to_owned())), "{sentences:?}");
        let row = "--- sheet Stock (A2:A201) ---\n| Item |\n| --- |\n| Lamp |\n| Desk |\n[rows 17-201 of 201 of this sheet]\n";
        let arguments = r#"{"path":"uploads/a.xlsx","offset":1,"limit":1,"row":17}"#;
        let Plan::Say(said) = after("Which item is in row 17?", "read_file", arguments, row) else { panic!() };
        assert!(
            said.contains("uploads/a.xlsx, sheet Stock, row 17:") && said.contains("Lamp") && !said.contains("Desk"),
            "{said}"
        );
        let found = "1. uploads/a.pdf p. 2\n   A berth costs 12 euros.\n";
        let arguments = r#"{"path":"uploads/a.pdf","query":"berth cost"}"#;
        let Plan::Quote { sentences, .. } = after("What does a berth cost?", "search_file", arguments, found) else {
            panic!()
        };
        assert_eq!(sentences, [("p. 2".to_owned(), "A berth costs 12 euros.".to_owned())]);
        let none =
            after("What does a berth cost?", "search_file", arguments, "Nothing fits \"berth\" in uploads/a.pdf");
        assert_eq!(none, Plan::Say("I found nothing about that in uploads/a.pdf.".to_owned()));
    }

    #[test]
    fn orders_are_answered_with_the_limit_and_the_file_where_that_helps() {
        let all = ["list_workspace_files", "now", "read_file", "write_file"];
        let limited = |text: &str, names: &[&str]| match plan(&request(vec![user(text)], names)) {
            Plan::Say(said) => said,
            Plan::Call { tool, arguments } => format!("{} {arguments}", tool.name()),
            other => panic!("{other:?}"),
        };
        assert_eq!(limited("Fix the typo in notes.txt", &all), r#"read_file {"path":"uploads/notes.txt"}"#);
        let said = limited("Fix the typo in notes.txt", &["now"]);
        assert!(
            said.starts_with("I cannot write, change or delete files.") && said.contains("MODEL_BASIC_BASE_URL"),
            "{said}"
        );
        assert!(limited("Run the tests", &all).starts_with("I cannot run commands"));
        assert!(limited("Delete notes.txt", &all).starts_with("I cannot write, change or delete files."));

        let arguments = r#"{"path":"uploads/notes.txt"}"#;
        let Plan::Say(said) = after("Fix the typo in notes.txt", "read_file", arguments, "Buy mlk.\n") else {
            panic!()
        };
        let start =
            "I cannot write, change or delete files. This is uploads/notes.txt:\n\n```\nBuy mlk.\n```\n\nTo do more";
        assert!(said.starts_with(start), "{said}");
        let Plan::Say(said) = after("Fix notes.txt", "read_file", arguments, "E_PATH: it is gone") else { panic!() };
        assert!(said.starts_with("I cannot write, change or delete files. That did not work: it is gone"), "{said}");
    }

    #[test]
    fn clear_requests_are_called_at_once_and_vague_ones_asked_back() {
        let called = |text: &str, names: &[&str]| match plan(&request(vec![user(text)], names)) {
            Plan::Call { tool, arguments } => Some((tool, arguments)),
            _ => None,
        };
        let all = ["find_files", "grep", "list_workspace_files", "now", "read_file"];
        assert_eq!(called("Read notes.txt", &all), Some((Tool::ReadFile, json!({"path": "uploads/notes.txt"}))));
        assert_eq!(called("How many files are here?", &all), Some((Tool::FindFiles, json!({"pattern": "*"}))));
        assert_eq!(called("How many files are here?", &["now"]), None);
        let vague = ModelRequest { known_paths: Vec::new(), ..request(vec![user("Summarise the file")], &all) };
        assert_eq!(plan(&vague), Plan::Say(WHICH_FILE.to_owned()));
    }

    #[test]
    fn counts_openings_and_lines_are_worded_without_the_model() {
        let check = |text: &str, tool: &str, arguments: &str, result: &str, expected: &str| {
            assert_eq!(after(text, tool, arguments, result), Plan::Say(expected.to_owned()), "{text}");
        };
        let path = r#"{"path":"/project/README.md"}"#;
        let readme = "---\nx: y\n---\n# Lamp\n\nIt lights.\n\nMore.\n";
        check(
            "What is this project?",
            "read_file",
            path,
            readme,
            "/project/README.md says:\n\n> Lamp\n> \n> It lights.",
        );
        check("How many lines does README.md have?", "read_file", path, "a\nb\n", "/project/README.md has 2 lines.");
        check("How many files are here?", "find_files", r#"{"pattern":"*"}"#, "a (1 byte)", "There is 1 file.");
        check("Find x in the code", "grep", "{}", "No line matches \"x\".\n", "No line matches \"x\".");
        let summary = after("Summarise README.md", "read_file", path, readme);
        assert_eq!(summary, Plan::Summarize { text: "# Lamp\n\nIt lights.\n\nMore.".to_owned(), note: None });
    }

    #[test]
    fn summaries_and_questions_go_to_the_model() {
        let arguments = r#"{"path":"uploads/notes.txt"}"#;
        let summary = after("Summarise notes.txt", "read_file", arguments, "Buy milk.");
        assert_eq!(summary, Plan::Summarize { text: "Buy milk.".to_owned(), note: None });
        let long = "A line of words.\n".repeat(1000);
        let Plan::Summarize { text, note } = after("Summarise notes.txt", "read_file", arguments, &long) else {
            panic!()
        };
        assert!(text.ends_with("words.") && estimate_tokens(&text) <= PROMPT_TOKENS, "{}", text.len());
        assert!(note.is_some());
        let Plan::Quote { sentences, path, .. } =
            after("Who buys milk in notes.txt?", "read_file", arguments, "Anna buys milk. Bob sleeps.")
        else {
            panic!()
        };
        assert_eq!((path.as_str(), sentences.len()), ("uploads/notes.txt", 2));
    }
}
