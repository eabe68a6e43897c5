//! Language servers: errors that an edit brings are told, and servers that do what none should.
//!
//! - [`fakes`]: one that does as it is told. [`timing`]: the same one, which takes its time. [`real`]: pyright.

mod fakes;
mod real;
mod timing;

use super::*;

/// First words of what the model is told.
const BROUGHT: &str = "Your last edits brought these errors";

/// The folder of the fake server.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lsp")
}

/// A daemon with these language servers and none besides. Commands and servers may read that folder.
async fn world(global: Value, servers: Value, readable: &Path) -> World {
    World::with_files(&[
        ("config/agentd.yaml", &json!({"sandbox": {"read": [readable]}}).to_string()),
        ("config/languages.yaml", &languages(global, servers)),
    ])
    .await
}

/// The file with these servers, in which those that came with agentd are off.
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

/// An edit of a file of the project.
fn edit(file: &str, old: &str, new: &str) -> Reply {
    let path = format!("/project/{file}");
    Reply::tool_call("edit_file", json!({"path": path, "old_string": old, "new_string": new}))
}

impl World {
    /// One turn in the project, in which the model gives these answers one after the other.
    async fn works(&self, replies: Vec<Reply>) -> Vec<Recorded> {
        self.works_at("Do it.", replies).await
    }

    /// The same for these words.
    async fn works_at(&self, prompt: &str, replies: Vec<Reply>) -> Vec<Recorded> {
        let before = self.model.requests().len();
        let replies = std::sync::Mutex::new(replies.into_iter());
        self.model.respond_with(move |_| replies.lock().unwrap().next().unwrap_or_else(|| Reply::text("over")));
        self.ok(["run", prompt, "-C", &self.mount(), "--on-interrupt", "approve"]).await;
        self.model.requests().split_off(before)
    }
}

/// All that a request says.
fn words(request: &Recorded) -> String {
    Value::Array(request.messages().to_vec()).to_string()
}
