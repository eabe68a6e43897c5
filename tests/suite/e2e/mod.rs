//! End to end: real daemons, real clients, and a model server that says what it is told to.
//!
//! - [`acp`]: editors, over the Agent Client Protocol.
//! - [`run`]: one turn for scripts: its output and its exit codes. [`sessions`]: the listing commands.
//! - [`life`]: how a daemon comes and goes. [`crash`]: killed at every stored event of a turn. [`random_kills`]: killed at random
//!   while several clients are at work. [`rough`]: stopped, crowded, on a disk that takes nothing, and killed while many questions wait.
//! - [`interrupts`]: approvals and questions that outlive everybody. [`grants`]: rules that people keep. [`readers`]: several
//!   clients, and slow ones.
//! - [`bad_input`], [`bad_models`], [`bad_documents`]: a clear message with a hint, and nothing lost. [`documents`]: pages,
//!   cited. [`changing_documents`]: found as they are now, and read once.
//! - [`encodings`]: byte-exact edits. [`patches`]: whole or not at all. [`undo`]: what turns did to files, taken back. [`irreversible`]:
//!   what cannot be.
//! - [`files`]: what sessions see besides their own files. [`worktrees`]: several of them on one repository.
//! - [`in_form`]: answers that match a schema, for scripts. [`stream_schema`]: the schema of what scripts read.
//! - [`parts`]: what a client hands over with an input. [`client_tools`]: tools that it answers. [`watching`]: one stream over all
//!   sessions.
//! - [`code`]: source code, found by meaning, name and structure.
//! - [`forks`]: sessions that go on from a copy of another's history. [`travel`]: sessions that leave for another daemon, [`bug_reports`] with all
//!   that a stranger needs to see what happened;
//!   [`travel_hostile`]: forged ones.
//! - [`projects`]: what projects bring along, used where the person trusts it.
//! - [`plugins`]: folders with parts of all kinds, added and removed as a whole.
//! - [`guides`]: what people wrote for models to know. [`uploads`]: what they hand over.
//! - [`sandbox`]: what commands cannot reach, whose environment they see, and what is left of them. [`limits`]: how much
//!   they can take, and what they can leave behind.
//! - [`hostile`]: all commands and paths of the corpora that try to get where they may not.
//! - [`audit`]: what was asked, decided and done.
//! - [`policy`]: the rules of what may run: enforced, explained, tried, read again. [`checks`]: those that cannot be made.
//!   [`links`]: under every name of a file. [`unread`]: no tool tells of a file that may not be read.
//! - [`retention`]: what nobody uses is removed, and the disk gets its room back. [`pruning`]: what a person removes together.
//! - [`shown`]: all that a person decides on is before their eyes.
//! - [`language_servers`]: errors that edits bring, told before the next step.
//! - [`large`]: results that are longer than a window. [`inputs`]: what people pipe in that is.
//! - [`learning`]: what servers refuse and cut, noticed, told and remembered. [`refusals`]: pictures, tools and single tools that a
//!   server refuses, in whatever words. [`routes`]: what goes through a proxy, and what never does.
//! - [`context`]: a window that never runs full. [`requests`]: what the model saw, as snapshots.
//! - [`agents`]: named, handed the session, and given work. [`subagents`]: sessions of their own that do parts of it.
//! - [`providers`]: servers that demand back what they sent, and what others cannot read. [`wires`]: those that bind thoughts to
//!   all that stands before them, or encrypt them.
//! - [`mentions`]: tools, skills and agents that an input names. [`skills`]: brought when they are needed, checked, installed.
//! - [`extending`]: what the page for newcomers says, done word for word.
//! - [`readme`]: the commands and the picture of the first page. [`shell`]: what a shell says that the daemon does not know.
//! - [`usage`]: tokens and money of every call.
//! - [`trace`]: a turn as a tree, and as a page. [`telemetry`]: turns for a collector.
//! - [`wire_traces`]: requests to models as they were on the wire.
//! - [`long_task`]: sixty steps whose requests only grow.
//! - [`loops`]: models that go in circles.
//! - [`tiers`]: which tools a turn shows, and that nothing else can be called.
//! - [`web`]: what may be asked of the web, and how pages are shown.
//! - [`mcp`]: tools of MCP servers, real ones and such as do what none should.
//! - [`chat`]: the conversation at a terminal. [`commands`]: its commands, and those that people write. [`typing`]: what is
//!   typed while it works. [`together`]: two of them in one session. [`taking_back`]: what a cancel takes back. [`ending`]: clients that are told to
//!   end, or die. [`embedded`]: the built-in model with nothing configured.
//!
//! What is imported here is what nearly every file needs: they take it with `use super::*`.

mod acp;
mod added_folders;
mod adding_models;
mod agents;
mod audit;
mod bad_documents;
mod bad_input;
mod bad_models;
mod bug_reports;
mod changing_documents;
mod chat;
mod checks;
mod client_tools;
mod code;
mod commands;
mod context;
mod crash;
mod damage;
mod documents;
mod earlier_data;
mod earlier_files;
mod embedded;
mod encodings;
mod ending;
mod extending;
mod files;
mod finding;
mod forks;
mod full_disk;
mod grants;
mod guarded;
mod guarded_tools;
mod guides;
mod hostile;
mod in_form;
mod inputs;
mod interrupts;
mod irreversible;
mod language_servers;
mod large;
mod learning;
mod life;
mod limits;
mod links;
mod locked_documents;
mod long_task;
mod loops;
mod mcp;
mod mentions;
mod models;
mod modes;
mod money;
mod own_tools;
mod parts;
mod patches;
mod plain;
mod plugins;
mod policy;
mod projects;
mod providers;
mod pruning;
mod random_kills;
mod readers;
mod readme;
mod recordings;
mod refusals;
mod relief;
mod requests;
mod resume;
mod retention;
mod rewind;
mod rough;
mod routes;
mod routing;
mod run;
mod sandbox;
mod searches;
mod service;
mod sessions;
mod shell;
mod shown;
mod skill_scripts;
mod skills;
mod stats;
mod stream_schema;
mod subagents;
mod surroundings;
mod taking_back;
mod telemetry;
mod terminal;
mod tiers;
mod together;
mod trace;
mod travel;
mod travel_hostile;
mod typing;
mod undo;
mod unread;
mod unusable;
mod uploads;
mod usage;
mod watching;
mod web;
mod wire_traces;
mod wires;
mod wishes;
mod worktrees;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    interrupt::Answer,
    item::ItemBody,
    session::Mount,
    turn::{IfBusy, OnInterrupt, StartTurn, StopReason},
};
use agentd_proto::client::{Client, EventStream, NewSession, SessionChoice, StartRequest, TurnStream};
use agentd_testkit::{
    daemon::{Output, Running, TempDaemon, TempHome, program, until, until_true},
    model_server::{ModelServer, Provider, Recorded, Reply, UsagePlace},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use self::terminal::{Terminal, says};

/// A tool and its arguments.
type Call = (&'static str, Value);

/// A daemon and its model.
struct World {
    model: ModelServer,
    daemon: TempDaemon,
}

/// Starts a daemon for which this folder of its home is a small disk of its own. Where nobody but the administrator may
/// mount anything, there is none, and the test has nothing to show.
fn on_small_disk(home: &TempHome, folder: &str, size: &str) -> Option<Command> {
    let how = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let place = home.path().join(folder);
    std::fs::create_dir_all(&place).unwrap();
    let mount = r#"mount -t tmpfs -o "size=$2,mode=700" none "$1" && exec "$0""#;
    let mut attempt = Command::new("unshare");
    let attempt = attempt.args([how, "/bin/sh", "-c", mount, "true"]).arg(&place).arg(size).output();
    if !attempt.is_ok_and(|output| output.status.success()) {
        eprintln!("not shown: this machine lets nobody mount a small disk");
        return None;
    }
    let mut command = home.command("unshare");
    command.args([how, "/bin/sh", "-c", mount]).arg(program("agentd")).arg(&place).arg(size);
    Some(command)
}

impl std::ops::Deref for World {
    type Target = TempDaemon;

    fn deref(&self) -> &TempDaemon {
        &self.daemon
    }
}

impl World {
    async fn start() -> Self {
        Self::prepared(|_| ()).await
    }

    /// With a model that says this wherever nothing else is scripted.
    async fn saying(words: &str) -> Self {
        let world = Self::start().await;
        world.model.default_reply(Reply::text(words));
        world
    }

    /// With this in `agentd.yaml`.
    async fn configured(agentd_yaml: &str) -> Self {
        Self::with_files(&[("config/agentd.yaml", agentd_yaml)]).await
    }

    /// With these files below its home.
    async fn with_files(files: &[(&str, &str)]) -> Self {
        let write = |home: &mut TempHome| files.iter().for_each(|(path, content)| drop(home.write(path, content)));
        Self::prepared(write).await
    }

    /// In a home that is prepared like this.
    async fn prepared(prepare: impl FnOnce(&mut TempHome)) -> Self {
        let (model, mut home) = TempHome::with_server().await;
        prepare(&mut home);
        Self { daemon: TempDaemon::start_in(home).await, model }
    }

    /// The questions that wait for a person.
    async fn questions(&self) -> Vec<Value> {
        self.json(["interrupts"]).await.as_array().unwrap().clone()
    }

    /// The one that waits first, once there is one.
    async fn first_question(&self) -> Value {
        until("the question", || async { self.questions().await.into_iter().next() }).await
    }

    /// The same, where no other does.
    async fn asked(&self) -> Value {
        let asked = self.first_question().await;
        assert_eq!(self.questions().await, std::slice::from_ref(&asked));
        asked
    }

    /// The project's folder, to be changed, as `-C` takes it.
    fn mount(&self) -> String {
        format!("{}:rw", self.daemon.path().join("project").display())
    }

    /// The id of the session that was used last.
    async fn last_session(&self) -> String {
        let sessions = self.json(["sessions", "list"]).await;
        sessions[0]["id"].as_str().unwrap().to_owned()
    }

    /// Number of clients that have begun to follow a session, where the level of the log is `debug`.
    fn followers(&self) -> usize {
        self.daemon.log().matches("a client follows a session").count()
    }

    /// Has the model answer with this, and say that it is over where a tool has answered last.
    fn will(&self, reply: Reply) {
        self.model.respond_with(move |request| match request.last_role() {
            "tool" => Reply::text("over"),
            _ => reply.clone(),
        });
    }

    /// Has the model delegate this once, and its subagent make one call.
    fn delegates(&self, task: Value, call: Reply) {
        self.model.respond_with(move |request| match (is_subagent(request), request.last_role()) {
            (false, "tool") => Reply::text("All is done."),
            (false, _) => Reply::tool_call("delegate_task", task.clone()),
            (true, "tool") => Reply::text("It was done as it was wanted, and nothing was left open. ".repeat(8)),
            (true, _) => call.clone(),
        });
    }

    async fn docs(&self, args: &[&str]) -> Output {
        self.agentctl(["docs"].iter().chain(args)).await
    }

    async fn client(&self) -> Client {
        Client::connect(&self.daemon.socket()).await.unwrap()
    }

    /// One turn in which the model asks for all these calls, as many at once as one step runs. Says what it was told of
    /// each of them, in their order. Arguments that are a string are sent as they are.
    async fn call_all(&self, calls: Vec<Call>, args: &[&str]) -> (Vec<String>, Output) {
        // More calls of one answer are not run, and longer arguments are not read.
        const AT_ONCE: usize = 64;
        const BYTES_AT_ONCE: usize = 512 << 10;
        let (count, calls) = (calls.len(), Arc::new(calls));
        self.model.respond_with(move |request| {
            let done = told_of_each(request).len();
            let mut bytes = 0;
            let next = calls[done..].iter().take(AT_ONCE).take_while(|(_, args)| {
                bytes += args.to_string().len();
                bytes < BYTES_AT_ONCE
            });
            let reply = next.fold(Reply::default(), |reply, (tool, args)| reply.and_call(*tool, args.clone()));
            if reply.tool_calls.is_empty() { Reply::text("over") } else { reply }
        });
        let output = self.daemon.agentctl(["run", ALL_OF_IT].iter().chain(args)).await;
        let told = told_of_each(self.model.requests().last().unwrap());
        assert_eq!(told.len(), count, "{}\n{}", output.stderr, self.daemon.log());
        (told, output)
    }

    /// The same where there is a folder to work on and everything that can be allowed is allowed.
    async fn call_all_in_project(&self, calls: Vec<Call>) -> Vec<String> {
        let (told, output) = self.call_all(calls, &["-C", &self.mount(), "--on-interrupt", "approve"]).await;
        output.exits(0);
        told
    }

    /// Makes sure that the daemon serves the next request as if nothing had happened.
    #[track_caller]
    fn still_serves(&self) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            self.model.reply(Reply::text("still here").when("are you there?"));
            let output = self.daemon.agentctl(["run", "are you there?"]).await;
            assert_eq!((output.stdout.trim(), output.code), ("still here", Some(0)), "{caller}: {}", output.stderr);
        }
    }

    /// With this folder of its home on a small disk. None where nobody may mount one.
    async fn on_disk(folder: &str, size: &str) -> Option<Self> {
        let (model, home) = TempHome::with_server().await;
        let command = on_small_disk(&home, folder, size)?;
        Some(Self { daemon: TempDaemon::start_with(home, command).await, model })
    }

    /// A run whose questions are answered elsewhere, and the first that it raises.
    async fn raises(&self, args: &[&str]) -> (Running, Value) {
        let waits = ["--on-interrupt", "wait", "--output", "stream-json"];
        let mut running = self.daemon.spawn_agentctl(["run"].iter().chain(args).chain(&waits));
        let (raised, _) = running.event("interrupt_raised").await;
        (running, raised["interrupt"].clone())
    }
}

/// A turn of a client that waits for answers.
fn turn(session: SessionChoice, text: &str) -> StartRequest {
    StartRequest {
        session,
        start: StartTurn {
            text: Some(text.to_owned()),
            on_interrupt: OnInterrupt::Wait,
            if_busy: IfBusy::Refuse,
            client: "a test".to_owned(),
            ..StartTurn::default()
        },
    }
}

/// A new session that sees this folder as `/project` and runs commands without asking.
fn trusting(project: &Path) -> SessionChoice {
    SessionChoice::New(NewSession {
        confirm_write: Some(false),
        confirm_exec: Some(false),
        project: Some(Mount { path: project.to_owned(), writable: true }),
        ..NewSession::default()
    })
}

/// Streams of events, whatever they belong to.
trait Events {
    async fn event(&mut self) -> Option<Event>;

    /// The stored events up to and with the one that fits.
    async fn stored_until(&mut self, fits: impl Fn(&EventKind) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            if !event.kind.is_stored() {
                continue;
            }
            let last = fits(&event.kind);
            events.push(event);
            if last {
                return events;
            }
        }
        panic!("the stream ended after {events:#?}");
    }

    /// The stored events of the rest of a turn.
    async fn to_the_end(&mut self) -> Vec<Event> {
        self.stored_until(|kind| matches!(kind, EventKind::TurnEnded { .. })).await
    }
}

impl Events for EventStream {
    async fn event(&mut self) -> Option<Event> {
        self.next().await.unwrap()
    }
}

impl Events for TurnStream {
    async fn event(&mut self) -> Option<Event> {
        self.next().await.unwrap()
    }
}

/// Answers with the first reply whose words the model has not yet been told by a tool, as a model would that works
/// through a list: a crash or a restart in between changes nothing.
fn works_through(model: &ModelServer, steps: Vec<(&'static [&'static str], Reply)>, last: Reply) {
    let steps = Arc::new(steps);
    model.respond_with(move |request| {
        let told = tool_texts(request);
        let next = steps.iter().find(|(done, _)| !done.iter().any(|words| told.contains(words)));
        next.map_or_else(|| last.clone(), |(_, reply)| reply.clone())
    });
}

/// What tools have told the model so far.
fn tool_texts(request: &Recorded) -> String {
    let texts = request.messages().iter().filter(|message| message["role"] == "tool");
    texts.filter_map(|message| message["content"].as_str()).collect::<Vec<_>>().join("\n")
}

/// A call that is no repetition of the last ones.
fn another_call(request: &Recorded) -> Reply {
    let called = request.messages().iter().filter(|message| message["role"] == "tool").count();
    let zone = ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York"][called % 4];
    Reply::tool_call("now", json!({ "timezone": zone }))
}

/// What a person says who wants many calls.
const ALL_OF_IT: &str = "Do all of it.";

/// What the model was told of each call since the person said so, in the order of the calls.
fn told_of_each(request: &Recorded) -> Vec<String> {
    let messages = request.messages();
    let said = |message: &Value| message["content"].as_str().is_some_and(|text| text.contains(ALL_OF_IT));
    let begin = messages.iter().rposition(|message| message["role"] == "user" && said(message)).unwrap();
    let turn = || messages[begin..].iter();
    // Those that only look run at once, and end in any order.
    let results = turn().filter(|message| message["role"] == "tool");
    let results: HashMap<&str, &str> =
        results.filter_map(|result| Some((result["tool_call_id"].as_str()?, result["content"].as_str()?))).collect();
    let calls = turn().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    calls.filter_map(|call| results.get(call["id"].as_str()?).map(|text| (*text).to_owned())).collect()
}

/// Returns whether a subagent asks the model.
fn is_subagent(request: &Recorded) -> bool {
    request.messages()[0]["content"].as_str().is_some_and(|text| text.contains("You are a subagent"))
}

/// The warnings of a run with `--output stream-json` that have this code.
fn warnings(output: &Output, code: &str) -> Vec<String> {
    let lines = output.json_lines();
    let said = lines.iter().filter(|line| line["type"] == "warning" && line["code"] == code);
    said.filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
}

/// The verdicts of calls under the rules of now and under those that are tried.
fn verdicts(said: &Value) -> Vec<(&str, &str)> {
    let calls = said["calls"].as_array().unwrap().iter();
    calls.map(|call| (call["now"]["verdict"].as_str().unwrap(), call["then"]["verdict"].as_str().unwrap())).collect()
}

/// All of these words are in the text.
#[track_caller]
fn has_all(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words:?} is missing in:\n{text}");
    }
}

/// The texts that the objects of a list have under this key.
#[track_caller]
fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

/// An object has these values under these keys.
#[track_caller]
fn holds(found: &Value, expected: Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(found[key], *value, "{key} of {found:#}");
    }
}

/// None of these words are in the text.
#[track_caller]
fn has_none(text: &str, words: &[&str]) {
    for words in words {
        assert!(!text.contains(words), "{words:?} is in:\n{text}");
    }
}

/// The names of the tools that a request shows, in their order.
fn tool_names(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The sorted keys of an object.
#[track_caller]
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
