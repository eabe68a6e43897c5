//! `agentctl acp`: the daemon's sessions for editors, over the Agent Client Protocol (version 1) on standard input and output.
//!
//! - [`connection`]: the loop: which method is done by whom. [`frame`] reads lines, [`message`] says what they are, [`peer`]
//!   sends answers, updates and requests, [`refusal`] words what goes wrong.
//! - [`bridge`]: state that all requests share; [`session`]: a session that the editor has open; [`watch`]: changes of it
//!   that come from elsewhere.
//! - [`initialize`]: what is advertised. [`opening`]: new, load, resume; [`listing`], [`ending`]: list, close, delete;
//!   [`settings`]: modes, models, and their options; [`servers`]: MCP servers that the editor names.
//! - [`prompt`]: a turn, from the input ([`content`], [`commands`]) to its end ([`follow`]). [`updates`] translates events,
//!   with [`tool_call`], [`edits`], [`output`] and [`places`]; it knows neither editor nor daemon. [`replay`]: the same for the past.
//! - [`permission`], [`question`]: what a person is asked, and what their answer means. [`asks`]: those that are open.
//! - [`buffers`]: files that tools read and write through the editor.

mod asks;
mod bridge;
mod buffers;
mod commands;
mod connection;
mod content;
mod edits;
mod ending;
mod follow;
mod frame;
mod initialize;
mod listing;
mod mentioned;
mod message;
mod opening;
mod output;
mod peer;
mod permission;
mod places;
mod prompt;
mod question;
mod refusal;
mod replay;
mod servers;
mod session;
mod settings;
mod tool_call;
mod updates;
mod watch;

pub(crate) use connection::serve;
