//! Buffers of the editor: tools of the daemon read and write the project's files through it, so that text which is not saved
//! is neither overlooked nor overwritten.

use std::{path::PathBuf, time::Duration};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, ReadTextFileRequest, SessionId as WireId, WriteTextFileRequest,
};
use agentd_core::client_file::{ClientFileAnswer, ClientFileRequest, FileAction, MAX_CLIENT_FILE};
use agentd_proto::client::TurnSender;
use serde_json::Value;
use tokio::{task::JoinSet, time::timeout};

use super::peer::{Outcome, Peer};
use crate::{report, terminal::sanitize::clean_line};

/// Time limits for the editor. The daemon waits a little longer.
const READ: Duration = Duration::from_millis(4500);
const WRITE: Duration = Duration::from_secs(19);
/// Code of errors about a file that is not there.
const NOT_FOUND: i64 = -32002;
/// Characters of an editor's reason.
const LONGEST_REASON: usize = 300;

/// Questions about buffers that are under way. They end with it.
#[derive(Debug)]
pub(super) struct Buffers {
    peer: Peer,
    session: WireId,
    /// The project's folder, as the editor names it.
    folder: Option<PathBuf>,
    open: JoinSet<()>,
}

impl Buffers {
    /// The buffers of an editor that has this folder open.
    pub(super) fn new(peer: Peer, session: WireId, folder: Option<PathBuf>) -> Self {
        Self { peer, session, folder, open: JoinSet::new() }
    }

    /// Asks the editor; the answer goes to the daemon, whatever else the turn does meanwhile.
    pub(super) fn ask(&mut self, request: ClientFileRequest, sender: TurnSender) {
        while self.open.try_join_next().is_some() {}
        let (peer, session, folder) = (self.peer.clone(), self.session.clone(), self.folder.clone());
        self.open.spawn(async move {
            let answer = match folder {
                Some(folder) => asked(&peer, session, folder.join(&request.path), request.action).await,
                None => ClientFileAnswer::Absent,
            };
            // A turn that has ended does not need it.
            let _ = sender.answer_file(&request.id, answer).await;
        });
    }
}

async fn asked(peer: &Peer, session: WireId, path: PathBuf, action: FileAction) -> ClientFileAnswer {
    match action {
        FileAction::Read => {
            let params = ReadTextFileRequest::new(session, path);
            let request = peer.request(CLIENT_METHOD_NAMES.fs_read_text_file, &params);
            given(timeout(READ, request).await.ok().flatten())
        }
        FileAction::Write(text) => {
            let params = WriteTextFileRequest::new(session, path, text);
            let request = peer.request(CLIENT_METHOD_NAMES.fs_write_text_file, &params);
            taken(timeout(WRITE, request).await.ok().flatten())
        }
    }
}

/// The text that an editor gave.
fn given(outcome: Option<Outcome>) -> ClientFileAnswer {
    match outcome {
        Some(Ok(result)) => match result.get("content").and_then(Value::as_str) {
            Some(text) if text.len() > MAX_CLIENT_FILE => {
                ClientFileAnswer::Refused(format!("the text has {} bytes", text.len()))
            }
            Some(text) => ClientFileAnswer::Text(text.to_owned()),
            None => ClientFileAnswer::Refused("its answer holds no text".to_owned()),
        },
        Some(Err(error)) if error["code"] == NOT_FOUND => ClientFileAnswer::Absent,
        Some(Err(error)) => ClientFileAnswer::Refused(reason(&error)),
        None => ClientFileAnswer::Refused("it did not answer in time".to_owned()),
    }
}

fn taken(outcome: Option<Outcome>) -> ClientFileAnswer {
    match outcome {
        Some(Ok(_)) => ClientFileAnswer::Written,
        Some(Err(error)) => ClientFileAnswer::Refused(reason(&error)),
        // Nobody knows: the daemon is left to say so.
        None => ClientFileAnswer::Absent,
    }
}

fn reason(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or_default();
    report::cut(&clean_line(message), LONGEST_REASON)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_editors_are_read_for_what_they_are() {
        let refused = |why: &str| ClientFileAnswer::Refused(why.to_owned());
        let check = |outcome: Outcome, expected: ClientFileAnswer| assert_eq!(given(Some(outcome)), expected);
        check(Ok(json!({"content": "a"})), ClientFileAnswer::Text("a".to_owned()));
        check(Ok(json!({"content": 7})), refused("its answer holds no text"));
        check(Ok(json!(null)), refused("its answer holds no text"));
        check(Ok(json!({"content": "x".repeat(MAX_CLIENT_FILE + 1)})), refused("the text has 10485761 bytes"));
        check(Err(json!({"code": -32002, "message": "gone"})), ClientFileAnswer::Absent);
        check(Err(json!({"code": -32603, "message": "no\u{1b}[31m\nmore"})), refused("no more"));
        check(Err(json!("odd")), refused(""));
        assert_eq!(given(None), refused("it did not answer in time"));
        assert_eq!(taken(Some(Ok(Value::Null))), ClientFileAnswer::Written);
        assert_eq!(taken(Some(Err(json!({"message": "read-only"})))), refused("read-only"));
    }
}
