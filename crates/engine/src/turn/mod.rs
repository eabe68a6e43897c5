//! One turn: from an input to its `TurnEnded`. The kernel of the product: it owns its hooks and names no capability.
//!
//! [`run::run`] is the loop. In each step, [`step::next`] decides purely what comes next from the [`TurnState`], and one of
//! `sample` (ask the model, or for the last answer) and `dispatch` (run its calls) does it. What is fixed for
//! the turn is its [`TurnContext`]; everything that happens goes to the session through the [`recorder::Recorder`].
//!
//! - [`hooks`]: what a capability can do around a turn, and how subagents are run; [`call_record`]: what was decided about
//!   a call. `sampler` is the model that a tool may ask meanwhile.
//! - `request`: the next request, with what the model is told at its end, once, and what its answer says of the window;
//!   `route`: the model that gets it, and whether the turn begins with a plan.
//! - `unusable`: answers that a turn cannot end with; `rounds`: calls that repeat.
//! - `answering`: how questions reach people; `stopwatch`: the time worked, and model calls.

pub(crate) mod answering;
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
mod sampler;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod stopwatch;
pub(crate) mod unusable;

pub(crate) use crate::turn::{
    context::{
        Control, InFlightCall, Limits, PromptSource, TurnContext, TurnFiles, TurnIds, TurnModels, TurnRules, TurnTools,
        read_rules,
    },
    state::{Phase, Reply, TurnExit, TurnOutcome, TurnState},
};
