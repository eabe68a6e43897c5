//! Pending interrupts.

use agentd_core::{
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
};
use agentd_proto::{
    MAX_MESSAGE_BYTES,
    convert::{self, WireError},
    v1::{self, interrupts_server::Interrupts},
};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

/// Maximum size of a list, in bytes. One interrupt alone may have more.
const MOST_LISTED: usize = MAX_MESSAGE_BYTES / 2;

#[tonic::async_trait]
impl Interrupts for Context {
    async fn list(
        &self,
        request: Request<v1::ListInterruptsRequest>,
    ) -> Result<Response<v1::ListInterruptsResponse>, Status> {
        let v1::ListInterruptsRequest { session, after } = request.into_inner();
        let session = if session.is_empty() { None } else { Some(self.session_id(&session).await?) };
        let after = if after.is_empty() { None } else { Some(read_id(&after)?) };
        let mut pending = self.engine.interrupts(session).await.map_err(Refusal::from)?;
        // Ids are ordered by the time at which they were made.
        pending.sort_by_key(|interrupt| interrupt.id);
        pending.retain(|interrupt| after.is_none_or(|after| interrupt.id > after));
        Ok(Response::new(page(&pending)))
    }

    async fn foresee(&self, request: Request<v1::ForeseeRequest>) -> Result<Response<v1::ForeseeResponse>, Status> {
        let v1::ForeseeRequest { interrupt_id, args_json } = request.into_inner();
        let args = convert::json(&args_json, "the arguments of an answer").map_err(Refusal::from)?;
        let ask = self.engine.foresee(read_id(&interrupt_id)?, args).await.map_err(Refusal::from)?;
        let approval = match v1::interrupt::Ask::from(&ask) {
            v1::interrupt::Ask::Approval(approval) => Some(approval),
            v1::interrupt::Ask::Question(_) => None,
        };
        Ok(Response::new(v1::ForeseeResponse { approval }))
    }

    async fn answer(&self, request: Request<v1::AnswerRequest>) -> Result<Response<v1::AnswerResponse>, Status> {
        let request = request.into_inner();
        let (id, answer) = read_answer(&request.interrupt_id, request.answer)?;
        self.engine.answer(id, answer, request.client).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::AnswerResponse {}))
    }
}

/// An answer out of a request.
pub(super) fn read_answer(id: &str, answer: Option<v1::Answer>) -> Result<(InterruptId, Answer), Refusal> {
    Ok((read_id(id)?, answer.ok_or(WireError::Missing("the answer"))?.try_into()?))
}

fn read_id(id: &str) -> Result<InterruptId, Refusal> {
    id.parse().map_err(WireError::Id).map_err(|error| {
        Refusal::from(error).with_hint("`agentctl interrupts` lists the interrupts that wait for an answer")
    })
}

/// As many of them as fit into one message, at least one.
fn page(pending: &[Interrupt]) -> v1::ListInterruptsResponse {
    let mut page = v1::ListInterruptsResponse::default();
    let mut bytes = 0;
    for interrupt in pending {
        let interrupt = v1::Interrupt::from(interrupt);
        bytes += interrupt.encoded_len();
        if bytes > MOST_LISTED && !page.interrupts.is_empty() {
            page.more = true;
            break;
        }
        page.interrupts.push(interrupt);
    }
    page
}

/// Pending interrupts of one session, for a view of the whole session: what does not fit into a message beside the rest
/// is shown without its preview, which is in the list.
pub(super) fn in_view(mut pending: Vec<Interrupt>) -> Vec<Interrupt> {
    let mut bytes = 0;
    for interrupt in &mut pending {
        if let Ask::Approval { preview, .. } = &mut interrupt.ask {
            bytes += preview.as_ref().map_or(0, String::len);
            preview.take_if(|_| bytes > MOST_LISTED);
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TurnId},
        interrupt::AskedBy,
        policy::Risk,
    };
    use serde_json::json;

    use super::*;

    fn interrupt(preview: usize) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask: Ask::Approval {
                tool: "write_file".to_owned(),
                args: json!({}),
                risk: Risk::Medium,
                reason: "it changes a file".to_owned(),
                preview: Some("x".repeat(preview)),
                layer: None,
                rule: None,
                grants: Vec::new(),
                wider: Vec::new(),
                for_good: Vec::new(),
                owner: None,
            },
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        }
    }

    /// Questions of one session hide none of another.
    #[test]
    fn a_list_always_fits_into_a_message_and_comes_to_its_end() {
        let pending: Vec<Interrupt> = (0..9).map(|_| interrupt(6 << 20)).chain([interrupt(1)]).collect();
        let (mut rest, mut listed) = (pending.as_slice(), 0);
        loop {
            let page = page(rest);
            assert!(page.encoded_len() < MAX_MESSAGE_BYTES && !page.interrupts.is_empty());
            assert!(page.interrupts.iter().zip(rest).all(|(shown, pending)| shown.id == pending.id.to_string()));
            listed += page.interrupts.len();
            rest = &rest[page.interrupts.len()..];
            assert_eq!(page.more, !rest.is_empty());
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(listed, 10);
        let in_view =
            v1::ListInterruptsResponse { interrupts: in_view(pending).iter().map(Into::into).collect(), more: false };
        assert!(in_view.interrupts.len() == 10 && in_view.encoded_len() < MAX_MESSAGE_BYTES);
    }
}
