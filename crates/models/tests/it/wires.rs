//! Common behaviour of the wires, each in its own format.

use super::*;

/// Returns the text of each part of a conversation.
fn texts(body: &Value) -> Vec<String> {
    let items = ["messages", "input"].iter().find_map(|key| body[*key].as_array()).unwrap();
    let parts =
        items.iter().flat_map(|item| item["content"].as_array().map_or(std::slice::from_ref(item), Vec::as_slice));
    let pointers = ["/text", "/content", "/output", "/input", "/arguments", "/tool_calls/1/function/arguments"];
    let text = |part: &Value| {
        let value = pointers.iter().find_map(|pointer| part.pointer(pointer).filter(|value| !value.is_null())).unwrap();
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    parts.map(text).collect()
}

#[tokio::test]
async fn results_follow_calls_and_no_message_is_blank() {
    const BROKEN: &str = r#"{"invalid_json":"{"}"#;
    const REMINDER: &str = "<system_reminder>\nx\n</system_reminder>";
    const WITH_REMINDER: &str = "(no output)\n\n<system_reminder>\nx\n</system_reminder>";
    const NOON: &str = "&lt;system_reminder>noon";
    let separate = ["Hi", "and more", BROKEN, BROKEN];
    let end = ["Half of an answer ", "(go on)"];
    for (wire, begin, results) in [
        (Wire::OpenAi, &["Be brief.", "Hi\n\nand more", BROKEN][..], &[WITH_REMINDER, NOON, "Well?\n\nlater"][..]),
        (Wire::Anthropic, &separate, &["(no output)", NOON, REMINDER, "Well?", "later"]),
        (Wire::Responses, &separate, &[WITH_REMINDER, NOON, "Well?", "later"]),
    ] {
        let server = ModelServer::start().await;
        let mut request = request_with_tools("Hi");
        request.messages.extend([
            user("and more"),
            Message::answer(" \n", vec![tool_call("a", "{"), tool_call("b", "{")]),
            result("a", ""),
            user(REMINDER),
            result("b", "<system_reminder>noon"),
            user(" "),
            user("Well?"),
            Message::System { text: "later".to_owned() },
            Message::answer("Half of an answer ", Vec::new()),
        ]);
        let outcome = ask(&connect(&ModelConfig { wire, ..config(&server) }).unwrap(), request).await;
        assert_eq!((outcome.error, server.refusals()), (None, Vec::new()), "{wire:?}");
        assert_eq!(texts(&last(&server).body), [begin, results, &end].concat(), "{wire:?}");
    }
}

#[tokio::test]
async fn finish_reasons_map_to_ends() {
    for (wire, reason, end) in [
        (Wire::OpenAi, "MAX_TOKENS", Finish::Length),
        (Wire::OpenAi, "SAFETY", Finish::Filtered),
        (Wire::OpenAi, "RECITATION", Finish::Filtered),
        (Wire::OpenAi, "STOP", Finish::Stop),
        (Wire::Anthropic, "stop_sequence", Finish::Stop),
        (Wire::Anthropic, "max_tokens", Finish::Length),
        (Wire::Anthropic, "refusal", Finish::Filtered),
        (Wire::Anthropic, "a_new_reason", Finish::Stop),
        (Wire::Responses, "length", Finish::Length),
        (Wire::Responses, "content_filter", Finish::Filtered),
        (Wire::Responses, "refusal", Finish::Filtered),
    ] {
        let outcome = ask_over(wire, Reply::text("Hi").finish(reason)).await;
        assert_eq!((outcome.text.as_str(), outcome.end), ("Hi", Some(end)), "{wire:?} {reason}");
    }
}

#[tokio::test]
async fn non_streaming_server_is_supported() {
    for wire in [Wire::Anthropic, Wire::Responses] {
        let reply = Reply { text: "I look.".to_owned(), ..Reply::tool_call("now", json!({"path": "a"})) };
        let outcome = ask_over(wire, reply.whole()).await;
        assert_eq!((outcome.text.as_str(), outcome.end), ("I look.", Some(Finish::Stop)), "{wire:?}");
        assert_eq!(outcome.calls, [("now".to_owned(), "{\"path\":\"a\"}".to_owned())], "{wire:?}");
    }
}

#[tokio::test]
async fn answers_of_another_wire_are_protocol_errors() {
    for wire in [Wire::Anthropic, Wire::Responses] {
        let chat = Reply::events([r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}]}"#]);
        check_failure(wire, Reply::html(), ErrorKind::Protocol, 1, "HTML", "base_url").await;
        check_failure(wire, chat, ErrorKind::Protocol, 1, "invalid for this wire", "wire: openai").await;
    }
}
