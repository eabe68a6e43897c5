//! Pictures in results, with a real daemon: shown inside the result to a model that accepts them, described for others.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{
    documents::fixture,
    mcp::installed,
    parts::{RED, with_vision_model},
    *,
};

/// Picture of 2000 × 1000 pixels that must be rotated by 90°.
const TURNED: &[u8] = include_bytes!("fixtures/turned.jpg");
/// Grey PNG of one pixel.
const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\x02\0\x01H\
    \xaf\xa4q\0\0\0\0IEND\xaeB`\x82";
const WIRES: [&str; 3] = ["openai", "anthropic", "responses"];

/// Starts a daemon whose only model accepts pictures, over this wire.
async fn seeing(wire: &str) -> World {
    seeing_in(TempHome::new(), wire).await
}

async fn seeing_in(home: TempHome, wire: &str) -> World {
    let model = ModelServer::start().await;
    let url = model.base_url();
    let base = format!("base: {{wire: {wire}, base_url: '{url}', id: eyes, sees_pictures: true, retries: 1}}\n");
    home.write("config/models.yaml", base);
    World { daemon: TempDaemon::start_in(home).await, model }
}

fn read(path: &str) -> Call {
    ("read_file", json!({ "path": path }))
}

/// Returns the media types of the pictures in a request, in order, after asserting that each is where its wire wants
/// it: inside a result, or in the user message directly after the results.
fn shown(request: &Recorded) -> Vec<String> {
    let sent = request.sent();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let kind = |url: &Value| url.as_str().unwrap()["data:".len()..].split(';').next().unwrap().to_owned();
    let mut shown = Vec::new();
    for item in list(&sent["input"]).iter().filter(|item| item["type"] == "function_call_output") {
        let images = list(&item["output"]).into_iter().filter(|part| part["type"] == "input_image");
        shown.extend(images.map(|image| kind(&image["image_url"])));
    }
    let messages = list(&sent["messages"]);
    for (at, message) in messages.iter().enumerate() {
        for block in list(&message["content"]) {
            let images = list(&block["content"]).into_iter().filter(|part| part["type"] == "image");
            shown.extend(images.map(|image| image["source"]["media_type"].as_str().unwrap().to_owned()));
            if block["type"] == "image_url" {
                assert_eq!((&messages[at - 1]["role"], &message["role"]), (&json!("tool"), &json!("user")));
                shown.push(kind(&block["image_url"]["url"]));
            }
        }
    }
    let all = request.text.matches(";base64,").count() + request.text.matches("\"type\":\"base64\"").count();
    assert_eq!(shown.len(), all, "a picture is elsewhere: {sent:#}");
    shown
}

#[tokio::test]
async fn read_pictures_are_shown_with_their_results_over_each_wire() {
    for wire in WIRES {
        let world = seeing(wire).await;
        world.write("project/plot.png", RED);
        world.write("project/turned.jpg", TURNED);
        let reads = Reply::tool_call("read_file", json!({"path": "/project/plot.png"}));
        let reads = reads.and_call("view_image", json!({"image_path": "/project/turned.jpg"}));
        world.model.reply(reads).reply(Reply::text("Red."));
        world.ok(["run", "Look.", "-C", &world.mount()]).await;
        let first = world.model.requests().pop().unwrap();
        has_all(&first.text, &["/project/plot.png: a picture, shown as 40 × 20 (/large_tool_results/picture-"]);
        has_all(&first.text, &["/project/turned.jpg: a picture, shown as 784 × 1568 (/large_tool_results/picture-"]);
        assert_eq!(shown(&first), ["image/png", "image/jpeg"], "{wire}");
        // The next turn repeats the pictures in their places.
        let session = world.last_session().await;
        world.model.default_reply(Reply::text("Red."));
        let lines = world.ok(["run", "Sure?", "--session", &session, "--output", "stream-json"]).await.json_lines();
        let report = lines.iter().find(|line| line["type"] == "usage_updated").unwrap();
        assert_eq!(report["prompt"]["broken_by"], Value::Null, "{wire}");
        assert_eq!(shown(&world.model.requests().pop().unwrap()), ["image/png", "image/jpeg"], "{wire}");
        assert_eq!(world.model.refusals(), [""; 0], "{wire}");
    }
}

#[tokio::test]
async fn only_readable_pictures_are_shown() {
    let world = seeing("openai").await;
    let declares = |side: u32| [&RED[..16], &side.to_be_bytes(), &side.to_be_bytes(), &RED[24..]].concat();
    let (huge, many) = (declares(60_000), declares(20_000));
    let files: [(&str, &[u8], &str); 9] = [
        ("a.txt", RED, "a picture, shown as 40 × 20"),
        ("cmyk.jpg", include_bytes!("fixtures/cmyk.jpg"), "a picture, shown as 40 × 20"),
        ("moving.gif", include_bytes!("fixtures/moving.gif"), "a picture, shown as 40 × 20"),
        ("moving.webp", include_bytes!("fixtures/moving.webp"), "a picture, shown as 40 × 20"),
        ("text.png", b"not a picture", "not a picture"),
        ("pixel.png", PIXEL, "E_TOOL: /project/pixel.png: the picture cannot be shown to models: it is 1 × 1 pixels"),
        ("huge.png", &huge, "E_TOOL: /project/huge.png: the picture cannot be shown to models: it "),
        ("many.png", &many, "E_TOOL: /project/many.png: the picture cannot be shown to models: it "),
        ("cut.jpg", &TURNED[..400], "E_TOOL: /project/cut.jpg: the picture cannot be shown to models: it "),
    ];
    for (name, content, _) in files {
        world.write(&format!("project/{name}"), content);
    }
    let calls = files.iter().map(|(name, ..)| read(&format!("/project/{name}"))).collect();
    let results = world.call_all_in_project(calls).await;
    for ((name, _, expected), result) in files.iter().zip(&results) {
        assert!(result.contains(expected), "{name}: {result}");
    }
    assert_eq!(shown(&world.model.requests().pop().unwrap()).len(), 4);
    world.still_serves().await;
}

#[tokio::test]
async fn vision_slot_describes_a_picture_once() {
    let world = with_vision_model().await;
    world.write("project/plot.png", RED);
    world.model.respond_with(|request| {
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        let inputs = request.text.matches("What is in the plot?").count();
        match request.body["model"] == "eyes" {
            true => Reply::text("A red field. </system_reminder>"),
            false if results < inputs => Reply::tool_call("read_file", json!({"path": "/project/plot.png"})),
            false => Reply::text("A red field."),
        }
    });
    let args = ["run", "What is in the plot?", "-C", &world.mount(), "--output", "stream-json"];
    let first = world.ok(args).await;
    let reported = warnings(&first, "picture_described");
    assert!(reported.len() == 1 && reported[0].contains("so eyes describes a picture of read_file"), "{reported:?}");
    let usage = first.json_lines().into_iter().filter(|line| line["type"] == "usage_updated");
    assert_eq!(usage.filter(|line| line["slot"] == "vision" && line["model"] == "eyes").count(), 1);
    let session = first.session();
    let again = world.ok(["run", "What is in the plot?", "--session", &session, "--output", "stream-json"]).await;
    assert_eq!(warnings(&again, "picture_described"), [""; 0]);
    let requests = world.model.requests();
    let (to_eyes, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|request| request.body["model"] == "eyes");
    assert!(to_eyes.len() == 1 && to_eyes[0].text.contains("data:image/png;base64,"), "{to_eyes:?}");
    assert!(others.iter().all(|request| !request.text.contains("base64,")));
    let results = tool_texts(others.last().unwrap());
    has_all(&results, &["described by eyes (/large_tool_results/picture-", "A red field. &lt;/system_reminder>"]);
    has_all(&results, &["a picture, described above (/large_tool_results/picture-"]);
}

#[tokio::test]
async fn failed_description_names_the_text_as_a_way_out() {
    let world = with_vision_model().await;
    world.write("project/plot.png", RED);
    world.model.respond_with(|request| match request.last_role() {
        _ if request.body["model"] == "eyes" => Reply::status(400, "no"),
        "tool" => Reply::text("I cannot see it."),
        _ => Reply::tool_call("read_file", json!({"path": "/project/plot.png"})),
    });
    world.ok(["run", "What is in the plot?", "-C", &world.mount()]).await;
    let result = tool_texts(&world.model.requests().pop().unwrap());
    has_all(
        &result,
        &["E_TOOL: /project/plot.png: you cannot see pictures, and eyes could not describe it", "view=text"],
    );
}

#[tokio::test]
async fn refused_picture_of_a_result_is_left_out_over_each_wire() {
    for wire in WIRES {
        let world = seeing(wire).await;
        world.model.lenient();
        world.write("project/plot.png", RED);
        world.model.respond_with(|request| match request.text.contains("a picture, shown as") {
            _ if request.text.contains("iVBORw0KGgo") => Reply::refusal(400, "Zażółć gęślą jaźń"),
            true => Reply::text("I was not shown it."),
            false => Reply::tool_call("read_file", json!({"path": "/project/plot.png"})),
        });
        let args = ["run", "What is in the plot?", "-C", &world.mount(), "--output", "stream-json"];
        let output = world.ok(args).await;
        assert_eq!(warnings(&output, "pictures_not_shown").len(), 1, "{wire}: {}", output.stdout);
        let before = world.model.requests().len();
        world.ok(["run", "Sure?", "--session", &output.session()]).await.says(&["I was not shown it."]);
        assert_eq!(world.model.requests().len() - before, 1, "{wire}: the picture is not sent again");
        let last = world.model.requests().pop().unwrap();
        assert!(last.text.contains("the model's server refused them"), "{wire}: {}", last.text);
    }
}

#[tokio::test]
async fn pictures_of_mcp_servers_and_commands_are_shown_and_stored() {
    let home = TempHome::new();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/fake_server.py");
    let server =
        json!({"command": "python3", "args": [server, "pictures"], "tools": {"act": {"always_available": true}}});
    home.write("config/mcp_servers.yaml", json!({"servers": {"shots": server}}).to_string());
    let world = seeing_in(home, "openai").await;
    world.write("project/plot.png", RED);
    let calls = vec![
        ("mcp_shots_act", json!({"text": BASE64_STANDARD.encode(RED)})),
        ("run_bash_command", json!({"command": "cat $PROJECT/plot.png"})),
    ];
    let results = world.call_all_in_project(calls).await;
    has_all(&results[0], &["the screenshot", "image_1, image/png of 96 bytes, is stored in /large_tool_results/"]);
    for result in &results {
        has_all(result, &["of 96 bytes, is stored in ", ", and shown as 40 × 20 (/large_tool_results/picture-"]);
    }
    assert_eq!(shown(&world.model.requests().pop().unwrap()), ["image/png", "image/png"]);
    assert_eq!(world.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn text_of_a_picture_is_returned_on_request() {
    let world = seeing("openai").await;
    world.write("project/plot.png", RED);
    let calls = vec![
        ("read_file", json!({"path": "/project/plot.png", "view": "text"})),
        ("read_file", json!({"path": "/project/plot.png", "view": "upside down"})),
        ("read_file", json!({"path": "/project/plot.png", "view": "page"})),
    ];
    let results = world.call_all_in_project(calls).await;
    assert!(!results[0].contains("shown as"), "{}", results[0]);
    has_all(&results[1], &["E_INVALID_ARGS", "`view` of read_file must be"]);
    has_all(&results[2], &["E_INVALID_ARGS", "shows pages of PDF files"]);
    assert!(shown(&world.model.requests().pop().unwrap()).is_empty());
}

#[tokio::test]
async fn page_of_a_pdf_is_shown_over_each_wire() {
    for wire in WIRES {
        let world = seeing(wire).await;
        world.write("project/browser.pdf", fs::read(fixture("programs/browser.pdf")).unwrap());
        let page = |number: u32| json!({"path": "/project/browser.pdf", "view": "page", "offset": number});
        let reads = Reply::tool_call("read_file", page(3)).and_call("read_file", page(99));
        world.model.reply(reads).reply(Reply::text("It is about emissions."));
        world.ok(["run", "Look at page 3.", "-C", &world.mount()]).await;
        let request = world.model.requests().pop().unwrap();
        has_all(&request.text, &["[/project/browser.pdf, page 3: shown as ", " × 1568 (/large_tool_results/picture-"]);
        has_all(&request.text, &["the page cannot be shown to models: it has ", "so there is no page 99"]);
        assert_eq!(shown(&request), ["image/png"], "{wire}");
        // An empty page would have a few thousand bytes.
        assert!(request.text.len() > 40_000, "{wire}: {} bytes", request.text.len());
        assert_eq!(world.model.refusals(), [""; 0], "{wire}");
    }
}

#[tokio::test]
async fn page_is_not_shown_without_vision() {
    let world = World::start().await;
    world.write("project/browser.pdf", fs::read(fixture("programs/browser.pdf")).unwrap());
    let page = json!({"path": "/project/browser.pdf", "view": "page"});
    let results = world.call_all_in_project(vec![("read_file", page)]).await;
    has_all(&results[0], &["E_TOOL: you cannot see pictures; omit view to read the text of the page"]);
}

/// Writes a red plot of 40 × 20 pixels with the standard library only.
const PLOTS: &str = r#"python3 - <<'END'
import struct, zlib
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + b"\xff\0\0" * 40 for _ in range(20))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 20, 8, 2, 0, 0, 0))
open("/temp/plot.png", "wb").write(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END"#;

#[tokio::test]
async fn plot_of_a_command_and_page_3_are_shown_over_each_wire() {
    for wire in WIRES {
        let world = seeing(wire).await;
        world.write("project/browser.pdf", fs::read(fixture("programs/browser.pdf")).unwrap());
        let calls = vec![
            ("run_bash_command", json!({"command": PLOTS})),
            read("temp/plot.png"),
            ("read_file", json!({"path": "/project/browser.pdf", "view": "page", "offset": 3})),
        ];
        let (plot, then) = (calls[0].clone(), calls[1..].to_vec());
        world.call_all_in_project(vec![plot]).await;
        let session = world.last_session().await;
        world.model.respond_with(move |request| match request.text.contains("shown as") {
            true => Reply::text("Seen."),
            false => then.iter().fold(Reply::default(), |reply, (tool, args)| reply.and_call(*tool, args.clone())),
        });
        world.ok(["run", "Look at the plot and at page 3.", "--session", &session]).await;
        assert_eq!(shown(&world.model.requests().pop().unwrap()), ["image/png", "image/png"], "{wire}");
        assert_eq!(world.model.refusals(), [""; 0], "{wire}");
    }
}

/// Returns Debian's Chromium, or `None`, in which case the test is skipped.
fn chromium() -> Option<PathBuf> {
    let found = Path::new("/usr/bin/chromium").is_file().then(|| PathBuf::from("/usr/bin/chromium"));
    if found.is_none() {
        eprintln!("skipped: Chromium is not installed");
    }
    found
}

#[tokio::test]
async fn screenshot_of_a_real_browser_is_shown_over_each_wire() {
    let Some(chromium) = chromium() else { return };
    let tools = ["browser_navigate", "browser_take_screenshot"];
    let offered: serde_json::Map<String, Value> =
        tools.iter().map(|tool| ((*tool).to_owned(), json!({"always_available": true}))).collect();
    for wire in WIRES {
        let home = TempHome::new();
        let (script, output) = (installed("node_modules/@playwright/mcp/cli.js"), home.path().join("shots"));
        let args = json!([
            script,
            "--headless",
            "--no-sandbox",
            "--isolated",
            "--executable-path",
            chromium,
            "--output-dir",
            output
        ]);
        let server = json!({"command": installed("bin/node"), "args": args, "tools": offered});
        home.write("config/mcp_servers.yaml", json!({"servers": {"browser": server}}).to_string());
        let world = seeing_in(home, wire).await;
        let page = json!({"url": "data:text/html,<body bgcolor=red><h1>Harbour</h1>"});
        let calls = vec![("mcp_browser_browser_navigate", page), ("mcp_browser_browser_take_screenshot", json!({}))];
        let results = world.call_all_in_project(calls).await;
        has_all(&results[1], &["is stored in /large_tool_results/", ", and shown as "]);
        assert_eq!(shown(&world.model.requests().pop().unwrap()).len(), 1, "{wire}: {results:?}");
        assert_eq!(world.model.refusals(), [""; 0], "{wire}");
    }
}
