//! OpenAI's Responses, as OpenAI and servers in its form speak them.
//!
//! - `request`: the body; `conversation`: the items of its input; `item`: one of them; `stored`: the items of an answer as they
//!   are kept, for them to go back as they came.
//! - `event`: one event of an answer, typed and borrowed; `numbering`: none of them may be missing; `partial`: items, put
//!   together from their pieces; `reader`: events into the answer; `usage`: what it took.

mod conversation;
mod event;
mod item;
mod numbering;
mod partial;
mod reader;
mod request;
mod stored;
mod usage;

use agentd_core::answer_schema::AnswerSchema;

use self::stored::Fingerprint;
use crate::{
    config::ModelConfig,
    http::failure::Failure,
    wire::{
        dialect::{Dialect, Order, Outgoing},
        distrust::DistrustedThoughts,
        last_answers::LastAnswers,
        written_tools::WrittenTools,
    },
};

/// The dialect of one model.
pub(crate) struct Responses {
    config: ModelConfig,
    tools: WrittenTools,
    /// Answers whose encrypted thoughts the server has refused.
    distrusted: DistrustedThoughts<Fingerprint>,
    last_answers: LastAnswers,
}

impl Responses {
    pub(crate) fn new(config: ModelConfig) -> Self {
        Self {
            config,
            tools: WrittenTools::default(),
            distrusted: DistrustedThoughts::default(),
            last_answers: LastAnswers::default(),
        }
    }
}

impl Dialect for Responses {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let history = request::RequestHistory {
            tools: &self.tools,
            distrusted: &self.distrusted.known(),
            last_answer: self.last_answers.before(order.request),
        };
        let body = request::body(&self.config, history, order)?;
        let reader = Box::new(reader::Reader::new(self.last_answers.note_of(order.request)));
        Ok(Outgoing { path: "/responses".to_owned(), body, reader })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        request::optional_fields(&self.config, order)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        request::sent_schema(&self.config, order)
    }

    fn distrust_thoughts(&self, order: &Order<'_>) {
        self.distrusted.extend(conversation::answers_of(&order.request.messages, &order.info.origin()));
    }
}
