//! agentctl
fn main() {}
