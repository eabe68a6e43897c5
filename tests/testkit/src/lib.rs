//! agentd-testkit

pub mod memory_store;
pub mod store_contract;
