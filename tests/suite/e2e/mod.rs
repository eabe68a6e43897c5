//! End to end: real daemons, real clients, and a scripted model server.
//!
//! - [`acp`]: editors, over the Agent Client Protocol.
//! - [`run`]: one turn for scripts, with its output and exit codes. [`sessions`]: the listing commands.
//! - [`life`]: start and end of a daemon. [`crash`]: killed at every stored event of a turn. [`random_kills`]: killed
//!   at random while several clients are active. [`rough`]: stopped, overloaded, on a disk without write access, and
//!   killed while many questions are pending.
//! - [`interrupts`]: approvals and questions that outlive clients and daemons. [`grants`]: rules of users. [`readers`]:
//!   several clients, and slow clients.
//! - [`bad_input`], [`bad_models`], [`bad_documents`]: a clear message with a hint, and no loss of data. [`documents`]:
//!   pages, cited. [`changing_documents`]: found in their current state, each version read once. [`saved_documents`]:
//!   as data for commands.
//! - [`patches`]: both forms, byte-exact. [`undo`]: file changes of turns, reverted.
//!   [`irreversible`]: changes that cannot be reverted.
//! - [`foreign_changes`]: files that others change after a session has read them.
//! - [`files`]: shared and session files. [`worktrees`]: several worktrees of one repository. [`writable`]: a read-only
//!   project that becomes writable, and pasted pictures.
//! - [`in_form`]: answers that match a schema, for scripts. [`stream_schema`]: the schema of stream output. [`review`]:
//!   findings in a change, for people and CI.
//! - [`parts`]: parts that a client adds to an input. [`client_tools`]: tools that a client answers. [`watching`]: one
//!   stream for all sessions.
//! - [`code`]: source code, found by meaning, name and structure. [`embeddings`]: code and documents found by meaning,
//!   with a server for vectors.
//! - [`forks`]: sessions that continue from a copy of another session's history. [`travel`]: sessions that move to
//!   another daemon. [`bug_reports`]: sessions with everything needed to reproduce a problem. [`travel_hostile`]:
//!   forged archives.
//! - [`projects`]: parts that projects include, used if the user trusts them.
//! - [`plugins`]: folders with parts of all kinds, added and removed as a whole.
//! - [`guides`]: instructions that users write for models. [`uploads`]: files that users attach.
//! - [`sandbox`]: the access rights, the environment and the leftovers of commands. [`limits`]: the resource limits and
//!   temporary files of commands.
//! - [`hostile`]: all commands and paths of the hostile corpora.
//! - [`audit`]: requests, decisions and results.
//! - [`policy`]: rules: enforced, explained, tried, reloaded. [`checks`]: checks that fail. [`links`]: rules for every
//!   name of a file. [`unread`]: no tool reveals a file that may not be read.
//! - [`retention`]: unused data is removed, and disk space is freed. [`pruning`]: sessions that a user removes
//!   together.
//! - [`shown`]: users see the whole call that they approve.
//! - [`language_servers`]: errors introduced by edits, reported before the next step.
//! - [`large`]: results that exceed a window. [`inputs`]: piped input that exceeds a window.
//! - [`learning`]: limits and quirks of servers, detected, reported and remembered. [`refusals`]: pictures, tools and
//!   single tools that a server rejects, in any wording. [`routes`]: use of proxies.
//! - [`context`]: a window that never overflows. [`requests`]: snapshots of what the model received.
//! - [`remote`]: daemons of other machines, over SSH.
//! - [`agents`]: their selection, handing over of a session, and delegation. [`subagents`]: sessions that do parts of
//!   the work.
//! - [`accounts`]: versions in addresses, keys that expire, client certificates. [`adding_models`]: accounts added by a
//!   command.
//! - [`providers`]: servers whose own data must be sent back to them, but not to other servers. [`wires`]: servers that
//!   accept thinking only after the same messages, or encrypt it.
//! - [`mentions`]: tools, skills and agents mentioned in an input. [`skills`]: loaded on demand, checked, installed.
//! - [`extending`]: the page for newcomers, followed literally.
//! - [`readme`]: the commands and the picture on the first page. [`shell`]: shell variables that the daemon does not
//!   have.
//! - [`usage`]: tokens and costs of every call.
//! - [`trace`]: a turn as a tree, and as a page. [`telemetry`]: turns for a collector.
//! - [`wire_traces`]: requests to models as sent over the wire.
//! - [`long_task`]: a task of sixty steps, whose requests only grow.
//! - [`loops`]: models that repeat themselves.
//! - [`tiers`]: the tools that a turn offers, and the rejection of all others.
//! - [`web`]: permitted requests to the web, and the display of pages.
//! - [`mcp`]: tools of MCP servers, real ones and misbehaving fakes.
//! - [`chat`]: the chat at a terminal. [`on_screen`]: the rows that it draws. [`footer`]: the lines at the bottom of the
//!   screen. [`commands`]: chat commands, and custom commands. [`typing`]: input while the chat is busy. [`together`]:
//!   two chats in one session. [`taking_back`]: input withdrawn by a cancellation. [`ending`]: clients that are asked to
//!   end, or die. [`embedded`]: the built-in model without configuration.
//!
//! This module imports what nearly every file needs. The files import it with `use super::*`.

mod accounts;
mod acp;
mod added_folders;
mod adding_models;
mod agents;
mod asides;
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
mod embeddings;
mod ending;
mod extending;
mod files;
mod finding;
mod footer;
mod foreign_changes;
mod forks;
mod full_disk;
mod grants;
mod guarded;
mod guarded_checks;
mod guarded_commits;
mod guarded_depth;
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
mod on_screen;
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
mod remote;
mod requests;
mod resume;
mod retention;
mod review;
mod rewind;
mod rough;
mod routes;
mod routing;
mod run;
mod sandbox;
mod saved_documents;
mod screen;
mod searches;
mod service;
mod sessions;
mod shell;
mod shown;
mod sight;
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
mod writable;

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

use self::{
    screen::Screen,
    terminal::{PROMPT_START, Terminal, says},
};

/// A tool and its arguments.
type Call = (&'static str, Value);

/// A daemon with its model server.
struct World {
    model: ModelServer,
    daemon: TempDaemon,
}

/// Returns a command that starts a daemon with this folder of its home on a small separate disk, or `None` if mounting
/// is not permitted, in which case the test is skipped.
fn on_small_disk(home: &TempHome, folder: &str, size: &str) -> Option<Command> {
    let flags = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let mount_point = home.path().join(folder);
    std::fs::create_dir_all(&mount_point).unwrap();
    let mount = r#"mount -t tmpfs -o "size=$2,mode=700" none "$1" && exec "$0""#;
    let mut attempt = Command::new("unshare");
    let attempt = attempt.args([flags, "/bin/sh", "-c", mount, "true"]).arg(&mount_point).arg(size).output();
    if !attempt.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting a small disk is not permitted");
        return None;
    }
    let mut command = home.command("unshare");
    command.args([flags, "/bin/sh", "-c", mount]).arg(program("agentd")).arg(&mount_point).arg(size);
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

    /// Starts with a model whose default reply is this text.
    async fn with_reply(text: &str) -> Self {
        let world = Self::start().await;
        world.model.default_reply(Reply::deltas([text]));
        world
    }

    /// Starts with this content in `agentd.yaml`.
    async fn configured(agentd_yaml: &str) -> Self {
        Self::with_files(&[("config/agentd.yaml", agentd_yaml)]).await
    }

    /// Starts with these files in the home.
    async fn with_files(files: &[(&str, &str)]) -> Self {
        let write = |home: &mut TempHome| files.iter().for_each(|(path, content)| drop(home.write(path, content)));
        Self::prepared(write).await
    }

    /// Starts in a home that `prepare` has set up.
    async fn prepared(prepare: impl FnOnce(&mut TempHome)) -> Self {
        let (model, mut home) = TempHome::with_server().await;
        prepare(&mut home);
        Self { daemon: TempDaemon::start_in(home).await, model }
    }

    /// Returns the pending questions of all sessions.
    async fn questions(&self) -> Vec<Value> {
        self.json(["interrupts"]).await.as_array().unwrap().clone()
    }

    /// Waits for a question, and returns the oldest one.
    async fn first_question(&self) -> Value {
        until("a question is pending", || async { self.questions().await.into_iter().next() }).await
    }

    /// Like [`first_question`](Self::first_question), but asserts that there is only one question.
    async fn asked(&self) -> Value {
        let asked = self.first_question().await;
        assert_eq!(self.questions().await, std::slice::from_ref(&asked));
        asked
    }

    /// Returns the project folder in writable mode, as an argument of `-C`.
    fn mount(&self) -> String {
        format!("{}:rw", self.daemon.path().join("project").display())
    }

    /// Returns the ID of the most recently used session.
    async fn last_session(&self) -> String {
        let sessions = self.json(["sessions", "list"]).await;
        sessions[0]["id"].as_str().unwrap().to_owned()
    }

    /// Counts the times that a client has started to follow a session. Requires the log level `debug`.
    fn followers(&self) -> usize {
        self.daemon.log().matches("a client follows a session").count()
    }

    /// Makes the model send this reply, and end the turn after a tool result.
    fn script_reply(&self, reply: Reply) {
        self.model.respond_with(move |request| match request.last_role() {
            "tool" => Reply::text("over"),
            _ => reply.clone(),
        });
    }

    /// Makes the model delegate this task once, and makes the subagent call a tool once.
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

    /// Runs one turn in which the model makes all of these calls, in batches that one step can run. Returns the results
    /// in order. String arguments are sent unchanged.
    async fn call_all(&self, calls: Vec<Call>, args: &[&str]) -> (Vec<String>, Output) {
        // Maximum number of calls in one response. Further calls are not run, and longer arguments are not read.
        const AT_ONCE: usize = 64;
        const BYTES_AT_ONCE: usize = 512 << 10;
        let (count, calls) = (calls.len(), Arc::new(calls));
        self.model.respond_with(move |request| {
            let done = results_since_input(request).len();
            let mut bytes = 0;
            let next = calls[done..].iter().take(AT_ONCE).take_while(|(_, args)| {
                bytes += args.to_string().len();
                bytes < BYTES_AT_ONCE
            });
            let reply = next.fold(Reply::default(), |reply, (tool, args)| reply.and_call(*tool, args.clone()));
            if reply.tool_calls.is_empty() { Reply::text("over") } else { reply }
        });
        let output = self.daemon.agentctl(["run", CALL_ALL_INPUT].iter().chain(args)).await;
        let results = results_since_input(self.model.requests().last().unwrap());
        assert_eq!(results.len(), count, "{}\n{}", output.stderr, self.daemon.log());
        (results, output)
    }

    /// Like [`call_all`](Self::call_all), with a project folder and every permission.
    async fn call_all_in_project(&self, calls: Vec<Call>) -> Vec<String> {
        let (results, output) = self.call_all(calls, &["-C", &self.mount(), "--on-interrupt", "approve"]).await;
        output.exits(0);
        results
    }

    /// Asserts that the daemon still serves requests.
    #[track_caller]
    fn still_serves(&self) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            self.model.reply(Reply::text("still here").when("are you there?"));
            let output = self.daemon.agentctl(["run", "are you there?"]).await;
            assert_eq!((output.stdout.trim(), output.code), ("still here", Some(0)), "{caller}: {}", output.stderr);
        }
    }

    /// Starts with this folder of the home on a small disk. Returns `None` if mounting is not permitted.
    async fn on_disk(folder: &str, size: &str) -> Option<Self> {
        let (model, home) = TempHome::with_server().await;
        let command = on_small_disk(&home, folder, size)?;
        Some(Self { daemon: TempDaemon::start_with(home, command).await, model })
    }

    /// Starts a run whose questions are answered by another client. Returns the run with its first question.
    async fn run_until_question(&self, args: &[&str]) -> (Running, Value) {
        let waits = ["--on-interrupt", "wait", "--output", "stream-json"];
        let mut running = self.daemon.spawn_agentctl(["run"].iter().chain(args).chain(&waits));
        let (raised, _) = running.event("interrupt_raised").await;
        (running, raised["interrupt"].clone())
    }
}

/// Returns a request for a turn whose client waits for answers.
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

/// Returns a new session with this folder as `/project`, in which commands run without approval.
fn trusting_session(project: &Path) -> SessionChoice {
    SessionChoice::New(NewSession {
        confirm_write: Some(false),
        confirm_exec: Some(false),
        project: Some(Mount { path: project.to_owned(), writable: true }),
        ..NewSession::default()
    })
}

/// A stream of session events or turn events.
trait Events {
    async fn event(&mut self) -> Option<Event>;

    /// Collects the stored events up to and including the first matching event.
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

    /// Collects the stored events until the turn ends.
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

/// Makes the model send the first reply whose texts are not yet in a tool result, as if it were working through a list.
/// A crash or restart in between makes no difference.
fn script_steps(model: &ModelServer, steps: Vec<(&'static [&'static str], Reply)>, last: Reply) {
    let steps = Arc::new(steps);
    model.respond_with(move |request| {
        let result = tool_texts(request);
        let next = steps.iter().find(|(done, _)| !done.iter().any(|text| result.contains(text)));
        next.map_or_else(|| last.clone(), |(_, reply)| reply.clone())
    });
}

/// Concatenates the tool results in a request.
fn tool_texts(request: &Recorded) -> String {
    let texts = request.messages().iter().filter(|message| message["role"] == "tool");
    texts.filter_map(|message| message["content"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns a call that differs from the previous calls.
fn unique_call(request: &Recorded) -> Reply {
    let called = request.messages().iter().filter(|message| message["role"] == "tool").count();
    let zone = ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York"][called % 4];
    Reply::tool_call("now", json!({ "timezone": zone }))
}

/// Input that starts the calls in [`World::call_all`].
const CALL_ALL_INPUT: &str = "Do all of it.";

/// Returns the results of all calls since the last [`CALL_ALL_INPUT`], in call order.
fn results_since_input(request: &Recorded) -> Vec<String> {
    let messages = request.messages();
    let is_input = |message: &Value| message["content"].as_str().is_some_and(|text| text.contains(CALL_ALL_INPUT));
    let begin = messages.iter().rposition(|message| message["role"] == "user" && is_input(message)).unwrap();
    let turn = || messages[begin..].iter();
    // Read-only calls run concurrently and may end in any order.
    let results = turn().filter(|message| message["role"] == "tool");
    let results: HashMap<&str, &str> =
        results.filter_map(|result| Some((result["tool_call_id"].as_str()?, result["content"].as_str()?))).collect();
    let calls = turn().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    calls.filter_map(|call| results.get(call["id"].as_str()?).map(|text| (*text).to_owned())).collect()
}

/// Returns true if the request comes from a subagent.
fn is_subagent(request: &Recorded) -> bool {
    request.messages()[0]["content"].as_str().is_some_and(|text| text.contains("You are a subagent"))
}

/// Returns the warnings with this code in a run with `--output stream-json`.
fn warnings(output: &Output, code: &str) -> Vec<String> {
    let lines = output.json_lines();
    let warned = lines.iter().filter(|line| line["type"] == "warning" && line["code"] == code);
    warned.filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
}

/// Returns the verdicts for calls under the current rules and under the tried rules.
fn verdicts(report: &Value) -> Vec<(&str, &str)> {
    let calls = report["calls"].as_array().unwrap().iter();
    calls.map(|call| (call["now"]["verdict"].as_str().unwrap(), call["then"]["verdict"].as_str().unwrap())).collect()
}

/// Asserts that `text` contains all of these strings.
#[track_caller]
fn has_all(text: &str, parts: &[&str]) {
    for parts in parts {
        assert!(text.contains(parts), "{parts:?} is missing in:\n{text}");
    }
}

/// Returns the strings under this key in a list of objects.
#[track_caller]
fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

/// Asserts that an object has these values.
#[track_caller]
fn holds(found: &Value, expected: Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(found[key], *value, "{key} of {found:#}");
    }
}

/// Asserts that `text` contains none of these strings.
#[track_caller]
fn has_none(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "{part:?} is in:\n{text}");
    }
}

/// Returns the names of the tools that a request offers, in order.
fn tool_names(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the sorted keys of an object.
#[track_caller]
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
