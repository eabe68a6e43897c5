//! Tests of sessions and turns through the engine's public interface, with a scripted model and an in-memory journal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod answers;
mod audit;
mod choosing;
mod client_tools;
mod compaction;
mod crash;
mod edges;
mod grants;
mod guides;
mod history_file;
mod in_form;
mod large;
mod large_inputs;
mod levels;
mod links;
mod looking;
mod loops;
mod meeting;
mod modes;
mod own_tools;
mod parts;
mod planning;
mod policy;
mod prefixes;
mod questions;
mod readers;
mod remembering;
mod removing;
mod routing;
mod sampling;
mod shown;
mod sight;
mod stops;
mod subagents;
mod turn_options;
mod turns;
mod undoing;
mod undoing_state;
mod unrecorded;
mod unusable;
mod uploads;
mod world;
