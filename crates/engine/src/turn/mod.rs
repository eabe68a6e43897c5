//! One turn: from an input to its `TurnEnded`. The kernel of the product: it owns its hooks and names no capability.
//!
//! [`run::run`] is the loop. In each step, [`step::next`] decides purely what comes next from the [`TurnState`], and one of
//! `sample` (ask the model), `dispatch` (run its calls) and `finalize` (write the last answer) does it. What is fixed for
//! the turn is its [`TurnContext`]; everything that happens goes to the session through the [`recorder::Recorder`].
//!
//! - [`hooks`]: what a capability can do around a turn, and how subagents are run; [`call_record`]: what was decided about
//!   a call. `execute` runs a tool, `sampler` is the model that it may ask meanwhile.
//! - `request`: the next request; `reminders`: what the model is told at its end, once; `route`: the model that gets it;
//!   `level`: how full the window is; `cuts`: servers that read a part of a request in silence.
//! - `unusable`: answers that a turn cannot end with; `rounds`: calls that repeat.
//! - `person`, `answering`: how questions reach people; `files`: the session's folders; `stopwatch`: the time worked;
//!   `call_clock`: that of a model call.

pub(crate) mod answering;
pub(crate) mod call_clock;
pub(crate) mod call_record;
mod context;
mod cuts;
pub(crate) mod dispatch;
pub(crate) mod execute;
pub(crate) mod exit;
pub(crate) mod files;
pub(crate) mod finalize;
pub(crate) mod hooks;
pub(crate) mod level;
mod person;
pub(crate) mod plan;
pub(crate) mod recorder;
pub(crate) mod reminders;
pub(crate) mod request;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod sample;
mod sampler;
pub(crate) mod side_effects;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod stopwatch;
pub(crate) mod unusable;

pub(crate) use self::{
    context::{
        Control, InFlightCall, Limits, PromptSource, Records, TurnContext, TurnFiles, TurnIds, TurnModels, TurnRules,
        TurnTools,
    },
    exit::TurnExit,
    state::{Phase, Reply, TurnOutcome, TurnState},
};
