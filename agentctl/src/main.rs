//! agentctl: the client of agentd.

mod render;
mod repl;
mod turn;

fn main() {}
