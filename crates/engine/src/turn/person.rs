//! A person whom a tool asks while it runs, by way of the session: the question is an interrupt like any other.

use std::sync::Arc;

use agentd_core::{ids::CallId, ports::Person, turn::OnInterrupt};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::{recorder::Recorder, stopwatch::Stopwatch};

/// The person that a call may ask. Nobody answers where the turn runs unattended, or was cancelled. The time that they
/// take is no work of the turn.
pub(super) fn of_call(
    call_id: CallId,
    recorder: Recorder,
    stopwatch: Arc<Stopwatch>,
    on_interrupt: OnInterrupt,
    cancel: CancellationToken,
) -> Person {
    if on_interrupt != OnInterrupt::Wait {
        return Person::default();
    }
    Person::new(move |ask| {
        let (call_id, recorder, cancel) = (call_id.clone(), recorder.clone(), cancel.clone());
        let stopwatch = Arc::clone(&stopwatch);
        async move {
            let waiting = stopwatch.pause();
            let mut asked = OpenQuestion { recorder: &recorder, call_id: &call_id, answered: false };
            let answered = cancel.run_until_cancelled(recorder.ask(call_id.clone(), ask)).await;
            asked.answered = answered.is_some();
            drop((asked, waiting));
            answered?.ok().map(|answered| answered.answer)
        }
        .boxed()
    })
}

/// A question that is withdrawn when whoever asked it gives up.
struct OpenQuestion<'a> {
    recorder: &'a Recorder,
    call_id: &'a CallId,
    answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.withdraw(self.call_id.clone());
        }
    }
}
