//! What makes a model of 135 million parameters useful: everything but the words is decided here.
//!
//! Asked to write a tool call, such a model is right in less than half of all cases, with a grammar or without. Asked
//! how likely the person's words are *if* a tool is wanted, it is right nine times out of ten. So this folder decides,
//! and the model only measures, fills in and speaks:
//!
//! 1. [`conversation`] reads the request: what was asked last, and which results this turn has already.
//! 2. [`plan`] decides what to do next. Pure, as all of these but the last are.
//! 3. [`limits`] are what it cannot do, told by the words of an order; [`direct`] are the requests whose words leave no doubt
//!    about the tool; [`document`] are questions of documents, and [`parts`] the pages and
//!    rows that they name; [`naming`] tells which files a request names.
//! 4. For all others, [`hints`] tells which tools are worth weighing; [`candidates`] are the tools it knows, each with a description and
//!    examples; [`decision`] compares their scores. [`smalltalk`] needs none of this.
//! 5. [`arguments`] constrains each tool's arguments to what exists in the workspace or stands in the request.
//! 6. [`reading`] tells what the person wants of a file; [`extract`] cuts it into sentences to quote from; [`report`]
//!    words the results that need no model.
//! 7. [`run`] carries a plan out with the model.
//!
//! A turn makes one hop: a tool at the most, then the answer with its result in view.

pub(crate) mod arguments;
pub(crate) mod candidates;
pub(crate) mod conversation;
pub(crate) mod decision;
pub(crate) mod direct;
pub(crate) mod document;
pub(crate) mod extract;
pub(crate) mod hints;
pub(crate) mod limits;
pub(crate) mod naming;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod reading;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod smalltalk;
pub(crate) mod words;
