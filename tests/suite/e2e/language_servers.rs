//! Language servers: errors introduced by an edit are reported, and misbehaving servers are handled.
//!
//! - [`fakes`]: a scripted server. [`timing`]: the same server, with delays. [`real`]: pyright.

mod fakes;
mod real;
mod timing;

use super::*;

/// Beginning of the message that is sent to the model.
const DIAGNOSTICS_HEADING: &str = "Your last edits introduced these errors";

/// Returns the folder that contains the fake server.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lsp")
}

/// Starts a daemon with only these language servers. Commands and servers may read the folder `readable`.
async fn world(global: Value, servers: Value, readable: &Path) -> World {
    World::with_files(&[
        ("config/agentd.yaml", &json!({"sandbox": {"read": [readable]}}).to_string()),
        ("config/languages.yaml", &languages(global, servers)),
    ])
    .await
}

/// Returns a configuration with these servers, in which the servers shipped with agentd are disabled.
fn languages(global: Value, servers: Value) -> String {
    let mut all = json!({});
    for name in ["basedpyright", "clangd", "gopls", "pyright", "rust-analyzer", "typescript"] {
        all[name] = json!({"enabled": false});
    }
    for (name, server) in servers.as_object().unwrap() {
        all[name] = server.clone();
    }
    json!({"global": global, "servers": all}).to_string()
}

/// Returns a reply that edits a project file.
fn edit(file: &str, old: &str, new: &str) -> Reply {
    let path = format!("/project/{file}");
    Reply::tool_call("edit_file", json!({"path": path, "old_string": old, "new_string": new}))
}

impl World {
    /// Runs one turn in the project with these replies from the model.
    async fn works(&self, replies: Vec<Reply>) -> Vec<Recorded> {
        self.works_at("Do it.", replies).await
    }

    /// Like [`works`](Self::works), with this prompt.
    async fn works_at(&self, prompt: &str, replies: Vec<Reply>) -> Vec<Recorded> {
        let before = self.model.requests().len();
        let replies = std::sync::Mutex::new(replies.into_iter());
        self.model.respond_with(move |_| replies.lock().unwrap().next().unwrap_or_else(|| Reply::text("over")));
        self.ok(["run", prompt, "-C", &self.mount(), "--on-interrupt", "approve"]).await;
        self.model.requests().split_off(before)
    }
}

/// Returns all messages of a request as text.
fn words(request: &Recorded) -> String {
    Value::Array(request.messages().to_vec()).to_string()
}
