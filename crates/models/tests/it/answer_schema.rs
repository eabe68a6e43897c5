//! Answers with a schema: the field of each wire, when it is sent, and the fallback if it is refused.

use agentd_core::answer_schema::AnswerSchema;
use agentd_models::Effort;

use super::*;

const SCHEMA: &str = r#"{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"string"}},"required":["z","a"],"additionalProperties":false}"#;

fn with_schema(schema: &str, request: ModelRequest) -> ModelRequest {
    ModelRequest { answer_schema: Some(Arc::new(AnswerSchema::parse(schema).unwrap())), ..request }
}

async fn sent_body(config: ModelConfig, server: &ModelServer, request: ModelRequest) -> Value {
    let outcome = ask(&connect(&config).unwrap(), request).await;
    assert_eq!(outcome.error, None, "{outcome:?}");
    last(server).body
}

/// Returns the schema of a request, wherever the wire has its field.
fn field(request: &Recorded) -> &Value {
    let body = &request.body;
    let fields = [&body["response_format"], &body["output_config"]["format"], &body["text"]["format"]];
    fields.into_iter().find(|field| !field.is_null()).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn schema_is_sent_in_its_field_if_no_tools_are_callable() {
    let server = ModelServer::start().await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let chat = json!({"name": "answer", "strict": true, "schema": schema});
    let chat = json!({"type": "json_schema", "json_schema": chat});
    let responses = json!({"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": schema}});
    for (wire, field, expected, own) in [
        (Wire::OpenAi, "response_format", chat, json!({"type": "json_object"})),
        (Wire::Responses, "text", responses, json!({"verbosity": "low"})),
    ] {
        let mut config = ModelConfig { wire, ..config(&server) };
        let body = sent_body(config.clone(), &server, with_schema(SCHEMA, request("Hi"))).await;
        assert_eq!(body[field], expected);
        assert!(body.to_string().contains(r#""z":{"type":"integer"},"a""#), "keys stay in their order: {body}");
        let loose = sent_body(config.clone(), &server, with_schema(r#"{"type":"object"}"#, request("Hi"))).await;
        assert!(loose[field].to_string().contains(r#""strict":false"#), "{loose:#}");

        let with_tools = || with_schema(SCHEMA, request_with_tools("Hi"));
        // A server that constrains all output to a schema would prevent calls.
        assert_eq!(sent_body(config.clone(), &server, with_tools()).await[field], Value::Null);
        let last = ModelRequest { may_call: false, ..with_tools() };
        assert_eq!(sent_body(config.clone(), &server, last).await[field], expected);
        assert_eq!(sent_body(config.clone(), &server, request("Hi")).await[field], Value::Null);
        // A configured field is not replaced.
        config.body.insert(field.to_owned(), own.clone());
        assert_eq!(sent_body(config, &server, with_schema(SCHEMA, request("Hi"))).await[field], own);
    }
}

#[tokio::test]
async fn messages_request_has_schema_with_effort_and_tools() {
    let server = ModelServer::start().await;
    let messages = || ModelConfig { wire: Wire::Anthropic, ..config(&server) };
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let format = json!({"type": "json_schema", "schema": schema});
    let body = sent_body(messages(), &server, with_schema(SCHEMA, request_with_tools("Hi"))).await;
    assert_eq!(body["output_config"], json!({"format": format}));
    let effort = ModelConfig { effort: Some(Effort::High), ..messages() };
    let body = sent_body(effort, &server, with_schema(SCHEMA, request("Hi"))).await;
    assert_eq!(body["output_config"], json!({"effort": "high", "format": format}));
    let in_text = ModelConfig { native_tools: Some(false), ..messages() };
    let body = sent_body(in_text, &server, with_schema(SCHEMA, request_with_tools("Hi"))).await;
    assert_eq!(body["output_config"], Value::Null, "calls in the text prevent the schema field");
    assert_eq!(sent_body(messages(), &server, request("Hi")).await["output_config"], Value::Null);
}

#[tokio::test]
async fn refused_schema_field_is_sent_as_text_from_then_on() {
    for (status, wire, refusal) in [
        (400, Wire::OpenAi, "Invalid schema for response_format 'answer': 'oneOf' is not permitted"),
        (400, Wire::OpenAi, "This response_format type is unavailable now"),
        (500, Wire::OpenAi, "failed to parse grammar"),
        (422, Wire::OpenAi, "Unprocessable Entity"),
        (400, Wire::Responses, "Invalid schema for response_format 'answer': 'oneOf' is not permitted"),
        (400, Wire::Responses, "Unknown parameter: 'text.format'."),
        (400, Wire::Anthropic, "output_config.format: Extra inputs are not permitted"),
    ] {
        let server = ModelServer::start().await;
        server.respond_with(move |request| {
            let text = request.body.to_string();
            if !field(request).is_null() && !text.contains("boolean") {
                return Reply::refusal(status, refusal);
            }
            Reply::text("{}")
        });
        let model = connect(&ModelConfig { wire, retries: 0, ..config(&server) }).unwrap();
        let outcome = ask(&model, with_schema(SCHEMA, request("Hi"))).await;
        assert_eq!((outcome.text.as_str(), outcome.error, outcome.retries.len()), ("{}", None, 1), "{refusal}");
        assert!(outcome.retries[0].2.contains("with the answer's schema in the text"), "{:?}", outcome.retries);
        let outcome = ask(&model, with_schema(SCHEMA, request("Hi"))).await;
        assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("{}", 0), "{refusal}: the change is remembered");
        assert_eq!(server.requests().len(), 3);
        // Another schema may be accepted.
        ask(&model, with_schema(r#"{"type": "boolean"}"#, request("Hi"))).await;
        assert!(!field(&last(&server)).is_null(), "{refusal}");
        assert_eq!(model.learnt().len(), 1);
    }
}
