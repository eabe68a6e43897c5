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

/// Calls of `read_file` with the path `/project/a.txt`, as published models write them.
const WELL_FORMED: [&str; 35] = [
    // Hermes and Qwen, also not closed, with arguments as a string, or as a dictionary of Python.
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}\n</tool_call>",
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}",
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": \"{\\\"path\\\": \\\"/project/a.txt\\\"}\"}\n</tool_call>",
    "<tool_call>\n{'name': 'read_file', 'arguments': {'path': '/project/a.txt'}}\n</tool_call>",
    // Qwen3-Coder.
    "<tool_call>\n<function=read_file>\n<parameter=path>\n/project/a.txt\n</parameter>\n</function>\n</tool_call>",
    // Llama.
    "{\"name\": \"read_file\", \"parameters\": {\"path\": \"/project/a.txt\"}}",
    "<|python_tag|>read_file.call(path=\"/project/a.txt\")",
    "[read_file(path=\"/project/a.txt\")]",
    "<function=read_file>{\"path\": \"/project/a.txt\"}</function>",
    // Mistral, version 11 and earlier.
    "[TOOL_CALLS]read_file[ARGS]{\"path\": \"/project/a.txt\"}",
    "[TOOL_CALLS] [{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}, \"id\": \"a1b2c3d4e\"}]",
    // DeepSeek V3.1, R1 and V3.2.
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"/project/a.txt\"}\
     <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n\
     {\"path\": \"/project/a.txt\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">\
     /project/a.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    // Kimi.
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>\
     {\"path\": \"/project/a.txt\"}<|tool_call_end|><|tool_calls_section_end|>",
    // gpt-oss, with and without its marks.
    "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\": \"/project/a.txt\"}<|call|>",
    "assistantcommentary to=functions.read_file json{\"path\": \"/project/a.txt\"}",
    // GLM.
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>/project/a.txt</arg_value>\n</tool_call>",
    // Gemma 3, FunctionGemma and Gemma 4.
    "```tool_code\nread_file(path=\"/project/a.txt\")\n```",
    "<start_function_call>call:read_file{path:<escape>/project/a.txt<escape>}<end_function_call>",
    "<|tool_call>call:read_file{path:<|\"|>/project/a.txt<|\"|>}<tool_call|>",
    // ReAct.
    "Thought: I need the file.\nAction: read_file\nAction Input: {\"path\": \"/project/a.txt\"}",
    // Command.
    "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", \"parameters\": \
     {\"path\": \"/project/a.txt\"}}\n]<|END_ACTION|>",
    // Granite and Phi.
    "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}]<|/tool_call|>",
    "functools[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}]",
    // MiniMax and Seed.
    "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">/project/a.txt</parameter>\n</invoke>\n\
     </minimax:tool_call>",
    "<seed:tool_call>\n<function=read_file>\n<parameter=path>/project/a.txt</parameter>\n</function>\n</seed:tool_call>",
    // LFM and OLMo.
    "<|tool_call_start|>[read_file(path=\"/project/a.txt\")]<|tool_call_end|>",
    "<function_calls>\nread_file(path=\"/project/a.txt\")\n</function_calls>",
    // Nemotron, InternLM, Hunyuan and xLAM.
    "<TOOLCALL>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}]</TOOLCALL>",
    "<|action_start|><|plugin|>\n{\"name\": \"read_file\", \"parameters\": {\"path\": \"/project/a.txt\"}}<|action_end|>",
    "<tool_calls>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}]</tool_calls>",
    "[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}]",
    // The object of the wire.
    "{\"tool_calls\": [{\"id\": \"0\", \"type\": \"function\", \"function\": {\"name\": \"read_file\", \"arguments\": \
     \"{\\\"path\\\": \\\"/project/a.txt\\\"}\"}}]}",
    "{\"type\": \"tool_use\", \"id\": \"0\", \"name\": \"read_file\", \"input\": {\"path\": \"/project/a.txt\"}}",
];

/// Calls that are asked about and never run.
const ASKED_ABOUT: [&str; 3] = [
    "I read it:\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"/project/a.txt\"}}\n```",
    "{“tool”: “read_file”, “args”: {“path”: “/project/a.txt”}}",
    "I read it:\n```tool_code\nread_file(path=\"/project/a.txt\")\n```",
];

#[tokio::test]
async fn published_call_forms_run_in_text_mode_and_never_answer() {
    let server = ModelServer::start().await;
    let in_text = connect(&ModelConfig { native_tools: Some(false), ..config(&server) }).unwrap();
    let native = connect(&config(&server)).unwrap();
    for text in WELL_FORMED {
        for sentence in ["", "I read the file.\n"] {
            // Phi and gpt-oss without its marks write calls only at the start of an answer.
            let is_initial = ["functools", "assistant", "```", "[{"].iter().any(|start| text.starts_with(start));
            if is_initial && !sentence.is_empty() {
                continue;
            }
            let reply = Reply::deltas(format!("{sentence}{text}").split_inclusive(['>', ' ', '{']));
            server.reply(reply.clone());
            let outcome = ask(&in_text, request_with_tools("Hello")).await;
            let calls: Vec<(&str, Value)> = outcome
                .calls
                .iter()
                .map(|(name, arguments)| (name.as_str(), serde_json::from_str(arguments).unwrap()))
                .collect();
            assert_eq!(calls, [("read_file", json!({"path": "/project/a.txt"}))], "{text}");
            let thought = if text.starts_with("Thought") { "Thought: I need the file." } else { "" };
            assert_eq!(outcome.text.trim(), format!("{sentence}{thought}").trim(), "{text}");
            server.reply(reply);
            let outcome = ask(&native, request_with_tools("Hello")).await;
            assert_eq!((outcome.calls.len(), outcome.unrun.len()), (0, 1), "{text}: {outcome:?}");
            assert_eq!(outcome.unrun[0].0, "read_file", "{text}");
        }
    }
}

#[tokio::test]
async fn doubtful_calls_are_asked_about() {
    let server = ModelServer::start().await;
    for native_tools in [None, Some(false)] {
        let model = connect(&ModelConfig { native_tools, ..config(&server) }).unwrap();
        for text in ASKED_ABOUT {
            server.reply(Reply::deltas(text.split_inclusive(' ')));
            let outcome = ask(&model, request_with_tools("Hello")).await;
            assert_eq!(outcome.unrun, [("read_file".to_owned(), UnrunReason::Doubtful)], "{text}");
            assert_eq!((outcome.calls.len(), outcome.text.as_str()), (0, text));
        }
    }
}
