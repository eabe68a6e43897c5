//! Pending interrupts, and the rules that a person keeps for further ones.

use agentd_core::{
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
};
use agentd_proto::{
    MAX_MESSAGE_BYTES,
    convert::{self, WireError},
    v1::{self, grants_server::Grants, interrupts_server::Interrupts},
};
use prost::Message as _;

use super::Refusal;

/// Maximum size of a list, in bytes. One interrupt alone may have more.
const MOST_LISTED: usize = MAX_MESSAGE_BYTES / 2;

service! { Interrupts:
    async fn list(&self, request: v1::ListInterruptsRequest) -> v1::ListInterruptsResponse {
        let session = self.named_session(&request.session).await?;
        let after = if request.after.is_empty() { None } else { Some(read_id(&request.after)?) };
        let mut pending = self.engine.interrupts(session).await?;
        // Ids are ordered by the time at which they were made.
        pending.sort_by_key(|interrupt| interrupt.id);
        pending.retain(|interrupt| after.is_none_or(|after| interrupt.id > after));
        Ok(page(&pending))
    }

    async fn foresee(&self, request: v1::ForeseeRequest) -> v1::ForeseeResponse {
        let args = convert::json(&request.args_json, "the arguments of an answer")?;
        let ask = self.engine.foresee(read_id(&request.interrupt_id)?, args).await?;
        let approval = match v1::interrupt::Ask::from(&ask) {
            v1::interrupt::Ask::Approval(approval) => Some(approval),
            v1::interrupt::Ask::Question(_) => None,
        };
        Ok(v1::ForeseeResponse { approval })
    }

    async fn answer(&self, request: v1::AnswerRequest) -> v1::AnswerResponse {
        let (id, answer) = read_answer(&request.interrupt_id, request.answer)?;
        self.engine.answer(id, answer, request.client).await?;
        Ok(v1::AnswerResponse {})
    }
}

service! { Grants:
    async fn list(&self, request: v1::ListGrantsRequest) -> v1::ListGrantsResponse {
        let session = self.named_session(&request.session).await?;
        let grants = self.engine.grants(session).await?;
        Ok(v1::ListGrantsResponse { grants: grants.iter().map(Into::into).collect() })
    }

    async fn add(&self, request: v1::AddGrantRequest) -> v1::AddGrantResponse {
        let session = self.named_session(&request.session).await?;
        self.engine.add_grant(session, request.rule, request.client).await?;
        Ok(v1::AddGrantResponse {})
    }

    async fn revoke(&self, request: v1::RevokeGrantRequest) -> v1::RevokeGrantResponse {
        let session = self.named_session(&request.session).await?;
        self.engine.revoke_grant(session, request.rule, request.client).await?;
        Ok(v1::RevokeGrantResponse {})
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
