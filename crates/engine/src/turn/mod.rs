//! One turn, from an input to its `TurnEnded`. This module is the kernel of the engine. It defines the hooks but names
//! no capability.
//!
//! [`run::run`] is the loop. In each step, [`step::next`] picks the next action from the [`TurnState`] without side
//! effects, and either `sample` (call the model, also for the final answer) or `dispatch` (run its calls) executes the
//! action. [`TurnContext`] contains everything that stays fixed for the turn. All events go to the session through the
//! [`recorder::Recorder`].
//!
//! - [`hooks`]: the hooks of a capability around a turn, and the trait that runs subagents; [`call_record`]: the
//!   decision on a call. `sampler` lets a running tool call the model.
//! - `request`: the next request, its reminders, and checks of its token usage against the window; `route`: the choice
//!   of the request's model, and of turns that begin with a plan.
//! - `unusable_answers`: answers with which a turn cannot end; `rounds`: repeated calls.
//! - `aside`: requests beside the turns, such as side questions.
//! - `answering`: how questions reach users; `stopwatch`: working time of turns and model calls.

pub(crate) mod answering;
pub(crate) mod aside;
pub(crate) mod call_record;
mod context;
pub(crate) mod dispatch;
pub(crate) mod hooks;
pub(crate) mod recorder;
pub(crate) mod request;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod sampler;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod stopwatch;
pub(crate) mod unusable_answers;

pub(crate) use crate::turn::{
    context::{
        Control, InFlightCall, Limits, PromptSource, TurnContext, TurnFiles, TurnIds, TurnModels, TurnRules, TurnTools,
        read_rules,
    },
    state::{Flow, Phase, Reply, TurnExit, TurnOutcome, TurnState},
};
