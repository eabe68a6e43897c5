//! A daemon with a model of another wire than chat completions, whose server refuses a request for the least breach of its rules,
//! and a project to work in.

use agentd_proto::client::Client;
use agentd_testkit::{
    daemon::{Output, TempDaemon, TempHome},
    model_server::{ModelServer, Provider, Recorded, Reply},
};
use serde_json::{Value, json};

pub(super) const RED: &[u8] = include_bytes!("fixtures/red.png");

/// A daemon with a model of this wire, and a project.
pub(super) struct World {
    pub(super) model: ModelServer,
    pub(super) daemon: TempDaemon,
    pub(super) session: Option<String>,
}

impl World {
    pub(super) async fn start(provider: Provider) -> Self {
        Self::with(provider, "", "").await
    }

    /// With more settings of the slot, and in `agentd.yaml`.
    pub(super) async fn with(provider: Provider, slot: &str, agentd_yaml: &str) -> Self {
        let model = ModelServer::start().await;
        model.acts_as(provider);
        let home = TempHome::new();
        let (wire, url) = (provider.wire(), model.base_url());
        home.write("config/models.yaml", format!("base: {{wire: {wire}, base_url: \"{url}\", id: the-model{slot}}}\n"));
        home.write("config/agentd.yaml", agentd_yaml);
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            home.write(&format!("project/{name}.txt"), format!("the words of {name}\n"));
        }
        Self { model, daemon: TempDaemon::start_in(home).await, session: None }
    }

    /// A turn in the session, with these replies; nothing is refused.
    pub(super) async fn turn(&mut self, text: &str, more: &[&str], replies: Vec<Reply>) -> Value {
        self.turn_that_exits(0, text, more, replies).await
    }

    pub(super) async fn turn_that_exits(&mut self, code: i32, text: &str, more: &[&str], replies: Vec<Reply>) -> Value {
        for reply in replies {
            self.model.reply(reply);
        }
        let project = format!("{}:rw", self.daemon.path().join("project").display());
        let mut args = vec!["run", text, "--output", "json", "--on-interrupt", "approve"];
        match &self.session {
            Some(session) => args.extend(["--session", session]),
            None => args.extend(["-C", &project]),
        }
        let output = self.daemon.agentctl(args.iter().chain(more)).await;
        let result = self.nothing_refused(text, output).exits(code).json();
        assert_eq!(self.model.waiting_replies(), 0, "{text}: {result:#}");
        self.session = Some(result["session_id"].as_str().unwrap().to_owned());
        result
    }

    #[track_caller]
    pub(super) fn nothing_refused(&self, text: &str, output: Output) -> Output {
        assert_eq!(self.model.refusals(), [""; 0], "{text}: {}\n{}", output.stderr, self.daemon.log());
        output
    }

    pub(super) fn last(&self) -> Recorded {
        self.model.requests().pop().unwrap()
    }

    pub(super) async fn upload(&self, name: &str, content: &[u8]) {
        let client = Client::connect(&self.daemon.socket()).await.unwrap();
        client.upload(self.session.as_deref().unwrap(), name, content).await.unwrap();
    }

    pub(super) async fn ctl(&self, args: &[&str]) -> Output {
        let session = self.session.as_deref().unwrap();
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "SESSION" { session } else { arg }).collect();
        self.daemon.agentctl(args).await.exits(0)
    }
}

pub(super) fn reads(names: &[&str]) -> Reply {
    let call = |reply: Reply, name: &&str| reply.and_call("read_file", json!({"path": format!("/project/{name}.txt")}));
    names.iter().fold(Reply::default(), call)
}

/// A turn of so many steps.
pub(super) fn steps(count: usize) -> Vec<Reply> {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let steps = (0..count).map(|at| reads(&names[at % 8..=at % 8]));
    steps.chain([Reply::text("Done.")]).collect()
}
