//! Tools for models whose wire carries none.

use agentd_core::{ids::CallId, tool::ToolCall};
use agentd_testkit::model_server::{ModelServer, Reply};

use super::*;

#[tokio::test]
async fn calls_are_read_from_the_text_and_results_go_back_as_words() {
    let server = ModelServer::start().await;
    server.reply(Reply::text("I look.\n```json\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a b\"}}\n```\nDone!"));
    let mut config = config(&server);
    config.native_tools = Some(false);
    let model = connect(&config).unwrap();
    assert!(!model.info().native_tools);
    let mut request = request_with_tools("Read it");
    request.messages.push(Message::Assistant {
        text: String::new(),
        reasoning: None,
        origin: Default::default(),
        tool_calls: vec![ToolCall {
            call_id: CallId::from("c1".to_owned()),
            name: "now".to_owned(),
            arguments: "{}".to_owned(),
        }],
    });
    request.messages.push(Message::Tool {
        call_id: CallId::from("c1".to_owned()),
        name: "now".to_owned(),
        text: "noon".to_owned(),
    });
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
async fn a_call_out_of_a_cut_answer_does_not_run() {
    let server = ModelServer::start().await;
    let words = "{\"tool\": \"now\", \"args\": {}}";
    server.reply(Reply::deltas([words]).finish("").without_done());
    let mut config = config(&server);
    config.native_tools = Some(false);
    let outcome = ask_config(&config).await;
    assert_eq!((outcome.kind(), outcome.calls.len()), (Some(ErrorKind::CutStream), 0));
}
