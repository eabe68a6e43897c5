//! Servers with special requirements for IDs, signatures or reasoning, each used by a complete daemon.

use super::*;

/// Returns the providers that support tools.
fn with_tools() -> Vec<Provider> {
    Provider::ALL.into_iter().filter(|provider| provider.takes_tools()).collect()
}

async fn server(provider: Provider) -> ModelServer {
    let server = ModelServer::start().await;
    server.acts_as(provider);
    server
}

/// Returns a slot of `models.yaml`.
fn slot(name: &str, provider: Provider, server: &ModelServer) -> String {
    let (url, echo, wire) = (server.base_url(), provider.wants_thoughts(), provider.wire());
    let id = if provider == Provider::Gemini { "gemini-3-pro-preview" } else { "the-model" };
    format!("{name}: {{base_url: \"{url}\", wire: {wire}, id: {id}, echo_reasoning: {echo}}}\n")
}

/// A daemon with these servers' models in the slots `base` and `code`.
struct Conversation {
    daemon: TempDaemon,
    session: Option<String>,
}

impl Conversation {
    async fn with(slots: &[String]) -> Self {
        let home = TempHome::new();
        home.write("config/models.yaml", slots.concat());
        for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
            home.write(&format!("project/{name}.txt"), format!("the words of {name}\n"));
        }
        Self { daemon: TempDaemon::start_in(home).await, session: None }
    }

    async fn turn(&mut self, server: &ModelServer, slot: &str, text: &str, replies: Vec<Reply>) {
        let project = self.daemon.path().join("project").display().to_string();
        let mut args = vec!["run", text, "--output", "json", "--model", slot, "-C", &project];
        if let Some(session) = &self.session {
            args = vec!["run", text, "--output", "json", "--model", slot, "--session", session];
        }
        for reply in replies {
            server.reply(reply);
        }
        let output = self.daemon.agentctl(args).await;
        assert_eq!(server.refusals(), [""; 0], "{text}: {}", output.stderr);
        let result = output.exits(0).json();
        assert_eq!(server.waiting_replies(), 0, "{text}: {result:#}");
        self.session = Some(result["session_id"].as_str().unwrap().to_owned());
    }
}

fn reads(names: &[&str]) -> Reply {
    let call = |reply: Reply, name: &&str| reply.and_call("read_file", json!({"path": format!("/project/{name}.txt")}));
    names.iter().fold(Reply::default(), call)
}

/// Returns the messages in a request without cache markers, up to the last text, which may be extended later.
pub(super) fn messages(request: &Recorded) -> String {
    let text = request.text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let begin = ["\"messages\":[", "\"input\":["].iter().find_map(|begin| text.find(begin)).unwrap();
    let after = &text[begin..];
    let end = ["],\"tools\":", "],\"max_tokens\":", "],\"include\":", "],\"stream\":"]
        .iter()
        .find_map(|end| after.rfind(end))
        .unwrap();
    after[..end].trim_end_matches(['"', '}', ']']).to_owned()
}

/// Asserts that each request begins with the complete previous request.
#[track_caller]
pub(super) fn assert_requests_grow(server: &ModelServer) {
    let requests = server.requests();
    for pair in requests.windows(2) {
        let [before, next] = [messages(&pair[0]), messages(&pair[1])];
        assert!(next.starts_with(&before), "{next}\n\ndoes not begin with\n\n{before}");
    }
}

/// Returns the results in a request, each with the text that its call asks for.
fn answered(request: &Recorded) -> Vec<(String, String)> {
    let body = request.sent();
    let messages = || body["messages"].as_array().into_iter().flatten();
    let blocks = || messages().flat_map(|message| message["content"].as_array().into_iter().flatten());
    let in_blocks = blocks().filter(|block| block["type"] == "tool_use").map(|call| {
        let result = blocks().find(|block| block["tool_use_id"] == call["id"]).unwrap();
        (call["input"].to_string(), result["content"].as_str().unwrap().to_owned())
    });
    let calls = messages().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    let in_fields = calls.map(|call| {
        let result = messages().find(|message| message["tool_call_id"] == call["id"]).unwrap();
        (call["function"]["arguments"].to_string(), result["content"].as_str().unwrap().to_owned())
    });
    let items = || body["input"].as_array().into_iter().flatten();
    let in_items = items().filter(|item| item["type"] == "function_call").map(|call| {
        let of_call = |item: &&Value| item["type"] == "function_call_output" && item["call_id"] == call["call_id"];
        let result = items().find(of_call).unwrap();
        (call["arguments"].to_string(), result["output"].as_str().unwrap().to_owned())
    });
    in_fields.chain(in_blocks).chain(in_items).collect()
}

#[tokio::test]
async fn each_provider_gets_back_its_own_data_across_a_restart() {
    for provider in with_tools() {
        let server = server(provider).await;
        let mut talk = Conversation::with(&[slot("base", provider, &server)]).await;
        let first = vec![reads(&["a"]), Reply { text: "Two more.".to_owned(), ..reads(&["b", "c"]) }, reads(&["d"])];
        let done = || vec![Reply::text("Done.")];
        talk.turn(&server, "base", "Read the first.", [first, done()].concat()).await;
        talk.daemon.kill9().await;
        talk.daemon.restart().await;
        let second = vec![reads(&["e"]), reads(&["f", "g"]), reads(&["a"])];
        talk.turn(&server, "base", "Read the others.", [second, done()].concat()).await;
        assert_requests_grow(&server);
        let requests = server.requests();
        assert_eq!(requests.len(), 8, "{provider:?}");
        for (asked, result) in answered(requests.last().unwrap()) {
            let name = asked.split("/project/").nth(1).and_then(|rest| rest.chars().next()).unwrap();
            assert!(result.contains(&format!("the words of {name}")), "{provider:?}: {asked} {result}");
        }
        assert_eq!(answered(requests.last().unwrap()).len(), 8, "{provider:?}");
    }
}

#[tokio::test]
async fn both_providers_accept_a_switch_to_the_other_and_back() {
    let providers = with_tools();
    for (at, provider) in providers.iter().enumerate() {
        let next_provider = providers[(at + 1) % providers.len()];
        let (one, other) = (server(*provider).await, server(next_provider).await);
        let mut talk = Conversation::with(&[slot("base", *provider, &one), slot("code", next_provider, &other)]).await;
        let turn = |names: &[&str]| {
            let steps = names.iter().map(|name| reads(&[name]));
            steps.chain([Reply::text("Done.")]).collect::<Vec<_>>()
        };
        talk.turn(&one, "base", "Read the first.", turn(&["a", "b"])).await;
        talk.turn(&other, "code", "Read the next.", turn(&["c", "d", "e"])).await;
        talk.turn(&one, "base", "Read the rest.", turn(&["f", "g", "h"])).await;
        talk.turn(&other, "code", "Read the last.", turn(&["i"])).await;
        assert_requests_grow(&one);
        assert_requests_grow(&other);
    }
}

#[tokio::test]
async fn last_answer_of_a_turn_may_use_another_provider() {
    for second in with_tools() {
        let first = if second == Provider::Mistral { Provider::Kimi } else { Provider::Mistral };
        let (one, other) = (server(first).await, server(second).await);
        let talk = Conversation::with(&[slot("base", first, &one), slot("chat", second, &other)]).await;
        one.reply(Reply { text: "I look.".to_owned(), ..reads(&["a", "b"]) }).reply(reads(&["c"]));
        other.reply(Reply::text("That is all."));
        let project = talk.daemon.path().join("project").display().to_string();
        let output = talk.daemon.agentctl(["run", "Read.", "--max-steps", "2", "-C", &project]).await;
        assert_eq!((one.refusals(), other.refusals()), (Vec::new(), Vec::new()), "{second:?}: {}", output.stderr);
        assert_eq!(
            (output.stdout.trim(), other.requests().len()),
            ("That is all.", 1),
            "{second:?}: {}",
            output.stderr
        );
    }
}

#[tokio::test]
async fn fork_and_interrupted_turn_continue_with_the_same_bytes() {
    for provider in [Provider::Gemini, Provider::Kimi, Provider::OpenRouter, Provider::Anthropic, Provider::OpenAi] {
        let server = server(provider).await;
        let mut talk = Conversation::with(&[slot("base", provider, &server)]).await;
        talk.turn(&server, "base", "Read.", vec![reads(&["a"]), reads(&["b"]), Reply::text("Done.")]).await;
        let session = talk.session.clone().unwrap();
        let fork = talk.daemon.ok(["sessions", "fork", &session]).await;
        talk.session = Some(fork.stdout.trim().to_owned());
        talk.turn(&server, "base", "Read on.", vec![reads(&["c"]), Reply::text("Done.")]).await;
        assert_requests_grow(&server);

        talk.session = Some(session.clone());
        server.reply(reads(&["d"])).reply(Reply::never());
        let asked = server.requests().len();
        let running = talk.daemon.spawn_agentctl(["run", "Read more.", "--session", &session]);
        server.wait_until(|counts| counts.requests == asked + 2).await;
        // The next request may be sent before the result has been stored.
        until("the result is stored", || async {
            let shown = talk.daemon.ok(["sessions", "show", &session, "--json"]).await.stdout;
            (shown.matches("\"tool_result\"").count() >= 3).then_some(())
        })
        .await;
        talk.daemon.kill9().await;
        drop(running);
        talk.daemon.restart().await;
        let last = vec![reads(&["e"]), reads(&["f"]), Reply::text("Done.")];
        talk.turn(&server, "base", "Go on.", last).await;
        let requests = server.requests();
        let (cut, next) = (messages(&requests[asked + 1]), messages(&requests[asked + 2]));
        assert!(next.starts_with(&cut), "{provider:?}: {next}\n\ndoes not begin with\n\n{cut}");
    }
}

#[tokio::test]
async fn another_model_of_the_server_gets_no_ids_of_the_first() {
    let server = server(Provider::Kimi).await;
    let mut talk = Conversation::with(&[slot("base", Provider::Kimi, &server)]).await;
    talk.turn(&server, "base", "Read.", vec![reads(&["a"]), Reply::text("Done.")]).await;
    let session = talk.session.clone().unwrap();
    server.reply(Reply::text("Done."));
    // The server rejects changed IDs in its own calls. Only this test checks the requests that the other model
    // receives.
    server.lenient();
    talk.daemon.ok(["run", "And now?", "--session", &session, "--model", "=the-other"]).await;
    let requests = server.requests();
    let ids = |request: &Recorded| {
        let calls = request.messages().iter().filter_map(|message| message["tool_calls"][0]["id"].as_str());
        calls.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids(&requests[1]), ["functions.read_file:0"]);
    let [id] = &ids(&requests[2])[..] else { panic!("{:#}", requests[2].body) };
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
}
