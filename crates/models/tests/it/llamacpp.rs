//! Tests of llama.cpp's own `/completion`.

use super::*;

fn completion(server: &ModelServer) -> ModelConfig {
    ModelConfig { wire: Wire::LlamaCpp, base_url: server.root_url(), ..config(server) }
}

#[tokio::test]
async fn prompt_is_rendered_and_answer_parsed() {
    let server = ModelServer::start().await;
    let mut reply = Reply::text("It is noon.");
    reply.timings = Some(json!({"cache_n": 20, "prompt_n": 5, "predicted_n": 4}));
    reply.usage = Some(json!({"prompt_tokens": 25, "completion_tokens": 4}));
    server.reply(reply);
    let model = connect(&ModelConfig { max_tokens: Some(50), ..completion(&server) }).unwrap();
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!((outcome.text.as_str(), outcome.end), ("It is noon.", Some(Finish::Stop)));
    let expected = Usage { prompt_tokens: 25, cached_tokens: 20, completion_tokens: 4, ..Usage::default() };
    assert_eq!(outcome.usage, Some(expected));
    let sent = server.requests().remove(0);
    assert_eq!(sent.path, "/completion");
    assert_eq!(
        sent.body,
        json!({
            "prompt": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
            "stream": true,
            "cache_prompt": true,
            "n_predict": 50,
            "stop": ["<|im_end|>", "<|im_start|>"],
        })
    );
}

#[tokio::test]
async fn tools_are_described_in_the_prompt() {
    let server = ModelServer::start().await;
    server.reply(Reply::tool_call("read_file", json!({"path": "a"})));
    let model = connect(&ModelConfig { base_url: server.base_url(), ..completion(&server) }).unwrap();
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!(outcome.calls, [("read_file".into(), "{\"path\":\"a\"}".into())]);
    let sent = server.requests().remove(0);
    assert_eq!(sent.path, "/completion");
    assert!(sent.body["prompt"].as_str().unwrap().contains("## read_file"));
    assert_eq!(sent.body["stop"][2], "\n<tool_result name=");
}

#[tokio::test]
async fn limits_cuts_and_errors_are_reported() {
    let server = ModelServer::start().await;
    server
        .reply(Reply::text("Hello").finish("length"))
        .reply(Reply::text("Hello").finish(""))
        .reply(Reply::status(200, "error: {\"code\":500,\"message\":\"slot lost\"}\n\n"))
        .reply(Reply::text("Whole.").whole());
    let model = connect(&ModelConfig { retries: 0, ..completion(&server) }).unwrap();
    assert_eq!(ask(&model, request("Hi")).await.end, Some(Finish::Length));
    assert_eq!(ask(&model, request("Hi")).await.kind(), Some(ErrorKind::CutStream));
    let outcome = ask(&model, request("Hi")).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Provider));
    assert!(outcome.message().contains("slot lost"), "{outcome:?}");
    assert_eq!(ask(&model, request("Hi")).await.text, "Whole.");
}
