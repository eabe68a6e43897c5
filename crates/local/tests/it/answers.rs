//! Tests for answers that need no weights, through the port: tool calls and the texts that show their results.

use std::sync::Arc;

use agentd_core::{ids::CallId, model::Message, tool::ToolCall};
use agentd_local::{EmbeddedModel, Neighbour};
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use crate::{
    ask::{collect_answer, offline_model, request, user},
    tiny::TinyFile,
};

const TOOLS: &[&str] =
    &["find_files", "grep", "list_workspace_files", "now", "read_file", "search_file", "run_bash_command"];
const PATHS: &[&str] = &[
    "uploads/report.pdf",
    "uploads/notes.txt",
    "/project/README.de.md",
    "/project/README.md",
    "/project/docs/README.md",
    "/project/src/main.rs",
    "/project/docs/für Gäste.md",
    "/project/docs/説明.txt",
    "/project/Makefile",
];

struct TestModel {
    model: Arc<EmbeddedModel>,
    _folder: tempfile::TempDir,
}

impl TestModel {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { model: offline_model(TinyFile::new().write(folder.path())), _folder: folder }
    }

    async fn call(&self, question: &str) -> Option<(String, Value)> {
        let reply = collect_answer(&self.model, request(vec![user(question)], TOOLS, PATHS)).await.unwrap();
        assert_eq!(reply.usage.unwrap().completion_tokens, 0, "{question}: {}", reply.text);
        let (name, arguments) = reply.calls.into_iter().next()?;
        Some((name, serde_json::from_str(&arguments).unwrap()))
    }

    /// Returns the text that shows the tool result for a question.
    async fn answer_for(&self, question: &str, result: &str) -> String {
        let (name, arguments) = self.call(question).await.unwrap_or_else(|| panic!("{question} calls nothing"));
        let call_id = CallId::generate();
        let call = ToolCall { call_id: call_id.clone(), name: name.clone(), arguments: arguments.to_string() };
        let call_message = Message::answer(String::new(), vec![call]);
        let result = Message::Tool { call_id, name, text: result.to_owned(), pictures: Vec::new() };
        let reply = collect_answer(&self.model, request(vec![user(question), call_message, result], TOOLS, PATHS))
            .await
            .unwrap();
        assert_eq!(reply.calls, [], "{question}");
        reply.text
    }
}

#[tokio::test]
async fn requests_call_the_named_tool() {
    let test_model = TestModel::new();
    let check = async |question: &str, tool: &str, arguments: Value| {
        assert_eq!(test_model.call(question).await, Some((tool.to_owned(), arguments)), "{question}");
    };
    let notes = json!({"path": "uploads/notes.txt"});
    check("summarise uploads/notes.txt\n\nUploaded files: uploads/notes.txt", "read_file", notes).await;
    check("cat main.rs", "read_file", json!({"path": "/project/src/main.rs"})).await;
    check("open src/main.rs", "read_file", json!({"path": "/project/src/main.rs"})).await;
    check("show me the makefile", "read_file", json!({"path": "/project/Makefile"})).await;
    check("Lies für Gäste.md", "read_file", json!({"path": "/project/docs/für Gäste.md"})).await;
    check("説明.txtを読んで", "read_file", json!({"path": "/project/docs/説明.txt"})).await;
    check("read nosuch.txt.", "read_file", json!({"path": "nosuch.txt"})).await;
    check("list the files in docs", "list_workspace_files", json!({"path": "/project/docs"})).await;
    check("how many .rs files are there", "find_files", json!({"pattern": "*.rs", "path": "/project"})).await;
    check("find *.toml", "find_files", json!({"pattern": "*.toml"})).await;
    check("where is config.yaml?", "find_files", json!({"pattern": "config.yaml"})).await;
    let search = |text: &str| json!({"pattern": text, "literal": true, "ignore_case": true});
    check("search for \"fn main(\" please", "grep", search("fn main(")).await;
    check("wo kommt Fehler im Code vor", "grep", search("Fehler")).await;
    check("在代码里搜索TODO", "grep", search("TODO")).await;
    let mut in_file = search("unsafe");
    in_file["path"] = json!("/project/src/main.rs");
    check("grep unsafe src/main.rs", "grep", in_file).await;
    check("search report.pdf for profit", "search_file", json!({"path": "uploads/report.pdf", "query": "profit"}))
        .await;
}

#[tokio::test]
async fn requests_needing_judgement_call_no_tool() {
    let test_model = TestModel::new();
    for question in [
        "fix src/main.rs",
        "delete all files",
        "what does main.rs do",
        "translate README.md",
        "summarise main.rs",
        "find a good restaurant in Paris",
        "search the web for rust",
        "write a poem into poem.txt",
        "tell me the story behind this project",
        "how do I center a div",
        "run it",
        "2024-01-05",
        "",
    ] {
        assert_eq!(test_model.call(question).await, None, "{question}");
    }
}

#[tokio::test]
async fn tool_results_are_shown_verbatim() {
    let test_model = TestModel::new();
    let check = async |question: &str, result: &str, expected: &str| {
        assert_eq!(test_model.answer_for(question, result).await, expected, "{question}: {result}");
    };
    check("read notes.txt", "a\n````\nb\n", "uploads/notes.txt:\n\n`````\na\n````\nb\n`````").await;
    check("read notes.txt", "[uploads/notes.txt is empty]", "uploads/notes.txt is empty.").await;
    check("lies notes.txt", "E_PATH: it is not there", "Das ging nicht: it is not there").await;
    check("read notes.txt", "E_mc2: x", "uploads/notes.txt:\n\n```\nE_mc2: x\n```").await;
    check("grep x", "No line matches \"x\".", "I found nothing.").await;
    let date = "Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)";
    check("what time is it", date, "It is 09:31 on Saturday, 2026-11-21 (Europe/Berlin).").await;
    check("wie spät ist es", date, "Es ist 09:31 am Samstag, 2026-11-21 (Europe/Berlin).").await;
    check("what time is it", "12:00", "12:00").await;
    check(
        "how many files are there",
        "/project/a (1 byte)\n/project/b (2 KB)",
        "Files: 2. Hidden ones, and those that .gitignore excludes, are not counted.",
    )
    .await;
    let cut = "x (1 byte)\n[350 match; the newest 1 are shown]\n[the search is not complete: too many files]";
    check(
        "wie viele dateien",
        cut,
        "Dateien: 350 oder mehr. Versteckte, und solche, die .gitignore ausschließt, sind nicht gezählt.",
    )
    .await;
    let areas = "uploads/\noutputs/\ntemp/\nskills/\nskills/x/\nconversation_history/\nlarge_tool_results/";
    let found = "Here is what I found:\n\n- uploads/\n- uploads/a.txt (1 byte)\n- /project/\n\n[1 left out]";
    check("list my files", &format!("{areas}\nuploads/a.txt (1 byte)\n/project/\n[1 left out]"), found).await;
    assert!(test_model.answer_for("list my files", areas).await.starts_with("There are no files yet."));
    let long_listing: String = (0..150).map(|number| format!("{number}.txt (1 byte)\n")).collect();
    assert!(test_model.answer_for("find *.txt", &long_listing).await.ends_with("- … and 50 more."));
    assert!(
        test_model
            .answer_for("read notes.txt", &"y".repeat(7000))
            .await
            .ends_with("1000 more characters are not shown.")
    );
}

#[tokio::test]
async fn answers_use_the_users_language() {
    let test_model = TestModel::new();
    let reply = async |messages: Vec<Message>| {
        collect_answer(&test_model.model, request(messages, TOOLS, PATHS)).await.unwrap().text
    };
    assert!(reply(vec![user("wer bist du?")]).await.contains("eingebaute Modell"));
    assert!(reply(vec![user("qui es-tu ?")]).await.contains("modèle intégré"));
    assert!(reply(vec![user("¿quién eres?")]).await.contains("modelo integrado de agentd:"));
    assert!(reply(vec![user("chi sei?")]).await.contains("modello integrato"));
    assert!(reply(vec![user("quem é você?")]).await.contains("modelo integrado do agentd"));
    assert!(reply(vec![user("你是谁")]).await.contains("内置模型"));
    assert!(reply(vec![user("あなたは誰ですか")]).await.contains("内蔵モデル"));
    assert!(reply(vec![user("너는 누구니?")]).await.contains("내장 모델"));
    assert!(reply(vec![user("кто ты?")]).await.contains("встроенная модель"));
    // A request without words from any language is answered in the language of the previous request.
    let after_german =
        |text: &str| vec![user("welche dateien gibt es hier?"), Message::answer("…", Vec::new()), user(text)];
    assert!(reply(after_german("xyz?")).await.starts_with("Dafür bin ich zu klein."));
    assert!(reply(vec![user("xyz?")]).await.starts_with("I am too small"));
}

#[tokio::test]
async fn listening_local_server_is_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    let found = || {
        let ollama = Neighbour { name: "ollama", title: "Ollama", url: "http://127.0.0.1:11434/v1".to_owned() };
        std::future::ready(vec![ollama]).boxed()
    };
    let model = EmbeddedModel::new(TinyFile::new().write(folder.path()), found);
    let text = collect_answer(&model, request(vec![user("explain monads")], &[], &[])).await.unwrap().text;
    assert!(text.contains("Ollama listens on this computer (http://127.0.0.1:11434/v1)"), "{text}");
    assert!(text.contains("\nagentctl models add ollama "), "{text}");
    let offline_model = offline_model(TinyFile::new().write(folder.path()));
    let text = collect_answer(&offline_model, request(vec![user("explain monads")], &[], &[])).await.unwrap().text;
    assert!(text.contains("\nagentctl models add  ") && !text.contains("listens on"), "{text}");
}
