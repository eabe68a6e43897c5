//! What is asked of the client of a turn: calls of its tools, and questions about the files that it holds. The lines end with the
//! client's half of the stream, and with them every call and question that waits.

use std::collections::HashMap;

use agentd_core::{client_file::ClientFileAnswer, client_tool::ClientToolAnswer, ids::TurnId, ports::ClientFileAccess};
use agentd_engine::{ClientFileQuestion, ClientLine, ClientLines, ClientToolRequest, Engine, FileLine};
use agentd_proto::{
    convert::answered_file,
    v1::turn_request::{FileAnswer, Start, ToolAnswer, tool_answer::Outcome},
};
use tokio::sync::{mpsc, oneshot};

use super::{Refusal, feed::ClientNotice};

/// Requests from the engine to the client's stream, and who waits for the answers.
struct Line<Q, A> {
    requests: Option<mpsc::Receiver<Q>>,
    waiting: HashMap<String, oneshot::Sender<A>>,
}

impl<Q, A> Line<Q, A> {
    fn new(requests: Option<mpsc::Receiver<Q>>) -> Self {
        Self { requests, waiting: HashMap::new() }
    }

    /// The next request; never where there is no line, or the turn has ended.
    async fn next(&mut self) -> Q {
        if let Some(requests) = &mut self.requests
            && let Some(request) = requests.recv().await
        {
            return request;
        }
        std::future::pending().await
    }

    /// Waits for an answer. Nobody waits any more for those whose other end is gone.
    fn wait(&mut self, id: String, reply: oneshot::Sender<A>) {
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        self.waiting.insert(id, reply);
    }

    /// Refuses an answer that nothing waits for.
    fn check(&self, id: &str, what: &str, hint: &str) -> Result<(), Refusal> {
        if self.waiting.get(id).is_some_and(|waiting| !waiting.is_closed()) {
            return Ok(());
        }
        let shown: String = id.chars().take(80).collect();
        Err(Refusal::invalid(what.replace("{}", &format!("{shown:?}"))).with_hint(hint))
    }

    /// Hands an answer over. A turn that has ended meanwhile does not need it.
    fn reply(&mut self, id: &str, answer: A) {
        if let Some(reply) = self.waiting.remove(id) {
            let _ = reply.send(answer);
        }
    }
}

/// A request to the client.
pub(super) enum ClientQuestion {
    /// A call of one of its tools.
    Tool(ClientToolRequest),
    /// A question about a file.
    File(ClientFileQuestion),
}

/// The lines to the client of one turn.
pub(super) struct ClientCalls {
    tools: Line<ClientToolRequest, ClientToolAnswer>,
    files: Line<ClientFileQuestion, ClientFileAnswer>,
}

impl ClientCalls {
    /// The lines to a client that offers tools or holds files, and their other ends. They are there before the turn is: it may
    /// call at once.
    pub(super) fn of(start: &Start) -> (Self, ClientLines) {
        let (tools, requests) = if start.tools.is_empty() { (None, None) } else { pair(ClientLine::new()) };
        let access = |writes| if writes { ClientFileAccess::ReadWrite } else { ClientFileAccess::Read };
        let (files, questions) =
            start.client_files.as_ref().map_or((None, None), |client| pair(FileLine::new(access(client.writes))));
        let lines = ClientLines { tools, files: files.into_iter().collect() };
        (Self { tools: Line::new(requests), files: Line::new(questions) }, lines)
    }

    /// The next request.
    pub(super) async fn next(&mut self) -> ClientQuestion {
        tokio::select! {
            request = self.tools.next() => ClientQuestion::Tool(request),
            question = self.files.next() => ClientQuestion::File(question),
        }
    }

    /// Asks the client. Of one that leaves too much unread a call ends at once, and a question counts as late.
    pub(super) fn offer(&mut self, turn: TurnId, question: ClientQuestion, stream: &mpsc::Sender<ClientNotice>) {
        match question {
            ClientQuestion::Tool(ClientToolRequest { call, reply }) => {
                let call_id = call.call_id.clone();
                match stream.try_send(ClientNotice::ToolRequested(Box::new(call))) {
                    Ok(()) => self.tools.wait(call_id, reply),
                    Err(_) => tracing::warn!(%turn, "a client does not read its stream, so a call of its tool ends"),
                }
            }
            ClientQuestion::File(ClientFileQuestion { request, reply }) => {
                self.files.wait(request.id.clone(), reply);
                if stream.try_send(ClientNotice::FileRequested(Box::new(request))).is_err() {
                    tracing::warn!(%turn, "a client does not read its stream, so it is not asked about a file");
                }
            }
        }
    }

    /// Hands an answer to the call that waits for it.
    ///
    /// # Errors
    /// When no call waits for it, or its picture is none. Then the call waits on.
    pub(super) async fn answer_tool(&mut self, engine: &Engine, answer: ToolAnswer) -> Result<(), Refusal> {
        let ToolAnswer { call_id, outcome, picture } = answer;
        let unknown = "no call {} of a tool of this client waits for an answer";
        self.tools.check(&call_id, unknown, "it was answered, has ended, or never was")?;
        let picture = match picture {
            Some(picture) => Some(engine.check_picture("the answer", picture.try_into()?).await?.prepared),
            None => None,
        };
        let (text, failed) = match outcome {
            Some(Outcome::Text(text)) => (text, false),
            Some(Outcome::Error(why)) => (why, true),
            None => (String::new(), false),
        };
        self.tools.reply(&call_id, ClientToolAnswer { text, failed, picture });
        Ok(())
    }

    /// Hands an answer to the question that waits for it.
    ///
    /// # Errors
    /// When none does.
    pub(super) fn answer_file(&mut self, answer: FileAnswer) -> Result<(), Refusal> {
        let id = answer.request_id.clone();
        let unknown = "no question {} about a file waits for an answer";
        self.files.check(&id, unknown, "it was answered, was given up after some seconds, or never was")?;
        self.files.reply(&id, answered_file(answer));
        Ok(())
    }
}

fn pair<A, B>((one, other): (A, B)) -> (Option<A>, Option<B>) {
    (Some(one), Some(other))
}
