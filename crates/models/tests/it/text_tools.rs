//! Tools for models whose wire has none, and reasoning and calls that a server leaves in the text.

use super::*;

#[tokio::test]
async fn text_calls_are_read_and_results_sent_as_text() {
    let server = ModelServer::start().await;
    server.reply(Reply::text("I look.\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a b\"}}\n"));
    let model = connect(&ModelConfig { native_tools: Some(false), ..config(&server) }).unwrap();
    assert!(!model.info().native_tools);
    let mut request = request_with_tools("Read it");
    request.messages.extend([Message::answer("", vec![tool_call("c1", "{}")]), result("c1", "noon")]);
    let outcome = ask(&model, request).await;
    assert_eq!(outcome.text, "I look.\n");
    assert_eq!(outcome.calls, [("read_file".into(), "{\"path\": \"a b\"}".into())]);
    assert_eq!(outcome.end, Some(Finish::Stop));
    let sent = server.requests().remove(0);
    assert_eq!(sent.body["tools"], json!(null));
    assert_eq!(sent.body["stop"], json!(["\n<tool_result name="]));
    let messages = sent.messages();
    assert!(messages[0]["content"].as_str().unwrap().contains("## read_file"));
    assert_eq!(messages[2], json!({"role": "assistant", "content": "{\"tool\": \"now\", \"args\": {}}"}));
    assert_eq!(messages[3], json!({"role": "user", "content": "<tool_result name=\"now\">\nnoon\n</tool_result>"}));
}

#[tokio::test]
async fn text_call_of_a_cut_answer_does_not_run() {
    let server = ModelServer::start().await;
    let call = "{\"tool\": \"now\", \"args\": {}}";
    server.reply(Reply::deltas([call]).finish("").without_done());
    let outcome = ask_config(&ModelConfig { native_tools: Some(false), retries: 0, ..config(&server) }).await;
    assert_eq!((outcome.kind(), outcome.calls.len()), (Some(ErrorKind::CutStream), 0));
}

#[tokio::test]
async fn text_call_inside_reasoning_does_not_run() {
    let call = r#"{"tool": "now", "args": {}}"#;
    let ask_text = async |text: String| {
        let server = ModelServer::start().await;
        server.reply(Reply::deltas(text.split_inclusive(' ')));
        ask_config(&ModelConfig { native_tools: Some(false), ..config(&server) }).await
    };
    for reasoning in [
        format!("<think>I could call {call} but I must not.</think>"),
        format!("I could call this:\n{call}\nbut I must not.\n</think>\n"),
    ] {
        let outcome = ask_text(format!("{reasoning} The answer is 5.")).await;
        assert_eq!((outcome.calls.len(), outcome.text.as_str()), (0, "The answer is 5."), "{outcome:?}");
        assert!(outcome.reasoning.contains("I could call") && outcome.unrun.is_empty(), "{outcome:?}");
    }
    let outcome = ask_text(format!("<think>I call it.</think>\n{call}")).await;
    assert_eq!((outcome.calls.len(), outcome.text.as_str()), (1, ""), "{outcome:?}");
}

/// Sends a text in pieces, split after each `>` and blank, to a model with native calls.
async fn ask_in_pieces(text: &str) -> Outcome {
    ask_over(Wire::OpenAi, Reply::deltas(text.split_inclusive(['>', ' ']))).await
}

#[tokio::test]
async fn reasoning_inside_text_is_split_off() {
    for text in [
        "<think>They want 5.</think>\n\nIt is 5.",
        "They want 5.\n</think>\n\nIt is 5.",
        "<thinking>\nThey want 5.</thinking>It is 5.",
        "<|channel|>analysis<|message|>They want 5.<|end|><|start|>assistant<|channel|>final<|message|>It is 5.",
    ] {
        let outcome = ask_in_pieces(text).await;
        assert_eq!((outcome.reasoning.trim(), outcome.text.as_str()), ("They want 5.", "It is 5."), "{text}");
    }
    let mentioned = "The marks are `<think>` and `</think>`:\n```\n<think>\na\n</think>\n```\nSo it is.";
    assert_eq!(ask_in_pieces(mentioned).await.text, mentioned);
}

#[tokio::test]
async fn protocol_remnants_are_removed_from_tool_names() {
    let outcome =
        ask_over(Wire::OpenAi, Reply::tool_call("read_file<|channel|>commentary", json!({"path": "a"}))).await;
    assert_eq!(outcome.calls, [("read_file".to_owned(), "{\"path\":\"a\"}".to_owned())]);
}
