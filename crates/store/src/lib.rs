//! agentd-store
