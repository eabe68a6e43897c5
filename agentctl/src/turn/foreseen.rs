//! An edited call is shown before it runs, to the person who edited it: as what it would do now, with another yes or no.

use agentd_core::interrupt::{Answer, Ask, Interrupt};
use agentd_proto::client::Client;
use futures_util::future::BoxFuture;

use super::Asker;
use crate::failure::Failure;

/// An asker whose edits are shown before they are given.
pub(crate) struct ForeseeingAsker<A> {
    asker: A,
    client: Client,
}

impl<A: Asker> ForeseeingAsker<A> {
    /// Asks by this asker, and the daemon of this client what an edit would do.
    pub(crate) fn new(asker: A, client: Client) -> Self {
        Self { asker, client }
    }

    async fn decide(&mut self, interrupt: &Interrupt) -> Option<Answer> {
        let mut shown = interrupt.clone();
        // The arguments of which the person is shown what they would do, where these are no longer the model's.
        let mut edited = None;
        loop {
            let answer = self.asker.ask(&shown).await?;
            match (answer, &edited) {
                (Answer::Edit { args }, _) => match self.client.foresee(interrupt.id, &args).await {
                    Ok(ask) => {
                        shown.ask = said_to_be_edited(ask);
                        edited = Some(args);
                    }
                    // It is asked again, as it stood.
                    Err(error) => {
                        let Failure { message, hint, .. } = Failure::from(error);
                        crate::terminal::note(&message);
                        hint.iter().for_each(|hint| crate::terminal::note(&format!("hint: {hint}")));
                    }
                },
                (Answer::Approve, Some(args)) => return Some(Answer::Edit { args: args.clone() }),
                (answer, _) => return Some(answer),
            }
        }
    }
}

impl<A: Asker> Asker for ForeseeingAsker<A> {
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(self.decide(interrupt))
    }

    fn leaves(&self) -> bool {
        self.asker.leaves()
    }
}

/// Said of a call that is the person's own by now.
pub(crate) const EDITED: &str = "you changed it, and this is what would run now";

/// A question whose call is the person's own by now.
fn said_to_be_edited(ask: Ask) -> Ask {
    match ask {
        Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, owner } => {
            let reason = if reason.is_empty() { EDITED.to_owned() } else { format!("{EDITED}; {reason}") };
            Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, owner }
        }
        question @ Ask::Question { .. } => question,
    }
}
