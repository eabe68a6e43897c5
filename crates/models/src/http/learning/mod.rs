//! Learning from refusals: a request that a server does not take is tried in another form, and what helped is kept.
//!
//! - `form`: the changes that a request can have; `refusal`: which of them may help, by one rule for all servers; `trial`: which
//!   is tried next. All of it is pure.

mod form;
mod refusal;
mod trial;

pub(crate) use self::{
    form::{Change, RequestForm, fingerprint, picture_fingerprint},
    refusal::{Refusal, SentParts, candidates},
    trial::Trials,
};
