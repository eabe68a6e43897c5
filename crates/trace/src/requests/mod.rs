//! Requests to models as they were on the wire, made readable and compared.
//!
//! - `readable`: a body as lines; `marks`: which of them are new, and the difference of two; `places`: what is new, as JSON
//!   pointers.

mod marks;
mod places;
mod readable;

pub use self::{
    marks::{MarkedLine, marked, unified},
    places::new_places,
    readable::readable,
};
