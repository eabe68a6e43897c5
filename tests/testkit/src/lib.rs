//! Test helpers: fakes that satisfy the contracts of the real ports, and real servers on loopback.

pub mod collector;
pub mod daemon;
pub mod embedding_server;
mod family;
pub mod hostile;
pub mod memory_audit;
pub mod memory_disk;
pub mod memory_store;
pub mod memory_workspaces;
pub mod model_server;
pub mod proxy;
pub mod scripted;
pub mod store_contract;
pub mod test_pictures;
pub mod validator;
pub mod workspace_contract;
