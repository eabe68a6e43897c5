//! Anthropic's Messages, as Anthropic and servers in its form speak them.
//!
//! - `request`: the body; `conversation`: the messages in the order that the wire demands; `block`: one part of a message;
//!   `stored`: the blocks of an answer as they are kept, for them to go back as they came; `prefix`: what stands before an
//!   answer, of which signed thoughts are a part.
//! - `event`: one event of an answer, typed and borrowed; `partial`: blocks, put together from their pieces; `reader`: events
//!   into the answer; `usage`: what it took; `remark`: what the server says of the
//!   request.

mod block;
mod conversation;
mod event;
mod partial;
mod prefix;
mod reader;
mod remark;
mod request;
mod stored;
mod usage;

use agentd_core::answer_schema::AnswerSchema;

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
pub(crate) struct Anthropic {
    config: ModelConfig,
    tools: WrittenTools,
    /// Prefixes of answers whose signed thoughts the server has refused.
    distrusted: DistrustedThoughts<String>,
    last_answers: LastAnswers,
}

impl Anthropic {
    pub(crate) fn new(config: ModelConfig) -> Self {
        Self {
            config,
            tools: WrittenTools::default(),
            distrusted: DistrustedThoughts::default(),
            last_answers: LastAnswers::default(),
        }
    }
}

impl Dialect for Anthropic {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let history = request::RequestHistory {
            tools: &self.tools,
            distrusted: &self.distrusted.known(),
            last_answer: self.last_answers.before(order.request),
        };
        let request::Written { body, behind } = request::write(&self.config, history, order)?;
        let reader = Box::new(reader::Reader::new(behind, self.last_answers.note_of(order.request)));
        Ok(Outgoing { path: "/messages".to_owned(), body, reader })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        request::optional_fields(&self.config, order)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        request::sent_schema(&self.config, order)
    }

    fn distrust_thoughts(&self, order: &Order<'_>) {
        self.distrusted.extend(conversation::prefixes_of_answers(&order.request.messages, &order.info.origin()));
    }
}
