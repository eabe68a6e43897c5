//! Editors: `agentctl acp`, driven by lines of JSON. Each line that the process writes is validated against the
//! protocol's own schema.
//!
//! - [`turns`]: prompts and their updates. [`asking`]: approvals and questions. [`sessions`]: listing, loading and
//!   settings of sessions. [`servers`]: MCP servers from editors. [`ending`]: cancellation, editors that disconnect,
//!   restarted daemons. [`lines`]: invalid input. [`buffers`]: files with unsaved text.
//!   [`remote`]: daemons of other machines.

mod asking;
mod buffers;
mod ending;
mod lines;
mod remote;
mod servers;
mod sessions;
mod turns;

use std::sync::LazyLock;

use jsonschema::Validator;

use super::*;

/// Returns the result of the last call, as sent to the model.
fn last_result(world: &World) -> String {
    let request = world.model.requests().pop().unwrap();
    let result = request.messages().iter().rfind(|message| message["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

/// The JSON schema for the protocol.
static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../fixtures/acp/schema.json")).unwrap());

/// Returns the name of a method's `Request`, `Notification` or `Response` definition.
fn definition(method: &str, ending: &str) -> String {
    let definitions = SCHEMA["$defs"].as_object().unwrap();
    let found = definitions.iter().find(|(name, definition)| {
        definition["x-method"] == method && name.ends_with(ending) && !name.starts_with("Cancel")
    });
    found.unwrap_or_else(|| panic!("the schema has no {ending} of {method}")).0.clone()
}

/// Validates values against definitions in the schema.
#[derive(Default)]
struct Checker {
    known: HashMap<String, Validator>,
}

impl Checker {
    fn check(&mut self, definition: &str, value: &Value) {
        let validator = self.known.entry(definition.to_owned()).or_insert_with(|| {
            let mut schema = SCHEMA.clone();
            schema["$ref"] = json!(format!("#/$defs/{definition}"));
            jsonschema::validator_for(&schema).unwrap()
        });
        let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "no {definition}: {errors:#?}\n{value:#}");
    }
}

/// A simulated editor process.
struct Editor {
    running: Running,
    checker: Checker,
    /// Methods of requests that have no response yet, by request ID.
    open: HashMap<u64, String>,
    last: u64,
    /// Received updates that no test has consumed.
    updates: Vec<Value>,
    /// Requests received from the agent.
    asked: Vec<Value>,
    /// Other notifications received from the agent.
    notifications: Vec<Value>,
    /// Files that are open in the editor.
    files: OpenFiles,
}

/// Files that are open in an editor.
#[derive(Default)]
struct OpenFiles {
    /// Texts of the buffers.
    texts: HashMap<PathBuf, String>,
    /// True if buffers are saved whenever their text changes.
    saves: bool,
    /// Error to return for every request, if any.
    refuses: Option<Value>,
    /// True if file requests are never answered.
    is_silent: bool,
    /// Received file requests: the last part of the method, and the path.
    asked: Vec<(String, PathBuf)>,
}

impl OpenFiles {
    /// Returns the response to a request, or `None` if the request is not answered.
    fn answer(&mut self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        let path = PathBuf::from(params["path"].as_str().unwrap());
        let is_read = method == "fs/read_text_file";
        self.asked.push((if is_read { "read" } else { "write" }.to_owned(), path.clone()));
        if self.is_silent {
            return None;
        }
        if let Some(error) = &self.refuses {
            return Some(Err(error.clone()));
        }
        if is_read {
            let text = self.texts.get(&path).ok_or(json!({"code": -32002, "message": "not open"}));
            return Some(text.map(|text| json!({"content": text})));
        }
        let text = params["content"].as_str().unwrap();
        if self.saves {
            fs::write(&path, text).unwrap();
        }
        self.texts.insert(path, text.to_owned());
        Some(Ok(json!({})))
    }
}

/// Starts a daemon, an editor with basic capabilities, and a session. Returns them with the session's folder.
async fn world_with_editor() -> (World, Editor, String, PathBuf) {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, folder) = editor.session(&world).await;
    (world, editor, session, folder)
}

/// Waits until the session has no running turn.
async fn wait_until_idle(world: &World, session: &str) {
    let client = world.client().await;
    until("the turn has ended", || async { client.session(session).await.unwrap().live_turn.is_none().then_some(()) })
        .await;
}

impl Editor {
    /// Starts an editor with basic capabilities.
    async fn start(world: &World) -> Self {
        Self::with(world, json!({})).await
    }

    async fn with(world: &World, capabilities: Value) -> Self {
        let mut editor = Self::silent(&world.daemon);
        let info = json!({"name": "tester", "title": "The Tester", "version": "1"});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info});
        let greeting = editor.gives("initialize", params).await;
        assert_eq!((&greeting["protocolVersion"], &greeting["agentInfo"]["name"]), (&json!(1), &json!("agentd")));
        editor
    }

    /// Starts an editor that does not send anything.
    fn silent(home: &TempHome) -> Self {
        Self {
            running: Running::spawn(home.agentctl_command(["acp"])),
            checker: Checker::default(),
            open: HashMap::new(),
            last: 0,
            updates: Vec::new(),
            asked: Vec::new(),
            notifications: Vec::new(),
            files: OpenFiles::default(),
        }
    }

    async fn send(&mut self, message: Value) {
        self.running.write(&format!("{message}\n")).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request, and returns its ID.
    async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.open.insert(self.last, method.to_owned());
        self.send(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
        self.last
    }

    /// Reads, validates and stores the next line. Returns `None` at the end of the output, and `Some(Some(…))` for a
    /// response.
    async fn read(&mut self) -> Option<Option<(Value, Value)>> {
        let line = self.running.json_line().await?;
        assert_eq!(line["jsonrpc"], "2.0", "{line:#}");
        let Some(method) = line["method"].as_str() else {
            let method = line["id"].as_u64().and_then(|id| self.open.remove(&id));
            if let Some(error) = line.get("error") {
                self.checker.check("Error", error);
            } else {
                self.checker.check(&definition(&method.unwrap(), "Response"), &line["result"]);
            }
            return Some(Some((line["id"].clone(), line)));
        };
        let params = line["params"].clone();
        match (method, line.get("id")) {
            ("$/cancel_request", _) => {
                self.checker.check("CancelRequestNotification", &params);
                self.notifications.push(line);
            }
            ("session/update", None) => {
                self.checker.check("SessionNotification", &params);
                self.updates.push(params);
            }
            ("fs/read_text_file" | "fs/write_text_file", Some(id)) => {
                self.checker.check(&definition(method, "Request"), &params);
                match self.files.answer(method, &params) {
                    Some(Ok(result)) => self.reply(id.clone(), result).await,
                    Some(Err(error)) => self.send(json!({"jsonrpc": "2.0", "id": id, "error": error})).await,
                    None => self.asked.push(line.clone()),
                }
            }
            (method, Some(_)) => {
                self.checker.check(&definition(method, "Request"), &params);
                self.asked.push(line);
            }
            _ => panic!("unknown notification: {line:#}"),
        }
        Some(None)
    }

    /// Waits for the complete response to a request.
    async fn answer_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            match self.read().await {
                Some(Some((answered, line))) if answered == id => return line,
                Some(_) => {}
                None => panic!("the bridge exited before answering request {id}"),
            }
        }
    }

    /// Sends a request that must succeed, and returns its result.
    async fn gives(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.ends(id).await
    }

    async fn ends(&mut self, id: u64) -> Value {
        let answer = self.answer_to(id).await;
        assert!(answer.get("error").is_none(), "{answer:#}");
        answer["result"].clone()
    }

    /// Sends a request that must fail, and returns the code and the message of its error.
    async fn fails(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.begin(method, params).await;
        let answer = self.answer_to(id).await;
        let error = answer.get("error").unwrap_or_else(|| panic!("expected an error: {answer:#}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Creates a session with a folder in the home, and returns both.
    async fn session(&mut self, world: &World) -> (String, PathBuf) {
        let folder = world.path().join("shop");
        fs::create_dir_all(&folder).unwrap();
        let result = self.gives("session/new", json!({"cwd": folder, "mcpServers": []})).await;
        (result["sessionId"].as_str().unwrap().to_owned(), folder.canonicalize().unwrap())
    }

    async fn begin_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begin("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Runs a prompt, and returns the stop reason.
    async fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.begin_prompt(session, text).await;
        self.ends(id).await["stopReason"].as_str().unwrap().to_owned()
    }

    /// Runs a prompt to its end and answers one approval with this option. Returns the request for approval.
    async fn prompt_with_decision(&mut self, session: &str, text: &str, option: &str) -> Value {
        let id = self.begin_prompt(session, text).await;
        let asked = self.answer_approval(option).await;
        assert_eq!(self.ends(id).await["stopReason"], "end_turn");
        asked
    }

    /// Waits for the next update of a kind.
    async fn update(&mut self, kind: &str) -> Value {
        let is_kind = |update: &Value| update["update"]["sessionUpdate"] == kind;
        loop {
            if let Some(at) = self.updates.iter().position(is_kind) {
                return self.updates.remove(at)["update"].clone();
            }
            assert!(self.read().await.is_some(), "no {kind} update received");
        }
    }

    /// Returns all received updates of a kind.
    fn updates_of(&self, kind: &str) -> Vec<Value> {
        let updates = self.updates.iter().map(|params| params["update"].clone());
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// Returns the concatenated text of all received updates of a kind.
    fn words(&self, kind: &str) -> String {
        self.updates_of(kind)
            .iter()
            .filter_map(|update| update["content"]["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// Waits for the agent's next request, and returns its ID and parameters.
    async fn question(&mut self, method: &str) -> (Value, Value) {
        loop {
            if let Some(at) = self.asked.iter().position(|line| line["method"] == method) {
                let line = self.asked.remove(at);
                return (line["id"].clone(), line["params"].clone());
            }
            assert!(self.read().await.is_some(), "no {method} request received");
        }
    }

    /// Responds to a request from the agent.
    async fn reply(&mut self, id: Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    /// Answers the next approval request with an option.
    async fn answer_approval(&mut self, option: &str) -> Value {
        let (id, params) = self.question("session/request_permission").await;
        self.reply(id, json!({"outcome": {"outcome": "selected", "optionId": option}})).await;
        params
    }

    /// Closes the editor's input and waits until the process ends.
    async fn close(self) -> Output {
        self.running.output(Vec::new()).await
    }
}
