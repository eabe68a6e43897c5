//! Parts of requests that a server rejects, in any wording: they are omitted for one attempt, reported, and remembered.

use super::{wires::RED, *};

/// Error messages from servers, including one that cannot be anticipated.
const WORDS: [(u16, &str); 9] = [
    (400, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (404, "No endpoints found that support image input"),
    (422, "Input should be a valid string"),
    (500, "Failed to load image or audio file"),
    (400, "Invalid content type. image_url is only supported by certain models."),
    (422, "unknown variant `image_url`, expected `text`"),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (500, "Unable to generate parser for this template"),
    (400, "Zażółć gęślą jaźń"),
];

/// A daemon whose model can be replaced with another model on the same server.
struct World {
    model: ModelServer,
    daemon: TempDaemon,
    wire: &'static str,
}

impl World {
    async fn start(wire: &'static str) -> Self {
        let model = ModelServer::start().await;
        model.lenient();
        let daemon = TempDaemon::start_in(TempHome::with_model(&model.base_url())).await;
        Self { model, daemon, wire }
    }

    /// Uses the model with this ID from now on.
    async fn choose(&self, id: &str) {
        let url = self.model.base_url();
        let base =
            format!("base: {{wire: {}, base_url: '{url}', id: {id}, sees_pictures: true, retries: 1}}", self.wire);
        self.daemon.write("config/models.yaml", base);
        self.daemon.ok(["reload"]).await;
    }

    async fn restart(&mut self) {
        self.daemon.kill9().await;
        self.daemon.restart().await;
    }

    async fn run(&self, text: &str, more: &[&str]) -> Output {
        let args = ["run", text, "--output", "stream-json"];
        self.daemon.agentctl(args.iter().chain(more)).await
    }

    /// Runs a turn. Returns the output and the requests.
    async fn asked(&self, text: &str, more: &[&str]) -> (Output, Vec<Recorded>) {
        let before = self.model.requests().len();
        let output = self.run(text, more).await.exits(0);
        (output, self.model.requests().split_off(before))
    }

    async fn wait_until_stored(&self, phrase: &str) {
        let file = self.daemon.data().join("model-facts.json");
        until(&format!("{phrase} is stored"), async || {
            fs::read_to_string(&file).ok().filter(|text| text.contains(phrase))
        })
        .await;
    }

    fn picture(&self, name: &str, content: &[u8]) -> String {
        self.daemon.write(name, content).to_str().unwrap().to_owned()
    }
}

/// Returns true if the request contains a picture.
fn shows(request: &Recorded) -> bool {
    ["iVBORw0KGgo", "/9j/"].iter().any(|start| request.text.contains(start))
}

fn tools(request: &Recorded) -> Vec<Value> {
    let name =
        |tool: &Value| [&tool["function"]["name"], &tool["name"]].into_iter().find(|name| name.is_string()).cloned();
    request.sent()["tools"].as_array().into_iter().flatten().filter_map(name).collect()
}

async fn pictures(wire: &'static str) {
    let mut world = World::start(wire).await;
    let red = world.picture("red.png", RED);
    for (number, (status, message)) in WORDS.into_iter().enumerate() {
        world.choose(&format!("m-{number}")).await;
        let answer = move |request: &Recorded| match shows(request) {
            true if request.sent()["model"] != "sees" => Reply::refusal(status, message),
            _ => Reply::text("Blue."),
        };
        world.model.respond_with(answer);
        let (output, asked) = world.asked("Which colour?", &["--file", &red]).await;
        assert_eq!(warnings(&output, "pictures_not_shown").len(), 1, "{message}: {}", output.stdout);
        assert!(warnings(&output, "tools_in_text").is_empty(), "{message}");
        assert!(
            shows(&asked[0]) && !shows(asked.last().unwrap()) && !tools(asked.last().unwrap()).is_empty(),
            "{message}"
        );
        // The file is still stored and mentioned, and the session continues without the picture.
        let (output, asked) = world.asked("Sure?", &["--session", &output.session()]).await;
        assert!(asked.len() == 1 && !shows(&asked[0]) && asked[0].text.contains("red.png"), "{message}");
        assert!(warnings(&output, "pictures_not_shown").is_empty() && warnings(&output, "model_retry").is_empty());
    }
    // Another model on the same server accepts pictures.
    world.choose("sees").await;
    let (_, asked) = world.asked("Which colour?", &["--file", &red]).await;
    assert!(asked.len() == 1 && shows(&asked[0]));
    // After one rejection, only that picture is omitted. After two rejections, the model gets no pictures.
    world.choose("m-8").await;
    world.wait_until_stored("without_pictures").await;
    world.restart().await;
    let (output, asked) = world.asked("Which colour?", &["--file", &red]).await;
    assert!(asked.len() == 1 && !shows(&asked[0]), "{}", output.stdout);
    let turned = world.picture("turned.jpg", include_bytes!("fixtures/turned.jpg"));
    let (output, _) = world.asked("And this?", &["--file", &turned]).await;
    assert_eq!(warnings(&output, "pictures_not_shown").len(), 1, "{}", output.stdout);
    world.wait_until_stored("\"times\": 2").await;
    world.restart().await;
    let (output, asked) = world.asked("And this?", &["--file", &turned]).await;
    assert!(asked.len() == 1 && asked[0].text.contains("You cannot see pictures"), "{}", output.stdout);
    world.daemon.ok(["models", "show"]).await.shows(&["without pictures", "remembered until"]);
    assert_eq!(world.daemon.json(["models"]).await[0]["model"]["sees_pictures"], json!(false));
}

#[tokio::test]
async fn refused_picture_is_omitted_over_chat_completions() {
    pictures("openai").await;
}

#[tokio::test]
async fn refused_picture_is_omitted_over_messages() {
    pictures("anthropic").await;
}

#[tokio::test]
async fn refused_picture_is_omitted_over_responses() {
    pictures("responses").await;
}

#[tokio::test]
async fn refused_tools_move_into_the_text() {
    for wire in ["openai", "anthropic", "responses"] {
        let mut world = World::start(wire).await;
        for (number, (status, message)) in [
            (400, "Unable to generate parser for this template. Automatic parser generation failed"),
            (500, "No chat template found"),
            (422, "failed to parse grammar"),
            (404, "Zażółć gęślą jaźń"),
        ]
        .into_iter()
        .enumerate()
        {
            world.choose(&format!("m-{number}")).await;
            world.model.respond_with(move |request| match request.text.contains(r#"<tool_result name=\"now\">"#) {
                _ if !tools(request).is_empty() => Reply::refusal(status, message),
                true => Reply::text("It is noon."),
                false => Reply::text(r#"{"tool": "now", "args": {}}"#),
            });
            let output = world.run("What time is it?", &[]).await.exits(0);
            assert_eq!(output.json_lines().pop().unwrap()["text"], "It is noon.", "{wire} {message}");
            assert_eq!(warnings(&output, "tools_in_text").len(), 1, "{wire} {message}: {}", output.stdout);
            let (output, asked) = world.asked("What time is it?", &[]).await;
            assert_eq!(asked.len(), 2, "{wire} {message}: the refusal is remembered");
            assert!(warnings(&output, "tools_in_text").is_empty() && warnings(&output, "model_retry").is_empty());
        }
        world.wait_until_stored("text_tools").await;
        world.restart().await;
        let (_, asked) = world.asked("What time is it?", &[]).await;
        assert!(asked.len() == 2 && asked.iter().all(|request| tools(request).is_empty()), "{wire}");
        // Unrelated errors of another model on the same server are retried as usual.
        world.choose("fails").await;
        world.model.respond_with(|_| Reply::refusal(500, "out of memory"));
        let failed = world.run("What time is it?", &[]).await;
        assert!(failed.code != Some(0) && warnings(&failed, "model_retry").len() == 2, "{wire}: {}", failed.stdout);
        world.model.respond_with(|_| Reply::text("It is noon."));
        let (output, asked) = world.asked("What time is it?", &[]).await;
        assert!(asked.len() == 1 && !tools(&asked[0]).is_empty(), "{wire}: {}", output.stdout);
        let shown = world.daemon.ok(["models", "show"]).await.stdout;
        assert!(!shown.contains("tools in the text"), "{shown}");
    }
}

#[tokio::test]
async fn single_refused_tool_is_omitted_alone() {
    for wire in ["openai", "anthropic", "responses"] {
        let mut world = World::start(wire).await;
        for (number, form) in ["name", "path", "index", "list"].into_iter().enumerate() {
            world.choose(&format!("m-{number}")).await;
            world.model.respond_with(move |request| {
                let Some(at) = tools(request).iter().position(|name| name == "read_file") else {
                    return Reply::text("Fine.");
                };
                let message = match form {
                    "name" => {
                        "Invalid schema for function 'read_file': In context=(), 'anyOf' is not permitted.".to_owned()
                    }
                    "path" => format!("tools.{at}.custom.input_schema: does not support anyOf at the top level"),
                    "index" => format!("Invalid 'tools[{at}].function.parameters'"),
                    _ => format!("GenerateContentRequest.tools[0].function_declarations[{at}].parameters: no"),
                };
                Reply::refusal(400, &message)
            });
            let (output, asked) = world.asked("Hello", &[]).await;
            assert_eq!(asked.len(), 2, "{wire} {form}: {}", output.stdout);
            assert_eq!(tools(&asked[1]).len() + 1, tools(&asked[0]).len(), "{wire} {form}");
            let left_out = warnings(&output, "tool_left_out");
            assert!(left_out.len() == 1 && left_out[0].contains("read_file"), "{wire} {form}: {left_out:?}");
            // After the second rejection, the limitation is remembered and is not reported again.
            for requests in [2, 1] {
                let (output, asked) = world.asked("Hello", &[]).await;
                assert_eq!((asked.len(), warnings(&output, "tool_left_out").len()), (requests, 0), "{wire} {form}");
            }
        }
        world.wait_until_stored("without_tool").await;
        world.restart().await;
        let (_, asked) = world.asked("Hello", &[]).await;
        assert!(asked.len() == 1 && !tools(&asked[0]).is_empty(), "{wire}");
        world.daemon.ok(["models", "show"]).await.shows(&["without the tool read_file"]);
        world.choose("another").await;
        world.model.respond_with(|_| Reply::text("Fine."));
        let (_, asked) = world.asked("Hello", &[]).await;
        assert!(tools(&asked[0]).contains(&json!("read_file")), "{wire}");
    }
}
