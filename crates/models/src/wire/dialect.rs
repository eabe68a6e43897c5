//! The seam between a call and the wires: what a wire has to do. Everything else, retries, deadlines, learning, thoughts and
//! calls in the words, is done once in `call` for all of them.
//!
//! A wire is a folder: one file writes the request, one writes the conversation in it, one reads the answer. Errors are read in
//! `failure`, for servers of every wire mix their shapes.

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{ModelInfo, ModelRequest},
    origin::ServerFields,
};

use crate::{
    answer::{Answer, RawCall},
    facts::server::ModelAbilities,
    http::{failure::Failure, learning::RequestForm, target::Target},
};

/// A dialect: writes requests and makes readers of answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The request for the model of that id, in that form, and the reader of its answer.
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure>;

    /// The fields of the body that are sent in that form and that a request can do without: those of every request of ours,
    /// and those that somebody configured.
    fn optional_fields(&self, _order: &Order<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The schema of the answer, where it is sent in a field of its own in that form: [`ModelRequest::answer_schema`].
    fn sent_schema<'a>(&self, _order: &Order<'a>) -> Option<&'a AnswerSchema> {
        None
    }

    /// Takes note that the server refused earlier thoughts of this request, which are not sent to it again.
    fn distrust_thoughts(&self, _order: &Order<'_>) {}
}

/// A request to be written.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// The server.
    pub(crate) target: &'a Target,
    /// Facts about the model.
    pub(crate) info: &'a ModelInfo,
    /// Its abilities, as far as its server told.
    pub(crate) abilities: ModelAbilities,
    /// The conversation and the tools.
    pub(crate) request: &'a ModelRequest,
    /// The form that the server takes.
    pub(crate) form: &'a RequestForm,
    /// Beginning of the answer, as its reader told it, where the server has paused.
    pub(crate) paused: Option<&'a str>,
}

/// A request, ready to be posted.
pub(crate) struct Outgoing {
    /// Path below the base address.
    pub(crate) path: String,
    /// The body.
    pub(crate) body: String,
    /// Reader of its answer.
    pub(crate) reader: Box<dyn AnswerReader>,
}

/// Reads one answer.
pub(crate) trait AnswerReader: Send {
    /// One event, or a whole answer in one object.
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure>;

    /// The beginning of an answer that the server has paused, in the form of the wire: it goes on where that is sent back.
    fn paused(&mut self) -> Option<String> {
        None
    }

    /// The calls of an answer that has ended.
    fn calls(&mut self) -> Vec<RawCall>;

    /// The server's own fields of the answer as a whole, which go back to it; none where there are none.
    fn fields(&mut self) -> Option<ServerFields> {
        None
    }
}

/// Names of fields that a request can do without: ours, and the configured ones but for the fixed ones.
pub(crate) fn sent_fields<'a>(
    form: &RequestForm,
    own: impl IntoIterator<Item = (&'static str, bool)>,
    configured: impl IntoIterator<Item = &'a String>,
    fixed: &[&str],
) -> Vec<String> {
    let own = own.into_iter().filter(|(_, is_sent)| *is_sent).map(|(name, _)| name.to_owned());
    let of_body = |name: &&String| !fixed.contains(&name.as_str()) && name.len() <= RequestForm::MAX_FIELD;
    let configured = configured.into_iter().filter(of_body).cloned();
    let mut fields: Vec<String> = own.chain(configured).filter(|name| form.sends(name)).collect();
    fields.dedup();
    fields
}
